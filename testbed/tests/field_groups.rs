//! Field reports about consumer groups and their offsets (`docs/field-reports.md`); one pair of clusters for all.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::{GroupOffset, Protocol, Topic};
use testbed::cluster::Cluster;
use testbed::events;
use testbed::fill::{Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::ports;

const WAIT: Duration = Duration::from_secs(60);

/// Source and target. Tests keep apart by the alias of their source.
static PAIR: LazyLock<(Cluster, Cluster)> = LazyLock::new(|| Cluster::pair().unwrap());

/// From the shared source under a test's own alias, so that no two tests share an internal topic.
fn flow(alias: &str) -> FlowFile {
    let (source, target) = &*PAIR;
    FlowFile::one_way((alias, source), ("t", target))
        .topics(&format!("{alias}.*"))
        .set("groups", format!("{alias}.*"))
        .short_intervals()
        .set("sync.group.offsets.enabled", "true")
}

fn at(topic: &str, partition: u32, offset: i64) -> GroupOffset {
    GroupOffset { topic: topic.to_owned(), partition, offset, metadata: String::new() }
}

/// What a group has committed on the target, by topic and partition.
fn committed(group: &str) -> BTreeMap<(String, u32), i64> {
    let offsets = PAIR.1.group_offsets(group).unwrap();
    offsets.into_iter().map(|one| ((one.topic, one.partition), one.offset)).collect()
}

fn await_offset(mirror: &Mirror, group: &str, topic: &str, offset: i64) {
    let there = || Ok(committed(group).get(&(topic.to_owned(), 0)) == Some(&offset));
    eventually(&format!("{group} at {offset} of {topic}"), WAIT, mirror, there)
        .unwrap_or_else(|error| panic!("it is at {:?}: {error:#}", committed(group)));
}

/// UP-012, UP-091: nobody has ever been a member of the group, and it never caught up.
#[test]
fn up_012_a_group_that_lagged_before_the_first_start_is_there_within_ten_seconds() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("lag")).unwrap();
    source.fill(&Fill::new("lag", 1_000)).unwrap();
    source.commit_offsets("lag-g", &[at("lag", 0, 100)]).unwrap();
    let mirror = Mirror::heliograph(&flow("lag")).unwrap();
    target.await_end_offsets("lag.lag", 1_000, WAIT).unwrap();
    let copied = Instant::now();

    await_offset(&mirror, "lag-g", "lag.lag", 100);

    assert!(copied.elapsed() < Duration::from_secs(10), "{:?}", copied.elapsed());
}

/// Groups of other names are nobody's business, and one that appears later is found.
#[test]
fn up_062_twelve_uneven_partitions_show_no_lag_without_further_traffic() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("idle").partitions(12)).unwrap();
    source.fill(&Fill::new("idle", 1_000).partitions([4])).unwrap();
    source.fill(&Fill::new("idle", 400).partitions((0..12).filter(|p| *p != 4))).unwrap();
    let ends = source.offsets("idle", testbed::admin::At::Latest).unwrap();
    let all: Vec<GroupOffset> =
        (0..12).zip(&ends).map(|(partition, end)| at("idle", partition, *end)).collect();
    source.commit_offsets("idle-g", &all).unwrap();
    let mirror = Mirror::heliograph(&flow("idle")).unwrap();
    target.await_end_offsets("idle.idle", 1_400, WAIT).unwrap();

    let expected: BTreeMap<_, _> =
        (0..12).zip(&ends).map(|(p, end)| (("idle.idle".to_owned(), p), *end)).collect();
    eventually("no lag anywhere", Duration::from_secs(10), &mirror, || {
        Ok(committed("idle-g") == expected)
    })
    .unwrap_or_else(|error| panic!("{:?} of {expected:?}: {error:#}", committed("idle-g")));
}

#[test]
fn up_068_equal_and_falling_timestamps_lead_no_group_astray() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("same")).unwrap();
    let same = Timestamps::Step { start: 1_700_000_000_000, step: 0 };
    let falling = Timestamps::Step { start: 1_700_000_000_000, step: -60_000 };
    source.fill(&Fill::new("same", 100).timestamps(same)).unwrap();
    source.fill(&Fill::new("same", 100).first(100).timestamps(falling)).unwrap();
    source.commit_offsets("same-50", &[at("same", 0, 50)]).unwrap();
    source.commit_offsets("same-150", &[at("same", 0, 150)]).unwrap();
    let mirror = Mirror::heliograph(&flow("same")).unwrap();
    target.await_end_offsets("same.same", 200, WAIT).unwrap();

    await_offset(&mirror, "same-50", "same.same", 50);
    await_offset(&mirror, "same-150", "same.same", 150);
}

/// UP-079: offsets of some partitions only, deleted ones, one of a topic that is gone, and metadata.
#[test]
fn up_079_what_exists_of_a_group_is_mirrored_and_what_is_missing_stops_no_other() {
    let (source, target) = &*PAIR;
    for topic in ["part", "part-other", "part-gone"] {
        source.create_topic(&Topic::new(topic).partitions(2)).unwrap();
        source.fill(&Fill::new(topic, 100)).unwrap();
    }
    source.commit_offsets("part-first", &[at("part", 0, 10)]).unwrap();
    let both = [at("part", 0, 11), at("part", 1, 12), at("part-other", 0, 13)];
    source.commit_offsets("part-deleted", &both).unwrap();
    source.delete_group_offsets("part-deleted", &both[2..]).unwrap();
    let gone = [at("part", 1, 14), at("part-gone", 0, 15)];
    source.commit_offsets("part-gone-topic", &gone).unwrap();
    source.delete_topic("part-gone").unwrap();
    let beyond = [at("part", 0, 5_000), at("part", 1, 16)];
    source.commit_offsets("part-beyond", &beyond).unwrap();
    let told = GroupOffset { metadata: "\u{e9}tat: 7".into(), ..at("part", 1, 17) };
    source.commit_offsets("part-told", &[told]).unwrap();
    let mirror = Mirror::heliograph(&flow("part")).unwrap();
    target.await_end_offsets("part.part", 100, WAIT).unwrap();

    let place = |topic: &str, partition| (topic.to_owned(), partition);
    for (group, expected) in [
        ("part-first", BTreeMap::from([(place("part.part", 0), 10)])),
        (
            "part-deleted",
            BTreeMap::from([(place("part.part", 0), 11), (place("part.part", 1), 12)]),
        ),
        ("part-gone-topic", BTreeMap::from([(place("part.part", 1), 14)])),
        ("part-told", BTreeMap::from([(place("part.part", 1), 17)])),
    ] {
        eventually(group, WAIT, &mirror, || Ok(committed(group) == expected))
            .unwrap_or_else(|error| panic!("{:?}: {error:#}", committed(group)));
    }
    // Behind the end of the source's log: as far as there is anything, and not further.
    eventually("part-beyond", WAIT, &mirror, || {
        Ok(committed("part-beyond").get(&place("part.part", 1)) == Some(&16))
    })
    .unwrap();
    let beyond = committed("part-beyond").get(&place("part.part", 0)).copied();
    assert!(beyond.is_none_or(|offset| offset <= 50), "{beyond:?}");
    let told = target.group_offsets("part-told").unwrap();
    assert_eq!(told[0].metadata, "\u{e9}tat: 7");
}

#[test]
fn up_080_with_one_policy_for_the_flow_offsets_are_on_the_topic_that_has_the_data() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("ident")).unwrap();
    source.fill(&Fill::new("ident", 100)).unwrap();
    source.commit_offsets("ident-g", &[at("ident", 0, 40)]).unwrap();
    let policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
    let flow = flow("ident").set("ident->t.replication.policy.class", policy);
    let mirror = Mirror::heliograph(&flow).unwrap();
    target.await_end_offsets("ident", 100, WAIT).unwrap();

    await_offset(&mirror, "ident-g", "ident", 40);

    assert_eq!(committed("ident-g"), BTreeMap::from([(("ident".to_owned(), 0), 40)]));
    assert!(!target.topics().unwrap().contains(&"ident.ident".to_owned()));
}

/// UP-092: the target keeps what is further on, and says so; with the other policy it follows, but only a group that
/// nobody has used on the target.
#[test]
fn up_092_a_rewind_on_the_source_is_shown_and_followed_if_the_file_says_so() {
    let (source, target) = &*PAIR;
    for (alias, policy) in [("keep", "monotonic"), ("follow", "follow")] {
        let used = format!("{alias}-used");
        let group = format!("{alias}-g");
        let remote = format!("{alias}.{alias}");
        source.create_topic(&Topic::new(alias)).unwrap();
        source.fill(&Fill::new(alias, 1_000)).unwrap();
        for group in [&group, &used] {
            source.commit_offsets(group, &[at(alias, 0, 800)]).unwrap();
        }
        let page = format!("127.0.0.1:{}", ports::take().unwrap());
        let flow = flow(alias)
            .set("heliograph.http.listen", &page)
            .set("sync.group.offsets.policy", policy);
        let mut mirror = Mirror::heliograph(&flow).unwrap();
        for group in [&group, &used] {
            await_offset(&mirror, group, &remote, 800);
        }
        target.commit_offsets(&used, &[at(&remote, 0, 900)]).unwrap();
        for group in [&group, &used] {
            source.commit_offsets(group, &[at(alias, 0, 200)]).unwrap();
        }

        let behind = |group: &str| {
            let rounds = events::rounds(&page, alias, "t").unwrap();
            let left = rounds["groups"]["left"]["first"].to_string();
            left.contains(group) && left.contains("source is behind")
        };
        if policy == "follow" {
            await_offset(&mirror, &group, &remote, 200);
        } else {
            eventually("a word about it", WAIT, &mirror, || Ok(behind(&group))).unwrap();
            assert_eq!(committed(&group)[&(remote.clone(), 0)], 800);
        }
        eventually("a word about the used one", WAIT, &mirror, || Ok(behind(&used))).unwrap();
        assert_eq!(committed(&used)[&(remote.clone(), 0)], 900, "{policy}");
        if policy == "follow" {
            // What was seen before a restart is known after it.
            mirror.terminate(WAIT).unwrap();
            source.commit_offsets(&group, &[at(alias, 0, 100)]).unwrap();
            mirror.launch().unwrap();
            await_offset(&mirror, &group, &remote, 100);
            assert_eq!(committed(&used)[&(remote.clone(), 0)], 900);
        }
    }
}

/// UP-096: a live member on the target that commits, under a source that moves.
#[test]
fn up_096_a_group_that_lives_on_the_target_is_passed_over_in_silence() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("live")).unwrap();
    source.fill(&Fill::new("live", 1_000)).unwrap();
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let mirror = Mirror::with_events(&flow("live").set("heliograph.http.listen", &page)).unwrap();
    target.await_end_offsets("live.live", 1_000, WAIT).unwrap();
    let member = target.member("live-g", "live.live", Protocol::Classic).unwrap();
    eventually("a member", WAIT, &mirror, || {
        let groups = target.groups()?;
        Ok(groups.iter().any(|one| one.group == "live-g" && one.state.contains("table")))
    })
    .unwrap();
    let before = mirror.events().len();

    for offset in 0..8 {
        source.commit_offsets("live-g", &[at("live", 0, 100 * (offset + 1))]).unwrap();
        thread::sleep(Duration::from_secs(1));
    }

    assert_eq!(committed("live-g"), BTreeMap::new());
    let events = mirror.events();
    let about: Vec<_> = events[before..].iter().filter(|one| one.holds(&["live-g"])).collect();
    assert!(about.len() <= 1, "{about:?}");
    let loud: Vec<_> = events.iter().filter(|one| one.level() != "INFO").collect();
    assert!(loud.is_empty(), "{loud:?}");
    let rounds = events::rounds(&page, "live", "t").unwrap();
    assert!(rounds["groups"]["left"].to_string().contains("live-g"), "{rounds}");
    member.leave().unwrap();
    await_offset(&mirror, "live-g", "live.live", 800);
}

/// UP-085: 2,000 groups of three partitions each, a quarter of them excluded.
#[test]
fn up_085_thousands_of_groups_delay_no_record_and_are_there_within_a_minute() {
    const GROUPS: u32 = 1_500;
    const OTHERS: u32 = 500;
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("many").partitions(3)).unwrap();
    source.fill(&Fill::new("many", 3_000)).unwrap();
    let offsets: Vec<GroupOffset> = (0..3).map(|p| at("many", p, 100 * i64::from(p + 1))).collect();
    source.commit_many("many-in-", GROUPS, &offsets).unwrap();
    source.commit_many("many-out-", OTHERS, &offsets).unwrap();
    let flow = flow("many").set("groups.exclude", "many-out-.*");
    let begun = Instant::now();
    let mirror = Mirror::heliograph(&flow).unwrap();
    target.await_end_offsets("many.many", 3_000, WAIT).unwrap();
    let copied = begun.elapsed();

    eventually("all groups", WAIT, &mirror, || {
        Ok(target.many_offsets("many-in-", GROUPS)?.len() == GROUPS as usize)
    })
    .unwrap();
    let synced = begun.elapsed();
    let there = target.many_offsets("many-in-", GROUPS).unwrap();
    for (group, offsets) in &there {
        let offsets: BTreeMap<_, _> = offsets.iter().map(|o| (o.partition, o.offset)).collect();
        assert_eq!(offsets, BTreeMap::from([(0, 100), (1, 200), (2, 300)]), "{group}");
    }
    assert_eq!(target.many_offsets("many-out-", OTHERS).unwrap(), BTreeMap::new());
    eprintln!("{GROUPS} groups: first copy after {copied:?}, all groups after {synced:?}");
    assert!(copied < Duration::from_secs(8), "{copied:?}");
    // A group that has nothing to do with it, and one that has: neither is noticed by the data.
    source.commit_many("unrelated-", 1, &offsets).unwrap();
    source.fill(&Fill::new("many", 300).first(3_000)).unwrap();
    let more = Instant::now();
    target.await_end_offsets("many.many", 3_300, WAIT).unwrap();
    assert!(more.elapsed() < Duration::from_secs(2), "{:?}", more.elapsed());
}
