//! Field reports about brokers that go and come (`docs/field-reports.md`); three nodes on each side, one pair for all.

#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::{GroupOffset, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::events;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::ports;
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(90);

fn three() -> ClusterSpec {
    ClusterSpec::new(Version::V4_3_1).three_nodes()
}

/// UP-053: leaders of the target move every second under load.
#[test]
fn up_053_leaders_that_move_every_second_cost_neither_order_nor_a_busy_loop() {
    let (source, target) =
        ClusterSpec::start_both(ClusterSpec::new(Version::V4_3_1), three()).unwrap();
    source.create_topic(&Topic::new("move").partitions(3)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .set("emit.heartbeats.enabled", "false")
        .set("replication.factor", "3")
        .short_intervals();
    let mut mirror = Mirror::heliograph(&flow).unwrap();
    source.fill(&Fill::new("move", 30)).unwrap();
    target.await_end_offsets("s.move", 30, WAIT).unwrap();
    let filling =
        source.fill_in_background(&Fill::new("move", 40_000).first(30).rate(2_000.0)).unwrap();
    let cpu = |mirror: &Mirror| mirror.usage().unwrap().cpu_seconds;
    let before = cpu(&mirror);
    thread::sleep(Duration::from_secs(5));
    let calm = (cpu(&mirror) - before) / 5.0;

    let (begun, before, mut moves) = (Instant::now(), cpu(&mirror), 0_u32);
    while begun.elapsed() < Duration::from_secs(14) {
        // A reassignment to the same replicas in another order, and an election of the first of them.
        for partition in 0..3_u32 {
            let first = (moves + partition) % 3;
            let replicas = [0, 1, 2].map(|next| (first + next) % 3 + 1);
            target.reassign("s.move", partition, &replicas).unwrap();
        }
        target.elect_preferred_leaders("s.move").unwrap();
        moves += 1;
        thread::sleep(Duration::from_millis(500));
    }
    let moving = (cpu(&mirror) - before) / begun.elapsed().as_secs_f64();
    filling.done().unwrap();

    let comparison = Comparison::new(&source, "move", &target, "s.move").wait(WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 40_030);
    mirror.must_be_running().unwrap();
    eprintln!("{moves} rounds of moves: {moving:.3} of a core beside {calm:.3} in the calm");
    assert!(moves >= 5, "{moves}");
    assert!(moving < calm * 2.0 + 0.05, "{moving:.3} of a core beside {calm:.3}");
}

/// UP-055: the broker that coordinates some of ten groups is away for a while; all of them catch up by themselves.
#[test]
fn up_055_groups_of_a_coordinator_that_was_away_are_mirrored_again() {
    let (mut source, target) =
        ClusterSpec::start_both(three(), ClusterSpec::new(Version::V4_3_1)).unwrap();
    source.create_topic(&Topic::new("coord").partitions(3)).unwrap();
    source.fill(&Fill::new("coord", 3_000)).unwrap();
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .set("emit.heartbeats.enabled", "false")
        .set("sync.group.offsets.enabled", "true")
        .set("heliograph.http.listen", &page)
        .short_intervals();
    let mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.coord", 3_000, WAIT).unwrap();
    let commit = |source: &Cluster, offset: i64| {
        let at = |partition| GroupOffset {
            topic: "coord".into(),
            partition,
            offset,
            metadata: String::new(),
        };
        source.commit_many("coord-", 10, &[at(0), at(1), at(2)]).unwrap();
    };
    let there = |offset: i64, within: Duration| {
        eventually(&format!("all groups at {offset}"), within, &mirror, || {
            let groups = target.many_offsets("coord-", 10)?;
            let all = groups.values().flatten().filter(|one| one.offset == offset).count();
            Ok(all == 30)
        })
        .unwrap();
    };
    commit(&source, 100);
    there(100, WAIT);

    for node in [1, 2] {
        let offset = 100 + 100 * i64::try_from(node).unwrap();
        source.kill9(node).unwrap();
        // The groups of the two others do not wait for it.
        thread::sleep(Duration::from_secs(12));
        commit(&source, offset);
        there(offset, Duration::from_secs(30));
        thread::sleep(Duration::from_secs(8));
        source.restart(node).unwrap();
        source.await_in_sync("coord", WAIT).unwrap();
        commit(&source, offset + 50);
        there(offset + 50, Duration::from_secs(30));
    }
    let undone = events::rounds(&page, "s", "t").unwrap()["groups"]["undone"]["count"].clone();
    assert_eq!(undone, 0);
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for event in mirror.events().iter().filter(|one| one.level() != "INFO") {
        *lines.entry(event.message().to_owned()).or_default() += 1;
    }
    assert!(lines.values().sum::<usize>() < 40, "{lines:#?}");
}

/// UP-086: the target has fewer brokers than the factor for a while, and a topic is made once it has them.
#[test]
fn up_086_a_topic_that_cannot_be_made_yet_waits_with_its_reason_and_is_made_then() {
    let (source, mut target) =
        ClusterSpec::start_both(ClusterSpec::new(Version::V4_3_1), three()).unwrap();
    source.create_topic(&Topic::new("factor")).unwrap();
    source.fill(&Fill::new("factor", 100)).unwrap();
    target.stop_node(3).unwrap();
    target.unregister(3).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .set("emit.heartbeats.enabled", "false")
        .set("replication.factor", "3")
        .short_intervals();
    let mirror = Mirror::with_events(&flow).unwrap();
    let words = ["s.factor", "INVALID_REPLICATION_FACTOR"];
    mirror.await_event("topic waits", &words, WAIT).unwrap();
    assert_eq!(target.describe_topic("s.factor").unwrap(), None);

    target.restart(3).unwrap();
    let back = Instant::now();
    eventually("the topic", WAIT, &mirror, || Ok(target.describe_topic("s.factor")?.is_some()))
        .unwrap();
    let took = back.elapsed();
    target.await_end_offsets("s.factor", 100, WAIT).unwrap();
    assert!(took < Duration::from_secs(10), "{took:?}");
    let said = mirror.events().iter().filter(|one| one.message().contains("topic waits")).count();
    assert_eq!(said, 1, "{}", mirror.last_words());
}
