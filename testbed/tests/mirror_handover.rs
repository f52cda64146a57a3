//! Heliograph goes on where MirrorMaker 2 stopped, and the other way round, on the same file: each record once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::{At, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;

/// MirrorMaker 2 needs up to 40 s to its first record.
const COPY_WAIT: Duration = Duration::from_secs(180);

const STOP_WAIT: Duration = Duration::from_secs(60);

#[test]
fn taken_over_from_mirror_maker_2_and_handed_back_each_record_arrives_once() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(4)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("t").short_intervals();
    let more =
        |round: u64| source.fill(&Fill::new("t", 2_000).first(round * 2_000).headers(0.5)).unwrap();
    let copied = |count: u64, mirror: &Mirror| {
        let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
        assert_eq!(comparison.must_be_copied_by(mirror).unwrap().total.matched, count);
    };

    more(0);
    let mut mm2 = Mirror::mm2(&flow).unwrap();
    copied(2_000, &mm2);
    mm2.terminate(STOP_WAIT).unwrap();

    more(1);
    let mut heliograph = Mirror::heliograph(&flow).unwrap();
    copied(4_000, &heliograph);
    more(2);
    copied(6_000, &heliograph);
    assert_eq!(
        heliograph.terminate(STOP_WAIT).unwrap().code,
        Some(0),
        "{}",
        heliograph.last_words()
    );

    more(3);
    mm2.launch().unwrap();
    copied(8_000, &mm2);
    mm2.terminate(STOP_WAIT).unwrap();
}

#[test]
fn a_fresh_mirror_handed_to_mirror_maker_2_is_not_copied_again() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("t").short_intervals();
    source.fill(&Fill::new("t", 2_000)).unwrap();

    let mut heliograph = Mirror::heliograph(&flow).unwrap();
    target.await_end_offsets("s.t", 2_000, COPY_WAIT).unwrap();
    heliograph.terminate(STOP_WAIT).unwrap();
    source.fill(&Fill::new("t", 2_000).first(2_000)).unwrap();
    let mm2 = Mirror::mm2(&flow).unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mm2).unwrap().total.matched, 4_000);
}

/// How long each of the programs copies before the other has its turn.
const TURN: Duration = Duration::from_secs(4);

/// Records per second, from the first to the last turn.
const RATE: f64 = 4_000.0;

/// Waits until the copy grows, and a turn more.
fn a_turn(target: &Cluster, mirror: &Mirror) {
    let end = || target.offsets("s.t", At::Latest).unwrap().iter().sum::<i64>();
    let (begun, before) = (Instant::now(), end());
    while end() < before + 4_000 {
        assert!(begun.elapsed() < COPY_WAIT, "nothing is copied. {}", mirror.last_words());
        thread::sleep(Duration::from_millis(100));
    }
    thread::sleep(TURN);
}

#[test]
fn taken_over_and_handed_back_while_records_are_written_each_arrives_once() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(4)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("t").short_intervals();
    let fill = Fill::new("t", 3_000_000).headers(0.2).rate(RATE);
    let filling = source.fill_in_background(&fill).unwrap();

    let mut mm2 = Mirror::mm2(&flow).unwrap();
    a_turn(&target, &mm2);
    mm2.terminate(STOP_WAIT).unwrap();
    let mut heliograph = Mirror::heliograph(&flow).unwrap();
    a_turn(&target, &heliograph);
    let exit = heliograph.terminate(STOP_WAIT).unwrap();
    assert_eq!(exit.code, Some(0), "{}", heliograph.last_words());
    mm2.launch().unwrap();
    a_turn(&target, &mm2);
    mm2.terminate(STOP_WAIT).unwrap();
    heliograph.launch().unwrap();
    a_turn(&target, &heliograph);
    let filled = filling.stop().unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    let verdict = comparison.must_be_copied_by(&heliograph).unwrap();
    assert_eq!(verdict.total.matched, filled.records);
    println!("{} records, each once", filled.records);
}
