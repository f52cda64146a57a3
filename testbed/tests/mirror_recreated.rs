//! Topics that are deleted, and made anew under their names, on either side: said, and copied from the right place.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use testbed::admin::{At, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const COPY_WAIT: Duration = Duration::from_secs(60);

const SOURCE_ANEW: &str =
    "source topic was made anew under its name; copying the new one from its start";

const TARGET_ANEW: &str =
    "target topic was made anew under its name; copying again from the source's start";

/// A mirror that has copied 1,000 records of a topic with two partitions.
fn running(file: impl Fn(FlowFile) -> FlowFile) -> (Cluster, Cluster, Mirror) {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    let flow = file(FlowFile::one_way(("s", &source), ("t", &target)));
    let mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap();
    (source, target, mirror)
}

/// The same name, another topic: `records` other ones.
fn made_anew(source: &Cluster, records: u64) {
    source.delete_topic("t").unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", records).seed(99).codec(Codec::Lz4)).unwrap();
}

fn the_new_one_follows_the_old_one(source: &Cluster, target: &Cluster, mirror: &Mirror, all: u64) {
    let told = mirror.await_event(SOURCE_ANEW, &["t-0"], COPY_WAIT).unwrap();
    assert_eq!(told.level(), "WARN");
    let comparison = Comparison::new(source, "t", target, "s.t")
        .from(vec![0, 0], vec![500, 500])
        .wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(mirror).unwrap().total.matched, all);
}

#[test]
fn a_source_topic_made_anew_while_the_mirror_runs_is_copied_from_its_start() {
    // More and fewer records than the old one had: its position is inside the new log, and outside.
    for records in [3_000, 200] {
        let (source, target, mirror) = running(|flow| flow);
        made_anew(&source, records);
        the_new_one_follows_the_old_one(&source, &target, &mirror, records);
    }
}

#[test]
fn a_source_topic_made_anew_while_the_mirror_was_away_is_copied_from_its_start() {
    let (source, target, mut mirror) = running(|flow| flow);
    mirror.terminate(COPY_WAIT).unwrap();
    made_anew(&source, 3_000);
    mirror.launch().unwrap();

    the_new_one_follows_the_old_one(&source, &target, &mirror, 3_000);

    // And it goes on from there, not from the start again.
    mirror.kill9().unwrap();
    source.fill(&Fill::new("t", 1_000).first(3_000).seed(99)).unwrap();
    mirror.launch().unwrap();
    the_new_one_follows_the_old_one(&source, &target, &mirror, 4_000);
}

/// Positions of the old topic are still written down for MirrorMaker 2 when the mirror is killed.
#[test]
fn a_kill_soon_after_a_source_topic_was_made_anew_skips_nothing_of_the_new_one() {
    let (source, target, mut mirror) = running(|flow| flow);
    mirror.terminate(COPY_WAIT).unwrap();
    mirror.launch().unwrap();
    source.fill(&Fill::new("t", 100).first(1_000)).unwrap();
    target.await_end_offsets("s.t", 1_100, COPY_WAIT).unwrap();
    made_anew(&source, 200);
    target.await_end_offsets("s.t", 1_300, COPY_WAIT).unwrap();

    mirror.kill9().unwrap();
    // Beyond the old topic's end, so that its positions look like good ones.
    source.fill(&Fill::new("t", 2_000).first(200).seed(99)).unwrap();
    mirror.launch().unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t")
        .from(vec![0, 0], vec![550, 550])
        .wait(COPY_WAIT / 3);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 2_200);
}

#[test]
fn recreate_policy_halt_stops_the_partitions_of_that_topic_only() {
    let (source, target, mirror) = running(|flow| flow.set("s->t.recreate.policy", "halt"));
    source.create_topic(&Topic::new("other")).unwrap();
    made_anew(&source, 3_000);
    source.fill(&Fill::new("other", 100)).unwrap();

    for partition in ["t-0", "t-1"] {
        let halted =
            mirror.await_event("partition halted", &[partition, "recreate.policy"], COPY_WAIT);
        assert_eq!(halted.unwrap().level(), "ERROR");
    }
    target.await_end_offsets("s.other", 100, COPY_WAIT).unwrap();
    assert_eq!(target.offsets("s.t", At::Latest).unwrap(), [500, 500]);
}

#[test]
fn a_target_topic_that_is_deleted_under_the_mirror_is_made_again_and_filled_again() {
    let (source, target, mirror) = running(|flow| flow);
    let id = target.describe_topic("s.t").unwrap().unwrap().topic_id;
    target.delete_topic("s.t").unwrap();
    // Records come while it is away.
    source.fill(&Fill::new("t", 500).first(1_000)).unwrap();

    eventually("the target topic is there again", COPY_WAIT, &mirror, || {
        Ok(target.describe_topic("s.t")?.is_some_and(|topic| topic.topic_id != id))
    })
    .unwrap();
    mirror.await_event(TARGET_ANEW, &["s.t-0"], COPY_WAIT).unwrap();
    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 1_500);
}

#[test]
fn a_target_topic_that_is_deleted_while_the_mirror_is_away_is_made_again_and_filled_again() {
    let (source, target, mut mirror) = running(|flow| flow);
    mirror.terminate(COPY_WAIT).unwrap();
    target.delete_topic("s.t").unwrap();
    source.fill(&Fill::new("t", 500).first(1_000)).unwrap();
    mirror.launch().unwrap();

    mirror.await_event(TARGET_ANEW, &["s.t-0"], COPY_WAIT).unwrap();
    target.await_end_offsets("s.t", 1_500, COPY_WAIT).unwrap();
    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 1_500);
}
