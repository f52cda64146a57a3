//! Where a topic came from, as far as the names and flows of the whole file say.
//!
//! MM2 reads it from the name alone: `B.orders` came from `B`. A renamed topic's name says it only to
//! who knows the rules of the flow that brought it, so all flows of the file are asked, also those
//! that are off or run in another process. With rules somewhere in the file, the identity policy's
//! flows are asked, too: what they bring under its own name may have been renamed before.
//!
//! A file without rules is judged by [`ReplicationPolicy::is_cycle`](super::ReplicationPolicy::is_cycle)
//! alone, as by MM2.

use std::sync::Arc;

use super::filters::TopicFilter;
use super::flow_names::FlowNames;
use super::naming::ReplicationPolicy;
use crate::model::{FlowId, TopicName};

/// Steps back that are tried for one topic. Each path meets a cluster once, so only many clusters that
/// all take prefixes away from each other come near; then the topic is left out, the safe side.
const STEPS_MAX: u32 = 10_000;

/// A flow of the file, as far as names go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFlow {
    /// From where to where.
    pub flow: FlowId,
    /// How it names.
    pub names: FlowNames,
    /// Which topics it takes.
    pub filter: TopicFilter,
}

/// All flows of a file; cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Arc<[NamedFlow]>);

/// One step back: the name that a topic had on a cluster before.
struct Step {
    cluster: String,
    name: String,
    /// The name says so, and not only that it may be.
    shown: bool,
    /// It was read off the name, which is shorter for it.
    by_alias: bool,
}

impl Origins {
    /// What the flows of a file say; nothing unless one of them has rules.
    #[must_use]
    pub fn new(flows: Vec<NamedFlow>) -> Self {
        if flows.iter().all(|flow| flow.names.renames().is_empty()) {
            return Self::default();
        }
        Self(flows.into())
    }

    /// Whether copying `topic` from the flow's source to its target would bring records back to where
    /// they came from. `policy` is the flow's.
    #[must_use]
    pub fn is_cycle(&self, flow: &FlowId, policy: &ReplicationPolicy, topic: &str) -> bool {
        if self.0.is_empty() {
            return policy.is_cycle(&flow.target, topic);
        }
        let walk = Walk { flows: &self.0, policy, target: flow.target.as_str() };
        let mut left = STEPS_MAX;
        walk.leads(flow.source.as_str(), topic, &mut vec![flow.source.to_string()], &mut left)
    }

    /// What `topic` on the source of `flow` was called on its target, if the flow the other way
    /// brought it from there under rules of the file.
    ///
    /// `None` if that flow has no rules: then the policy says it.
    #[must_use]
    pub fn brought_by_back(&self, flow: &FlowId, topic: &str) -> Option<Option<TopicName>> {
        let back = self.0.iter().find(|known| {
            known.flow.source == flow.target
                && known.flow.target == flow.source
                && !known.names.renames().is_empty()
        })?;
        Some(back.names.shown_upstream(topic))
    }
}

/// The search for the target among all places that a topic may have come from.
struct Walk<'a> {
    flows: &'a [NamedFlow],
    policy: &'a ReplicationPolicy,
    target: &'a str,
}

impl Walk<'_> {
    /// Whether `name` on `cluster` came from the target; `path` are the clusters met so far.
    fn leads(&self, cluster: &str, name: &str, path: &mut Vec<String>, left: &mut u32) -> bool {
        for step in self.steps(cluster, name) {
            // What came by a flow met no cluster twice: that flow would have left it out.
            if !step.by_alias && path.contains(&step.cluster) {
                continue;
            }
            if step.shown && step.cluster == self.target {
                return true;
            }
            *left = left.saturating_sub(1);
            if *left == 0 {
                return true;
            }
            path.push(step.cluster);
            let found =
                path.last().cloned().is_some_and(|at| self.leads(&at, &step.name, path, left));
            path.pop();
            if found {
                return true;
            }
        }
        false
    }

    fn steps(&self, cluster: &str, name: &str) -> Vec<Step> {
        let mut steps = Vec::new();
        for known in self.flows.iter().filter(|known| known.flow.target.as_str() == cluster) {
            let from = || known.flow.source.to_string();
            if let Some(topic) = known.names.unrenamed(name) {
                let name = topic.as_str().to_owned();
                steps.push(Step { cluster: from(), name, shown: true, by_alias: false });
            } else if known.names.keeps(name) && known.filter.accepts(name).unwrap_or(true) {
                steps.push(Step {
                    cluster: from(),
                    name: name.to_owned(),
                    shown: false,
                    by_alias: false,
                });
            }
        }
        if let (Some(source), Some(upstream)) =
            (self.policy.source(name), self.policy.upstream(name))
            && upstream != name
        {
            let (cluster, name) = (source.to_owned(), upstream.to_owned());
            steps.push(Step { cluster, name, shown: true, by_alias: true });
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NameList, PolicyKind, Renames};
    use super::*;
    use crate::model::ClusterAlias;

    struct File {
        kind: PolicyKind,
        flows: Vec<NamedFlow>,
    }

    fn alias(name: &str) -> ClusterAlias {
        ClusterAlias::new(name)
    }

    fn id(source: &str, target: &str) -> FlowId {
        FlowId { source: alias(source), target: alias(target) }
    }

    impl File {
        fn new(kind: PolicyKind) -> Self {
            Self { kind, flows: Vec::new() }
        }

        fn policy(&self, source: &str) -> ReplicationPolicy {
            ReplicationPolicy::new(self.kind, ".", Some(alias(source)))
        }

        fn flow(mut self, source: &str, target: &str, rules: &[&str]) -> Self {
            let policy = self.policy(source);
            let renames = Renames::new(rules, &policy, &alias(source)).unwrap();
            let names = FlowNames::new(policy, &alias(source)).with_renames(renames);
            let all = |elements| NameList::new(elements).unwrap();
            let filter = TopicFilter { include: all(&[".*"]), exclude: NameList::none() };
            self.flows.push(NamedFlow { flow: id(source, target), names, filter });
            self
        }

        /// Whether `source->target` leaves the topic out as one that came from the target.
        fn is_cycle(&self, source: &str, target: &str, topic: &str) -> bool {
            let origins = Origins::new(self.flows.clone());
            origins.is_cycle(&id(source, target), &self.policy(source), topic)
        }
    }

    #[test]
    fn a_renamed_topic_does_not_go_back_where_it_came_from() {
        for kind in [PolicyKind::Default, PolicyKind::Identity] {
            let file = File::new(kind)
                .flow("A", "B", &["orders:orders-eu", "pay.*:eu.pay.*"])
                .flow("B", "A", &["orders:orders-us"]);
            for (source, target, topic, cycle) in [
                ("B", "A", "orders-eu", true),
                ("B", "A", "eu.pay.in", true),
                ("B", "A", "orders", false),
                ("B", "A", "other", false),
                ("A", "B", "orders-us", true),
                ("A", "B", "orders", false),
                ("A", "B", "orders-eu", false),
            ] {
                assert_eq!(
                    file.is_cycle(source, target, topic),
                    cycle,
                    "{kind:?} {source} {topic}"
                );
            }
            // A target that is none of those it came from may have it.
            assert!(!file.is_cycle("B", "C", "orders-eu"));
        }
    }

    #[test]
    fn a_ring_of_three_clusters_is_seen_through_aliases_rules_and_kept_names() {
        let ring = |kind, b_to_c: &[&str]| {
            File::new(kind)
                .flow("A", "B", &["orders:orders-eu", "*:x-*"])
                .flow("B", "C", b_to_c)
                .flow("C", "A", &[])
        };
        assert!(ring(PolicyKind::Default, &[]).is_cycle("C", "A", "B.orders-eu"));
        assert!(!ring(PolicyKind::Default, &[]).is_cycle("C", "A", "B.orders"));
        for kind in [PolicyKind::Default, PolicyKind::Identity] {
            let renamed = ring(kind, &["orders-eu:orders-of-a"]);
            assert!(renamed.is_cycle("C", "A", "orders-of-a"), "{kind:?}");
            assert!(!renamed.is_cycle("C", "A", "orders"), "{kind:?}");
            assert!(!renamed.is_cycle("C", "B", "other"), "{kind:?}");
        }
        let kept = ring(PolicyKind::Identity, &[]);
        assert!(kept.is_cycle("C", "A", "x-t") && kept.is_cycle("C", "A", "orders-eu"));
        assert!(!kept.is_cycle("C", "A", "t"), "a name that was kept all the way shows nothing");
        assert!(!kept.is_cycle("B", "C", "x-t"));
    }

    #[test]
    fn what_a_flow_does_not_take_did_not_come_through_it() {
        let mut file = File::new(PolicyKind::Identity)
            .flow("A", "B", &["orders:orders-eu"])
            .flow("B", "C", &[])
            .flow("C", "A", &[]);
        assert!(file.is_cycle("C", "A", "orders-eu"));
        file.flows[1].filter.include = NameList::new(&["payments"]).unwrap();
        assert!(!file.is_cycle("C", "A", "orders-eu"), "B->C does not take it");
    }

    #[test]
    fn a_file_without_rules_is_judged_by_the_policy_alone() {
        let file = File::new(PolicyKind::Default).flow("A", "B", &[]).flow("B", "A", &[]);
        assert_eq!(Origins::new(file.flows.clone()), Origins::default());
        assert!(file.is_cycle("A", "B", "B.t") && file.is_cycle("A", "B", "C.B.t"));
        assert!(!file.is_cycle("A", "B", "t"));
        // And with some, aliases are read as before.
        let file = file.flow("B", "C", &["x:y"]);
        assert!(file.is_cycle("A", "B", "B.t") && file.is_cycle("A", "B", "C.C.B.t"));
        assert!(!file.is_cycle("A", "B", "t"));
    }

    #[test]
    fn rules_that_take_prefixes_away_round_and_round_come_to_an_end() {
        let names = ["A", "B", "C", "D", "E"];
        let mut file = File::new(PolicyKind::Identity);
        for source in names {
            for target in names.iter().filter(|target| **target != source) {
                file = file.flow(source, target, &[&format!("{source}.*:*")]);
            }
        }
        assert!(file.is_cycle("A", "B", "t"), "every topic may have come from B");
        assert!(!file.is_cycle("A", "Z", "t"));
    }

    #[test]
    fn what_the_way_back_brought_is_known_by_its_name_there() {
        let file = File::new(PolicyKind::Default).flow("B", "A", &["orders:orders-us"]);
        let origins = Origins::new(file.flows);
        let brought = |topic: &str| origins.brought_by_back(&id("A", "B"), topic);
        assert_eq!(brought("orders-us"), Some(Some("orders".into())));
        assert_eq!(brought("B.other"), Some(Some("other".into())));
        assert_eq!(brought("B.orders"), Some(None), "from before there was a rule");
        assert_eq!(brought("orders"), Some(None));
        assert_eq!(origins.brought_by_back(&id("A", "C"), "orders-us"), None);
    }
}
