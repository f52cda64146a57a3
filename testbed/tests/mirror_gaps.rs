//! Source records that are gone before they were copied: passed over with a report that says which, or a stop if the
//! file says so; never in silence, and nothing else is lost with them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::thread;
use std::time::Duration;

use testbed::admin::{At, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const COPY_WAIT: Duration = Duration::from_secs(60);

const GONE: &str = "source records are gone before they were copied";

/// A mirror that has copied 1,000 records of two partitions and was stopped; meanwhile 2,000 more have come, and of
/// those in partition 1 the first 300 are gone.
fn overtaken(file: impl Fn(FlowFile) -> FlowFile) -> (Cluster, Cluster, Mirror) {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    let flow = file(FlowFile::one_way(("s", &source), ("t", &target)));
    let mut mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap();
    mirror.terminate(COPY_WAIT).unwrap();
    source.fill(&Fill::new("t", 2_000).first(1_000)).unwrap();
    source.delete_records("t", 1, 800).unwrap();
    assert_eq!(source.offsets("t", At::Earliest).unwrap(), [0, 800]);
    mirror.launch().unwrap();
    (source, target, mirror)
}

fn behind_the_gap(source: &Cluster, target: &Cluster) -> Comparison {
    Comparison::new(source, "t", target, "s.t").from(vec![0, 800], vec![0, 500]).wait(COPY_WAIT)
}

#[test]
fn records_deleted_ahead_of_a_stopped_mirror_are_reported_and_all_others_arrive() {
    let (source, target, mirror) = overtaken(|flow| flow);

    let told = mirror.await_event(GONE, &["t-1"], COPY_WAIT).unwrap();
    assert_eq!(told.level(), "WARN");
    assert_eq!(
        (told.number("first"), told.number("end"), told.number("count")),
        (Some(500), Some(800), Some(300)),
        "{told:?}"
    );
    assert!(told.text("reason").is_some_and(|reason| !reason.is_empty()), "{told:?}");
    let verdict = behind_the_gap(&source, &target).must_be_copied_by(&mirror).unwrap();
    assert_eq!(verdict.total.matched, 1_500 + 700);
    assert_eq!(target.offsets("s.t", At::Latest).unwrap(), [1_500, 500 + 700]);
    // Once, and of that partition only.
    let all = mirror.events();
    assert_eq!(all.iter().filter(|event| event.message() == GONE).count(), 1);
}

#[test]
fn gap_policy_halt_stops_at_the_gap_and_only_there() {
    let (source, target, mirror) = overtaken(|flow| flow.set("s->t.gap.policy", "halt"));

    let halted =
        mirror.await_event("partition halted", &["t-1", "500..800", "gap.policy"], COPY_WAIT);
    assert_eq!(halted.unwrap().level(), "ERROR");
    eventually("the other partition goes on", COPY_WAIT, &mirror, || {
        Ok(target.offsets("s.t", At::Latest)? == [1_500, 500])
    })
    .unwrap();
    drop(source);
}

#[test]
fn retention_that_overtakes_a_killed_mirror_is_reported() {
    let (source, target) = Cluster::pair().unwrap();
    let topic = Topic::new("t").config("segment.ms", "500");
    source.create_topic(&topic).unwrap();
    // The copy keeps what it has.
    target.create_topic(&Topic::new("s.t")).unwrap();
    source.fill(&Fill::new("t", 500)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mut mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 500, COPY_WAIT).unwrap();
    mirror.kill9().unwrap();

    source.fill(&Fill::new("t", 500).first(500)).unwrap();
    thread::sleep(Duration::from_millis(700));
    source.fill(&Fill::new("t", 1).first(1_000)).unwrap();
    source.set_topic_config("t", "retention.ms", "1000").unwrap();
    eventually("retention takes all segments but the last one", COPY_WAIT, &mirror, || {
        Ok(source.offsets("t", At::Earliest)? >= vec![1_000])
    })
    .unwrap();
    source.set_topic_config("t", "retention.ms", "-1").unwrap();
    let start = source.offsets("t", At::Earliest).unwrap()[0];
    source.fill(&Fill::new("t", 200).first(1_001)).unwrap();
    mirror.launch().unwrap();

    let told = mirror.await_event(GONE, &["t-0"], COPY_WAIT).unwrap();
    assert_eq!((told.number("first"), told.number("end")), (Some(500), Some(start)), "{told:?}");
    let comparison =
        Comparison::new(&source, "t", &target, "s.t").from(vec![start], vec![500]).wait(COPY_WAIT);
    assert!(comparison.must_be_copied_by(&mirror).unwrap().total.matched >= 200);
}

/// The first thing left in the source's log is no record: what lies before it is gone all the same.
#[test]
fn a_gap_that_ends_at_a_transaction_marker_is_reported() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    // Offsets 0 to 99, a marker at 100, 101 to 200, a marker at 201, ...
    let committed = |first| Fill::new("t", 100).first(first).transactions(100, 0);
    source.fill(&committed(0)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mut mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 100, COPY_WAIT).unwrap();
    // Its position is written down; the next records are stored, and killed before theirs is.
    thread::sleep(Duration::from_millis(2_500));
    source.fill(&committed(100)).unwrap();
    target.await_end_offsets("s.t", 200, COPY_WAIT).unwrap();
    mirror.kill9().unwrap();
    for first in [200, 300, 400] {
        source.fill(&committed(first)).unwrap();
    }
    source.delete_records("t", 0, 403).unwrap();
    let first = testbed::raw::headers(&source.bootstrap(), "t", 0, 403).unwrap()[0];
    assert!(first.attributes.is_control() && first.base_offset.0 == 403, "{first:?}");
    mirror.launch().unwrap();

    let told = mirror.await_event(GONE, &["t-0"], COPY_WAIT).unwrap();
    // Its beginning may be counted without markers, and so be too early; never too late.
    assert!(told.number("first").is_some_and(|first| first <= 202), "{told:?}");
    assert_eq!(told.number("end"), Some(403), "{told:?}");
    let comparison =
        Comparison::new(&source, "t", &target, "s.t").from(vec![403], vec![200]).wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 100);
}

#[test]
fn a_log_that_begins_inside_a_batch_is_mirrored_from_there() {
    let (source, target) = Cluster::pair().unwrap();
    let names = Codec::ALL.map(|codec| format!("cut-{}", codec.as_str()));
    for (name, codec) in names.iter().zip(Codec::ALL) {
        source.create_topic(&Topic::new(name)).unwrap();
        // One batch of a hundred, and one more.
        for first in [0, 100] {
            let fill = Fill::new(name, 100).first(first).codec(codec).headers(0.5);
            source.fill(&fill.batches(200_000, 300)).unwrap();
        }
        source.delete_records(name, 0, 37).unwrap();
        assert_eq!(source.drain(name).unwrap(), [163]);
        let stored = testbed::raw::headers(&source.bootstrap(), name, 0, 37).unwrap();
        assert_eq!((stored[0].base_offset.0, stored[0].count), (0, 100), "{name}");
    }
    let mirror = Mirror::with_events(&FlowFile::one_way(("s", &source), ("t", &target))).unwrap();

    for name in &names {
        let comparison =
            Comparison::new(&source, name, &target, &format!("s.{name}")).wait(COPY_WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 163);
    }
    // What was gone before the mirror first came is no gap.
    assert!(!mirror.events().iter().any(|event| event.message() == GONE));
}
