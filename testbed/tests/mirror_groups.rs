//! A group that moves to the target goes on at the record that it would have read next on the source.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use testbed::admin::{At, GroupOffset, Protocol, Topic};
use testbed::cluster::Cluster;
use testbed::failover;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const WAIT: Duration = Duration::from_secs(90);
const STOP_WAIT: Duration = Duration::from_secs(60);

/// Records of each topic; with `TESTBED_FULL` a group can lag by 199,999.
fn records() -> u64 {
    if std::env::var_os("TESTBED_FULL").is_some() { 200_000 } else { 20_000 }
}

fn flow(source: &Cluster, target: &Cluster) -> FlowFile {
    FlowFile::one_way(("s", source), ("t", target))
        .topics("g.*")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true")
}

fn offset(topic: &str, offset: i64) -> GroupOffset {
    GroupOffset { topic: topic.to_owned(), partition: 0, offset, metadata: String::new() }
}

/// What groups have committed, by group.
type Groups = BTreeMap<String, i64>;

/// Commits for one group per lag on the source, and says where each must go on on the target: behind as many
/// records as it has not read.
fn commit(source: &Cluster, target: &Cluster, topic: &str, round: &str) -> Groups {
    let there = source.record_offsets(topic).unwrap().remove(0);
    let here = target.record_offsets(&format!("s.{topic}")).unwrap().remove(0);
    assert_eq!(there.len(), here.len(), "{topic} is copied whole");
    let mut expected = Groups::new();
    let lags = failover::lags(records());
    let (theres, heres) =
        (failover::places(&there, &lags).unwrap(), failover::places(&here, &lags).unwrap());
    for (lag, (there, here)) in lags.iter().zip(theres.into_iter().zip(heres)) {
        let group = format!("{topic}-{round}-{lag}");
        source.commit_offsets(&group, &[offset(topic, there)]).unwrap();
        expected.insert(group, here);
    }
    // At the end of the log, where markers may stand behind the last record.
    let end = source.offsets(topic, At::Latest).unwrap()[0];
    let group = format!("{topic}-{round}-end");
    source.commit_offsets(&group, &[offset(topic, end)]).unwrap();
    expected.insert(group, here.last().unwrap() + 1);
    expected
}

fn committed(cluster: &Cluster, expected: &Groups) -> Groups {
    let of = |group: &String| {
        let offsets = cluster.group_offsets(group).unwrap();
        let offset = offsets.first().map_or(-1, |one| one.offset);
        (group.clone(), offset)
    };
    expected.keys().map(of).collect()
}

fn await_groups(target: &Cluster, expected: &Groups, mirror: &Mirror) {
    let all = || Ok(committed(target, expected) == *expected);
    let outcome = eventually("groups on the target", WAIT, mirror, all);
    assert_eq!(committed(target, expected), *expected, "{outcome:?}");
}

/// A topic without holes, one in transactions of which every fourth was aborted, and one that was cleaned before
/// the copy.
#[test]
fn group_offsets_are_exact_at_every_lag_and_stay_so_after_kill_9() {
    let (source, target) = Cluster::pair().unwrap();
    failover::fill(&source, records()).unwrap();
    let mut mirror = Mirror::heliograph(&flow(&source, &target)).unwrap();
    let topics = ["gplain", "gtxn", "gclean"];
    let settle = |mirror: &Mirror| {
        for topic in topics {
            let remote = format!("s.{topic}");
            eventually("the copy", WAIT, mirror, || {
                Ok(source.drain(topic)? == target.drain(&remote)?)
            })
            .unwrap();
        }
    };
    settle(&mirror);
    let mut expected = Groups::new();
    for topic in topics {
        expected.extend(commit(&source, &target, topic, "first"));
    }
    await_groups(&target, &expected, &mirror);

    // Killed in the middle of more, and asked about old and new places.
    for (topic, fill) in [
        ("gplain", Fill::new("gplain", 20_000).first(2_000_000).size(10, 50)),
        ("gtxn", Fill::new("gtxn", 6_000).first(2_000_000).size(10, 50).transactions(3, 4)),
    ] {
        let filling = source.fill_in_background(&fill.rate(5_000.0)).unwrap();
        thread::sleep(Duration::from_millis(1_500));
        mirror.kill9().unwrap();
        mirror.launch().unwrap();
        filling.done().unwrap_or_else(|error| panic!("{topic}: {error:#}"));
    }
    settle(&mirror);
    for topic in topics {
        expected.extend(commit(&source, &target, topic, "second"));
    }
    await_groups(&target, &expected, &mirror);
    assert!(!mirror.log_text().contains("no offset map"), "{}", mirror.last_words());
}

#[test]
fn a_group_with_a_member_is_left_alone_and_picked_up_when_it_leaves() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("g")).unwrap();
    source.fill(&Fill::new("g", 1_000)).unwrap();
    let mirror = Mirror::heliograph(&flow(&source, &target)).unwrap();
    target.await_end_offsets("s.g", 1_000, WAIT).unwrap();

    let protocols = [("classic", Protocol::Classic), ("consumer", Protocol::Consumer)];
    let mut members = Vec::new();
    for (group, protocol) in protocols {
        members.push(target.member(group, "s.g", protocol).unwrap());
        eventually("a member", WAIT, &mirror, || {
            let groups = target.groups()?;
            Ok(groups
                .iter()
                .any(|one| one.group == group && one.state.eq_ignore_ascii_case("stable")))
        })
        .unwrap();
        source.commit_offsets(group, &[offset("g", 700)]).unwrap();
    }
    source.commit_offsets("idle", &[offset("g", 700)]).unwrap();
    eventually("the idle group", WAIT, &mirror, || {
        Ok(target.group_offsets("idle")?.first().map(|one| one.offset) == Some(700))
    })
    .unwrap();
    // Two more rounds.
    thread::sleep(Duration::from_secs(3));
    for (group, _) in protocols {
        assert_eq!(
            target.group_offsets(group).unwrap(),
            [],
            "{group} was written under its member"
        );
    }
    for member in members {
        member.leave().unwrap();
    }
    for (group, _) in protocols {
        eventually("the group that was left", WAIT, &mirror, || {
            Ok(target.group_offsets(group)?.first().map(|one| one.offset) == Some(700))
        })
        .unwrap();
    }
    // Further on on the target than on the source: never set back.
    target.commit_offsets("idle", &[offset("s.g", 900)]).unwrap();
    source.commit_offsets("idle", &[offset("g", 800)]).unwrap();
    thread::sleep(Duration::from_secs(3));
    assert_eq!(target.group_offsets("idle").unwrap()[0].offset, 900);
}

#[test]
fn javas_own_classes_translate_by_what_is_written() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("g").partitions(2)).unwrap();
    source.fill(&Fill::new("g", 5_000).partitions([0]).transactions(7, 3)).unwrap();
    let there = source.record_offsets("g").unwrap();
    for (group, lag) in [("g-behind", 2_000), ("g-near", 3)] {
        let at = there[0][there[0].len() - lag];
        source.commit_offsets(group, &[offset("g", at)]).unwrap();
    }
    let mut mirror = Mirror::heliograph(&flow(&source, &target)).unwrap();
    let expected = |lag: usize| {
        let here = target.record_offsets("s.g").unwrap().remove(0);
        here[here.len() - lag]
    };
    eventually("translated offsets", WAIT, &mirror, || {
        let said = target.mirror_client("s", &["g-behind", "g-near"])?;
        let of = |group: &str| {
            let found = said.groups[group].iter().find(|one| one.topic == "s.g");
            found.map(|one| one.offset)
        };
        Ok(said.checkpoint_topics == ["s.checkpoints.internal"]
            && of("g-behind") == Some(expected(2_000))
            && of("g-near") == Some(expected(3)))
    })
    .unwrap();
    // A sync for the last record at least, where MM2 looks for it.
    assert_eq!(mirror.terminate(STOP_WAIT).unwrap().code, Some(0), "{}", mirror.last_words());
    let syncs = source.read("mm2-offset-syncs.t.internal", 100_000).unwrap();
    let last = syncs.iter().rfind(|one| one.key.as_deref() == Some("00016700000000")).unwrap();
    let number = |hex: &str| i64::from_str_radix(hex, 16).unwrap();
    let value = last.value.as_deref().unwrap();
    let here = target.record_offsets("s.g").unwrap().remove(0);
    let pair = (number(&value[..16]), number(&value[16..]));
    assert_eq!(pair, (*there[0].last().unwrap(), *here.last().unwrap()));
}
