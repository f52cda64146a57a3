//! Crashes of the mirror and of brokers lose nothing and repeat nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::thread;
use std::time::Duration;

use testbed::admin::{At, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::version::Version;

const COPY_WAIT: Duration = Duration::from_secs(300);

const KILLS: u32 = 10;

/// 200 MB in CI; 2 GB with `TESTBED_FULL=1`.
fn megabytes() -> u64 {
    if std::env::var_os("TESTBED_FULL").is_some() { 2_000 } else { 200 }
}

fn records_on(cluster: &Cluster, topic: &str) -> i64 {
    cluster.offsets(topic, At::Latest).unwrap().iter().sum()
}

#[test]
fn ten_kills_during_a_copy_lose_nothing_and_repeat_nothing() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(8)).unwrap();
    let records = megabytes() * 1_000;
    // Half lies there, half comes during 20 s (CI), so that each kill finds both a backlog and live records.
    let shape = |first, count| {
        Fill::new("t", count).first(first).size(900, 1_100).codec(Codec::Lz4).batches(100_000, 10)
    };
    source.fill(&shape(0, records / 2)).unwrap();
    let live = shape(records / 2, records / 2)
        .rate(5_000.0 * f64::from(u32::try_from(megabytes() / 200).unwrap()));
    let filling = source.fill_in_background(&live).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mut mirror = Mirror::under_test(&flow).unwrap();

    let mut in_the_middle = 0;
    for kill in 0..KILLS {
        let before = records_on(&target, "s.t");
        eventually("the copy goes on after a kill", COPY_WAIT, &mirror, || {
            Ok(records_on(&target, "s.t") > before)
        })
        .unwrap();
        // At different moments after the first new record: 0, 37, 74 ... ms.
        thread::sleep(Duration::from_millis(u64::from(kill) * 37));
        mirror.kill9().unwrap();
        let copied = records_on(&target, "s.t");
        in_the_middle += u32::from(copied < i64::try_from(records).unwrap());
        mirror.launch().unwrap();
    }
    filling.done().unwrap();

    assert!(
        in_the_middle >= KILLS / 2,
        "only {in_the_middle} of {KILLS} kills came before the end of the copy"
    );
    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, records);
}

/// What a killed process has left in a leader's log cannot be seen until followers have it, seconds later here. Records
/// that are sent again in other batches are refused meanwhile, and must not be stored a second time for that.
#[test]
fn records_that_followers_do_not_have_yet_are_not_stored_twice_after_a_kill() {
    let target = ClusterSpec::new(Version::V4_3_1)
        .three_nodes()
        .delayed_listener("SLOW", Duration::from_secs(2))
        .set("inter.broker.listener.name", "SLOW");
    let (source, target) =
        ClusterSpec::start_both(ClusterSpec::new(Version::V4_3_1), target).unwrap();
    source.create_topic(&Topic::new("t").partitions(4)).unwrap();
    // With followers, unlike internal topics here.
    target.create_topic(&Topic::new("s.t").partitions(4).replication_factor(3)).unwrap();
    let records = 30_000;
    // A batch for each record, so that a restart finds many, and sends them in others than before.
    let live = Fill::new("t", records).codec(Codec::Gzip).batches(1, 0).rate(1_000.0);
    let filling = source.fill_in_background(&live).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).commit_every_second();
    let mut mirror = Mirror::under_test(&flow).unwrap();
    for _ in 0..6 {
        let before = records_on(&target, "s.t");
        eventually("the copy goes on after a kill", COPY_WAIT, &mirror, || {
            Ok(records_on(&target, "s.t") > before)
        })
        .unwrap();
        mirror.kill9().unwrap();
        thread::sleep(Duration::from_millis(300));
        mirror.launch().unwrap();
    }
    filling.done().unwrap();
    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, records);
    // Or nothing was shown.
    let doubts = mirror.log_text().matches("looking at both logs").count();
    assert!(doubts > 0, "no batch was refused. {}", mirror.last_words());
}

#[test]
fn a_killed_leader_on_each_side_loses_nothing_and_repeats_nothing() {
    let three = || ClusterSpec::new(Version::V4_3_1).three_nodes();
    let (mut source, mut target) = ClusterSpec::start_both(three(), three()).unwrap();
    source.create_topic(&Topic::new("t").partitions(6)).unwrap();
    let records: u64 = 120_000;
    let filling = source
        .fill_in_background(&Fill::new("t", records).codec(Codec::Lz4).headers(0.3).rate(3_000.0))
        .unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mirror = Mirror::under_test(&flow).unwrap();
    target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap();

    for (cluster, topic) in [(&mut source, "t"), (&mut target, "s.t")] {
        let leader = cluster.describe_topic(topic).unwrap().unwrap().partitions[0].leader;
        let node = usize::try_from(leader).unwrap();
        cluster.kill9(node).unwrap();
        cluster.await_leader(topic, 0, COPY_WAIT, |now| now != leader).unwrap();
        thread::sleep(Duration::from_secs(2));
        cluster.restart(node).unwrap();
        cluster.await_in_sync(topic, COPY_WAIT).unwrap();
    }
    // And leaders move back without a crash.
    source.elect_preferred_leaders("t").unwrap();
    target.elect_preferred_leaders("s.t").unwrap();
    filling.done().unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, records);
}

#[test]
fn a_target_that_is_away_for_a_while_loses_nothing_and_repeats_nothing() {
    let (source, mut target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(3)).unwrap();
    let filling = source.fill_in_background(&Fill::new("t", 60_000).rate(4_000.0)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mirror = Mirror::under_test(&flow).unwrap();
    target.await_end_offsets("s.t", 500, COPY_WAIT).unwrap();

    target.kill9(1).unwrap();
    thread::sleep(Duration::from_secs(3));
    target.restart(1).unwrap();
    filling.done().unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 60_000);
}

#[test]
fn a_source_that_is_away_for_a_while_loses_nothing_and_repeats_nothing() {
    let (mut source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(3)).unwrap();
    source.fill(&Fill::new("t", 30_000)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mirror = Mirror::under_test(&flow).unwrap();
    target.await_end_offsets("s.t", 500, COPY_WAIT).unwrap();

    source.kill9(1).unwrap();
    thread::sleep(Duration::from_secs(3));
    source.restart(1).unwrap();
    source.fill(&Fill::new("t", 30_000).first(30_000)).unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 60_000);
}
