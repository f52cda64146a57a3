//! Field reports about records on their way (`docs/field-reports.md`); one pair of clusters for all. The target is
//! also reached through a proxy that counts and loses frames.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testbed::admin::{At, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::events::{Metrics, Status};
use testbed::fill::{Codec, Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::frames::Frames;
use testbed::mirror::{Mirror, eventually};
use testbed::ports;
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(60);

static FRAMES: LazyLock<Frames> = LazyLock::new(Frames::default);

/// Source and target, which take large records.
static PAIR: LazyLock<(Cluster, Cluster)> = LazyLock::new(|| {
    let large = |spec: ClusterSpec| {
        spec.set("message.max.bytes", "41943040").set("socket.request.max.bytes", "104857600")
    };
    let source = large(ClusterSpec::new(Version::V4_3_1));
    let target = large(ClusterSpec::new(Version::V4_3_1)).watched_listener("WATCHED", &FRAMES);
    ClusterSpec::start_both(source, target).unwrap()
});

fn flow(alias: &str) -> FlowFile {
    let (source, target) = &*PAIR;
    FlowFile::one_way((alias, source), ("t", target))
        .topics(&format!("{alias}.*"))
        .set("emit.heartbeats.enabled", "false")
        .short_intervals()
}

fn with_page(flow: FlowFile) -> (FlowFile, String) {
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    (flow.set("heliograph.http.listen", &page), page)
}

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// UP-003: the source purges what a slow mirror has not copied yet, under its hands.
#[test]
fn up_003_records_purged_while_the_mirror_is_busy_are_counted_to_the_last_one() {
    const RECORDS: i64 = 6_000;
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("purge").partitions(2)).unwrap();
    let fill = Fill::new("purge", RECORDS.unsigned_abs()).size(1_000, 1_000).noise();
    source.fill(&fill.batches(10_000, 5)).unwrap();
    let (flow, page) = with_page(flow("purge").set("purge->t.max.bytes.per.second", "300000"));
    let mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("purge.purge", 500, WAIT).unwrap();

    source.delete_records("purge", 0, 2_500).unwrap();

    let words = ["purge-0", "gone before they were copied"];
    let gap = mirror.await_event("source records are gone", &words, WAIT).unwrap();
    let (first, end) = (gap.number("first").unwrap(), gap.number("end").unwrap());
    assert!(gap.level() == "WARN" && end == 2_500 && first < end, "{gap:?}");
    let lost = end - first;
    target.await_end_offsets("purge.purge", (RECORDS - lost).unsigned_abs(), WAIT).unwrap();
    let ends = target.offsets("purge.purge", At::Latest).unwrap();
    assert_eq!(ends, [RECORDS / 2 - lost, RECORDS / 2]);
    let counted = Metrics::fetch(&page).unwrap().sum("heliograph_gap_records_total", &[]);
    assert_eq!(counted.map(|lost| format!("{lost:.0}")), Some(lost.to_string()));
    let status = Status::fetch(&page).unwrap();
    let gaps = &status.partition("purge", 0).unwrap().gaps;
    assert_eq!((gaps.count, gaps.recent[0].first, gaps.recent[0].end), (1, first, end));
}

/// UP-026: null, empty and binary keys and values in each codec, on a compacted topic, with the converters that people
/// carry over from Connect.
#[test]
fn up_026_keys_and_values_are_bytes_whatever_converters_the_file_names() {
    let (source, target) = &*PAIR;
    let topics = Codec::ALL.map(|codec| format!("bytes-{}", codec.as_str()));
    for (topic, codec) in topics.iter().zip(Codec::ALL) {
        // Compacted, but not while we look.
        let compacted = Topic::new(topic).config("cleanup.policy", "compact");
        source.create_topic(&compacted.config("min.cleanable.dirty.ratio", "1")).unwrap();
        let third = 1.0 / 3.0;
        let fill = Fill::new(topic, 900).size(1_024, 1_024).noise().codec(codec);
        let fill = fill.null_keys(0.0).empty_keys(third).tombstones(third).empty_values(third);
        source.fill(&fill).unwrap();
    }
    // A compacted topic takes no record without a key: those are on one of their own.
    source.create_topic(&Topic::new("bytes-keyless")).unwrap();
    let keyless = Fill::new("bytes-keyless", 900).null_keys(0.5).empty_keys(0.5);
    source.fill(&keyless.tombstones(0.3).empty_values(0.3)).unwrap();
    let json = "org.apache.kafka.connect.json.JsonConverter";
    let flow = flow("bytes").set("key.converter", json).set("value.converter", json);
    let mirror = Mirror::heliograph(&flow).unwrap();

    for topic in topics.iter().map(String::as_str).chain(["bytes-keyless"]) {
        let copy = format!("bytes.{topic}");
        let comparison = Comparison::new(source, topic, target, &copy).wait(WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 900, "{topic}");
    }
    assert!(mirror.log_text().contains("key.converter"), "{}", mirror.last_words());
}

/// UP-044: what the page says of lag is what both ends say.
#[test]
fn up_044_lag_is_told_within_a_few_percent_and_comes_to_zero() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("lag")).unwrap();
    source.fill(&Fill::new("lag", 1_000).size(1_000, 1_000).batches(1_100, 0)).unwrap();
    let (flow, page) = with_page(flow("lag").set("lag->t.max.bytes.per.second", "100000"));
    let _mirror = Mirror::heliograph(&flow).unwrap();
    let lag = || Metrics::fetch(&page).unwrap().sum("heliograph_lag_records", &[("topic", "lag")]);
    let left = || 1_000 - target.offsets("lag.lag", At::Latest).unwrap().first().unwrap_or(&0);

    let mut samples = 0;
    let deadline = Instant::now() + WAIT;
    while samples < 3 {
        assert!(Instant::now() < deadline, "only {samples} samples");
        thread::sleep(Duration::from_millis(500));
        let (before, said, after) = (left(), lag(), left());
        let Some(said) = said.filter(|_| (100..900).contains(&after)) else { continue };
        // Between the two, give or take what is acknowledged and not yet counted.
        let (most, least) = (before as f64 + 50.0, after as f64 - 50.0);
        assert!(least <= said && said <= most, "{said} is not within {least} and {most}");
        samples += 1;
    }
    target.await_end_offsets("lag.lag", 1_000, WAIT).unwrap();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(lag(), Some(0.0));
}

/// UP-056: the target has a limit on times that the source does not have.
#[test]
fn up_056_a_time_that_the_target_refuses_is_named_and_the_partition_goes_on_once_it_may() {
    let (source, target) = &*PAIR;
    let limit = "message.timestamp.after.max.ms";
    source.create_topic(&Topic::new("times").config(limit, "9223372036854775807")).unwrap();
    source.create_topic(&Topic::new("times-other")).unwrap();
    target.create_topic(&Topic::new("times.times").config(limit, "3600000")).unwrap();
    let now = now_ms();
    let month = 30 * 86_400_000;
    let stamped = |first: u64, count: u64, at: i64| {
        let times = Timestamps::Step { start: at, step: 0 };
        source.fill(&Fill::new("times", count).first(first).timestamps(times)).unwrap();
    };
    stamped(0, 4, now);
    stamped(4, 1, now + month);
    stamped(5, 5, now);
    let (flow, page) =
        with_page(flow("times").set("config.properties.exclude", "message\\\\.timestamp\\\\..*"));
    let mut mirror = Mirror::with_events(&flow).unwrap();

    let words = ["times-0", "INVALID_TIMESTAMP", "offset 4", &(now + month).to_string()];
    let halted = mirror.await_event("partition halted", &words, WAIT).unwrap();
    assert_eq!(halted.level(), "ERROR");
    assert!(halted.holds(&["message.timestamp"]), "{halted:?}");
    source.fill(&Fill::new("times-other", 100)).unwrap();
    target.await_end_offsets("times.times-other", 100, WAIT).unwrap();
    assert_eq!(target.offsets("times.times", At::Latest).unwrap(), [4]);
    // It is tried again now and then, and said once.
    thread::sleep(Duration::from_secs(20));
    let said = mirror.events().iter().filter(|one| one.message() == "partition halted").count();
    assert_eq!(said, 1, "{}", mirror.last_words());
    let state = || Status::fetch(&page).unwrap().partition("times", 0).unwrap().state.clone();
    assert_eq!(state(), "halted");

    target.set_topic_config("times.times", limit, "9223372036854775807").unwrap();
    target.await_end_offsets("times.times", 10, WAIT).unwrap();
    mirror.must_be_running().unwrap();
    mirror.await_event("partition goes on", &["times-0"], WAIT).unwrap();
    assert_ne!(state(), "halted");
    let comparison = Comparison::new(source, "times", target, "times.times").wait(WAIT);
    comparison.must_be_copied_by(&mirror).unwrap();
}

/// UP-069: a fifth of all answers to Produce is lost, each with its connection.
#[test]
fn up_069_batches_whose_answers_are_lost_arrive_once_and_unchanged_in_every_codec() {
    let (source, target) = &*PAIR;
    let topics = Codec::ALL.map(|codec| format!("lost-{}", codec.as_str()));
    for topic in &topics {
        source.create_topic(&Topic::new(topic).partitions(2)).unwrap();
    }
    let watched = target.bootstrap_of("WATCHED", "127.0.0.1").unwrap();
    let flow = flow("lost").set("t.bootstrap.servers", watched);
    let mirror = Mirror::heliograph(&flow).unwrap();
    eventually("the topics", WAIT, &mirror, || {
        Ok(target.describe_topic(&format!("lost.{}", topics[4]))?.is_some())
    })
    .unwrap();
    FRAMES.lose_produce_answers(5);
    for (topic, codec) in topics.iter().zip(Codec::ALL) {
        let fill = Fill::new(topic, 5_000).motley().codec(codec).batches(4_000, 2);
        source.fill(&fill).unwrap();
    }

    for topic in &topics {
        let copy = format!("lost.{topic}");
        let comparison = Comparison::new(source, topic, target, &copy).wait(WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 5_000, "{topic}");
    }
    let lost = FRAMES.lost();
    FRAMES.lose_produce_answers(0);
    assert!(lost >= 10, "only {lost} answers were lost");
}

/// UP-071: a backlog of 256 MB on one topic, ten records a second on another.
#[test]
fn up_071_a_small_topic_is_on_time_while_a_large_one_catches_up() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("fair-big").partitions(2)).unwrap();
    source.create_topic(&Topic::new("fair-small")).unwrap();
    let big = Fill::new("fair-big", 256_000).size(1_000, 1_000).noise().batches(200_000, 20);
    source.fill(&big).unwrap();
    target.create_topic(&Topic::new("fair.fair-small")).unwrap();
    // The catch-up is held at 20 MB/s, so that it lasts.
    let mirror =
        Mirror::heliograph(&flow("fair").set("fair->t.max.bytes.per.second", "20000000")).unwrap();
    target.await_end_offsets("fair.fair-big", 20_000, WAIT).unwrap();
    let probe = target.latency("fair.fair-small", 60, WAIT).unwrap();
    source.fill(&Fill::new("fair-small", 60).stamp().rate(10.0)).unwrap();
    let latency = probe.result().unwrap();
    let sum = target.offsets("fair.fair-big", At::Latest).unwrap().iter().sum::<i64>();

    eprintln!("small topic beside a catch-up: p99 {} ms", latency.p99_us / 1_000);
    assert!(sum < 256_000, "the catch-up was over too soon");
    assert_eq!(latency.records, 60);
    assert!(latency.p99_us < 3_000_000, "{latency:?}. {}", mirror.last_words());
}

/// UP-073: a broker's quota for the documented client id, and a limit of our own.
#[test]
fn up_073_a_quota_for_the_client_id_is_kept_to_without_a_lost_connection() {
    const QUOTA: f64 = 2_000_000.0;
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("quota").partitions(2)).unwrap();
    let fill = Fill::new("quota", 40_000).size(1_000, 1_000).noise().batches(50_000, 20);
    source.fill(&fill).unwrap();
    source.set_quota("quota-mirror", "consumer_byte_rate", QUOTA).unwrap();
    let mirror =
        Mirror::with_events(&flow("quota").set("quota.client.id", "quota-mirror")).unwrap();

    let there = || -> i64 { target.offsets("quota.quota", At::Latest).unwrap().iter().sum() };
    eventually("it flows", WAIT, &mirror, || Ok(there() > 8_000)).unwrap();
    let (begun, before) = (Instant::now(), there());
    target.await_end_offsets("quota.quota", 34_000, WAIT).unwrap();
    let rate = (there() - before) as f64 * 1_000.0 / begun.elapsed().as_secs_f64();
    eprintln!("quota of {QUOTA}: {rate:.0} bytes/s");
    assert!((QUOTA * 0.75..QUOTA * 1.25).contains(&rate), "{rate:.0}");
    let loud: Vec<_> = mirror.events().into_iter().filter(|one| one.level() != "INFO").collect();
    assert!(loud.is_empty(), "{loud:?}");
}

/// UP-082: 30 MB between small ones, with fetch limits and a memory budget far below.
#[test]
fn up_082_a_record_far_larger_than_the_fetch_limits_passes_and_neighbours_do_not_wait() {
    let (source, target) = &*PAIR;
    for topic in ["huge", "huge-other"] {
        let large = Topic::new(topic).config("max.message.bytes", "41943040");
        source.create_topic(&large).unwrap();
    }
    source.fill(&Fill::new("huge", 50)).unwrap();
    let huge = Fill::new("huge", 1).first(50).size(30_000_000, 30_000_000).noise();
    source.fill(&huge.batches(32_000_000, 0)).unwrap();
    source.fill(&Fill::new("huge", 50).first(51)).unwrap();
    let flow = flow("huge")
        .set("huge.consumer.fetch.max.bytes", "1000000")
        .set("huge.consumer.max.partition.fetch.bytes", "500000");
    let mirror = Mirror::heliograph(&flow).unwrap();
    source.fill(&Fill::new("huge-other", 500)).unwrap();
    target.await_end_offsets("huge.huge-other", 500, WAIT).unwrap();
    let comparison = Comparison::new(source, "huge", target, "huge.huge").wait(WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 101);
    // At rest again: no spinning on what does not fit.
    let before = mirror.usage().unwrap();
    thread::sleep(Duration::from_secs(2));
    let cpu = mirror.usage().unwrap().cpu_seconds - before.cpu_seconds;
    assert!(cpu < 0.4, "{cpu} s of two seconds");
}

/// UP-083: a day apart, the source's append time, and a target that stamps records itself, which is said.
#[test]
fn up_083_times_are_kept_and_a_target_that_stamps_records_itself_is_named() {
    let (source, target) = &*PAIR;
    let day = Timestamps::Step { start: 1_600_000_000_000, step: 86_400_000 };
    let append = ("message.timestamp.type", "LogAppendTime");
    source.create_topic(&Topic::new("clock")).unwrap();
    source.create_topic(&Topic::new("clock-append").config(append.0, append.1)).unwrap();
    source.create_topic(&Topic::new("clock-there")).unwrap();
    target.create_topic(&Topic::new("clock.clock-there").config(append.0, append.1)).unwrap();
    for topic in ["clock", "clock-append", "clock-there"] {
        source.fill(&Fill::new(topic, 20).timestamps(day)).unwrap();
    }
    let mirror = Mirror::with_events(&flow("clock")).unwrap();
    for topic in ["clock", "clock-append"] {
        let copy = format!("clock.{topic}");
        let comparison = Comparison::new(source, topic, target, &copy).wait(WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 20);
    }
    target.await_end_offsets("clock.clock-there", 20, WAIT).unwrap();

    let told = mirror.await_event("the target stamps records itself", &[], WAIT).unwrap();
    assert_eq!(
        (told.level(), told.text("topic").as_deref()),
        ("WARN", Some("clock.clock-there")),
        "{told:?}"
    );
    let all = mirror.events();
    let told = all.iter().filter(|one| one.message().contains("stamps records itself"));
    assert_eq!(told.count(), 1);
}
