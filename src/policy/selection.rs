//! Which topics a flow takes: filter, policy and cycle rule together.

use super::filters::TopicFilter;
use super::flow_names::{FlowNames, NoName};
use super::origins::Origins;
use super::pattern::StepLimit;
use crate::model::{FlowId, TopicName};

/// What a flow does with one topic of its source, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// It is copied to the topic of this name.
    Copied {
        /// The topic's name on the target.
        as_topic: TopicName,
    },
    /// `topics` does not name it or `topics.exclude` does.
    Filtered,
    /// It is MM2's, Kafka's, ours, or hidden.
    Internal,
    /// It already came from the target.
    Cycle,
    /// It cannot have a name of its own on the target.
    Nameless(NoName),
}

/// A flow's choice of topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowTopics {
    /// From where to where.
    pub flow: FlowId,
    /// What the user wants.
    pub filter: TopicFilter,
    /// How names are made and read.
    pub names: FlowNames,
    /// Where topics came from, as the whole file says.
    pub origins: Origins,
    /// Whether heartbeat topics are taken whatever the filter says.
    pub heartbeats: bool,
}

impl FlowTopics {
    /// Whether the flow copies `topic`; not one that a pattern comes to no end on.
    #[must_use]
    pub fn copies(&self, topic: &TopicName) -> bool {
        matches!(self.select(topic), Ok(Selection::Copied { .. }))
    }

    /// What the flow does with `topic`.
    ///
    /// # Errors
    ///
    /// [`StepLimit`] if a pattern does not come to an end on this name.
    pub fn select(&self, topic: &TopicName) -> Result<Selection, StepLimit> {
        let name = topic.as_str();
        let policy = &self.names.policy;
        let wanted =
            (self.heartbeats && policy.is_heartbeats(name)) || self.filter.accepts(name)?;
        Ok(if !wanted {
            Selection::Filtered
        } else if policy.internal().is_internal(name) {
            Selection::Internal
        } else if self.origins.is_cycle(&self.flow, policy, name) {
            Selection::Cycle
        } else {
            match self.names.on_target(topic) {
                Ok(as_topic) => Selection::Copied { as_topic },
                Err(why) => Selection::Nameless(why),
            }
        })
    }

    /// What `topic` of the source is called on the target, if it shows to have come from there. Groups
    /// that read it go on under that name.
    #[must_use]
    pub fn on_its_way_back(&self, topic: &TopicName) -> Option<TopicName> {
        let (name, target) = (topic.as_str(), &self.flow.target);
        match self.origins.brought_by_back(&self.flow, name) {
            Some(brought) => brought,
            None => {
                let policy = &self.names.policy;
                let from = policy.is_cycle(target, name).then(|| policy.source(name)).flatten();
                let upstream = (from == Some(target.as_str())).then(|| policy.upstream(name));
                upstream.flatten().map(TopicName::new)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NameList, PolicyKind, ReplicationPolicy};
    use super::*;
    use crate::model::ClusterAlias;

    fn flow(include: &[&str], kind: PolicyKind) -> FlowTopics {
        let source = ClusterAlias::new("A");
        FlowTopics {
            filter: TopicFilter {
                include: NameList::new(include).unwrap(),
                exclude: NameList::new(&["mm2.*\\.internal", ".*\\.replica", "__.*"]).unwrap(),
            },
            names: FlowNames::new(ReplicationPolicy::new(kind, ".", Some(source.clone())), &source),
            origins: Origins::default(),
            heartbeats: true,
            flow: FlowId { source, target: ClusterAlias::new("B") },
        }
    }

    fn copied(name: &str) -> Selection {
        Selection::Copied { as_topic: name.into() }
    }

    #[test]
    fn each_topic_of_a_recorded_mm2_source_is_treated_as_mm2_treated_it() {
        let flow = flow(&[".*"], PolicyKind::Default);

        for (topic, expected) in [
            ("orders", copied("A.orders")),
            ("orders.internal", copied("A.orders.internal")),
            ("app-internal", copied("A.app-internal")),
            ("a.dotted.name", copied("A.a.dotted.name")),
            ("heartbeats", copied("A.heartbeats")),
            ("x.replica", Selection::Filtered),
            ("mm2-user.internal", Selection::Filtered),
            ("__under", Selection::Filtered),
            ("x.checkpoints.internal", Selection::Internal),
            (".hidden", Selection::Internal),
            ("B.looped", Selection::Cycle),
        ] {
            assert_eq!(flow.select(&topic.into()), Ok(expected), "{topic}");
        }
    }

    #[test]
    fn heartbeats_pass_by_the_filter_unless_that_is_switched_off() {
        let mut flow = flow(&["orders"], PolicyKind::Default);
        assert_eq!(flow.select(&"heartbeats".into()), Ok(copied("A.heartbeats")));
        assert_eq!(flow.select(&"C.heartbeats".into()), Ok(copied("A.C.heartbeats")));
        assert_eq!(flow.select(&"B.heartbeats".into()), Ok(Selection::Cycle));

        flow.heartbeats = false;
        assert_eq!(flow.select(&"heartbeats".into()), Ok(Selection::Filtered));
    }

    #[test]
    fn the_identity_policy_copies_under_the_same_name() {
        let flow = flow(&[".*"], PolicyKind::Identity);

        assert_eq!(flow.select(&"orders".into()), Ok(copied("orders")));
        assert_eq!(flow.select(&"B.looped".into()), Ok(copied("B.looped")));
        assert_eq!(flow.select(&"heartbeats".into()), Ok(copied("A.heartbeats")));
    }

    #[test]
    fn internal_topics_stay_out_when_the_exclude_list_is_emptied() {
        let mut flow = flow(&[".*"], PolicyKind::Default);
        flow.filter.exclude = NameList::none();

        assert_eq!(flow.select(&"__under".into()), Ok(Selection::Internal));
        assert_eq!(flow.select(&"mm2-user.internal".into()), Ok(Selection::Internal));
        assert_eq!(flow.select(&"x.replica".into()), Ok(copied("A.x.replica")));
    }
}
