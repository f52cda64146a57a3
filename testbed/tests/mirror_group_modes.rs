//! Groups where a flow is not as usual: both ways at once, names kept, nothing emitted, checkpoints that may not be read,
//! copies that begin at the end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::thread;
use std::time::Duration;

use testbed::admin::{GroupOffset, Rule, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::events::get;
use testbed::failover;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::secured::{PLAIN_PASSWORD, USER, Way};
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(90);

/// A few rounds of a second each.
const ROUNDS: Duration = Duration::from_secs(4);

fn at(topic: &str, offset: i64) -> GroupOffset {
    GroupOffset { topic: topic.to_owned(), partition: 0, offset, metadata: String::new() }
}

fn committed(cluster: &Cluster, group: &str, topic: &str) -> Option<i64> {
    let all = cluster.group_offsets(group).unwrap();
    all.into_iter().find(|one| one.topic == topic).map(|one| one.offset)
}

fn is_there(cluster: &Cluster, part: &str) -> bool {
    cluster.topics().unwrap().iter().any(|topic| topic.contains(part))
}

/// Groups that moved to the target go home: what they have committed on the copy is said in offsets of the original,
/// with a marker after every seven records and whole transactions missing in the copy.
#[test]
fn groups_that_moved_to_the_target_find_their_places_on_the_source_again() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("g")).unwrap();
    source.fill(&Fill::new("g", 6_000).transactions(7, 3)).unwrap();
    let flow = FlowFile::both_ways(("s", &source), ("t", &target))
        .topics("g")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true");
    let mut mirror = Mirror::heliograph(&flow).unwrap();
    eventually("the copy", WAIT, &mirror, || {
        Ok(is_there(&target, "s.g") && source.drain("g")? == target.drain("s.g")?)
    })
    .unwrap();
    let there = source.record_offsets("g").unwrap().remove(0);
    let here = target.record_offsets("s.g").unwrap().remove(0);
    let lags = failover::lags(u64::try_from(here.len()).unwrap());
    let places = failover::places(&here, &lags).unwrap();
    let groups: Vec<String> = lags.iter().map(|lag| format!("home-{lag}")).collect();
    for (group, place) in groups.iter().zip(places) {
        target.commit_offsets(group, &[at("s.g", place)]).unwrap();
    }
    // A reader there goes on with exactly as many records.
    let left = |group: &str| {
        let offset = committed(&source, group, "g")?;
        Some(there.len() - there.partition_point(|record| *record < offset))
    };
    for (group, lag) in groups.iter().zip(&lags) {
        let lag = usize::try_from(*lag).unwrap();
        let outcome = eventually(group, WAIT, &mirror, || Ok(left(group) == Some(lag)));
        assert_eq!(left(group), Some(lag), "{outcome:?}");
    }
    // Java's own classes see the same in the checkpoints of the way back.
    let said = source.mirror_client("t", &[&groups[2]]).unwrap();
    let found = said.groups[&groups[2]].iter().find(|one| one.topic == "g").unwrap();
    assert_eq!(Some(found.offset), committed(&source, &groups[2], "g"));

    // What the group reads at home afterwards moves it on on the target, and nothing goes back by itself.
    let next = there[there.len() - 5];
    source.commit_offsets(&groups[3], &[at("g", next)]).unwrap();
    let expected = here[here.len() - 5];
    eventually("the way there again", WAIT, &mirror, || {
        Ok(committed(&target, &groups[3], "s.g") == Some(expected))
    })
    .unwrap();
    thread::sleep(ROUNDS);
    assert_eq!(left(&groups[3]), Some(5));

    // The same after a crash: the map of the way there is read again.
    mirror.kill9().unwrap();
    let place = failover::places(&here, &[77]).unwrap()[0];
    target.commit_offsets("late", &[at("s.g", place)]).unwrap();
    mirror.launch().unwrap();
    let outcome =
        eventually("a group after a crash", WAIT, &mirror, || Ok(left("late") == Some(77)));
    assert_eq!(left("late"), Some(77), "{outcome:?}");
}

/// With flows both ways, what the mirror commits on a copy never comes home: groups there stay where their own commits, or
/// an operator, put them, and a group that was deleted stays away. Only what was read on the copy goes home, once.
#[test]
fn what_the_mirror_put_on_a_copy_moves_no_group_at_home() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("g")).unwrap();
    source.fill(&Fill::new("g", 1_000)).unwrap();
    for (group, offset) in [("before", 100), ("mover", 0), ("reset", 0), ("gone", 0), ("late", 700)]
    {
        source.commit_offsets(group, &[at("g", offset)]).unwrap();
    }
    let flow = FlowFile::both_ways(("s", &source), ("t", &target))
        .with_page()
        .unwrap()
        .topics("g")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true")
        .set("s.consumer.auto.offset.reset", "latest");
    let mut mirror = Mirror::heliograph(&flow).unwrap();
    let stands =
        |cluster: &Cluster, mirror: &Mirror, group: &str, topic: &str, offset: i64| {
            let outcome = eventually(group, WAIT, mirror, || {
                Ok(committed(cluster, group, topic) == Some(offset))
            });
            assert_eq!(committed(cluster, group, topic), Some(offset), "{group}: {outcome:?}");
        };
    // The copy begins at 1,000: whoever has read less is at its first record.
    stands(&target, &mirror, "before", "s.g", 0);
    source.fill(&Fill::new("g", 500).first(1_000)).unwrap();
    for group in ["mover", "reset", "gone"] {
        source.commit_offsets(group, &[at("g", 1_300)]).unwrap();
        stands(&target, &mirror, group, "s.g", 300);
    }
    // Set back, and taken away, by an operator.
    source.commit_offsets("reset", &[at("g", 1_100)]).unwrap();
    source.delete_group("gone").unwrap();
    let rest = |mirror: &mut Mirror, mover: i64| {
        for round in ["as it runs", "after a restart"] {
            thread::sleep(ROUNDS);
            for (group, offset) in
                [("before", 100), ("late", 700), ("reset", 1_100), ("mover", mover)]
            {
                assert_eq!(committed(&source, group, "g"), Some(offset), "{group} {round}");
            }
            assert_eq!(committed(&source, "gone", "g"), None, "{round}");
            mirror.kill9().unwrap();
            mirror.launch().unwrap();
        }
    };
    rest(&mut mirror, 1_300);

    // What was read on the copy goes home; but nobody is moved over what the copy does not hold.
    thread::sleep(ROUNDS);
    stands(&target, &mirror, "mover", "s.g", 300);
    target.commit_offsets("mover", &[at("s.g", 400)]).unwrap();
    target.commit_offsets("late", &[at("s.g", 400)]).unwrap();
    stands(&source, &mirror, "mover", "g", 1_400);
    let stays = "late: stays at 700 of g-0";
    let page = mirror.page().unwrap();
    eventually(stays, WAIT, &mirror, || Ok(get(&page, "/status")?.contains(stays))).unwrap();
    rest(&mut mirror, 1_400);
    // Once: whoever is set back at home afterwards stays there.
    source.commit_offsets("mover", &[at("g", 1_200)]).unwrap();
    rest(&mut mirror, 1_200);
}

/// The identity policy: data, groups and checkpoints under the same names.
#[test]
fn with_the_identity_policy_records_and_groups_are_copied_under_their_names() {
    let (source, target) = Cluster::pair().unwrap();
    for codec in [Codec::None, Codec::Lz4] {
        let topic = format!("g-{}", codec.as_str());
        source.create_topic(&Topic::new(&topic).partitions(3)).unwrap();
        source.fill(&Fill::new(&topic, 3_000).motley().codec(codec)).unwrap();
    }
    source.create_topic(&Topic::new("g-txn")).unwrap();
    source.fill(&Fill::new("g-txn", 3_000).transactions(10, 3)).unwrap();
    let there = source.record_offsets("g-txn").unwrap().remove(0);
    source.commit_offsets("reader", &[at("g-txn", there[1_234])]).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("g-.*")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true")
        .set(
            "replication.policy.class",
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        );
    let mirror = Mirror::heliograph(&flow).unwrap();
    for topic in ["g-none", "g-lz4", "g-txn"] {
        let what = format!("{topic} on the target");
        eventually(&what, WAIT, &mirror, || Ok(is_there(&target, topic))).unwrap();
        let comparison = Comparison::new(&source, topic, &target, topic).wait(WAIT);
        comparison.must_be_copied_by(&mirror).unwrap();
    }
    let expected = target.record_offsets("g-txn").unwrap()[0][1_234];
    eventually("the group", WAIT, &mirror, || {
        Ok(committed(&target, "reader", "g-txn") == Some(expected))
    })
    .unwrap();
    let said = target.mirror_client("s", &["reader"]).unwrap();
    assert_eq!(said.groups["reader"].len(), 1);
    assert_eq!(said.groups["reader"][0].offset, expected);
    assert!(!is_there(&target, "s.g-"));
}

/// `testReplicateFromLatest`.
#[test]
fn with_auto_offset_reset_latest_only_what_comes_after_the_start_is_copied() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("g").partitions(2)).unwrap();
    source.fill(&Fill::new("g", 1_000)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("g")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true")
        .set("s.consumer.auto.offset.reset", "latest");
    let mut mirror = Mirror::heliograph(&flow).unwrap();
    eventually("a word about copying", WAIT, &mirror, || Ok(mirror.log_text().contains("copying")))
        .unwrap();
    source.fill(&Fill::new("g", 500).first(1_000)).unwrap();
    let comparison =
        Comparison::new(&source, "g", &target, "s.g").from(vec![500, 500], vec![0, 0]).wait(WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 500);
    // Of two groups, one stands where something was copied.
    source.commit_offsets("after", &[at("g", 600)]).unwrap();
    source.commit_offsets("before", &[at("g", 400)]).unwrap();
    eventually("the group", WAIT, &mirror, || Ok(committed(&target, "after", "s.g") == Some(100)))
        .unwrap();

    // A restart is no new start.
    mirror.kill9().unwrap();
    source.fill(&Fill::new("g", 300).first(1_500)).unwrap();
    mirror.launch().unwrap();
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 800);
    // Whoever stands before all that was copied is never sent behind its first record.
    let before = committed(&target, "before", "s.g");
    assert!(before.is_none_or(|offset| offset == 0), "{before:?}");
}

/// `testReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic`, `testClusterWithEmitOffsetDisabled`.
#[test]
fn what_is_not_to_be_emitted_is_not_and_its_topics_are_not_made() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("g")).unwrap();
    source.fill(&Fill::new("g", 1_000).transactions(10, 0)).unwrap();
    let there = source.record_offsets("g").unwrap().remove(0);
    source.commit_offsets("reader", &[at("g", there[700])]).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("g").short_intervals();
    let quiet = flow.set("emit.offset-syncs.enabled", "false");
    let quieter = quiet.clone().set("emit.checkpoints.enabled", "false");

    let mirror = Mirror::heliograph(&quieter).unwrap();
    let comparison = Comparison::new(&source, "g", &target, "s.g").wait(WAIT);
    eventually("the topic", WAIT, &mirror, || Ok(is_there(&target, "s.g"))).unwrap();
    comparison.must_be_copied_by(&mirror).unwrap();
    thread::sleep(ROUNDS);
    for cluster in [&source, &target] {
        assert!(!is_there(cluster, "offset-syncs") && !is_there(cluster, "checkpoints"));
    }
    assert_eq!(committed(&target, "reader", "s.g"), None);
    drop(mirror);

    // Group offsets need neither: the map is enough.
    let mirror = Mirror::heliograph(&quieter.set("sync.group.offsets.enabled", "true")).unwrap();
    let exact = target.record_offsets("s.g").unwrap()[0][700];
    eventually("the group", WAIT, &mirror, || {
        Ok(committed(&target, "reader", "s.g") == Some(exact))
    })
    .unwrap();
    thread::sleep(ROUNDS);
    assert!(!is_there(&target, "checkpoints") && !is_there(&source, "offset-syncs"));
    drop(mirror);

    // Checkpoints without offset syncs, which MM2 refuses.
    let mirror = Mirror::heliograph(&quiet).unwrap();
    eventually("a checkpoint", WAIT, &mirror, || {
        let said = target.mirror_client("s", &["reader"])?;
        Ok(said.groups["reader"].first().map(|one| one.offset) == Some(exact))
    })
    .unwrap();
    assert!(!is_there(&source, "offset-syncs") && !is_there(&target, "offset-syncs"));
}

/// `CheckpointStoreTest`: without the right to read checkpoints groups are mirrored all the same, and it is said which
/// right is missing.
#[test]
fn checkpoints_that_may_not_be_read_are_named_and_hold_up_nothing() {
    let spec = || ClusterSpec::new(Version::V4_3_1);
    let secured = spec()
        .with_authorizer()
        .set("allow.everyone.if.no.acl.found", "true")
        .listener("SASLP", "SASL_PLAINTEXT")
        .set("sasl.enabled.mechanisms", "PLAIN")
        .set("listener.name.saslp.sasl.enabled.mechanisms", "PLAIN")
        .set(
            "listener.name.saslp.plain.sasl.jaas.config",
            format!(
                "org.apache.kafka.common.security.plain.PlainLoginModule required \
                 user_{USER}=\"{PLAIN_PASSWORD}\";"
            ),
        );
    let (source, target) = ClusterSpec::start_both(spec(), secured).unwrap();
    let user = format!("User:{USER}");
    let deny =
        Rule { permission: "DENY".into(), ..Rule::allow("s.checkpoints.internal", &user, "READ") };
    target.create_acls(&[Rule::allow("*", &user, "ALL"), deny]).unwrap();
    source.create_topic(&Topic::new("g")).unwrap();
    source.fill(&Fill::new("g", 1_000).transactions(10, 0)).unwrap();
    let there = source.record_offsets("g").unwrap().remove(0);
    source.commit_offsets("reader", &[at("g", there[500])]).unwrap();

    let way = Way::new("SASL", "SASLP", "SASL_PLAINTEXT").logging_in("PLAIN");
    let file = FlowFile::of(&[("s", &source)]).flow("s", "t").topics("g");
    let file = way.write(file, "t", &target).unwrap().short_intervals();
    let file =
        file.set("sync.group.offsets.enabled", "true").set("sync.topic.acls.enabled", "false");
    let mut mirror = Mirror::heliograph(&file).unwrap();
    let place = |at: usize| target.record_offsets("s.g").unwrap()[0].get(at).copied();
    for (reads, index) in [("first", 500), ("second", 900)] {
        source.commit_offsets("reader", &[at("g", there[index])]).unwrap();
        eventually(reads, WAIT, &mirror, || {
            Ok(is_there(&target, "s.g")
                && place(index).is_some()
                && committed(&target, "reader", "s.g") == place(index))
        })
        .unwrap();
        // There are checkpoints now, which the next process would read.
        mirror.kill9().unwrap();
        mirror.launch().unwrap();
    }
    eventually("a word about the right", WAIT, &mirror, || {
        Ok(mirror.log_text().contains("s.checkpoints.internal on t may not be read"))
    })
    .unwrap();
    // Written all the same, for others to read.
    let said = target.mirror_client("s", &["reader"]).unwrap();
    assert_eq!(said.groups["reader"].first().map(|one| one.offset), place(900));
    let log = mirror.log_text();
    assert!(log.contains("--operation Read --topic 's.checkpoints.internal'"), "{log}");
}

/// A topic had another name for a while, and its copy lay behind 5,000 other records there: what offset syncs say about
/// that copy is nothing that a group may be sent by in this one.
#[test]
fn no_group_is_sent_by_the_offset_syncs_of_a_copy_under_another_name() {
    let (source, target) = Cluster::pair().unwrap();
    for cluster in [&source, &target] {
        cluster.create_topic(&Topic::new("g")).unwrap();
    }
    source.fill(&Fill::new("g", 600)).unwrap();
    target.fill(&Fill::new("g", 5_000).seed(9)).unwrap();
    let named = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("g")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true");
    let kept = named
        .clone()
        .set(
            "replication.policy.class",
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        )
        .set("existing.records.policy", "append");
    for (flow, copy, end) in [(&named, "s.g", 600), (&kept, "g", 5_600)] {
        let mut mirror = Mirror::heliograph(flow).unwrap();
        target.await_end_offsets(copy, end, WAIT).unwrap();
        // Positions and offset syncs of what it copied.
        thread::sleep(ROUNDS);
        mirror.terminate(WAIT).unwrap();
    }

    source.commit_offsets("early", &[at("g", 100)]).unwrap();
    source.commit_offsets("later", &[at("g", 650)]).unwrap();
    let mirror = Mirror::heliograph(&named).unwrap();
    source.fill(&Fill::new("g", 100).first(600)).unwrap();
    target.await_end_offsets("s.g", 700, WAIT).unwrap();
    eventually("the later group", WAIT, &mirror, || {
        Ok(committed(&target, "later", "s.g") == Some(650))
    })
    .unwrap();
    thread::sleep(ROUNDS);
    let early = committed(&target, "early", "s.g");
    assert!(early.is_none_or(|offset| offset <= 100), "{early:?} of 700");
}
