//! Access rules of the source's topics become those that a real MM2 4.3.1 made of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use heliograph::model::{AclOperation, AclPermission, ClusterAlias, FlowId, TopicAcl};
use heliograph::policy::{
    FlowNames, FlowTopics, NameList, Origins, PolicyKind, ReplicationPolicy, TopicFilter,
    mirrored_acl, missing_acls,
};
use serde_json::Value;

fn topics(kind: PolicyKind) -> FlowTopics {
    let source = ClusterAlias::new("A");
    FlowTopics {
        filter: TopicFilter {
            include: NameList::new(&[".*"]).expect("a pattern"),
            exclude: NameList::new(&["mm2.*\\.internal", ".*\\.replica", "__.*"])
                .expect("patterns"),
        },
        names: FlowNames::new(ReplicationPolicy::new(kind, ".", Some(source.clone())), &source),
        origins: Origins::default(),
        heartbeats: true,
        flow: FlowId { source, target: ClusterAlias::new("B") },
    }
}

/// The rules of a recorded cluster on literal topic names, which is what is asked for.
fn recorded(file: &str) -> Vec<TopicAcl> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/mm2").join(file);
    let lines: Value = serde_json::from_slice(&fs::read(path).expect(file)).expect(file);
    let text = |line: &Value, field: &str| line[field].as_str().expect("text").to_owned();
    let operation = |name: &str| {
        let all = (0..16).map(AclOperation);
        all.into_iter().find(|operation| operation.to_string() == name).expect("an operation")
    };
    lines
        .as_array()
        .expect("lines")
        .iter()
        .filter(|line| line["resource_type"] == "TOPIC" && line["pattern"] == "LITERAL")
        .map(|line| TopicAcl {
            topic: text(line, "name").as_str().into(),
            principal: text(line, "principal"),
            host: text(line, "host"),
            operation: operation(&text(line, "operation")),
            permission: match line["permission"].as_str() {
                Some("ALLOW") => AclPermission::Allow,
                Some("DENY") => AclPermission::Deny,
                other => panic!("{other:?}"),
            },
        })
        .collect()
}

#[test]
fn the_recorded_rules_become_the_recorded_rules_under_both_policies() {
    for (run, kind) in
        [("default-policy", PolicyKind::Default), ("identity-target", PolicyKind::Identity)]
    {
        let source = recorded(&format!("{run}/acls-source.json"));
        let target: BTreeSet<_> =
            recorded(&format!("{run}/acls-target.json")).into_iter().collect();
        assert!(source.len() > 10 && target.len() > 10, "{run}");

        let missing = missing_acls(&source, &[], &topics(kind));
        assert_eq!(missing.acls, target, "{run}");

        // What is there is not sent again, and what is there besides is left alone.
        let mut there: Vec<_> = target.into_iter().collect();
        there.push(TopicAcl { principal: "User:by-hand".into(), ..there[0].clone() });
        assert!(missing_acls(&source, &there, &topics(kind)).acls.is_empty(), "{run}");
        let gone = there.remove(3);
        let again = missing_acls(&source, &there, &topics(kind)).acls;
        assert_eq!(again.into_iter().collect::<Vec<_>>(), [gone], "{run}");
    }
}

#[test]
fn only_allowed_writing_is_dropped_and_allowed_everything_becomes_reading() {
    use AclPermission::{Allow, Deny};
    for (permission, operation, becomes) in [
        (Allow, AclOperation::WRITE, None),
        (Deny, AclOperation::WRITE, Some(AclOperation::WRITE)),
        (Allow, AclOperation::ALL, Some(AclOperation::READ)),
        (Deny, AclOperation::ALL, Some(AclOperation::ALL)),
        (Allow, AclOperation::DESCRIBE, Some(AclOperation::DESCRIBE)),
        // An operation of a release that is not there yet.
        (Allow, AclOperation(99), Some(AclOperation(99))),
    ] {
        let acl = TopicAcl {
            topic: "orders".into(),
            principal: "User:alice".into(),
            host: "10.0.0.1".into(),
            operation,
            permission,
        };
        let mirrored = mirrored_acl(&acl, &topics(PolicyKind::Default)).expect("in time");
        let expected = becomes.map(|operation| TopicAcl {
            topic: "A.orders".into(),
            operation,
            ..acl.clone()
        });
        assert_eq!(mirrored, expected, "{acl}");
    }
}
