//! Targets that forget producers, have too few replicas, or are written to by somebody else: nothing is lost, nothing
//! is twice, and what cannot be right is said.

use std::thread;
use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::version::Version;

const COPY_WAIT: Duration = Duration::from_secs(120);

#[test]
fn a_target_that_forgets_producers_gets_nothing_twice_and_loses_nothing() {
    // A producer's state goes by the time of its last batch: records of 2023 take it with them at the next check.
    let forgetful = ClusterSpec::new(Version::V4_3_1)
        .set("producer.id.expiration.ms", "1000")
        .set("producer.id.expiration.check.interval.ms", "300");
    let (source, target) =
        ClusterSpec::start_both(ClusterSpec::new(Version::V4_3_1), forgetful).unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    let dates = Timestamps::Step { start: 1_700_000_000_000, step: 1 };
    let old = |first: u64, count: u64| {
        Fill::new("t", count).first(first).timestamps(dates).codec(Codec::Lz4)
    };
    source.fill(&old(0, 5_000)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mut mirror = Mirror::under_test(&flow).unwrap();
    target.await_end_offsets("s.t", 5_000, COPY_WAIT).unwrap();

    // Pauses longer than a check, live records in between, and a crash after the state is gone.
    for round in 1..4 {
        thread::sleep(Duration::from_millis(1_500));
        source.fill(&old(round * 5_000, 5_000).rate(4_000.0)).unwrap();
    }
    thread::sleep(Duration::from_millis(1_500));
    mirror.kill9().unwrap();
    source.fill(&old(20_000, 5_000)).unwrap();
    mirror.launch().unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 25_000);
}

#[test]
fn too_few_replicas_on_the_target_are_waited_for_and_nothing_is_lost_or_twice() {
    let three = ClusterSpec::new(Version::V4_3_1).three_nodes();
    let (source, mut target) =
        ClusterSpec::start_both(ClusterSpec::new(Version::V4_3_1), three).unwrap();
    source.create_topic(&Topic::new("t").partitions(3)).unwrap();
    // All three must have it: one node less, and the broker answers NOT_ENOUGH_REPLICAS.
    target
        .create_topic(&Topic::new("s.t").partitions(3).config("min.insync.replicas", "3"))
        .unwrap();
    let live = Fill::new("t", 120_000).codec(Codec::Lz4).rate(3_000.0);
    let filling = source.fill_in_background(&live).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mirror = Mirror::under_test(&flow).unwrap();
    target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap();

    target.kill9(3).unwrap();
    eventually("node 3 is out of sync", COPY_WAIT, &mirror, || {
        let described = target.describe_topic("s.t")?;
        Ok(described.is_some_and(|topic| topic.partitions.iter().all(|p| p.isr.len() == 2)))
    })
    .unwrap();
    thread::sleep(Duration::from_secs(2));
    // And now one more: no quorum either, nothing is elected.
    target.kill9(2).unwrap();
    thread::sleep(Duration::from_secs(4));
    for node in [2, 3] {
        target.restart(node).unwrap();
    }
    target.await_in_sync("s.t", COPY_WAIT).unwrap();
    let filled = filling.stop().unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, filled.records);
}

#[test]
fn two_mirrors_on_one_flow_by_mistake_are_never_silent() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 2_000)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let one = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 2_000, COPY_WAIT).unwrap();
    let two = Mirror::with_events(&flow).unwrap();
    two.await_event("copying", &[], COPY_WAIT).unwrap();

    let live = Fill::new("t", 20_000).first(2_000).rate(2_000.0);
    let filling = source.fill_in_background(&live).unwrap();
    let told = eventually("one of them says so", COPY_WAIT / 4, &one, || {
        let says = |mirror: &Mirror| {
            mirror.events().iter().any(|event| {
                event.message().starts_with("somebody else writes to the positions topic")
            })
        };
        Ok(says(&one) || says(&two))
    });
    let filled = filling.stop().unwrap();
    let verdict = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT / 4).run().unwrap();
    println!("{} records: {verdict}", 2_000 + filled.records);
    told.unwrap_or_else(|error| panic!("{error:#}\nand {}", two.last_words()));
    // However it went, nothing is missing.
    assert_eq!(verdict.total.missing, 0, "{verdict}");
}
