//! What was committed arrives once, what was aborted never does; wherever fetches, crashes and log starts cut.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::thread;
use std::time::Duration;

use testbed::admin::{At, Topic};
use testbed::cluster::Cluster;
use testbed::compare::{Comparison, Isolation};
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;

const COPY_WAIT: Duration = Duration::from_secs(90);

/// The stable offset stands still for a minute before anybody is told.
const TOLD_WITHIN: Duration = Duration::from_secs(90);

/// What was committed, and nothing else: also for a reader of everything.
fn only_committed(source: &Cluster, target: &Cluster, topic: &str, mirror: &Mirror) -> u64 {
    let comparison = Comparison::new(source, topic, target, &format!("s.{topic}"))
        .isolation(Isolation::ReadCommitted, Isolation::ReadUncommitted)
        .wait(COPY_WAIT);
    comparison.must_be_copied_by(mirror).unwrap().total.matched
}

#[test]
fn transactions_longer_than_a_fetch_are_kept_or_dropped_whole() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("long").partitions(2)).unwrap();
    // 4,000 records of 1 KiB in two partitions: two fetches of 1 MiB each, at least.
    let fill = Fill::new("long", 20_000).size(1_000, 1_000).noise().transactions(4_000, 2);
    let filled = source.fill(&fill.batches(50_000, 5)).unwrap();
    assert_eq!((filled.records, filled.aborted), (12_000, 8_000));
    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();

    assert_eq!(only_committed(&source, &target, "long", &mirror), 12_000);
}

#[test]
fn transactions_that_several_producers_write_at_once_are_told_apart() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("mixed").partitions(2)).unwrap();
    let one = |id: u64, abort_every| {
        Fill::new("mixed", 3_000)
            .first(id * 100_000)
            .codec(Codec::ALL[usize::try_from(id).unwrap()])
            .transactions(50, abort_every)
            .txn_id(format!("producer-{id}"))
            .rate(1_500.0)
    };
    let filling: Vec<_> = (0..4)
        .map(|id| source.fill_in_background(&one(id, u32::try_from(id).unwrap())).unwrap())
        .collect();
    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();
    let committed: u64 = filling.into_iter().map(|one| one.done().unwrap().records).sum();

    // None aborted, all aborted, every second one, every third one.
    assert_eq!(committed, 3_000 + 1_500 + 2_000);
    assert_eq!(only_committed(&source, &target, "mixed", &mirror), committed);
}

#[test]
fn kills_in_the_middle_of_transactions_lose_nothing_and_let_nothing_aborted_in() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(3)).unwrap();
    let live = Fill::new("t", 20_000).transactions(40, 3).codec(Codec::Lz4).rate(2_500.0);
    let filling = source.fill_in_background(&live).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mut mirror = Mirror::under_test(&flow).unwrap();
    target.await_end_offsets("s.t", 500, COPY_WAIT).unwrap();

    for kill in 0..5 {
        thread::sleep(Duration::from_millis(700 + 130 * kill));
        mirror.kill9().unwrap();
        mirror.launch().unwrap();
    }
    let filled = filling.done().unwrap();

    assert_eq!(only_committed(&source, &target, "t", &mirror), filled.records);
}

#[test]
fn a_log_that_begins_inside_a_transaction_is_mirrored_from_there() {
    let (source, target) = Cluster::pair().unwrap();
    // Offsets in one partition: 0-99 committed, 100 marker, 101-200 aborted, 201 marker, 202-301 committed, ...
    for (topic, start, left) in [("committed", 37, 63 + 100), ("aborted", 150, 100)] {
        source.create_topic(&Topic::new(topic)).unwrap();
        let fill = Fill::new(topic, 300).transactions(100, 2).batches(100_000, 100);
        assert_eq!(source.fill(&fill).unwrap().records, 200);
        source.delete_records(topic, 0, start).unwrap();
        assert_eq!(source.drain(topic).unwrap(), [left]);
    }
    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();

    assert_eq!(only_committed(&source, &target, "committed", &mirror), 163);
    assert_eq!(only_committed(&source, &target, "aborted", &mirror), 100);
}

#[test]
fn read_uncommitted_copies_what_was_aborted_as_mirror_maker_2_does() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    let filled = source.fill(&Fill::new("t", 3_000).transactions(100, 3)).unwrap();
    assert_eq!((filled.records, filled.aborted), (2_000, 1_000));
    // Open at the end: such a reader does not wait for it.
    source
        .fill(&Fill::new("t", 50).first(3_000).transactions(100, 0).txn_id("o").leave_open())
        .unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .with_page()
        .unwrap()
        .set("s.consumer.isolation.level", "read_uncommitted");
    let mut mirror = Mirror::under_test(&flow).unwrap();
    let all = |mirror: &Mirror, records: u64| {
        let comparison = Comparison::new(&source, "t", &target, "s.t")
            .isolation(Isolation::ReadUncommitted, Isolation::ReadCommitted)
            .wait(COPY_WAIT);
        assert_eq!(comparison.must_be_copied_by(mirror).unwrap().total.matched, records);
    };
    all(&mirror, 3_050);

    // What was copied is found again after a crash, markers and all.
    mirror.kill9().unwrap();
    source.fill(&Fill::new("t", 1_000).first(3_050).transactions(100, 2)).unwrap();
    mirror.launch().unwrap();
    all(&mirror, 4_050);
}

#[test]
fn a_transaction_that_hangs_is_named_after_a_minute() {
    // It takes that minute, and not a second less.
    if std::env::var_os("TESTBED_FULL").is_none() {
        eprintln!("only with TESTBED_FULL=1");
        return;
    }
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 100)).unwrap();
    let hanging = Fill::new("t", 5).first(100).partitions([1]).transactions(10, 0).txn_id("hangs");
    source.fill(&hanging.leave_open()).unwrap();
    source.fill(&Fill::new("t", 100).first(105)).unwrap();
    let stable = source.offsets("t", At::Stable).unwrap()[1];
    assert_eq!(stable, 50);
    let producer =
        testbed::raw::headers(&source.bootstrap(), "t", 1, stable).unwrap()[0].producer_id;
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mirror = Mirror::with_events(&flow).unwrap();

    let (offset, producer) = (stable.to_string(), producer.to_string());
    let words = ["t-1", offset.as_str(), producer.as_str()];
    let told = mirror.await_event("last stable offset has not moved", &words, TOLD_WITHIN).unwrap();
    assert_eq!(told.level(), "WARN");
    // The other partition never waited.
    assert_eq!(target.offsets("s.t", At::Latest).unwrap(), [100, 50]);
}
