//! Topics and partitions that appear while the mirror runs are followed, with all settings at their defaults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const COPY_WAIT: Duration = Duration::from_secs(60);

/// Topics are looked for every 5 s by default; the rest is one second for everything else.
const NEW_TOPIC_WAIT: Duration = Duration::from_secs(6);

fn now_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A mirror that has copied something already: it is up.
fn running() -> (Cluster, Cluster, Mirror) {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("first")).unwrap();
    source.fill(&Fill::new("first", 10)).unwrap();
    let mirror = Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target))).unwrap();
    target.await_end_offsets("s.first", 10, COPY_WAIT).unwrap();
    (source, target, mirror)
}

#[test]
fn the_first_record_of_a_new_topic_is_on_the_target_within_six_seconds() {
    let (source, target, mirror) = running();
    for round in 0..3 {
        let (topic, copy) = (format!("new-{round}"), format!("s.new-{round}"));
        let watch = target.watch(&copy, 1, COPY_WAIT).unwrap();

        let created = now_us();
        source.create_topic(&Topic::new(&topic).partitions(2)).unwrap();
        source.fill(&Fill::new(&topic, 1)).unwrap();

        let seen = watch.seen().unwrap();
        assert!(seen.first_at_us > 0, "{copy} never got a record. {}", mirror.last_words());
        let took = Duration::from_micros(seen.first_at_us - created);
        println!("{copy}: first record after {took:?}");
        assert!(
            took <= NEW_TOPIC_WAIT,
            "the first record of {copy} took {took:?}. {}",
            mirror.last_words()
        );
    }
}

#[test]
fn a_topic_that_grows_is_followed_and_no_record_of_a_new_partition_is_lost() {
    let (source, target, mirror) = running();
    source.create_topic(&Topic::new("grows").partitions(4)).unwrap();
    source.fill(&Fill::new("grows", 1_000)).unwrap();
    target.await_end_offsets("s.grows", 1_000, COPY_WAIT).unwrap();

    source.add_partitions("grows", 8).unwrap();
    // At once: these lie there before the mirror knows of the partitions.
    source.fill(&Fill::new("grows", 1_000).first(1_000)).unwrap();

    eventually("the target has eight partitions", COPY_WAIT, &mirror, || {
        Ok(target.describe_topic("s.grows")?.is_some_and(|topic| topic.partitions.len() == 8))
    })
    .unwrap();
    let comparison = Comparison::new(&source, "grows", &target, "s.grows").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 2_000);
}

/// What a live record may take while topics come and grow beside it. A pause like that of a
/// rebalance takes many seconds; a loaded machine takes its share.
const NO_PAUSE: Duration = Duration::from_secs(2);

#[test]
fn other_partitions_do_not_pause_while_topics_come_and_grow() {
    let (source, target, mirror) = running();
    source.create_topic(&Topic::new("steady").partitions(2)).unwrap();
    source.fill(&Fill::new("steady", 10).stamp()).unwrap();
    target.await_end_offsets("s.steady", 10, COPY_WAIT).unwrap();

    let records = 6_000;
    // It reads from the end, and is there a moment after it was asked for.
    let measured = records - 200;
    let probe = target.latency("s.steady", measured, COPY_WAIT).unwrap();
    let live = Fill::new("steady", records).first(10).stamp().rate(400.0);
    let filling = source.fill_in_background(&live).unwrap();
    for round in 0..3 {
        let topic = format!("beside-{round}");
        source.create_topic(&Topic::new(&topic).partitions(4)).unwrap();
        target.await_end_offsets("s.first", 10, COPY_WAIT).unwrap();
        source.add_partitions(&topic, 8).unwrap();
        source.fill(&Fill::new(&topic, 800)).unwrap();
        target.await_end_offsets(&format!("s.{topic}"), 800, COPY_WAIT).unwrap();
    }
    filling.done().unwrap();

    let seen = probe.result().unwrap();
    println!("{seen:?}");
    assert_eq!(seen.records, measured, "{seen:?}. {}", mirror.last_words());
    let longest = Duration::from_micros(seen.max_us.unsigned_abs());
    assert!(longest <= NO_PAUSE, "a record took {longest:?}. {}", mirror.last_words());
}
