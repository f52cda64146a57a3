//! The judge is judged: it must find each fault that was put into a copy, and nothing in a copy without one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::sync::OnceLock;
use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::compare::{Comparison, Counts, Edit, Verdict};
use testbed::fill::Fill;

/// One cluster for all tests of this file, with one source topic of all shapes.
fn bed() -> &'static Cluster {
    static BED: OnceLock<Cluster> = OnceLock::new();
    BED.get_or_init(|| {
        let cluster = Cluster::single().unwrap();
        cluster.create_topic(&Topic::new("source").partitions(3)).unwrap();
        // Sequential keys, no tombstones: an edit must find something to change at its place.
        let fill = Fill::new("source", 3_000).size(50, 200).headers(1.0);
        cluster.fill(&fill).unwrap();
        cluster
    })
}

fn judged(copy: &str, edit: &'static str, at: u32, count: u32) -> Verdict {
    let cluster = bed();
    cluster.create_topic(&Topic::new(copy).partitions(3)).unwrap();
    cluster.copy_with_edit("source", copy, Edit { name: edit, partition: 1, at, count }).unwrap();
    let verdict = Comparison::new(cluster, "source", cluster, copy).run().unwrap();
    println!("{copy}: {verdict}");
    verdict
}

/// Zero everywhere; each test says what it expects instead.
const NOTHING: Counts = Counts {
    source_records: 3_000,
    target_records: 3_000,
    matched: 3_000,
    missing: 0,
    repeated: 0,
    foreign: 0,
    altered: 0,
    moved: 0,
    guessed: false,
};

fn first(verdict: &Verdict) -> (u32, &str, i64, i64, &str) {
    let first = &verdict.differences[0];
    (first.partition, &first.kind, first.source_offset, first.target_offset, &first.field)
}

#[test]
fn a_faithful_copy_is_the_same() {
    let verdict = judged("faithful", "none", 0, 0);

    assert!(verdict.same);
    assert_eq!(verdict.total, NOTHING);
}

#[test]
fn one_flipped_bit_in_a_value_is_found() {
    let verdict = judged("flipped-value", "flip_value", 500, 1);

    assert!(!verdict.same);
    assert_eq!(verdict.total, Counts { matched: 2_999, altered: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "altered", 500, 500, "value"));
}

#[test]
fn one_flipped_bit_in_a_key_is_found() {
    let verdict = judged("flipped-key", "flip_key", 0, 1);

    assert_eq!(verdict.total, Counts { matched: 2_999, altered: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "altered", 0, 0, "key"));
}

#[test]
fn a_key_that_became_null_is_found() {
    let verdict = judged("null-key", "null_key", 999, 1);

    assert_eq!(verdict.total, Counts { matched: 2_999, altered: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "altered", 999, 999, "key"));
}

#[test]
fn one_missing_record_is_found_and_is_one() {
    let verdict = judged("missing", "drop", 400, 1);

    assert_eq!(
        verdict.total,
        Counts { target_records: 2_999, matched: 2_999, missing: 1, ..NOTHING }
    );
    assert_eq!(first(&verdict), (1, "missing", 400, 400, ""));
}

#[test]
fn a_missing_first_record_is_found() {
    let verdict = judged("missing-first", "drop", 0, 1);

    assert_eq!(verdict.total.missing, 1);
    assert_eq!(first(&verdict), (1, "missing", 0, 0, ""));
}

#[test]
fn a_missing_last_record_is_found() {
    let verdict = judged("missing-last", "drop", 999, 1);

    assert_eq!(verdict.total.missing, 1);
    assert_eq!(first(&verdict), (1, "missing", 999, 999, ""));
}

#[test]
fn a_missing_tail_is_counted() {
    let verdict = judged("missing-tail", "truncate", 700, 1);

    assert_eq!(
        verdict.total,
        Counts { target_records: 2_700, matched: 2_700, missing: 300, ..NOTHING }
    );
    assert_eq!(first(&verdict), (1, "missing", 700, 700, ""));
}

#[test]
fn one_doubled_record_is_found_and_is_a_repetition() {
    let verdict = judged("doubled", "double", 300, 1);

    assert_eq!(verdict.total, Counts { target_records: 3_001, repeated: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "extra", 301, 301, ""));
}

#[test]
fn a_block_written_twice_is_counted() {
    let verdict = judged("doubled-block", "double", 100, 250);

    assert_eq!(verdict.total, Counts { target_records: 3_250, repeated: 250, ..NOTHING });
    assert_eq!(first(&verdict), (1, "extra", 350, 350, ""));
}

#[test]
fn an_old_block_written_again_at_the_end_is_a_repetition() {
    let verdict = judged("doubled-late", "late_double", 100, 50);

    assert_eq!(verdict.total, Counts { target_records: 3_050, repeated: 50, ..NOTHING });
    assert_eq!(first(&verdict), (1, "extra", 1_000, 1_000, ""));
}

#[test]
fn two_swapped_records_are_found_and_none_is_missing() {
    let verdict = judged("swapped", "swap", 600, 1);

    assert_eq!(verdict.total, Counts { matched: 2_999, moved: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "moved", 600, 600, "order"));
}

#[test]
fn a_record_the_source_never_had_is_foreign() {
    let verdict = judged("invented", "invent", 20, 1);

    assert_eq!(verdict.total, Counts { target_records: 3_001, foreign: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "extra", 20, 20, ""));
}

#[test]
fn a_timestamp_off_by_a_millisecond_is_found() {
    let verdict = judged("timestamp", "timestamp", 10, 1);

    assert_eq!(verdict.total, Counts { matched: 2_999, altered: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "altered", 10, 10, "timestamp"));
}

/// Indexes of records of partition 1 whose headers allow the edit.
fn with_headers(test: impl Fn(&[testbed::admin::RecordHeader]) -> bool) -> u32 {
    let records = bed().read("source", 10_000).unwrap();
    let found = records.iter().find(|r| r.partition == 1 && r.offset > 5 && test(&r.headers));
    u32::try_from(found.expect("no record with such headers").offset).unwrap()
}

#[test]
fn two_headers_in_another_order_are_found() {
    let at = with_headers(|headers| headers.len() >= 2 && headers[0] != headers[1]);
    let verdict = judged("swapped-headers", "swap_headers", at, 1);

    assert_eq!(verdict.total, Counts { matched: 2_999, altered: 1, ..NOTHING });
    assert_eq!(first(&verdict), (1, "altered", i64::from(at), i64::from(at), "header"));
}

#[test]
fn one_of_two_headers_of_the_same_name_lost_is_found() {
    let at = with_headers(|headers| headers.len() >= 2 && headers[0].name == headers[1].name);
    let verdict = judged("dropped-header", "drop_header", at, 1);

    assert_eq!(verdict.total, Counts { matched: 2_999, altered: 1, ..NOTHING });
    assert_eq!(first(&verdict).4, "header");
}

#[test]
fn a_null_header_value_that_became_empty_is_found() {
    let at = with_headers(|headers| headers[0].value.is_none());
    let verdict = judged("emptied-header", "empty_header", at, 1);

    assert_eq!(verdict.total, Counts { matched: 2_999, altered: 1, ..NOTHING });
    assert_eq!(first(&verdict).4, "header");
}

#[test]
fn a_tombstone_that_became_an_empty_value_is_found() {
    let cluster = bed();
    cluster.create_topic(&Topic::new("tombstones")).unwrap();
    cluster.create_topic(&Topic::new("tombstones-copy")).unwrap();
    cluster.fill(&Fill::new("tombstones", 100).tombstones(1.0)).unwrap();
    let edit = Edit { name: "empty_tombstone", partition: 0, at: 50, count: 1 };
    cluster.copy_with_edit("tombstones", "tombstones-copy", edit).unwrap();

    let verdict = Comparison::new(cluster, "tombstones", cluster, "tombstones-copy").run().unwrap();

    assert_eq!(verdict.total.altered, 1);
    assert_eq!(first(&verdict), (0, "altered", 50, 50, "value"));
}

#[test]
fn a_target_with_fewer_partitions_is_not_the_same() {
    let cluster = bed();
    cluster.create_topic(&Topic::new("narrow").partitions(2)).unwrap();

    let verdict = Comparison::new(cluster, "source", cluster, "narrow").run().unwrap();

    assert!(!verdict.same);
    assert_eq!((verdict.source_partitions, verdict.target_partitions), (3, 2));
    assert_eq!(verdict.total.missing, 3_000);
}

#[test]
fn a_target_topic_that_does_not_exist_is_not_the_same() {
    let cluster = bed();

    let verdict = Comparison::new(cluster, "source", cluster, "nowhere").run().unwrap();

    assert!(!verdict.same);
    assert_eq!(verdict.total.missing, 3_000);
}

#[test]
fn a_source_topic_that_does_not_exist_is_an_error_and_no_verdict() {
    let cluster = bed();

    assert!(Comparison::new(cluster, "nowhere", cluster, "source").run().is_err());
}

#[test]
fn aborted_records_in_the_source_are_not_missed_in_the_target() {
    let cluster = bed();
    cluster.create_topic(&Topic::new("transactions").partitions(2)).unwrap();
    cluster.create_topic(&Topic::new("transactions-copy").partitions(2)).unwrap();
    let filled = cluster.fill(&Fill::new("transactions", 1_000).transactions(50, 4)).unwrap();
    let edit = Edit { name: "none", partition: 0, at: 0, count: 0 };
    cluster.copy_with_edit("transactions", "transactions-copy", edit).unwrap();

    let verdict =
        Comparison::new(cluster, "transactions", cluster, "transactions-copy").run().unwrap();

    assert_eq!((filled.records, filled.aborted), (750, 250));
    assert!(verdict.same, "{verdict}");
    assert_eq!(verdict.total.matched, 750);
}

#[test]
fn a_target_that_catches_up_in_time_is_the_same() {
    let cluster = bed();
    for topic in ["slow", "slow-copy"] {
        cluster.create_topic(&Topic::new(topic).partitions(2)).unwrap();
    }
    // Both get the same content; the second one gets it over three seconds.
    let step = testbed::fill::Timestamps::Step { start: 1_700_000_000_000, step: 10 };
    let fast = Fill::new("slow", 600).timestamps(step);
    let slow = Fill::new("slow-copy", 600).timestamps(step).rate(200.0);
    cluster.fill(&fast).unwrap();
    let filling = cluster.fill_in_background(&slow).unwrap();

    let verdict = Comparison::new(cluster, "slow", cluster, "slow-copy")
        .wait(Duration::from_secs(20))
        .run()
        .unwrap();

    assert!(verdict.same, "{verdict}");
    assert!(verdict.elapsed_ms >= 1_500, "{verdict}");
    filling.done().unwrap();
}
