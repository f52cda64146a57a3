//! Wrong addresses, wrong files, targets that do not fit: one clear message each, and the rest goes on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const COPY_WAIT: Duration = Duration::from_secs(60);

/// A peer that takes the connection and says nothing is given up after ten seconds.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

/// A program that fails at once.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Waits until the mirror has written all of `words` into its log.
fn says(mirror: &Mirror, words: &[&str]) {
    eventually(&format!("the log says {words:?}"), TOLD_WITHIN, mirror, || {
        let log = mirror.log_text();
        Ok(words.iter().all(|word| log.contains(word)))
    })
    .unwrap();
}

/// A listener that treats every connection with `manners`; gives its address.
fn peer(manners: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || manners(stream));
        }
    });
    address
}

fn hears(stream: &mut TcpStream) {
    let mut heard = [0; 1024];
    drop(stream.read(&mut heard));
}

#[test]
fn whatever_answers_instead_of_a_broker_is_named_and_the_other_flow_goes_on() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();

    let refused = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let cases: [(&str, String, &[&str]); 8] = [
        ("refused", refused, &["connection refused"]),
        ("silent", peer(|_stream| thread::sleep(Duration::from_secs(60))), &["did not answer"]),
        (
            "closing",
            peer(|mut stream| hears(&mut stream)),
            &["closed the connection", "TLS or SASL"],
        ),
        (
            "tls",
            peer(|mut stream| {
                hears(&mut stream);
                drop(stream.write_all(&[21, 3, 3, 0, 2, 2, 40]));
            }),
            &["TLS alert", "SSL or SASL_SSL"],
        ),
        (
            "http",
            peer(|mut stream| {
                hears(&mut stream);
                drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
            }),
            &["answered with text"],
        ),
        (
            "garbage",
            peer(|mut stream| {
                hears(&mut stream);
                drop(stream.write_all(&[0x7f; 100]));
                thread::sleep(Duration::from_secs(60));
            }),
            &["announced a frame of 2139062143 bytes"],
        ),
        (
            "half",
            peer(|mut stream| {
                hears(&mut stream);
                drop(stream.write_all(&[0, 0, 0, 50, 0, 0]));
            }),
            &["closed the connection"],
        ),
        ("nowhere", "no-such-host.invalid:9092".into(), &["cannot be resolved"]),
    ];
    for (case, address, words) in cases {
        let flow =
            FlowFile::one_way(("s", &source), ("t", &target)).cluster("x", &address).flow("x", "t");
        let mirror = Mirror::heliograph(&flow).unwrap();
        says(&mirror, &[&["cluster=x", address.as_str()], words].concat());
        // The good flow does not care.
        target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap_or_else(|error| {
            panic!("{case}: {error}\n{}", mirror.last_words());
        });
    }
}

#[test]
fn a_file_with_errors_is_refused_with_all_of_them_and_exit_code_2() {
    let file = "clusters = a, b\n\
                a.bootstrap.servers = 127.0.0.1:9092\n\
                a->b.enabled = true\n\
                a->b.topics = orders, (unclosed\n\
                tasks.max = none\n\
                replication.facto = 3\n";
    let mut mirror = Mirror::heliograph_on(file).unwrap();
    let exit = mirror.wait(AT_ONCE).unwrap();
    let said = mirror.log_text();

    assert_eq!(exit.code, Some(2), "{said}");
    for word in
        ["(unclosed", "line 4", "tasks.max", "line 5", "b.bootstrap.servers", "replication.factor"]
    {
        assert!(said.contains(word), "{word} is missing in\n{said}");
    }
}

#[test]
fn two_aliases_of_one_cluster_are_refused_and_nothing_is_copied() {
    let (source, _target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    source.fill(&Fill::new("t", 100)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("again", &source));
    let mut mirror = Mirror::heliograph(&flow).unwrap();
    let exit = mirror.wait(AT_ONCE).unwrap();

    let said = mirror.log_text();
    assert_eq!(exit.code, Some(1), "{said}");
    assert!(said.contains("aliases s and again are one cluster"), "{said}");
    assert!(source.describe_topic("s.t").unwrap().is_none());
}

#[test]
fn records_that_nothing_explains_stop_their_partition_and_no_other() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 1_000).codec(Codec::Lz4)).unwrap();
    target.create_topic(&Topic::new("s.t").partitions(2)).unwrap();
    target.fill(&Fill::new("s.t", 10).partitions([1]).seed(99)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mut mirror = Mirror::heliograph(&flow).unwrap();

    says(&mirror, &["partition halted", "partition=t-1", "already holds 10 records"]);
    target.await_end_offsets("s.t", 510, COPY_WAIT).unwrap();
    mirror.terminate(COPY_WAIT).unwrap();

    // Asked to, it appends.
    let flow = flow.set("s->t.existing.records.policy", "append");
    let _mirror = Mirror::heliograph(&flow).unwrap();
    target.await_end_offsets("s.t", 1_010, COPY_WAIT).unwrap();
}

#[test]
fn a_target_topic_with_fewer_partitions_is_grown_and_then_holds_everything() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(6)).unwrap();
    source.fill(&Fill::new("t", 6_000)).unwrap();
    target.create_topic(&Topic::new("s.t").partitions(2)).unwrap();
    let mirror = Mirror::heliograph(&FlowFile::one_way(("s", &source), ("t", &target))).unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 6_000);
}

#[test]
fn a_topic_that_the_target_refuses_waits_with_its_reason_and_the_others_flow() {
    let (source, target) = Cluster::pair().unwrap();
    for topic in ["good", "bad"] {
        source.create_topic(&Topic::new(topic)).unwrap();
        source.fill(&Fill::new(topic, 500)).unwrap();
    }
    // More replicas than the target has nodes.
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("bad")
        .set("replication.factor", "3");
    let mirror = Mirror::heliograph(&flow).unwrap();
    says(&mirror, &["topic waits", "INVALID_REPLICATION_FACTOR", "s.bad"]);
    drop(mirror);

    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let _mirror = Mirror::heliograph(&flow).unwrap();
    target.await_end_offsets("s.good", 500, COPY_WAIT).unwrap();
    target.await_end_offsets("s.bad", 500, COPY_WAIT).unwrap();
}
