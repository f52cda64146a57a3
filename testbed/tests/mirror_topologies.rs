//! Three clusters in every shape MM2 is used in: each record arrives everywhere once, and nothing goes round.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::thread;
use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(120);

/// Topics are looked at every second here: a loop would have made its next topics by then.
const LOOP_WAIT: Duration = Duration::from_secs(4);

const RECORDS: u64 = 1_000;

struct Sites {
    a: Cluster,
    b: Cluster,
    c: Cluster,
}

impl Sites {
    fn start() -> Self {
        let spec = |name: &str| ClusterSpec::new(Version::V4_3_1).named(name);
        let (a, b) = ClusterSpec::start_both(spec("a"), spec("b")).unwrap();
        Self { a, b, c: spec("c").start().unwrap() }
    }

    /// A file with these flows, for topics whose original name is `topic`.
    fn file(&self, topic: &str, flows: &[(&str, &str)]) -> FlowFile {
        let clusters = [("A", &self.a), ("B", &self.b), ("C", &self.c)];
        let file = flows.iter().fold(FlowFile::of(&clusters), |file, (s, t)| file.flow(s, t));
        file.topics(&format!("(.*\\\\.)?{topic}")).short_intervals()
    }

    fn fill(&self, topic: &str) {
        for (cluster, seed) in [(&self.a, 1), (&self.b, 2), (&self.c, 3)] {
            cluster.create_topic(&Topic::new(topic).partitions(2)).unwrap();
            cluster.fill(&Fill::new(topic, RECORDS).seed(seed)).unwrap();
        }
    }
}

/// Every copy holds its topic's records once, and a while later there are no topics but these.
fn judge(
    mirror: &Mirror,
    topic: &str,
    copies: &[(&Cluster, &Cluster, &str)],
    all: [(&Cluster, &[&str]); 3],
) {
    let count = || {
        for (from, to, copy) in copies {
            eventually(&format!("{copy} exists"), WAIT, mirror, || {
                Ok(to.describe_topic(copy)?.is_some())
            })
            .unwrap();
            let comparison = Comparison::new(from, topic, to, copy).wait(WAIT);
            let matched = comparison.must_be_copied_by(mirror).unwrap().total.matched;
            assert_eq!(matched, RECORDS, "{copy}");
        }
    };
    count();
    thread::sleep(LOOP_WAIT);
    count();
    for (cluster, expected) in all {
        let topics = cluster.topics().unwrap();
        let found: Vec<&String> = topics.iter().filter(|name| name.ends_with(topic)).collect();
        assert_eq!(found, expected, "on {}. {}", cluster.name(), mirror.last_words());
    }
}

/// A chain, fan-out, fan-in, hub and spoke, one after the other on the same clusters.
#[test]
fn every_topology_delivers_each_record_once_and_never_goes_round() {
    let sites = Sites::start();
    let Sites { a, b, c } = &sites;
    chain(&sites);

    sites.fill("out");
    let mirror = Mirror::under_test(&sites.file("out", &[("A", "B"), ("A", "C")])).unwrap();
    let copies = [(a, b, "A.out"), (a, c, "A.out")];
    judge(&mirror, "out", &copies, [(a, &["out"]), (b, &["A.out", "out"]), (c, &["A.out", "out"])]);
    drop(mirror);

    sites.fill("merged");
    let mirror = Mirror::under_test(&sites.file("merged", &[("A", "C"), ("B", "C")])).unwrap();
    let copies = [(a, c, "A.merged"), (b, c, "B.merged")];
    judge(
        &mirror,
        "merged",
        &copies,
        [(a, &["merged"]), (b, &["merged"]), (c, &["A.merged", "B.merged", "merged"])],
    );
    drop(mirror);

    sites.fill("hub");
    let spokes = [("A", "B"), ("B", "A"), ("C", "B"), ("B", "C")];
    let mirror = Mirror::under_test(&sites.file("hub", &spokes)).unwrap();
    let copies = [
        (a, b, "A.hub"),
        (c, b, "C.hub"),
        (b, a, "B.hub"),
        (c, a, "B.C.hub"),
        (b, c, "B.hub"),
        (a, c, "B.A.hub"),
    ];
    let all: [(_, &[&str]); 3] = [
        (a, &["B.C.hub", "B.hub", "hub"]),
        (b, &["A.hub", "C.hub", "hub"]),
        (c, &["B.A.hub", "B.hub", "hub"]),
    ];
    judge(&mirror, "hub", &copies, all);
    drop(mirror);
}

/// Heartbeats travel along a chain, and MM2's client counts the hops.
fn chain(sites: &Sites) {
    let Sites { a, b, c } = sites;
    sites.fill("chain");
    let mirror = Mirror::under_test(&sites.file("chain", &[("A", "B"), ("B", "C")])).unwrap();

    let copies = [(a, b, "A.chain"), (b, c, "B.chain"), (a, c, "B.A.chain")];
    let all: [(_, &[&str]); 3] =
        [(a, &["chain"]), (b, &["A.chain", "chain"]), (c, &["B.A.chain", "B.chain", "chain"])];
    judge(&mirror, "chain", &copies, all);

    eventually("heartbeats of A on C", WAIT, &mirror, || {
        Ok(c.read("B.A.heartbeats", 2).is_ok_and(|records| records.len() == 2))
    })
    .unwrap();
    let seen = c.mirror_client("A", &[]).unwrap();
    assert_eq!(seen.heartbeat_topics, ["B.A.heartbeats", "B.heartbeats", "heartbeats"]);
    assert_eq!(seen.upstream_clusters, ["A", "B"]);
    let hops = ["A", "B"].map(|upstream| c.mirror_client(upstream, &[]).unwrap().hops);
    assert_eq!(hops, [2, 1]);
    // Those of the ways back, which no flow copies, stay where they are.
    let heartbeats = |cluster: &Cluster| cluster.mirror_client("A", &[]).unwrap().heartbeat_topics;
    assert_eq!(heartbeats(a), ["heartbeats"]);
    assert_eq!(heartbeats(b), ["A.heartbeats", "heartbeats"]);
}
