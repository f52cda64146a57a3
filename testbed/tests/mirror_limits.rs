//! A target that takes less, or stores otherwise, than the source: batches are divided, codecs changed, and a record
//! that cannot be taken stops its own partition only.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use testbed::admin::{At, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::events::Status;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::{ports, raw};

const COPY_WAIT: Duration = Duration::from_secs(60);

/// `max.message.bytes` of the targets here.
const LIMIT: usize = 20_000;

fn limited(topic: &str) -> Topic {
    Topic::new(topic).config("max.message.bytes", LIMIT.to_string())
}

#[test]
fn batches_that_the_target_does_not_take_arrive_in_pieces() {
    let (source, target) = Cluster::pair().unwrap();
    let names = Codec::ALL.map(|codec| format!("large-{}", codec.as_str()));
    for (name, codec) in names.iter().zip(Codec::ALL) {
        source.create_topic(&Topic::new(name)).unwrap();
        target.create_topic(&limited(&format!("s.{name}"))).unwrap();
        // Noise, so that compressed batches are large, too.
        let fill = Fill::new(name, 2_000).size(10, 900).noise().headers(0.2).codec(codec);
        source.fill(&fill.batches(200_000, 50)).unwrap();
        let largest = raw::headers(&source.bootstrap(), name, 0, 0).unwrap();
        let largest = largest.iter().map(|header| header.total_bytes()).max().unwrap();
        assert!(largest > 4 * LIMIT, "{name} has no large batch: {largest} bytes at most");
    }
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mut mirror = Mirror::under_test(&flow).unwrap();
    let copied = |mirror: &Mirror, records: u64| {
        for name in &names {
            let copy = format!("s.{name}");
            let comparison = Comparison::new(&source, name, &target, &copy).wait(COPY_WAIT);
            assert_eq!(comparison.must_be_copied_by(mirror).unwrap().total.matched, records);
            let stored = raw::headers(&target.bootstrap(), &copy, 0, 0).unwrap();
            assert!(stored.iter().all(|header| header.total_bytes() <= LIMIT), "{copy}");
        }
    };
    copied(&mirror, 2_000);

    // Pieces are recognised again after a crash.
    mirror.kill9().unwrap();
    for (name, codec) in names.iter().zip(Codec::ALL) {
        let more = Fill::new(name, 1_000).first(2_000).size(10, 900).noise().codec(codec);
        source.fill(&more.batches(200_000, 50)).unwrap();
    }
    mirror.launch().unwrap();
    copied(&mirror, 3_000);
}

/// Two partitions of small records; partition 1 has one in the middle that the target does not take. Its offset.
fn with_an_oversize_record(source: &Cluster, target: &Cluster) -> i64 {
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    target.create_topic(&limited("s.t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 600).batches(5_000, 5)).unwrap();
    let offset = source.offsets("t", At::Latest).unwrap()[1];
    let large = Fill::new("t", 1).first(600).partitions([1]).size(100_000, 100_000).noise();
    source.fill(&large).unwrap();
    source.fill(&Fill::new("t", 400).first(601).batches(5_000, 5)).unwrap();
    offset
}

#[test]
fn a_record_that_the_target_does_not_take_stops_its_partition_and_names_offset_and_remedy() {
    let (source, target) = Cluster::pair().unwrap();
    let offset = with_an_oversize_record(&source, &target);
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mut mirror = Mirror::with_events(&flow).unwrap();

    let needle = format!("upstream offset {offset} ");
    let words = ["t-1", needle.as_str(), "max.message.bytes"];
    let halted = mirror.await_event("partition halted", &words, COPY_WAIT).unwrap();
    assert_eq!(halted.level(), "ERROR");
    eventually("the other partition goes on", COPY_WAIT, &mirror, || {
        Ok(target.offsets("s.t", At::Latest)? == [500, offset])
    })
    .unwrap();

    // The remedy that was named helps.
    target.set_topic_config("s.t", "max.message.bytes", "1000000").unwrap();
    mirror.terminate(COPY_WAIT).unwrap();
    mirror.launch().unwrap();
    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 1_001);
}

#[test]
fn a_record_that_the_target_does_not_take_is_passed_over_and_reported_if_the_file_says_so() {
    let (source, target) = Cluster::pair().unwrap();
    let offset = with_an_oversize_record(&source, &target);
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .with_page()
        .unwrap()
        .set("s->t.oversize.policy", "skip")
        .set("heliograph.http.listen", &page);
    let mirror = Mirror::with_events(&flow).unwrap();

    target
        .await_end_offsets("s.t", 1_000, COPY_WAIT)
        .unwrap_or_else(|error| panic!("{error:#}. {}", mirror.last_words()));
    let verdict = Comparison::new(&source, "t", &target, "s.t").run().unwrap();
    assert_eq!(
        (verdict.total.matched, verdict.total.missing, verdict.total.repeated),
        (1_000, 1, 0),
        "{verdict}"
    );
    assert_eq!(verdict.differences[0].source_offset, offset, "{verdict}");
    // Never in silence: the log and the page name it.
    let events = mirror.events();
    let told = events.iter().find(|event| event.number("first") == Some(offset));
    let told = told.unwrap_or_else(|| panic!("no event names it. {}", mirror.last_words()));
    assert_eq!((told.level(), told.number("count")), ("WARN", Some(1)), "{told:?}");
    let status = Status::fetch(&page).unwrap();
    let gaps = &status.partition("t", 1).unwrap().gaps;
    assert_eq!((gaps.count, gaps.records), (1, 1), "{gaps:?}");
    assert_eq!((gaps.recent[0].first, gaps.recent[0].end), (offset, offset + 1), "{gaps:?}");
}

/// A target that stores without compression refuses batches that are small as they are sent: that says nothing about the
/// records behind them, whatever their size, nor about others in the same batch.
#[test]
fn what_a_target_refuses_to_unpack_costs_no_record_that_it_would_take() {
    let (source, target) = Cluster::pair().unwrap();
    let spread = |topic: &str| Topic::new(topic).config("compression.type", "uncompressed");
    for (topic, policy) in [("t-halt", "halt"), ("t-skip", "skip")] {
        source.create_topic(&Topic::new(topic).config("max.message.bytes", "8000000")).unwrap();
        target.create_topic(&spread(&format!("s.{topic}"))).unwrap();
        // Batches of a megabyte and more that pack to little, then records of noise that are larger than the pieces
        // that the target takes of them, but far smaller than what it says.
        let large = Fill::new(topic, 20_000).size(300, 300).codec(Codec::Zstd);
        source.fill(&large.batches(3_000_000, 200)).unwrap();
        let noise = Fill::new(topic, 20).first(20_000).size(500_000, 500_000).noise();
        source.fill(&noise.codec(Codec::Zstd)).unwrap();
        let flow = FlowFile::one_way(("s", &source), ("t", &target))
            .topics(topic)
            .set("sync.topic.configs.enabled", "false")
            .set("oversize.policy", policy);
        let mut mirror = Mirror::with_events(&flow).unwrap();
        let copy = format!("s.{topic}");
        let comparison = Comparison::new(&source, topic, &target, &copy).wait(COPY_WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 20_020);
        let events = mirror.events();
        assert!(!events.iter().any(|event| event.message() == "partition halted"), "{policy}");
        assert!(!events.iter().any(|event| event.number("first").is_some()), "{policy}");
        mirror.terminate(COPY_WAIT).unwrap();
    }
}

/// Records that are too large once they are unpacked, among others.
#[test]
fn a_record_that_is_too_large_unpacked_is_left_out_alone_and_told_once() {
    const LARGE: u32 = 3_000_000;

    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").config("max.message.bytes", "8000000")).unwrap();
    target.create_topic(&Topic::new("s.t").config("compression.type", "uncompressed")).unwrap();
    let fill = |records, first| Fill::new("t", records).first(first).codec(Codec::Zstd);
    source.fill(&fill(300, 0).size(10, 1_300).batches(50_000, 50)).unwrap();
    for first in [300, 301] {
        source.fill(&fill(1, first).size(LARGE, LARGE)).unwrap();
    }
    source.fill(&fill(300, 302).size(10, 1_300).batches(50_000, 50)).unwrap();
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .set("sync.topic.configs.enabled", "false")
        .set("heliograph.http.listen", &page);
    let mut mirror = Mirror::with_events(&flow).unwrap();
    let words = ["t-0", "upstream offset 300 ", "unpacked", "compression.type"];
    mirror.await_event("partition halted", &words, COPY_WAIT).unwrap();
    mirror.terminate(COPY_WAIT).unwrap();

    let mut mirror = Mirror::with_events(&flow.set("oversize.policy", "skip")).unwrap();
    target
        .await_end_offsets("s.t", 600, COPY_WAIT)
        .unwrap_or_else(|error| panic!("{error:#}. {}", mirror.last_words()));
    let verdict = Comparison::new(&source, "t", &target, "s.t").run().unwrap();
    let total = &verdict.total;
    assert_eq!((total.matched, total.missing, total.repeated), (600, 2, 0), "{verdict}");
    let told: Vec<_> = mirror.events().iter().filter_map(|event| event.number("first")).collect();
    assert_eq!(told, [300, 301]);
    let status = Status::fetch(&page).unwrap();
    let gaps = &status.partition("t", 0).unwrap().gaps;
    assert_eq!((gaps.count, gaps.records), (2, 2), "{gaps:?}");
    mirror.terminate(COPY_WAIT).unwrap();
}

#[test]
fn a_target_that_stores_with_another_codec_holds_the_same_records() {
    /// Attribute bits 0 to 2.
    const GZIP: u8 = 1;

    let (source, target) = Cluster::pair().unwrap();
    let names = Codec::ALL.map(|codec| format!("from-{}", codec.as_str()));
    for (name, codec) in names.iter().zip(Codec::ALL) {
        source.create_topic(&Topic::new(name)).unwrap();
        let copy = Topic::new(format!("s.{name}")).config("compression.type", "gzip");
        target.create_topic(&copy).unwrap();
        source.fill(&Fill::new(name, 3_000).motley().codec(codec)).unwrap();
    }
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap();
    let mut mirror = Mirror::under_test(&flow).unwrap();
    let copied = |mirror: &Mirror, records: u64| {
        for name in &names {
            let copy = format!("s.{name}");
            let comparison = Comparison::new(&source, name, &target, &copy).wait(COPY_WAIT);
            assert_eq!(comparison.must_be_copied_by(mirror).unwrap().total.matched, records);
            let stored = raw::headers(&target.bootstrap(), &copy, 0, 0).unwrap();
            let gzip = |header: &heliograph::batch::BatchHeader| {
                header.attributes.codec().is_some_and(|codec| codec.id() == GZIP)
            };
            assert!(stored.iter().all(gzip), "{copy}");
        }
    };
    copied(&mirror, 3_000);

    // Other bytes than the source's are recognised again after a crash.
    mirror.kill9().unwrap();
    for (name, codec) in names.iter().zip(Codec::ALL) {
        source.fill(&Fill::new(name, 1_000).first(3_000).motley().codec(codec)).unwrap();
    }
    mirror.launch().unwrap();
    copied(&mirror, 4_000);
}

#[test]
fn zstd_on_both_sides_is_mirrored_exactly() {
    let (source, target) = Cluster::pair().unwrap();
    // The producer's codec is the broker's: nothing is unpacked on the way.
    source.create_topic(&Topic::new("t").partitions(2).config("compression.type", "zstd")).unwrap();
    source.fill(&Fill::new("t", 10_000).motley().codec(Codec::Zstd)).unwrap();
    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 10_000);
    let configs = target.topic_configs("s.t").unwrap();
    assert_eq!(configs["compression.type"].value.as_deref(), Some("zstd"));
}
