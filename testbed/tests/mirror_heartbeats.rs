//! Heartbeats are written as MM2 writes them, mirrored onward, and understood by MM2's own client.

use std::collections::BTreeSet;
use std::time::Duration;

use testbed::admin::{Record, Topic};
use testbed::cluster::Cluster;
use testbed::events;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, Program, eventually};

const WAIT: Duration = Duration::from_secs(90);

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The key that MM2 writes for a pair of aliases of one letter.
fn key(source: &str, target: &str) -> String {
    format!("0001{}0001{}", hex(source), hex(target))
}

fn keys(records: &[Record]) -> BTreeSet<String> {
    records.iter().filter_map(|record| record.key.clone()).collect()
}

/// At first the process at the source's own site, which runs no flow: what it is for is the heartbeats there. Then all
/// of one enabled flow: its own heartbeats on the target, those of its way back on the source, and these mirrored.
#[test]
fn each_side_has_heartbeats_and_mm2s_client_finds_the_other_cluster_by_them() {
    let (a, b) = Cluster::pair().unwrap();
    a.create_topic(&Topic::new("orders")).unwrap();
    let flow = FlowFile::one_way(("A", &a), ("B", &b));
    let mut site = Mirror::prepare(Program::under_test(), &flow, &["--clusters", "A"]).unwrap();
    site.launch().unwrap();
    eventually("heartbeats on A", WAIT, &site, || {
        Ok(a.read("heartbeats", 1).is_ok_and(|records| !records.is_empty()))
    })
    .unwrap();
    assert_eq!(keys(&a.read("heartbeats", 1).unwrap()), [key("B", "A")].into());
    assert!(b.topics().unwrap().iter().all(|topic| !topic.contains("heartbeats")));
    let exit = site.terminate(WAIT).unwrap();
    if Program::under_test() == Program::Heliograph {
        assert_eq!(exit.code, Some(0));
    }

    // The filter does not name them; they are mirrored all the same.
    let flow = FlowFile::one_way(("A", &a), ("B", &b)).topics("orders").short_intervals();
    let mirror = Mirror::under_test(&flow).unwrap();
    for topic in ["heartbeats", "A.heartbeats"] {
        eventually(&format!("three records of {topic}"), WAIT, &mirror, || {
            Ok(b.read(topic, 3).is_ok_and(|records| records.len() == 3))
        })
        .unwrap();
    }

    let own = b.read("heartbeats", 3).unwrap();
    assert_eq!(keys(&own), [key("A", "B")].into());
    assert_eq!(keys(&a.read("heartbeats", 3).unwrap()), [key("B", "A")].into());
    assert_eq!(keys(&b.read("A.heartbeats", 3).unwrap()), [key("B", "A")].into());
    for record in &own {
        let value = record.value.as_deref().unwrap();
        // Version 0, and the record's own time.
        assert_eq!(value, format!("0000{:016x}", record.timestamp));
        assert_eq!((record.partition, record.headers.len()), (0, 0));
        assert_eq!(record.timestamp_type, "CreateTime");
    }
    let apart = own[2].timestamp - own[1].timestamp;
    assert!((700..=2_500).contains(&apart), "{apart} ms between two heartbeats");

    let topic = b.describe_topic("heartbeats").unwrap().unwrap();
    assert_eq!(topic.partitions.len(), 1);
    let configs = b.own_configs("heartbeats").unwrap();
    assert_eq!(configs, [("cleanup.policy".to_owned(), "compact".to_owned())].into());
    // Copied as any topic's configs are.
    assert_eq!(b.own_configs("A.heartbeats").unwrap(), configs);

    let seen = b.mirror_client("A", &[]).unwrap();
    assert_eq!(seen.heartbeat_topics, ["A.heartbeats", "heartbeats"]);
    assert_eq!(seen.upstream_clusters, ["A"]);
    assert_eq!(seen.hops, 1);
    assert!(seen.remote_topics.contains(&"A.orders".to_owned()), "{seen:?}");
}

/// Switched off for one pair, the other's go on; the status page tells of those that run.
#[test]
fn heartbeats_can_be_switched_off_for_each_pair() {
    let (a, b) = Cluster::pair().unwrap();
    a.create_topic(&Topic::new("orders")).unwrap();
    let page = format!("127.0.0.1:{}", testbed::ports::take().unwrap());
    let flow = FlowFile::one_way(("A", &a), ("B", &b))
        .set("B->A.emit.heartbeats.enabled", "false")
        .set("heliograph.http.listen", &page);
    let mirror = Mirror::heliograph(&flow).unwrap();
    eventually("heartbeats on the target", WAIT, &mirror, || {
        Ok(b.read("heartbeats", 2).is_ok_and(|records| records.len() == 2))
    })
    .unwrap();

    assert!(a.describe_topic("heartbeats").unwrap().is_none());
    assert!(b.describe_topic("A.heartbeats").unwrap().is_none());
    let status: serde_json::Value =
        serde_json::from_str(&events::get(&page, "/status").unwrap()).unwrap();
    let pairs = status["heartbeats"].as_array().unwrap();
    assert_eq!(pairs.len(), 1, "{status}");
    assert_eq!((&pairs[0]["source"], &pairs[0]["target"]), (&"A".into(), &"B".into()));
    assert_eq!(pairs[0]["round"]["outcome"], "done");
}
