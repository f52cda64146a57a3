//! Access rules of the source's topics become those that a real MM2 4.3.1 made of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use heliograph::model::{
    AclBinding, AclOperation, AclPattern, AclPermission, AclResource, ClusterAlias, FlowId,
    TopicName,
};
use heliograph::policy::{
    AclPlan, AclRules, AclSides, FlowNames, FlowTopics, GroupFilter, NameList, Origins, PolicyKind,
    ReplicationPolicy, TopicFilter,
};
use serde_json::Value;

/// With nothing beyond MM2.
fn rules(kind: PolicyKind) -> AclRules {
    let source = ClusterAlias::new("A");
    let list = |patterns: &[&str]| NameList::new(patterns).expect("patterns");
    AclRules {
        topics: FlowTopics {
            filter: TopicFilter {
                include: list(&[".*"]),
                exclude: list(&["mm2.*\\.internal", ".*\\.replica", "__.*"]),
            },
            names: FlowNames::new(ReplicationPolicy::new(kind, ".", Some(source.clone())), &source),
            origins: Origins::default(),
            heartbeats: true,
            flow: FlowId { source, target: ClusterAlias::new("B") },
        },
        groups: GroupFilter {
            include: list(&[".*"]),
            exclude: list(&["console-consumer-.*", "connect-.*", "__.*"]),
        },
        of_topics: true,
        of_prefixes: false,
        of_groups: false,
    }
}

fn plan(rules: &AclRules, source: &[AclBinding], target: &[AclBinding]) -> AclPlan {
    let topics = |names: &[&str]| names.iter().map(TopicName::new).collect::<BTreeSet<_>>();
    let (source_topics, target_topics) = (topics(&[]), topics(&[]));
    let sides =
        AclSides { source, target, source_topics: &source_topics, target_topics: &target_topics };
    rules.plan(&sides, None)
}

/// The rules of a recorded cluster on topics, which is what is asked for.
fn recorded(file: &str) -> Vec<AclBinding> {
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
        .filter(|line| line["resource_type"] == "TOPIC")
        .map(|line| AclBinding {
            resource: AclResource::Topic,
            pattern: match line["pattern"].as_str() {
                Some("LITERAL") => AclPattern::Literal,
                Some("PREFIXED") => AclPattern::Prefixed,
                other => panic!("{other:?}"),
            },
            name: text(line, "name"),
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

        let rules = rules(kind);
        let planned = plan(&rules, &source, &[]);
        assert_eq!(planned.add, target, "{run}");
        // Those on prefixes are left out, and counted.
        assert!(source.iter().any(|acl| acl.pattern == AclPattern::Prefixed), "{run}");
        assert!(planned.prefixed > 0, "{run}");

        // What is there is not sent again, and what is there besides is left alone.
        let mut there: Vec<_> = target.into_iter().collect();
        there.push(AclBinding { principal: "User:by-hand".into(), ..there[0].clone() });
        let planned = plan(&rules, &source, &there);
        let counted = AclPlan { prefixed: planned.prefixed, ..AclPlan::default() };
        assert_eq!(planned, counted, "{run}");
        let gone = there.remove(3);
        assert_eq!(plan(&rules, &source, &there).add, [gone].into(), "{run}");
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
        let acl = AclBinding {
            resource: AclResource::Topic,
            pattern: AclPattern::Literal,
            name: "orders".into(),
            principal: "User:alice".into(),
            host: "10.0.0.1".into(),
            operation,
            permission,
        };
        let mut rules = rules(PolicyKind::Default);
        let mirrored = rules.mirrored(&acl, &BTreeSet::new()).expect("in time");
        let expected = becomes.map(|operation| AclBinding {
            name: "A.orders".into(),
            operation,
            ..acl.clone()
        });
        assert_eq!(mirrored, expected, "{acl}");

        // The same on a prefix, and nothing without the key.
        let acl = AclBinding { pattern: AclPattern::Prefixed, ..acl };
        assert_eq!(rules.mirrored(&acl, &BTreeSet::new()), Ok(None));
        rules.of_prefixes = true;
        let expected = expected.map(|acl| AclBinding { pattern: AclPattern::Prefixed, ..acl });
        assert_eq!(rules.mirrored(&acl, &BTreeSet::new()), Ok(expected), "{acl}");

        // Through a group nothing is written: its rules stay as they are.
        let acl = AclBinding { resource: AclResource::Group, ..acl };
        assert_eq!(rules.mirrored(&acl, &BTreeSet::new()), Ok(None));
        rules.of_groups = true;
        assert_eq!(rules.mirrored(&acl, &BTreeSet::new()), Ok(Some(acl.clone())), "{acl}");
    }
}
