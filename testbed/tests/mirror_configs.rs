//! Topic configs follow their source, and what was made by hand on the target stays.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(60);

/// Rounds of a test come every second; two of them have passed after this.
const TWO_ROUNDS: Duration = Duration::from_millis(2_500);

fn flow(source: &Cluster, target: &Cluster) -> FlowFile {
    FlowFile::one_way(("s", source), ("t", target))
        .set("emit.heartbeats.enabled", "false")
        .short_intervals()
}

/// A config that is set on the topic itself.
fn own(cluster: &Cluster, topic: &str, config: &str) -> Option<String> {
    cluster.own_configs(topic).unwrap().remove(config)
}

fn await_own(mirror: &Mirror, cluster: &Cluster, topic: &str, config: &str, value: Option<&str>) {
    let what = format!("{config} of {topic} is {value:?}");
    eventually(&what, WAIT, mirror, || {
        Ok(cluster.own_configs(topic)?.get(config).map(String::as_str) == value)
    })
    .unwrap();
}

fn await_topic(mirror: &Mirror, cluster: &Cluster, topic: &str) {
    eventually(&format!("topic {topic}"), WAIT, mirror, || {
        Ok(cluster.describe_topic(topic)?.is_some())
    })
    .unwrap();
}

/// The whole life of a config: made, changed, removed, made by hand, and through restarts.
#[test]
fn what_was_set_on_the_source_follows_it_and_what_was_made_by_hand_stays() {
    let (source, target) = Cluster::pair().unwrap();
    let topic = Topic::new("orders").config("retention.ms", "100000");
    source.create_topic(&topic.config("min.insync.replicas", "1")).unwrap();
    let mut mirror = Mirror::with_events(&flow(&source, &target)).unwrap();
    await_topic(&mirror, &target, "s.orders");

    // By hand on the target: an excluded one, one that the source has not set.
    target.set_topic_config("s.orders", "min.insync.replicas", "1").unwrap();
    target.set_topic_config("s.orders", "segment.ms", "7777777").unwrap();
    source.set_topic_config("orders", "retention.ms", "200000").unwrap();
    source.set_topic_config("orders", "cleanup.policy", "compact,delete").unwrap();
    source.set_topic_config("orders", "flush.ms", "6000").unwrap();
    await_own(&mirror, &target, "s.orders", "retention.ms", Some("200000"));
    await_own(&mirror, &target, "s.orders", "cleanup.policy", Some("compact,delete"));
    await_own(&mirror, &target, "s.orders", "flush.ms", Some("6000"));
    mirror.await_event("configs of its own", &["segment.ms=7777777"], WAIT).unwrap();

    // What was removed on the source, whether the mirror was there or not, goes.
    source.unset_topic_config("orders", "flush.ms").unwrap();
    await_own(&mirror, &target, "s.orders", "flush.ms", None);
    mirror.terminate(WAIT).unwrap();
    source.unset_topic_config("orders", "cleanup.policy").unwrap();
    source.set_topic_config("orders", "retention.ms", "300000").unwrap();
    mirror.launch().unwrap();
    await_own(&mirror, &target, "s.orders", "cleanup.policy", None);
    await_own(&mirror, &target, "s.orders", "retention.ms", Some("300000"));

    // A value of ours that was changed by hand is not ours any more.
    target.set_topic_config("s.orders", "retention.ms", "12345678").unwrap();
    mirror.await_event("configs of its own", &["retention.ms=12345678"], WAIT).unwrap();
    mirror.kill9().unwrap();
    source.set_topic_config("orders", "retention.ms", "400000").unwrap();
    mirror.launch().unwrap();
    mirror.await_event("configs of its own", &["source: 400000"], WAIT).unwrap();
    std::thread::sleep(TWO_ROUNDS);
    assert_eq!(own(&target, "s.orders", "retention.ms").as_deref(), Some("12345678"));
    assert_eq!(own(&target, "s.orders", "segment.ms").as_deref(), Some("7777777"));
    assert_eq!(own(&target, "s.orders", "min.insync.replicas").as_deref(), Some("1"));

    // The way out: removed there, the source's value comes.
    target.unset_topic_config("s.orders", "retention.ms").unwrap();
    await_own(&mirror, &target, "s.orders", "retention.ms", Some("400000"));

    // Nothing is sent while nothing differs: each change was told once, and none after these.
    mirror.await_event("topic configs changed", &["retention.ms=400000"], WAIT).unwrap();
    let told = |mirror: &Mirror| {
        mirror.events().iter().filter(|event| event.message() == "topic configs changed").count()
    };
    let before = told(&mirror);
    std::thread::sleep(TWO_ROUNDS);
    assert_eq!(told(&mirror), before);
}

/// MM2's way, as recorded from MM2 4.3.1 (golden run `default-policy`, third stage), beside ours.
#[test]
fn in_mm2_mode_the_target_is_what_mm2_makes_it() {
    let (source, target) = Cluster::pair().unwrap();
    for topic in ["many", "orders"] {
        source.create_topic(&Topic::new(topic)).unwrap();
    }
    source.set_topic_config("many", "retention.ms", "864000000").unwrap();
    source.set_topic_config("many", "segment.ms", "3600000").unwrap();
    source.set_topic_config("many", "min.insync.replicas", "1").unwrap();
    source.set_topic_config("many", "flush.ms", "6000").unwrap();
    // A program that MM2 judges: the same steps hold for it.
    let flow = flow(&source, &target).set("sync.topic.configs.mode", "mm2");
    let mirror = Mirror::under_test(&flow).unwrap();
    await_topic(&mirror, &target, "s.many");
    await_topic(&mirror, &target, "s.orders");

    source.set_topic_config("many", "retention.ms", "111000").unwrap();
    source.unset_topic_config("many", "flush.ms").unwrap();
    target.set_topic_config("s.many", "segment.ms", "7777777").unwrap();
    target.set_topic_config("s.many", "min.insync.replicas", "1").unwrap();
    target.set_topic_config("s.orders", "flush.messages", "12345678").unwrap();

    await_own(&mirror, &target, "s.many", "retention.ms", Some("111000"));
    await_own(&mirror, &target, "s.many", "flush.ms", None);
    await_own(&mirror, &target, "s.many", "segment.ms", Some("3600000"));
    await_own(&mirror, &target, "s.orders", "flush.messages", None);
    assert_eq!(own(&target, "s.many", "min.insync.replicas").as_deref(), Some("1"));
    drop(mirror);

    // `use.defaults.from=source`: what is not set on the source has the source's default.
    source.create_topic(&Topic::new("plain").config("retention.ms", "100000")).unwrap();
    let flow = flow.set("s->t.use.defaults.from", "source").topics("plain");
    let mirror = Mirror::under_test(&flow).unwrap();
    await_topic(&mirror, &target, "s.plain");
    await_own(&mirror, &target, "s.plain", "flush.messages", Some("9223372036854775807"));

    target.set_topic_config("s.plain", "flush.ms", "5").unwrap();
    source.set_topic_config("plain", "retention.ms", "200000").unwrap();
    await_own(&mirror, &target, "s.plain", "retention.ms", Some("200000"));
    await_own(&mirror, &target, "s.plain", "flush.ms", Some("9223372036854775807"));
}

/// A target of an older release: what it does not know is left out and named, the rest is set;
/// a value that it does not take holds up no other.
#[test]
fn what_an_old_target_does_not_know_is_left_out_and_a_deleted_topic_stays() {
    let (source, target) = ClusterSpec::start_both(
        ClusterSpec::new(Version::V4_3_1),
        ClusterSpec::new(Version::V2_8_2),
    )
    .unwrap();
    let topic = Topic::new("new").config("compression.type", "gzip");
    source.create_topic(&topic.config("compression.gzip.level", "3")).unwrap();
    source.create_topic(&Topic::new("both")).unwrap();
    source.create_topic(&Topic::new("short-lived")).unwrap();
    let page = format!("127.0.0.1:{}", testbed::ports::take().unwrap());
    let flow = flow(&source, &target).set("heliograph.http.listen", &page);
    let mirror = Mirror::with_events(&flow).unwrap();
    await_topic(&mirror, &target, "s.new");
    await_topic(&mirror, &target, "s.short-lived");
    await_topic(&mirror, &target, "s.both");

    source.set_topic_config("new", "retention.ms", "123456").unwrap();
    source.set_topic_config("both", "retention.ms", "123456").unwrap();
    source.set_topic_config("both", "message.timestamp.after.max.ms", "7200000").unwrap();

    for topic in ["s.new", "s.both"] {
        await_own(&mirror, &target, topic, "retention.ms", Some("123456"));
    }
    for name in ["compression.gzip.level", "message.timestamp.after.max.ms"] {
        mirror.await_event("does not know", &[name], WAIT).unwrap();
    }
    assert_eq!(own(&target, "s.new", "compression.type").as_deref(), Some("gzip"));
    source.unset_topic_config("both", "retention.ms").unwrap();
    await_own(&mirror, &target, "s.both", "retention.ms", None);

    // A topic that is deleted on the source stays on the target, and the status page says so.
    source.delete_topic("short-lived").unwrap();
    mirror.await_event("gone from the source", &["short-lived"], WAIT).unwrap();
    eventually("the status shows it", WAIT, &mirror, || {
        let rounds = testbed::events::rounds(&page, "s", "t")?;
        let left = rounds["topics"]["left"]["first"].to_string();
        Ok(left.contains("short-lived: gone from the source"))
    })
    .unwrap();
    assert!(target.describe_topic("s.short-lived").unwrap().is_some());
}
