//! Field reports about logs that nobody can read (`docs/field-reports.md`).

#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::events::Metrics;
use testbed::fill::{Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;
use testbed::ports;

const WAIT: Duration = Duration::from_secs(60);

/// UP-097: a healthy two-way flow says nothing loud; a cluster that is away for half a minute is worth some lines.
/// UP-077: meanwhile the age of what is not copied climbs, though nothing arrives that could have a latency.
#[test]
fn up_097_a_healthy_start_has_no_warning_and_an_outage_has_few_lines() {
    let (a, mut b) = Cluster::pair().unwrap();
    for (cluster, topic) in [(&a, "mine"), (&b, "yours")] {
        for number in 0..10 {
            cluster.create_topic(&Topic::new(format!("{topic}-{number}")).partitions(4)).unwrap();
        }
    }
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    // Records of 1970 are not old for that.
    a.create_topic(&Topic::new("mine-old")).unwrap();
    let ancient = Timestamps::Step { start: 1_000, step: 1 };
    a.fill(&Fill::new("mine-old", 100).timestamps(ancient)).unwrap();
    let filling = a.fill_in_background(&Fill::new("mine-0", 4_000).rate(100.0)).unwrap();
    let flow = FlowFile::both_ways(("a", &a), ("b", &b))
        .short_intervals()
        .set("heliograph.http.listen", &page)
        .set("sync.group.offsets.enabled", "true");
    let oldest = || {
        let metrics = Metrics::fetch(&page).unwrap();
        metrics.sum("heliograph_oldest_uncopied_seconds", &[("source", "a")]).unwrap()
    };
    let mut mirror = Mirror::with_events(&flow).unwrap();
    b.await_end_offsets("a.mine-0", 100, WAIT).unwrap();
    thread::sleep(Duration::from_secs(15));

    let calm = mirror.events();
    let loud: Vec<_> = calm.iter().filter(|one| one.level() != "INFO").collect();
    assert!(loud.is_empty(), "{loud:#?}");
    assert!(calm.len() < 100, "{} lines", calm.len());
    // Nothing but lines of the log, either, behind what is said about keys of the file without effect.
    let text = mirror.log_text();
    let log = text.lines().skip_while(|line| !line.starts_with('{'));
    assert_eq!(log.count(), calm.len(), "{text}");

    assert!(oldest() < 5.0, "{} s", oldest());
    b.stop().unwrap();
    let away = Instant::now();
    thread::sleep(Duration::from_secs(30));
    let (told, truth) = (oldest(), away.elapsed().as_secs_f64());
    assert!((truth - 3.0..truth + 15.0).contains(&told), "{told} s after {truth} s");
    // Each of two flows tells of the broker, and each of their features that it stands still. How far copying is
    // (INFO) is said every ten seconds, come what may.
    let about = mirror.events().iter().filter(|one| one.level() != "INFO").count();
    assert!(about < 20, "{about} lines about one outage:\n{}", mirror.last_words());
    b.start().unwrap();
    filling.done().unwrap();
    b.await_end_offsets("a.mine-0", 4_000, WAIT).unwrap();
    thread::sleep(Duration::from_secs(5));
    assert!(oldest() < 5.0, "{} s", oldest());
    let about = mirror.events().len() - calm.len();
    assert!(about < 60, "{about} lines about an outage and its end:\n{}", mirror.last_words());
    assert_eq!(mirror.terminate(WAIT).unwrap().code, Some(0));
}
