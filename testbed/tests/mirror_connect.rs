//! MirrorMaker 2's source connector inside a Connect cluster is taken over and handed back while records are written:
//! each arrives once. Wherever that Connect cluster keeps its offsets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::{At, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::connect::Connect;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const WAIT: Duration = Duration::from_secs(180);

const STOP_WAIT: Duration = Duration::from_secs(60);

/// How long each of the programs copies before the other has its turn.
const TURN: Duration = Duration::from_secs(4);

/// Records per second; and enough of them that they do not run out before the last turn.
const RATE: f64 = 4_000.0;

const NAME: &str = "orders-to-the-other-site";

fn end(cluster: &Cluster, topic: &str) -> i64 {
    cluster.offsets(topic, At::Latest).unwrap().iter().sum()
}

/// Waits until the copy has grown by what is written in a turn.
fn a_turn(target: &Cluster, what: &str) {
    let before = end(target, "s.t");
    let begun = Instant::now();
    while end(target, "s.t") < before + 4_000 {
        assert!(begun.elapsed() < WAIT, "{what} does not copy");
        thread::sleep(Duration::from_millis(200));
    }
    thread::sleep(TURN);
}

fn handed_to_and_fro(source: &Cluster, target: &Cluster, on_source: bool) {
    source.create_topic(&Topic::new("t").partitions(4)).unwrap();
    let mut connect = Connect::start(if on_source { source } else { target }).unwrap();
    let settings = [
        ("source.cluster.alias", "s".to_owned()),
        ("target.cluster.alias", "t".to_owned()),
        ("source.cluster.bootstrap.servers", source.bootstrap()),
        ("target.cluster.bootstrap.servers", target.bootstrap()),
        // A worker's producer writes to the worker's own cluster unless told otherwise.
        ("producer.override.bootstrap.servers", target.bootstrap()),
        ("topics", "t".to_owned()),
    ];
    let fill = Fill::new("t", 2_000_000).headers(0.2).rate(RATE);
    let filling = source.fill_in_background(&fill).unwrap();
    connect.mirror(NAME, &settings).unwrap();
    eventually_there(target);
    a_turn(target, "the connector");
    connect.stop(NAME).unwrap();

    let flow = FlowFile::one_way(("s", source), ("t", target))
        .topics("t")
        .short_intervals()
        .set("connect.offset.storage.topic", "connect-offsets")
        .set("connect.connector.name", NAME);
    let flow = if on_source { flow.set("connect.offset.storage.cluster", "s") } else { flow };
    let mut heliograph = Mirror::heliograph(&flow).unwrap();
    a_turn(target, "Heliograph");
    let exit = heliograph.terminate(STOP_WAIT).unwrap();
    assert_eq!(exit.code, Some(0), "{}", heliograph.last_words());
    // It kept its progress there and nowhere else.
    let none = target.describe_topic("mm2-offsets.s.internal").unwrap();
    assert!(none.is_none(), "{}", heliograph.last_words());

    connect.resume(NAME).unwrap();
    a_turn(target, "the connector again");
    connect.stop(NAME).unwrap();
    heliograph.launch().unwrap();
    a_turn(target, "Heliograph again");
    let filled = filling.stop().unwrap();
    let verdict = Comparison::new(source, "t", target, "s.t").wait(WAIT);
    let verdict = verdict.must_be_copied_by(&heliograph).unwrap();
    assert_eq!(verdict.total.matched, filled.records);
    heliograph.terminate(STOP_WAIT).unwrap();

    // Nothing is left to do for the connector, and it does nothing.
    let before = end(target, "s.t");
    connect.resume(NAME).unwrap();
    thread::sleep(TURN);
    assert_eq!(end(target, "s.t"), before, "{}", connect.last_words());
    let offsets = connect.offsets(NAME).unwrap();
    let all = offsets["offsets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_t = all.iter().filter(|one| one["partition"]["topic"] == "t");
    let next: i64 = of_t.map(|one| one["offset"]["offset"].as_i64().unwrap() + 1).sum();
    assert_eq!(next, end(source, "t"), "{offsets}");
    println!("{} records, each once", filled.records);
}

fn eventually_there(target: &Cluster) {
    let begun = Instant::now();
    while target.describe_topic("s.t").unwrap().is_none() {
        assert!(begun.elapsed() < WAIT, "the connector makes no topic");
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_connector_with_offsets_on_the_target_is_taken_over_and_handed_back_at_full_traffic() {
    let (source, target) = Cluster::pair().unwrap();
    handed_to_and_fro(&source, &target, false);
}

#[test]
fn a_connector_with_offsets_on_the_source_is_taken_over_and_handed_back_at_full_traffic() {
    let (source, target) = Cluster::pair().unwrap();
    handed_to_and_fro(&source, &target, true);
}

/// Negative control: without the connector's name its progress is not seen, and everything would be copied again. The
/// copy's records that nothing explains stop the partitions instead; a topic that is not there stops the flow.
#[test]
fn a_wrong_name_copies_nothing_twice_and_says_so() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    target.create_topic(&Topic::new("s.t")).unwrap();
    target.fill(&Fill::new("s.t", 500)).unwrap();
    target
        .create_topic(&Topic::new("connect-offsets").config("cleanup.policy", "compact"))
        .unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("t").short_intervals();
    let wrong = flow.clone().set("connect.offset.storage.topic", "connect-ofsets");
    let mirror = Mirror::heliograph(&wrong).unwrap();
    eventually("a word about the topic", WAIT, &mirror, || {
        Ok(mirror.log_text().contains("connect-ofsets is not on cluster t"))
    })
    .unwrap();
    drop(mirror);

    let mirror = Mirror::heliograph(
        &flow
            .set("connect.offset.storage.topic", "connect-offsets")
            .set("connect.connector.name", "x"),
    )
    .unwrap();
    eventually("a word about the records", WAIT, &mirror, || {
        Ok(mirror.log_text().contains("existing.records.policy"))
    })
    .unwrap();
    assert_eq!(end(&target, "s.t"), 500);
}
