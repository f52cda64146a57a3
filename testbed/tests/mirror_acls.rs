//! Access rules on topics follow, narrowed as MM2 narrows them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::collections::BTreeSet;
use std::time::Duration;

use testbed::admin::{Rule, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(60);

/// Rules of the golden runs of the real MM2 4.3.1, and what it made of them.
const GOLDEN: [[&str; 2]; 2] = [
    [
        include_str!("../../proto-tests/golden/mm2/default-policy/acls-source.json"),
        include_str!("../../proto-tests/golden/mm2/default-policy/acls-target.json"),
    ],
    [
        include_str!("../../proto-tests/golden/mm2/identity-target/acls-source.json"),
        include_str!("../../proto-tests/golden/mm2/identity-target/acls-target.json"),
    ],
];

fn secured() -> ClusterSpec {
    ClusterSpec::new(Version::V4_3_1).with_authorizer()
}

fn flow(source: &Cluster, target: &Cluster) -> FlowFile {
    FlowFile::one_way(("A", source), ("B", target))
        .set("emit.heartbeats.enabled", "false")
        .short_intervals()
        .set("sync.topic.acls.interval.seconds", "1")
}

fn rules(json: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = serde_json::from_str(json).unwrap();
    // The program that recorded them has another word for it.
    for rule in rules.iter_mut().filter(|rule| rule.resource_type == "BROKER") {
        rule.resource_type = "CLUSTER".into();
    }
    rules
}

/// Both golden runs, on one pair of clusters, one after the other; then rules that come later, and many at once.
#[test]
fn rules_become_what_mm2_made_of_them_and_only_new_ones_are_sent() {
    let (source, target) = ClusterSpec::start_both(secured(), secured()).unwrap();
    source.create_topic(&Topic::new("orders")).unwrap();
    let mut expected = BTreeSet::new();
    let there = |expected: &BTreeSet<Rule>, mirror: &Mirror| {
        eventually("the rules are there", WAIT, mirror, || {
            Ok(target.acls()?.into_iter().collect::<BTreeSet<_>>() == *expected)
        })
        .unwrap();
    };
    for ([before, after], class) in GOLDEN.into_iter().zip(["Default", "Identity"]) {
        source.create_acls(&rules(before)).unwrap();
        let class = format!("org.apache.kafka.connect.mirror.{class}ReplicationPolicy");
        let flow = flow(&source, &target).set("replication.policy.class", class);
        let mut mirror = Mirror::under_test(&flow).unwrap();
        expected.extend(rules(after));
        there(&expected, &mirror);
        mirror.terminate(WAIT).unwrap();
    }

    let user = |number: usize| format!("User:u{number}");
    let many = |topic: &str| {
        (0..1_200).map(|number| Rule::allow(topic, &user(number), "READ")).collect::<Vec<_>>()
    };
    source.create_acls(&many("orders")).unwrap();
    let mirror = Mirror::with_events(&flow(&source, &target)).unwrap();
    expected.extend(many("A.orders"));
    there(&expected, &mirror);
    mirror.await_event("ACLs added", &["1200"], WAIT).unwrap();

    source.create_acls(&[Rule::allow("orders", "User:late", "DESCRIBE")]).unwrap();
    expected.insert(Rule::allow("A.orders", "User:late", "DESCRIBE"));
    there(&expected, &mirror);
    mirror.await_event("ACLs added", &["\"added\":1"], WAIT).unwrap();
}

/// Without an authorizer on either side: one line, and everything else goes on.
#[test]
fn a_cluster_without_an_authorizer_switches_the_feature_off_with_one_line() {
    let plain = ClusterSpec::new(Version::V4_3_1);
    let (secure, plain) = ClusterSpec::start_both(secured(), plain).unwrap();
    secure.create_acls(&[Rule::allow("orders", "User:alice", "READ")]).unwrap();
    for (source, target, named) in [(&plain, &secure, "A has no"), (&secure, &plain, "B has no")] {
        source.create_topic(&Topic::new("orders")).unwrap();
        let mut file = flow(source, target);
        // With everything on it is the same.
        if named == "B has no" {
            for key in ["topic.acls.prefixed", "group.acls", "acls.remove"] {
                file = file.set(format!("sync.{key}.enabled"), "true");
            }
        }
        let mirror = Mirror::with_events(&file).unwrap();
        mirror.await_event("feature is off", &["acls", named], WAIT).unwrap();

        eventually("topics are mirrored", WAIT, &mirror, || {
            Ok(target.describe_topic("A.orders")?.is_some())
        })
        .unwrap();
        std::thread::sleep(Duration::from_millis(2_500));
        let told = |event: &testbed::events::Event| event.message() == "feature is off";
        assert_eq!(mirror.events().iter().filter(|event| told(event)).count(), 1);
    }
}

/// A right that is missing rests this feature only, and its line says how to grant it.
#[test]
fn without_the_right_to_read_rules_only_that_feature_rests_and_the_command_is_named() {
    // The mirror comes through the plain listener as ANONYMOUS, who is nobody here.
    let strict =
        secured().set("super.users", "User:nobody").set("allow.everyone.if.no.acl.found", "true");
    let (source, target) = ClusterSpec::start_both(strict, secured()).unwrap();
    source.create_topic(&Topic::new("orders")).unwrap();
    let on_cluster = |operation: &str, permission: &str| Rule {
        resource_type: "CLUSTER".into(),
        permission: permission.into(),
        ..Rule::allow("kafka-cluster", "User:ANONYMOUS", operation)
    };
    source.create_acls(&[on_cluster("ALL", "ALLOW"), on_cluster("DESCRIBE", "DENY")]).unwrap();

    let mirror = Mirror::with_events(&flow(&source, &target)).unwrap();
    let words = ["acls", "kafka-acls --bootstrap-server", "--operation Describe --cluster"];
    mirror.await_event("a right is missing", &words, WAIT).unwrap();
    eventually("topics are mirrored", WAIT, &mirror, || {
        Ok(target.describe_topic("A.orders")?.is_some())
    })
    .unwrap();
}
