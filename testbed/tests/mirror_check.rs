//! `heliograph check` foresees where each partition would begin, by what a start itself decides by, and changes nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use serde_json::{Value, json};
use testbed::admin::{At, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, check};
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(60);

const POSITIONS: &str = "mm2-heliograph-positions.s.internal";
const OFFSETS: &str = "mm2-offsets.s.internal";

/// Everything on a cluster that a check could change: topics and where they end.
fn picture(cluster: &Cluster) -> Vec<(String, Vec<i64>)> {
    let topics = cluster.topics().unwrap().into_iter();
    topics.map(|topic| (topic.clone(), cluster.offsets(&topic, At::Latest).unwrap())).collect()
}

/// Checks; what it says about the first partition of `t`, and its exit code.
fn foreseen(file: &FlowFile, clusters: [&Cluster; 2]) -> (Value, Option<i32>) {
    let before = clusters.map(picture);
    let checked = check(file, &["--json"]).unwrap();
    assert_eq!(clusters.map(picture), before, "a check changed something");
    let page: Value = serde_json::from_str(&checked.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", checked.out, checked.err));
    let partitions = page["flows"][0]["partitions"].as_array();
    let partitions = partitions.unwrap_or_else(|| panic!("{page}"));
    let first = partitions.iter().find(|one| one["topic"] == "t" && one["partition"] == 0);
    (first.unwrap().clone(), checked.code)
}

#[test]
fn a_check_foresees_each_way_to_begin_on_old_brokers_too_and_changes_nothing() {
    let (source, target) = ClusterSpec::start_both(
        ClusterSpec::new(Version::V2_8_2),
        ClusterSpec::new(Version::V3_9_2),
    )
    .unwrap();
    let both = [&source, &target];
    source.create_topic(&Topic::new("t")).unwrap();
    source.create_topic(&Topic::new("left.out")).unwrap();
    source.fill(&Fill::new("t", 100)).unwrap();
    let file = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("t, left.*, not-there")
        .set("topics.exclude", "left.*")
        .set("emit.heartbeats.enabled", "false")
        .short_intervals();

    let (first, code) = foreseen(&file, both);
    assert_eq!(first["begins"]["origin"], "log start", "{first}");
    assert_eq!((&first["begins"]["left"], code), (&json!(100), Some(0)));
    let words = check(&file, &[]).unwrap();
    for expected in [
        "1 would be made on the target",
        "topics.exclude names it: left.out",
        "no topic of s matches `not-there` of topics",
    ] {
        assert!(words.out.contains(expected), "{}", words.out);
    }
    assert_eq!(words.out.matches("no topic of s matches").count(), 1, "{}", words.out);
    assert!(!words.out.contains("does not tell"), "{}", words.out);

    let mut mirror = Mirror::heliograph(&file).unwrap();
    target.await_end_offsets("s.t", 100, WAIT).unwrap();
    mirror.terminate(WAIT).unwrap();
    source.fill(&Fill::new("t", 50).first(100)).unwrap();
    let (first, code) = foreseen(&file, both);
    assert_eq!(first["begins"]["origin"], "position", "{first}");
    assert_eq!(first["begins"]["upstream"], 100);
    assert_eq!((&first["begins"]["left"], code), (&json!(50), Some(0)));

    // Without our positions there is what MM2 would have left.
    target.delete_topic(POSITIONS).unwrap();
    let (first, code) = foreseen(&file, both);
    assert_eq!(first["begins"]["origin"], "connect offset", "{first}");
    assert_eq!((&first["begins"]["upstream"], code), (&json!(100), Some(0)));

    // Without that, nothing explains what the target holds.
    target.delete_topic(OFFSETS).unwrap();
    let (first, code) = foreseen(&file, both);
    assert!(first["halts"].as_str().unwrap().contains("existing.records.policy"), "{first}");
    assert_eq!(code, Some(3));
    let words = check(&file, &[]).unwrap();
    assert!(words.out.contains("t-0 would halt") && words.out.ends_with("would not work\n"));

    // And what a start does is what was foreseen.
    let mut mirror = Mirror::heliograph(&file).unwrap();
    testbed::mirror::eventually("it halts", WAIT, &mirror, || {
        Ok(mirror.log_text().contains("partition halted"))
    })
    .unwrap();
    mirror.terminate(WAIT).unwrap();

    // A file that cannot be used, and a cluster that is itself.
    assert_eq!(
        check(&file.clone().set("s.bootstrap.servers", "nowhere"), &[]).unwrap().code,
        Some(2)
    );
    let itself = file.set("s.bootstrap.servers", target.bootstrap());
    let checked = check(&itself, &[]).unwrap();
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.out.contains("are one cluster"), "{checked:?}");
}
