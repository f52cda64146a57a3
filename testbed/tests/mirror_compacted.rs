//! Topics that a real cleaner has been at: whatever it left is mirrored exactly, once, in order.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use heliograph::batch::BatchHeader;
use testbed::admin::{At, Record, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;
use testbed::raw;

const COPY_WAIT: Duration = Duration::from_secs(60);

const CLEAN_WAIT: Duration = Duration::from_secs(60);

/// A segment rolls on the first write after this time; the active one is never cleaned.
const SEGMENT: Duration = Duration::from_millis(500);

/// Keys from here on belong to records that only roll segments.
const ROLL: u64 = 1_000_000;

fn compacted(topic: &str) -> Topic {
    Topic::new(topic)
        .config("cleanup.policy", "compact")
        .config("min.cleanable.dirty.ratio", "0.01")
        .config("segment.ms", SEGMENT.as_millis().to_string())
        .config("max.compaction.lag.ms", "500")
        // Tombstones stay, with their delete horizon in the batch's header.
        .config("delete.retention.ms", "86400000")
}

/// One batch: nothing is sent before `linger` is over, and everything fits.
fn batch(topic: &str, first: u64, records: u64) -> Fill {
    Fill::new(topic, records).first(first).batches(200_000, 300)
}

/// Rolls segments and waits until a reader of each topic sees as many records as it should (and those that roll);
/// then the topics are cleaned no more, nor are their copies.
fn clean(source: &Cluster, topics: &[(&str, u64)]) {
    let begun = Instant::now();
    for (topic, _) in topics {
        assert!(source.drain(topic).unwrap().iter().sum::<u64>() > 0, "{topic} is empty");
    }
    let mut rolls = 0;
    loop {
        thread::sleep(SEGMENT + Duration::from_millis(100));
        for (topic, _) in topics {
            source.fill(&Fill::new(*topic, 1).first(ROLL + rolls)).unwrap();
        }
        rolls += 1;
        thread::sleep(Duration::from_millis(600));
        let seen: Vec<u64> =
            topics.iter().map(|(topic, _)| source.drain(topic).unwrap().iter().sum()).collect();
        let wanted: Vec<u64> = topics.iter().map(|(_, records)| records + rolls).collect();
        if seen == wanted {
            break;
        }
        assert!(
            begun.elapsed() < CLEAN_WAIT,
            "not clean after {CLEAN_WAIT:?}: {topics:?} show {seen:?} records, wanted {wanted:?}"
        );
    }
    for (topic, _) in topics {
        source.set_topic_config(topic, "cleanup.policy", "delete").unwrap();
    }
}

fn headers(cluster: &Cluster, topic: &str) -> Vec<BatchHeader> {
    raw::headers(&cluster.bootstrap(), topic, 0, 0).unwrap()
}

fn same(source: &Cluster, target: &Cluster, topic: &str, mirror: &Mirror) -> u64 {
    let comparison = Comparison::new(source, topic, target, &format!("s.{topic}")).wait(COPY_WAIT);
    comparison.must_be_copied_by(mirror).unwrap().total.matched
}

fn has_holes(header: &BatchHeader) -> bool {
    header.count > 0 && header.count != header.last_offset_delta + 1
}

#[test]
fn holes_of_every_codec_are_closed_and_nothing_else_changes() {
    let (source, target) = Cluster::pair().unwrap();
    let names = Codec::ALL.map(|codec| format!("holes-{}", codec.as_str()));
    for (topic, codec) in names.iter().zip(Codec::ALL) {
        source.create_topic(&compacted(topic)).unwrap();
        // Dates of their own, headers and null values: all of it must survive the rewriting.
        let dates = Timestamps::Step { start: 1_700_000_000_000, step: 1_000 };
        let old =
            Fill::new(topic, 2_000).codec(codec).timestamps(dates).headers(0.3).batches(20_000, 50);
        source.fill(&old).unwrap();
        // Every third record gets a successor: holes all over.
        // Other values for keys all over: 700 different ones out of many, each several times.
        let keys = old.clone().distinct_keys(700).seed(9);
        source.fill(&keys).unwrap();
    }
    let wanted: Vec<u64> = names.iter().map(|topic| distinct_keys(&source, topic)).collect();
    let topics: Vec<(&str, u64)> =
        names.iter().map(String::as_str).zip(wanted.iter().copied()).collect();
    clean(&source, &topics);
    for topic in &names {
        let holes = headers(&source, topic).iter().filter(|header| has_holes(header)).count();
        assert!(holes > 5, "the cleaner left {holes} batches with holes in {topic}");
    }

    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();

    for (topic, wanted) in &topics {
        let matched = same(&source, &target, topic, &mirror);
        assert!(matched > *wanted, "{topic}: {matched} records, {wanted} without rolls");
        let stored = headers(&target, &format!("s.{topic}"));
        assert!(!stored.iter().any(has_holes), "{topic} has holes on the target");
    }
}

/// How many records a perfect cleaning leaves.
fn distinct_keys(cluster: &Cluster, topic: &str) -> u64 {
    let records = cluster.read(topic, 100_000).unwrap();
    let keys: BTreeSet<_> = records.iter().map(|record| record.key.clone()).collect();
    u64::try_from(keys.len()).unwrap()
}

#[test]
fn holes_at_the_head_the_middle_and_the_tail_of_a_batch_and_emptied_batches_are_mirrored_exactly() {
    let (source, target) = Cluster::pair().unwrap();
    // Which of a batch of ten get a successor.
    let cases: [(&str, u64, u64); 4] =
        [("head", 0, 4), ("middle", 3, 4), ("tail", 6, 4), ("all", 0, 10)];
    for (topic, first, records) in cases {
        source.create_topic(&compacted(topic)).unwrap();
        source.fill(&batch(topic, 0, 10)).unwrap();
        source.fill(&batch(topic, first, records)).unwrap();
    }
    clean(&source, &cases.map(|(topic, _, _)| (topic, 10)));

    let first = |topic| headers(&source, topic)[0];
    let (head, middle, tail, all) = (first("head"), first("middle"), first("tail"), first("all"));
    for header in [head, middle, tail] {
        assert_eq!((header.count, header.last_offset_delta), (6, 9), "{header:?}");
    }
    // The last batch of a producer is kept, empty, for its producer's state.
    assert_eq!((all.count, all.last_offset_delta), (0, 9), "{all:?}");

    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();
    for (topic, _, _) in cases {
        assert!(same(&source, &target, topic, &mirror) > 10);
    }
}

#[test]
fn tombstones_arrive_and_their_delete_horizon_does_not() {
    /// Attribute bit 6: the base timestamp says when tombstones may go.
    const DELETE_HORIZON: u16 = 0b100_0000;

    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&compacted("tombs")).unwrap();
    source.fill(&batch("tombs", 0, 20)).unwrap();
    // Ten of them are deleted: tombstones only, with dates of their own.
    let dates = Timestamps::Step { start: 1_700_000_000_000, step: 1_000 };
    source.fill(&batch("tombs", 0, 10).tombstones(1.0).timestamps(dates)).unwrap();
    clean(&source, &[("tombs", 20)]);
    let stored = headers(&source, "tombs");
    assert!(
        stored.iter().any(|header| header.attributes.0 & DELETE_HORIZON != 0),
        "the cleaner set no delete horizon: {stored:?}"
    );

    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();

    same(&source, &target, "tombs", &mirror);
    let copied = target.read("s.tombs", 100).unwrap();
    assert_eq!(copied.iter().filter(|record| record.value.is_none()).count(), 10);
    // A horizon of the source would have the target's cleaner drop them by the source's clock.
    let stored = headers(&target, "s.tombs");
    assert!(
        stored.iter().all(|header| header.attributes.0 & DELETE_HORIZON == 0),
        "the target got a delete horizon: {stored:?}"
    );
}

/// The number in the first eight bytes of a filled value.
fn index(record: &Record) -> u64 {
    u64::from_str_radix(&record.value.as_ref().unwrap()[..16], 16).unwrap()
}

#[test]
fn a_source_cleaned_while_a_killed_mirror_was_away_loses_nothing_and_repeats_nothing() {
    const KEYS: u64 = 5_000;
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&compacted("t").config("max.compaction.lag.ms", "9000000")).unwrap();
    source.set_topic_config("t", "min.compaction.lag.ms", "8000000").unwrap();
    // The copy is not to be cleaned: every record that ever arrived can be seen.
    target.create_topic(&Topic::new("s.t")).unwrap();
    let live = |first: u64, count: u64| {
        Fill::new("t", count).first(first).size(200, 300).codec(Codec::Lz4).batches(8_000, 5)
    };
    source.fill(&live(0, KEYS)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mut mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap();
    // While records flow, so that what is stored runs ahead of what is written down.
    let filling = source.fill_in_background(&live(KEYS, 8_000).rate(4_000.0)).unwrap();
    target.await_end_offsets("s.t", KEYS + 3_000, COPY_WAIT).unwrap();
    mirror.kill9().unwrap();
    filling.done().unwrap();
    let at_kill = target.offsets("s.t", At::Latest).unwrap()[0];

    // Keys of every second record once more, with new values: half of all is cleaned away.
    let again = Fill::new("t", 20_000).distinct_keys(6_500).size(100, 100);
    source.fill(&again.first(100_000)).unwrap();
    let before = source.log_size("t").unwrap();
    source.set_topic_config("t", "min.compaction.lag.ms", "0").unwrap();
    source.set_topic_config("t", "max.compaction.lag.ms", "500").unwrap();
    let begun = Instant::now();
    let mut roll = ROLL;
    while source.log_size("t").unwrap() > before / 2 {
        assert!(begun.elapsed() < CLEAN_WAIT, "not cleaned within {CLEAN_WAIT:?}");
        thread::sleep(SEGMENT + Duration::from_millis(200));
        source.fill(&Fill::new("t", 1).first(roll)).unwrap();
        roll += 1;
    }
    source.set_topic_config("t", "cleanup.policy", "delete").unwrap();
    thread::sleep(Duration::from_secs(1));
    let left = source.read("t", 1_000_000).unwrap();
    mirror.launch().unwrap();

    // What was stored was ahead of what was written down, or the logs need not have been compared.
    let resumed = mirror.await_event("target's log says how far", &["t-0"], COPY_WAIT).unwrap();
    assert!(resumed.number("records") > Some(0), "{resumed:?}");
    let last = index(left.last().unwrap());
    let begun = Instant::now();
    let copied = loop {
        let copied = target.read("s.t", 1_000_000).unwrap();
        if copied.last().is_some_and(|record| index(record) == last) {
            break copied;
        }
        assert!(begun.elapsed() < COPY_WAIT, "the copy does not end. {}", mirror.last_words());
        thread::sleep(Duration::from_millis(500));
    };
    let indices: Vec<u64> = copied.iter().map(index).collect();
    let known: BTreeSet<u64> = indices.iter().copied().collect();
    assert_eq!(known.len(), indices.len(), "some came twice. {}", mirror.last_words());
    assert!(indices.is_sorted(), "the order is another one. {}", mirror.last_words());
    let missing = left.iter().map(index).filter(|one| !known.contains(one)).count();
    assert_eq!(missing, 0, "of {} records left. {}", left.len(), mirror.last_words());
    assert!(at_kill > 0 && copied.len() > usize::try_from(at_kill).unwrap());
}
