//! What arrives on the target is what lies on the source: each record, once, in order, byte for byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;

const COPY_WAIT: Duration = Duration::from_secs(120);

fn copied(source: &Cluster, target: &Cluster, topic: &str, mirror: &Mirror) -> u64 {
    let comparison = Comparison::new(source, topic, target, &format!("s.{topic}")).wait(COPY_WAIT);
    comparison.must_be_copied_by(mirror).unwrap().total.matched
}

#[test]
fn topics_of_every_codec_and_shape_are_mirrored_exactly() {
    let (source, target) = Cluster::pair().unwrap();
    for codec in Codec::ALL {
        let topic = format!("motley-{}", codec.as_str());
        source.create_topic(&Topic::new(&topic).partitions(3)).unwrap();
        source.fill(&Fill::new(&topic, 20_000).motley().codec(codec)).unwrap();
    }
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mirror = Mirror::under_test(&flow).unwrap();

    for codec in Codec::ALL {
        assert_eq!(
            copied(&source, &target, &format!("motley-{}", codec.as_str()), &mirror),
            20_000
        );
    }
}

#[test]
fn records_of_any_size_and_date_and_batches_of_any_size_are_mirrored_exactly() {
    let (source, target) = Cluster::pair().unwrap();
    let topics = [
        Fill::new("one-record-batches", 3_000).batches(0, 0),
        Fill::new("large-batches", 200_000).codec(Codec::Lz4).batches(900_000, 50),
        Fill::new("large-records", 200).size(100_000, 900_000).noise().batches(1_000_000, 10),
        Fill::new("empty-values", 10_000).empty_values(1.0).null_keys(1.0),
        Fill::new("only-tombstones", 10_000).tombstones(1.0),
        Fill::new("first-milliseconds-of-time", 1_000)
            .timestamps(Timestamps::Step { start: 0, step: 1 }),
        Fill::new("not-idempotent", 10_000).not_idempotent().headers(1.0),
    ];
    for (fill, name) in topics.iter().zip(NAMES) {
        source.create_topic(&Topic::new(name).partitions(2)).unwrap();
        source.fill(fill).unwrap();
    }
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mirror = Mirror::under_test(&flow).unwrap();

    for name in NAMES {
        assert!(copied(&source, &target, name, &mirror) > 0);
    }
}

const NAMES: [&str; 7] = [
    "one-record-batches",
    "large-batches",
    "large-records",
    "empty-values",
    "only-tombstones",
    "first-milliseconds-of-time",
    "not-idempotent",
];

#[test]
fn records_that_come_while_it_runs_are_mirrored_exactly() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("live").partitions(4)).unwrap();
    source.fill(&Fill::new("live", 10_000).motley()).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mirror = Mirror::under_test(&flow).unwrap();

    source.fill(&Fill::new("live", 10_000).first(10_000).motley().rate(2_000.0)).unwrap();

    assert_eq!(copied(&source, &target, "live", &mirror), 20_000);
}

#[test]
fn aborted_records_never_reach_the_target() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("transactions").partitions(3)).unwrap();
    let filled =
        source.fill(&Fill::new("transactions", 10_000).transactions(100, 3).motley()).unwrap();
    assert_eq!((filled.records, filled.aborted), (6_700, 3_300));
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mirror = Mirror::under_test(&flow).unwrap();

    // Also under a reader of everything: nothing aborted, and nothing else, is there.
    assert_eq!(copied(&source, &target, "transactions", &mirror), 6_700);
    let everything = Comparison::new(&source, "transactions", &target, "s.transactions").isolation(
        testbed::compare::Isolation::ReadCommitted,
        testbed::compare::Isolation::ReadUncommitted,
    );
    assert_eq!(everything.must_be_copied_by(&mirror).unwrap().total.target_records, 6_700);
}

#[test]
fn an_open_transaction_holds_back_its_partition_until_it_ends() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("held")).unwrap();
    source.fill(&Fill::new("held", 100)).unwrap();
    source
        .fill(&Fill::new("held", 5).first(100).transactions(10, 0).txn_id("open").leave_open())
        .unwrap();
    source.fill(&Fill::new("held", 100).first(105)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mirror = Mirror::under_test(&flow).unwrap();

    target.await_end_offsets("s.held", 100, COPY_WAIT).unwrap();
    assert_eq!(copied(&source, &target, "held", &mirror), 100);

    // The same transactional id fences the first producer, and its transaction is aborted.
    source.fill(&Fill::new("held", 10).first(205).transactions(10, 0).txn_id("open")).unwrap();
    assert_eq!(copied(&source, &target, "held", &mirror), 210);
}
