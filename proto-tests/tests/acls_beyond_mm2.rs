//! Access rules on prefixes and groups, and whose rules are taken away.

use std::collections::{BTreeMap, BTreeSet};

use heliograph::model::{
    AclBinding, AclOperation, AclPattern, AclPermission, AclResource, ClusterAlias, FlowId,
    TopicName,
};
use heliograph::policy::{
    AclClaim, AclClaims, AclOwners, AclPlan, AclRules, AclSides, Astray, FlowNames, FlowTopics,
    GroupFilter, NameList, Origins, PolicyKind, Renames, ReplicationPolicy, TopicFilter, claim_id,
};

fn list(patterns: &[&str]) -> NameList {
    NameList::new(patterns).expect("patterns")
}

fn rules(kind: PolicyKind, separator: &str, topics: &[&str]) -> AclRules {
    let source = ClusterAlias::new("A");
    AclRules {
        topics: FlowTopics {
            filter: TopicFilter {
                include: list(topics),
                exclude: list(&["mm2.*\\.internal", ".*\\.replica", "__.*"]),
            },
            names: FlowNames::new(
                ReplicationPolicy::new(kind, separator, Some(source.clone())),
                &source,
            ),
            origins: Origins::default(),
            heartbeats: true,
            flow: FlowId { source, target: ClusterAlias::new("B") },
        },
        groups: GroupFilter {
            include: list(&[".*"]),
            exclude: list(&["console-consumer-.*", "connect-.*", "__.*"]),
        },
        of_topics: true,
        of_prefixes: true,
        of_groups: true,
    }
}

fn prefixed(name: &str) -> AclBinding {
    AclBinding {
        resource: AclResource::Topic,
        pattern: AclPattern::Prefixed,
        name: name.into(),
        principal: "User:alice".into(),
        host: "10.1.2.3".into(),
        operation: AclOperation::READ,
        permission: AclPermission::Allow,
    }
}

fn literal(name: &str) -> AclBinding {
    AclBinding { pattern: AclPattern::Literal, ..prefixed(name) }
}

fn group(name: &str) -> AclBinding {
    AclBinding { resource: AclResource::Group, ..literal(name) }
}

fn names(topics: &[&str]) -> BTreeSet<TopicName> {
    topics.iter().map(TopicName::new).collect()
}

/// What is planned for a source's rules, an empty target, and these topics.
fn planned(rules: &AclRules, acl: &AclBinding, source: &[&str], target: &[&str]) -> AclPlan {
    let (source_topics, target_topics) = (names(source), names(target));
    let source = [acl.clone()];
    let sides = AclSides {
        source: &source,
        target: &[],
        source_topics: &source_topics,
        target_topics: &target_topics,
    };
    rules.plan(&sides, None)
}

#[test]
fn a_prefix_is_that_of_the_replicas_where_it_concerns_a_mirrored_topic() {
    for (kind, separator, topics, prefix, there, becomes) in [
        (PolicyKind::Default, ".", ".*", "team-", &[][..], Some("A.team-")),
        (PolicyKind::Default, "_", ".*", "team-", &[], Some("A_team-")),
        (PolicyKind::Identity, ".", ".*", "team-", &[], Some("team-")),
        // The topic of that name is renamed: only one that begins so and is not makes it a rule.
        (PolicyKind::Identity, ".", ".*", "heartbeats", &["heartbeats"], None),
        (PolicyKind::Identity, ".", ".*", "heartbeats", &["heartbeats-x"], Some("heartbeats")),
        // Not by its own name, but by a topic that is mirrored.
        (PolicyKind::Default, ".", "team-7", "team-", &[], None),
        (PolicyKind::Default, ".", "team-7", "team-", &["team-6", "team-8"], None),
        (PolicyKind::Default, ".", "team-7", "team-", &["team-6", "team-7"], Some("A.team-")),
        (PolicyKind::Default, ".", "team-7", "team-7", &[], Some("A.team-7")),
        (PolicyKind::Default, ".", ".*", "__x", &[], None),
        // What came from the target does not go back.
        (PolicyKind::Default, ".", ".*", "B.", &["B.orders"], None),
        (PolicyKind::Default, ".", ".*", "B.ord", &["B.orders"], None),
        (PolicyKind::Default, ".", ".*", "B", &["B.orders", "Books"], Some("A.B")),
    ] {
        let rules = rules(kind, separator, &[topics]);
        let plan = planned(&rules, &prefixed(prefix), there, &[]);
        let expected = becomes.map(|name| AclBinding { name: name.into(), ..prefixed(prefix) });
        assert_eq!(plan.add, expected.into_iter().collect(), "{prefix} of {topics}, {kind:?}");
    }
}

#[test]
fn a_prefix_that_grants_never_reaches_what_the_flow_does_not_mirror() {
    let source = &["orders", "ordinary", "customers"][..];
    const CHECKPOINTS: &str = "A.checkpoints.internal";
    for (kind, topics, prefix, target, reached) in [
        (PolicyKind::Default, ".*", "ord", &["A.orders", "ordinal", "B.ord"][..], ""),
        // A replica whose topic is gone from the source is a replica.
        (PolicyKind::Default, ".*", "ord", &["A.ordeal"], ""),
        // The flow's own topic of checkpoints, whether it is there already or comes later.
        (PolicyKind::Default, ".*", "c", &["A.customers", CHECKPOINTS], CHECKPOINTS),
        (PolicyKind::Default, ".*", "c", &["A.customers"], CHECKPOINTS),
        (PolicyKind::Default, ".*", "cu", &["A.customers", CHECKPOINTS], ""),
        (PolicyKind::Identity, ".*", "ord", &["orders"], ""),
        (PolicyKind::Identity, ".*", "ord", &["orders", "ordinal"], "ordinal"),
        (PolicyKind::Identity, "orders", "ord", &["orders", "ordinary"], "ordinary"),
        (PolicyKind::Identity, ".*", "_", &["__consumer_offsets"], "__consumer_offsets"),
    ] {
        let rules = rules(kind, ".", &[topics]);
        let allowed = prefixed(prefix);
        let plan = planned(&rules, &allowed, source, target);
        assert_eq!(plan.add.is_empty(), !reached.is_empty(), "{prefix} over {target:?}");
        let topic = plan.astray.values().next().map_or("", |found| found.topic.as_str());
        assert_eq!(topic, reached, "{prefix} over {target:?}");

        // What forbids takes nothing that should be there on replicas: it is added in any case.
        let denied = AclBinding { permission: AclPermission::Deny, ..allowed };
        let plan = planned(&rules, &denied, source, target);
        assert_eq!((plan.add.len(), plan.astray.len()), (1, 0), "{prefix} over {target:?}");
    }
}

/// All topics, with these rename rules.
fn renaming(written: &[&str]) -> AclRules {
    let mut rules = rules(PolicyKind::Default, ".", &[".*"]);
    let FlowTopics { names, flow, .. } = &mut rules.topics;
    let renames = Renames::new(written, &names.policy, &flow.source).expect("rename rules");
    *names = names.clone().with_renames(renames);
    rules
}

/// Whoever may not read what begins with `team-` must not read it under another name, either.
#[test]
fn a_prefix_follows_its_topics_to_the_names_that_rules_give_them() {
    let source = &["team-a", "team-b", "team-c", "other"];
    let mut rules = renaming(&["team-a:eu-a", "team-b:A-team-b"]);
    let on = |acl: &AclBinding, pattern, name: &str| AclBinding {
        pattern,
        name: name.into(),
        ..acl.clone()
    };

    for permission in [AclPermission::Allow, AclPermission::Deny] {
        let acl = AclBinding { permission, ..prefixed("team-") };
        let plan = planned(&rules, &acl, source, &[]);
        let expected = [
            on(&acl, AclPattern::Prefixed, "A.team-"),
            on(&acl, AclPattern::Literal, "eu-a"),
            on(&acl, AclPattern::Literal, "A-team-b"),
        ];
        assert_eq!(plan.add, expected.into(), "{permission:?}");
    }
    // All of them renamed: none is under the prefix.
    let acl = prefixed("team-a");
    let plan = planned(&rules, &acl, &["team-a"], &[]);
    assert!(plan.add.contains(&on(&acl, AclPattern::Literal, "eu-a")));
    assert_eq!(planned(&rules, &acl, &["other"], &[]).add.len(), 0);
    // As in MM2 where the file does not ask for it, and said to be.
    rules.of_prefixes = false;
    let plan = planned(&rules, &acl, source, &[]);
    assert_eq!((plan.add.len(), plan.prefixed), (0, 1));

    // Several prefixes reach one topic: one of them claims it, whatever order brokers list them in.
    rules.of_prefixes = true;
    let (wide, narrow) = (prefixed("team"), prefixed("team-"));
    let claimed = |source_rules: &[AclBinding]| {
        let (own, others, upstream) = (AclClaims::new(), BTreeSet::new(), BTreeMap::new());
        let owners = AclOwners { ids: ("a", "b"), own: &own, others: &others, upstream: &upstream };
        let sides = AclSides {
            source: source_rules,
            target: &[],
            source_topics: &names(source),
            target_topics: &names(&[]),
        };
        rules.plan(&sides, Some(&owners)).claim
    };
    let one_way = claimed(&[wide.clone(), narrow.clone()]);
    assert_eq!(one_way[&on(&wide, AclPattern::Literal, "eu-a")].of, "team");
    assert_eq!(one_way, claimed(&[narrow, wide]));
}

/// A topic that is gone from the source leaves the rules on its copy alone; a rule that is gone does not.
#[test]
fn a_rule_by_name_that_came_from_a_prefix_goes_with_the_prefix_and_not_with_the_topic() {
    let rules = renaming(&["team-a:eu-a"]);
    let prefix = prefixed("team-");
    let by_name =
        AclBinding { pattern: AclPattern::Literal, name: "eu-a".into(), ..prefix.clone() };
    let claim = AclClaim { of: "team-".into(), via: vec!["a".into()], leaves: false };
    let own = AclClaims::from([(by_name.clone(), claim)]);
    let (others, upstream) = (BTreeSet::new(), BTreeMap::new());
    let owners = AclOwners { ids: ("a", "b"), own: &own, others: &others, upstream: &upstream };
    for (source, goes) in [(std::slice::from_ref(&prefix), false), (&[][..], true)] {
        let sides = AclSides {
            source,
            target: std::slice::from_ref(&by_name),
            source_topics: &BTreeSet::new(),
            target_topics: &BTreeSet::new(),
        };
        assert_eq!(rules.plan(&sides, Some(&owners)).gone.contains(&by_name), goes);
    }
}

/// One that was added before such a topic came stays, and is told.
#[test]
fn a_prefix_that_reaches_a_topic_that_came_later_is_told_and_stays() {
    let rules = rules(PolicyKind::Identity, ".", &["orders"]);
    let acl = prefixed("ord");
    let (source_topics, target_topics) = (names(&["orders"]), names(&["orders", "ordinal"]));
    let there = [acl.clone()];
    let sides = AclSides {
        source: &there,
        target: &there,
        source_topics: &source_topics,
        target_topics: &target_topics,
    };
    let plan = rules.plan(&sides, None);
    let astray = Astray { topic: "ordinal".into(), there: true };
    assert_eq!(plan, AclPlan { astray: [(acl, astray)].into(), ..AclPlan::default() });
}

#[test]
fn rules_of_groups_are_copied_as_they_are_where_the_filter_lets_the_name_through() {
    let rules = rules(PolicyKind::Default, ".", &[".*"]);
    for (acl, taken) in [
        (group("billing"), true),
        (group("*"), true),
        (group("connect-sink"), false),
        (AclBinding { pattern: AclPattern::Prefixed, ..group("team-") }, true),
        (AclBinding { pattern: AclPattern::Prefixed, ..group("connect-") }, false),
        (AclBinding { operation: AclOperation::ALL, ..group("billing") }, true),
        (AclBinding { permission: AclPermission::Deny, ..group("billing") }, true),
    ] {
        let plan = planned(&rules, &acl, &[], &[]);
        assert_eq!(plan.add, taken.then(|| acl.clone()).into_iter().collect(), "{acl}");
    }
    let off = AclRules { of_groups: false, ..rules.clone() };
    assert_eq!(planned(&off, &group("billing"), &[], &[]), AclPlan::default());
    let off = AclRules { of_topics: false, ..rules };
    assert_eq!(planned(&off, &literal("orders"), &[], &[]), AclPlan::default());
    assert_eq!(planned(&off, &group("billing"), &[], &[]).add.len(), 1);
}

/// Source and target of a flow, and what is claimed.
#[derive(Default)]
struct Table {
    source: Vec<AclBinding>,
    target: Vec<AclBinding>,
    own: AclClaims,
    others: BTreeSet<AclBinding>,
    upstream: BTreeMap<AclBinding, Vec<Vec<String>>>,
}

impl Table {
    fn plan(&self, rules: &AclRules) -> AclPlan {
        let nothing = BTreeSet::new();
        let sides = AclSides {
            source: &self.source,
            target: &self.target,
            source_topics: &nothing,
            target_topics: &nothing,
        };
        let owners = AclOwners {
            ids: ("idA", "idB"),
            own: &self.own,
            others: &self.others,
            upstream: &self.upstream,
        };
        rules.plan(&sides, Some(&owners))
    }
}

fn claim(of: &str, via: &[&str]) -> AclClaim {
    AclClaim { of: of.into(), via: via.iter().map(|id| (*id).to_owned()).collect(), leaves: false }
}

#[test]
fn only_what_the_flow_added_goes_and_only_when_the_source_has_it_no_more() {
    let rules = rules(PolicyKind::Default, ".", &[".*"]);
    let (there, here) = (literal("orders"), literal("A.orders"));
    let added = AclClaims::from([(here.clone(), claim("orders", &["idA"]))]);
    let nothing = AclPlan::default();

    // New: it is claimed and added.
    let mut table = Table { source: vec![there.clone()], ..Table::default() };
    let new = AclPlan { add: [here.clone()].into(), claim: added.clone(), ..nothing.clone() };
    assert_eq!(table.plan(&rules), new);
    // Written down, and not there yet: added again, as after a crash, or when somebody took it away.
    table.own = added;
    assert_eq!(table.plan(&rules).add, [here.clone()].into());
    // There.
    table.target = vec![here.clone()];
    assert_eq!(table.plan(&rules), nothing);
    // The filter does not let the topic through any more: the source has the rule all the same.
    let narrow = AclRules {
        topics: FlowTopics {
            filter: TopicFilter { include: list(&["other"]), exclude: list(&["x"]) },
            ..rules.topics.clone()
        },
        ..rules.clone()
    };
    assert_eq!(table.plan(&narrow), nothing);
    // Not looked at: nobody knows.
    let off = AclRules { of_topics: false, ..rules.clone() };
    table.source.clear();
    assert_eq!(table.plan(&off), nothing);
    // Gone.
    assert_eq!(table.plan(&rules), AclPlan { gone: [here.clone()].into(), ..nothing.clone() });
    // Gone there too.
    table.target.clear();
    assert_eq!(table.plan(&rules), AclPlan { forget: [here.clone()].into(), ..nothing.clone() });

    // Never the flow's: it was there before, or was made by hand.
    let mut table =
        Table { source: vec![there], target: vec![here, literal("A.other")], ..Table::default() };
    assert_eq!(table.plan(&rules), nothing);
    table.source.clear();
    assert_eq!(table.plan(&rules), nothing);
}

/// ALLOW ALL and ALLOW READ are one rule on the target; it goes when both are gone. DENY of the same name is another.
#[test]
fn a_rule_that_two_of_the_source_became_goes_with_the_last_of_them() {
    let rules = rules(PolicyKind::Default, ".", &[".*"]);
    let all = AclBinding { operation: AclOperation::ALL, ..literal("orders") };
    let deny = AclBinding { permission: AclPermission::Deny, ..literal("orders") };
    let write = AclBinding { operation: AclOperation::WRITE, ..literal("orders") };
    let here = literal("A.orders");
    let of = |source: &[&AclBinding]| {
        let table = Table {
            source: source.iter().map(|acl| (*acl).clone()).collect(),
            target: vec![here.clone()],
            own: [(here.clone(), claim("orders", &["idA"]))].into(),
            ..Table::default()
        };
        table.plan(&rules).gone
    };
    let read = literal("orders");
    for alive in [&[&all, &read][..], &[&all], &[&read], &[&read, &write, &deny]] {
        assert_eq!(of(alive), BTreeSet::new(), "{alive:?}");
    }
    for dead in [&[][..], &[&write], &[&deny], &[&write, &deny]] {
        assert_eq!(of(dead), [here.clone()].into(), "{dead:?}");
    }
}

#[test]
fn what_another_flow_added_is_claimed_too_and_what_nobody_claims_is_not() {
    let rules = rules(PolicyKind::Default, ".", &[".*"]);
    let acl = group("billing");
    let mut table =
        Table { source: vec![acl.clone()], target: vec![acl.clone()], ..Table::default() };
    assert_eq!(table.plan(&rules), AclPlan::default());
    table.others = [acl.clone()].into();
    let claims = AclClaims::from([(acl.clone(), claim("billing", &["idA"]))]);
    assert_eq!(table.plan(&rules), AclPlan { claim: claims.clone(), ..AclPlan::default() });
    // On its way out, and wanted again.
    table.own = AclClaims::from([(acl.clone(), AclClaim { leaves: true, ..claims[&acl].clone() })]);
    assert_eq!(table.plan(&rules), AclPlan { claim: claims, ..AclPlan::default() });
}

#[test]
fn what_came_from_the_target_on_every_way_does_not_go_back() {
    let rules = rules(PolicyKind::Default, ".", &[".*"]);
    let acl = group("billing");
    let mut table = Table { source: vec![acl.clone()], ..Table::default() };
    let way = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    table.upstream = [(acl.clone(), vec![way(&["idB"])])].into();
    assert_eq!(table.plan(&rules), AclPlan::default());
    // Another way leads on, and is remembered.
    table.upstream = [(acl.clone(), vec![way(&["idB", "idC"]), way(&["idC"])])].into();
    let plan = table.plan(&rules);
    assert_eq!(plan.claim[&acl], claim("billing", &["idC", "idA"]));
    // What is claimed, and turns out to have come from there, is let go of.
    table.target = vec![acl.clone()];
    table.own = plan.claim;
    table.upstream = [(acl.clone(), vec![way(&["idB", "idC"])])].into();
    assert_eq!(table.plan(&rules).gone, [acl].into());
}

/// A source that was built anew has no rules at first: that is no reason to take rights away.
#[test]
fn what_came_from_another_cluster_under_the_alias_stays() {
    let rules = rules(PolicyKind::Default, ".", &[".*"]);
    let acl = group("billing");
    let mut table = Table {
        target: vec![acl.clone()],
        own: [(acl.clone(), claim("billing", &["id of the old A"]))].into(),
        ..Table::default()
    };
    let plan = table.plan(&rules);
    assert_eq!(plan, AclPlan { of_another_source: 1, ..AclPlan::default() });
    // The new one has it too: it is this one's from now on.
    table.source = vec![acl.clone()];
    assert_eq!(table.plan(&rules).claim[&acl], claim("billing", &["idA"]));

    let alias = ClusterAlias::new("A");
    assert_eq!(claim_id(Some("id"), &alias), "id");
    assert_eq!(claim_id(None, &alias), "A");
}

/// A pattern that comes to no end leaves its rule undecided: it is neither added nor taken away.
#[test]
fn a_rule_that_cannot_be_decided_about_is_named_and_stays() {
    let mut rules = rules(PolicyKind::Default, ".", &["(a|b|ab)*(?=c)c"]);
    rules.of_groups = false;
    let name = "ab".repeat(40);
    let (acl, here) = (literal(&name), literal(&format!("A.{name}")));
    let table = Table {
        source: vec![acl.clone(), AclBinding { pattern: AclPattern::Prefixed, ..acl }],
        target: vec![here.clone()],
        own: [(here, claim(&name, &["idA"]))].into(),
        ..Table::default()
    };
    let plan = table.plan(&rules);
    assert_eq!(plan.unclear.len(), 2, "{:?}", plan.unclear);
    assert_eq!(AclPlan { unclear: Vec::new(), ..plan }, AclPlan::default());
}
