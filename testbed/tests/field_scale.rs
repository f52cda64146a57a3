//! Field reports about many topics (`docs/field-reports.md`).

#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::{At, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::java::Jvm;
use testbed::mirror::{Mirror, eventually};
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(180);

/// Topics of five partitions; with `TESTBED_FULL` as many as in the report.
fn topics() -> u32 {
    if std::env::var_os("TESTBED_FULL").is_some() { 2_000 } else { 300 }
}

/// UP-076: many topics of which a few are busy.
#[test]
fn up_076_thousands_of_partitions_cost_little_and_a_new_topic_is_found_at_once() {
    let spec = || ClusterSpec::new(Version::V4_3_1).jvm(Jvm::Functional { heap_mib: 1_024 });
    let (source, target) = ClusterSpec::start_both(spec(), spec()).unwrap();
    let count = topics();
    source.create_topics(&Topic::new("m-").partitions(5), count).unwrap();
    for topic in 0..20 {
        source.fill(&Fill::new(format!("m-{topic}"), 100)).unwrap();
    }
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("m-.*")
        .set("emit.heartbeats.enabled", "false");
    let begun = Instant::now();
    let mirror = Mirror::heliograph(&flow).unwrap();
    let copied = |target: &Cluster| {
        let ends = |topic| target.offsets(&format!("s.m-{topic}"), At::Latest).unwrap_or_default();
        (0..20).all(|topic| ends(topic).iter().sum::<i64>() == 100)
    };
    eventually("all records", WAIT, &mirror, || Ok(copied(&target))).unwrap();
    let took = begun.elapsed();
    // At rest: two looks at the topics, at the default interval.
    thread::sleep(Duration::from_secs(3));
    let (rest, before) = (Instant::now(), mirror.usage().unwrap());
    thread::sleep(Duration::from_secs(11));
    let usage = mirror.usage().unwrap();
    let cpu = (usage.cpu_seconds - before.cpu_seconds) / rest.elapsed().as_secs_f64();
    let new = Instant::now();
    source.create_topic(&Topic::new("m-new")).unwrap();
    source.fill(&Fill::new("m-new", 10)).unwrap();
    target.await_end_offsets("s.m-new", 10, WAIT).unwrap();
    let found = new.elapsed();

    let mib = usage.peak_rss_bytes >> 20;
    eprintln!(
        "{count} topics of 5 partitions: all records after {took:?}, then {:.2} % of a core, peak {mib} MiB, a new \
         topic after {found:?}",
        cpu * 100.0
    );
    assert!(cpu < 0.1, "{cpu:.3} of a core at rest");
    assert!(mib < 512, "{mib} MiB");
    assert!(found < Duration::from_secs(8), "{found:?}");
    assert!(took < Duration::from_secs(if count > 1_000 { 60 } else { 30 }), "{took:?}");
}
