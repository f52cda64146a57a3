//! Whatever rules are accepted: no two topics of a flow have one name on the target, every name leads back to its topic,
//! and what came from a cluster does not go back to it.

use std::collections::BTreeMap;

use heliograph::model::{ClusterAlias, FlowId, TopicName};
use heliograph::policy::{
    FlowNames, FlowTopics, NameList, NamedFlow, Origins, PolicyKind, Renames, ReplicationPolicy,
    Selection, TopicFilter,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

/// Few letters, so that names and rules meet often.
fn text() -> impl Strategy<Value = String> {
    vec(select(vec!["a", "b", "A", "B", ".", "-", "x.", "A.", "b-"]), 0..4)
        .prop_map(|parts| parts.concat())
}

fn rule() -> impl Strategy<Value = String> {
    (text(), text(), any::<bool>()).prop_map(|(from, to, open)| {
        let star = if open { "*" } else { "" };
        format!("{from}{star}:{to}{star}")
    })
}

fn kind() -> impl Strategy<Value = PolicyKind> {
    select(vec![PolicyKind::Default, PolicyKind::Identity])
}

fn names(kind: PolicyKind, source: &str, rules: &[String]) -> Option<FlowNames> {
    let source = ClusterAlias::new(source);
    let policy = ReplicationPolicy::new(kind, ".", Some(source.clone()));
    let renames = Renames::new(rules, &policy, &source).ok()?;
    Some(FlowNames::new(policy, &source).with_renames(renames))
}

/// Topics that brokers could have: random ones, and whatever the rules themselves are about.
fn topics(random: &[String], rules: &[String]) -> Vec<TopicName> {
    let named = rules.iter().flat_map(|rule| rule.split(':')).flat_map(|side| {
        let name = side.trim_end_matches('*');
        ["", "a", "b", ".a", "x.A.b"].map(|rest| format!("{name}{rest}"))
    });
    let mut all: Vec<String> = random.iter().cloned().chain(named).collect();
    let fixed = ["heartbeats", "B.heartbeats", "__consumer_offsets", "mm2-offsets.A.internal"];
    all.extend(fixed.map(str::to_owned));
    all.retain(|name| !name.is_empty() && name != "." && name != "..");
    all.sort();
    all.dedup();
    all.into_iter().map(TopicName::new).collect()
}

/// What breaks the law for these topics, if anything does. `forward` and `back` are what is judged.
fn broken(
    topics: &[TopicName],
    forward: impl Fn(&TopicName) -> Option<TopicName>,
    back: impl Fn(&TopicName) -> Option<TopicName>,
) -> Option<String> {
    let mut seen: BTreeMap<TopicName, TopicName> = BTreeMap::new();
    for topic in topics {
        let Some(name) = forward(topic) else { continue };
        if back(&name).as_ref() != Some(topic) {
            return Some(format!("{topic} is {name}, which leads back to {:?}", back(&name)));
        }
        if let Some(other) = seen.insert(name.clone(), topic.clone()) {
            return Some(format!("{topic} and {other} are both {name}"));
        }
    }
    None
}

proptest! {
    #![proptest_config(Config::with_cases(4_000))]

    #[test]
    fn names_are_never_shared_and_lead_back_to_their_topics(
        kind in kind(),
        rules in vec(rule(), 1..4),
        random in vec(text(), 0..30),
    ) {
        let Some(names) = names(kind, "A", &rules) else { return Ok(()) };
        let forward = |topic: &TopicName| names.on_target(topic).ok();
        let law = broken(&topics(&random, &rules), forward, |name| names.upstream(name.as_str()));
        prop_assert_eq!(law, None);
    }

    #[test]
    fn what_a_flow_brought_by_a_rule_does_not_go_back(
        kind in kind(),
        there in vec(rule(), 1..4),
        back in vec(rule(), 0..3),
        random in vec(text(), 0..20),
    ) {
        let both = (names(kind, "A", &there), names(kind, "B", &back));
        let (Some(there_names), Some(back_names)) = both else { return Ok(()) };
        let (there_flow, back_flow) = (flow("A", "B", there_names), flow("B", "A", back_names));
        let origins = Origins::new(vec![there_flow.clone(), back_flow.clone()]);
        let (there_topics, back_topics) = (choice(there_flow, &origins), choice(back_flow, &origins));
        for topic in topics(&random, &there) {
            let Ok(Selection::Copied { as_topic }) = there_topics.select(&topic) else { continue };
            if there_topics.names.is_by_rule(topic.as_str()) || kind == PolicyKind::Default {
                let returns = back_topics.select(&as_topic);
                prop_assert!(!matches!(returns, Ok(Selection::Copied { .. })), "{topic} {as_topic}");
                let found = back_topics.on_its_way_back(&as_topic);
                prop_assert_eq!(found, Some(topic));
            }
        }
    }
}

fn flow(source: &str, target: &str, names: FlowNames) -> NamedFlow {
    let flow = FlowId { source: ClusterAlias::new(source), target: ClusterAlias::new(target) };
    let include = NameList::new(&[".*"]).expect("a pattern");
    NamedFlow { flow, names, filter: TopicFilter { include, exclude: NameList::none() } }
}

fn choice(flow: NamedFlow, origins: &Origins) -> FlowTopics {
    let NamedFlow { flow, names, filter } = flow;
    FlowTopics { flow, filter, names, origins: origins.clone(), heartbeats: true }
}

/// Enough of the random rules are accepted, and take effect, for the laws to say something.
#[test]
fn the_laws_are_tried_on_rules_that_rename() {
    let mut runner = TestRunner::deterministic();
    let (mut accepted, mut renamed, mut nameless) = (0, 0, 0);
    for _ in 0..2_000 {
        let mut draw = || vec(rule(), 1..4).new_tree(&mut runner).expect("rules").current();
        let rules = draw();
        let Some(names) = names(PolicyKind::Identity, "A", &rules) else { continue };
        accepted += 1;
        for topic in topics(&[], &rules) {
            renamed += u32::from(names.is_by_rule(topic.as_str()));
            nameless += u32::from(names.on_target(&topic).is_err());
        }
    }
    assert!(accepted > 400 && renamed > 2_000 && nameless > 500, "{accepted} {renamed} {nameless}");
}

/// The law finds what it is for: names without regard to other topics, as MM2's users make them with a plain rewrite.
#[test]
fn a_plain_rewrite_breaks_the_law() {
    let all = ["orders", "orders-eu", "team.orders"].map(TopicName::from);
    let rewrite = |topic: &TopicName| {
        Some(if topic.as_str() == "orders" { "orders-eu".into() } else { topic.clone() })
    };
    let undo = |name: &TopicName| {
        Some(if name.as_str() == "orders-eu" { "orders".into() } else { name.clone() })
    };
    let found = broken(&all, rewrite, undo).expect("two topics with one name");
    assert!(found.contains("orders-eu"), "{found}");
    let strip =
        |topic: &TopicName| Some(TopicName::new(topic.as_str().trim_start_matches("team.")));
    assert!(broken(&all, strip, |name| Some(name.clone())).is_some());
}
