//! Replication policies: what a topic is called on the target, and where a name came from.
//!
//! The rules are those of MM2's `DefaultReplicationPolicy` and `IdentityReplicationPolicy`;
//! both only look at names, so any dotted name (`my.topic`) counts as coming from a cluster
//! `my`. Names of internal topics are in `mm2::names`; which topics a flow takes is in
//! `policy::selection`, and names beyond MM2's are in `policy::renames`.

use crate::mm2::{HEARTBEATS, InternalNames};
use crate::model::{ClusterAlias, FlowId, TopicName};

/// Which of MM2's two policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// `orders` of `a` becomes `a.orders`.
    Default,
    /// `orders` stays `orders`; only names ending in `heartbeats` are renamed as above.
    Identity,
}

/// A replication policy of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationPolicy {
    kind: PolicyKind,
    separator: String,
    internal: InternalNames,
    /// Whom the identity policy takes every ordinary topic to be from.
    source: Option<ClusterAlias>,
}

impl ReplicationPolicy {
    /// A policy with the same separator for replicas and for internal topics.
    ///
    /// `source` is the flow's source; only the identity policy asks for it.
    #[must_use]
    pub fn new(kind: PolicyKind, separator: &str, source: Option<ClusterAlias>) -> Self {
        Self {
            kind,
            separator: separator.to_owned(),
            internal: InternalNames::new(separator),
            source,
        }
    }

    /// The same policy with another separator for internal topics: a dot when
    /// `replication.policy.internal.topic.separator.enabled` is false.
    #[must_use]
    pub fn with_internal_separator(self, separator: &str) -> Self {
        Self { internal: InternalNames::new(separator), ..self }
    }

    /// Which of the two policies it is.
    #[must_use]
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// What stands between alias and topic in a replica's name.
    #[must_use]
    pub fn separator(&self) -> &str {
        &self.separator
    }

    /// What the names of all replicas from `source` begin with; `None` if they keep their names.
    #[must_use]
    pub fn replica_prefix(&self, source: &ClusterAlias) -> Option<String> {
        (self.kind == PolicyKind::Default).then(|| format!("{source}{}", self.separator))
    }

    /// Names of MM2's internal topics under this policy.
    #[must_use]
    pub fn internal(&self) -> &InternalNames {
        &self.internal
    }

    /// What `topic` of `source` is called on the target.
    #[must_use]
    pub fn remote(&self, source: &ClusterAlias, topic: &TopicName) -> TopicName {
        if self.renames(topic.as_str()) {
            TopicName::new(format!("{source}{}{topic}", self.separator))
        } else {
            topic.clone()
        }
    }

    /// The cluster that `topic` was replicated from, as far as its name says.
    ///
    /// May be an empty alias: `.b` has an empty first part in MM2's reading.
    #[must_use]
    pub fn source<'a>(&'a self, topic: &'a str) -> Option<&'a str> {
        if self.renames(topic) {
            self.prefix(topic)
        } else {
            self.source.as_ref().map(ClusterAlias::as_str)
        }
    }

    /// What `topic` was called on the cluster it was replicated from; `None` if it was not.
    #[must_use]
    pub fn upstream<'a>(&self, topic: &'a str) -> Option<&'a str> {
        if self.renames(topic) {
            let prefix = self.prefix(topic)?;
            Some(&topic[prefix.len() + self.separator.len()..])
        } else {
            Some(topic)
        }
    }

    /// What `topic` was called where it was first written: all prefixes taken away.
    #[must_use]
    pub fn original<'a>(&self, topic: &'a str) -> &'a str {
        let mut name = topic;
        // Each step takes away at least the separator, so the loop ends.
        while let Some(upstream) = self.upstream(name) {
            if upstream == name {
                break;
            }
            name = upstream;
        }
        name
    }

    /// Whether `topic` holds heartbeats, of whatever cluster. A user's `team.heartbeats` does
    /// count, as it does for MM2.
    #[must_use]
    pub fn is_heartbeats(&self, topic: &str) -> bool {
        self.original(topic) == HEARTBEATS
    }

    /// Whether copying `topic` to `target` would bring records back to where they came from.
    ///
    /// True if the target's alias occurs anywhere in the chain of aliases that the name begins
    /// with, so `orders.B.v1` is never copied to `B`. The identity policy sees no cycles of
    /// ordinary topics.
    #[must_use]
    pub fn is_cycle(&self, target: &ClusterAlias, topic: &str) -> bool {
        let mut name = topic;
        while let Some(source) = self.source(name) {
            if source == target.as_str() {
                return true;
            }
            match self.upstream(name) {
                Some(upstream) if upstream != name => name = upstream,
                _ => break,
            }
        }
        false
    }

    /// Under which name a group's position on `topic` of the flow's source stands in a
    /// checkpoint: the name on the target.
    #[must_use]
    pub fn checkpointed(&self, flow: &FlowId, topic: &TopicName) -> TopicName {
        if self.source(topic.as_str()) == Some(flow.target.as_str()) {
            TopicName::new(self.original(topic.as_str()))
        } else {
            self.remote(&flow.source, topic)
        }
    }

    /// How many hops back `topic` came from `source`; `None` if it did not.
    #[must_use]
    pub fn hops_from(&self, source: &str, topic: &str) -> Option<u32> {
        let mut name = topic;
        let mut hops = 0;
        loop {
            let from = self.source(name)?;
            hops += 1;
            if from == source {
                return Some(hops);
            }
            match self.upstream(name) {
                Some(upstream) if upstream != name => name = upstream,
                _ => return None,
            }
        }
    }

    fn renames(&self, topic: &str) -> bool {
        match self.kind {
            PolicyKind::Default => true,
            // A plain suffix test, so `myheartbeats` too (`looksLikeHeartbeat`).
            PolicyKind::Identity => topic.ends_with(HEARTBEATS),
        }
    }

    /// The first part of a name that has two, by the rules of Java's `String.split`: empty
    /// parts at the end do not count.
    fn prefix<'a>(&self, topic: &'a str) -> Option<&'a str> {
        if self.separator.is_empty() {
            // Java splits between all characters and gives no empty first part.
            let mut characters = topic.char_indices().skip(1);
            return characters.next().map(|(second, _)| &topic[..second]);
        }
        let (first, rest) = topic.split_once(&self.separator)?;
        rest.split(self.separator.as_str()).any(|part| !part.is_empty()).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alias(name: &str) -> ClusterAlias {
        ClusterAlias::new(name)
    }

    fn default_policy() -> ReplicationPolicy {
        ReplicationPolicy::new(PolicyKind::Default, ".", Some(alias("source")))
    }

    fn identity_policy() -> ReplicationPolicy {
        ReplicationPolicy::new(PolicyKind::Identity, ".", Some(alias("source")))
    }

    #[test]
    fn a_name_is_taken_apart_as_java_takes_it_apart() {
        let policy = default_policy();

        for (topic, source, upstream, original) in [
            ("topic", None, None, "topic"),
            ("A.topic", Some("A"), Some("topic"), "topic"),
            ("B.A.topic", Some("B"), Some("A.topic"), "topic"),
            ("my.dotted.topic", Some("my"), Some("dotted.topic"), "topic"),
            ("a.", None, None, "a."),
            ("..", None, None, ".."),
            (".b", Some(""), Some("b"), "b"),
            ("a..b", Some("a"), Some(".b"), "b"),
            ("a.B.", Some("a"), Some("B."), "B."),
            ("x.heartbeats", Some("x"), Some("heartbeats"), "heartbeats"),
            ("heartbeats.x", Some("heartbeats"), Some("x"), "x"),
            ("", None, None, ""),
        ] {
            assert_eq!(policy.source(topic), source, "source of {topic}");
            assert_eq!(policy.upstream(topic), upstream, "upstream of {topic}");
            assert_eq!(policy.original(topic), original, "original of {topic}");
        }
    }

    #[test]
    fn a_separator_of_several_characters_is_taken_as_a_whole() {
        let policy = ReplicationPolicy::new(PolicyKind::Default, "__", None);

        assert_eq!(policy.remote(&alias("a"), &"t".into()).as_str(), "a__t");
        assert_eq!(policy.source("a__t"), Some("a"));
        assert_eq!(policy.source("a_t"), None);
        assert_eq!(policy.upstream("a___t"), Some("_t"));
        assert_eq!(policy.source("a____"), None);
    }

    #[test]
    fn the_identity_policy_keeps_names_and_renames_only_heartbeats() {
        let policy = identity_policy();

        assert_eq!(policy.remote(&alias("a"), &"orders".into()).as_str(), "orders");
        assert_eq!(policy.source("b.orders"), Some("source"));
        assert_eq!(policy.original("b.orders"), "b.orders");
        assert_eq!(policy.remote(&alias("a"), &"heartbeats".into()).as_str(), "a.heartbeats");
        assert_eq!(policy.remote(&alias("a"), &"myheartbeats".into()).as_str(), "a.myheartbeats");
        assert_eq!(policy.source("backup.heartbeats"), Some("backup"));
        assert_eq!(policy.source("heartbeats"), None);
    }

    #[test]
    fn a_topic_that_passed_through_the_target_is_a_cycle() {
        let policy = default_policy();
        let target = alias("target");

        for cycle in [
            "target.topic1",
            "target.source.topic1",
            "source.target.topic1",
            "target.source.target.topic1",
            "source.target.source.topic1",
            "orders.target.v1",
        ] {
            assert!(policy.is_cycle(&target, cycle), "{cycle}");
        }
        for fine in ["topic1", "source.topic1", "target.", "a.target.", ".b"] {
            assert!(!policy.is_cycle(&target, fine), "{fine}");
        }
    }

    #[test]
    fn the_identity_policy_sees_cycles_of_heartbeats_only() {
        let policy = identity_policy();
        let target = alias("target");

        for fine in ["target.topic1", "source.target.topic1", "heartbeats", "other.heartbeats"] {
            assert!(!policy.is_cycle(&target, fine), "{fine}");
        }
        for cycle in ["target.heartbeats", "source.target.heartbeats"] {
            assert!(policy.is_cycle(&target, cycle), "{cycle}");
        }
    }

    #[test]
    fn heartbeats_are_known_by_their_last_part_whoever_made_the_topic() {
        let policy = default_policy();

        for heartbeats in
            ["heartbeats", "source1.heartbeats", "source2.source1.heartbeats", "team.heartbeats"]
        {
            assert!(policy.is_heartbeats(heartbeats), "{heartbeats}");
        }
        for other in ["heartbeats!", "!heartbeats", "source1heartbeats", "source1-heartbeats"] {
            assert!(!policy.is_heartbeats(other), "{other}");
        }
        let underscore = ReplicationPolicy::new(PolicyKind::Default, "_", None);
        assert!(!underscore.is_heartbeats("us-west.heartbeats"));
    }

    #[test]
    fn a_checkpoint_names_the_topic_as_the_target_knows_it() {
        let policy = default_policy();
        let flow = FlowId { source: alias("source1"), target: alias("target2") };

        for (topic, expected) in [
            ("topic3", "source1.topic3"),
            ("target2.topic3", "topic3"),
            ("target2.c.topic3", "topic3"),
            ("source6.topic7", "source1.source6.topic7"),
        ] {
            assert_eq!(policy.checkpointed(&flow, &topic.into()).as_str(), expected);
        }
    }

    #[test]
    fn hops_are_counted_back_to_the_first_cluster_of_that_name() {
        let policy = default_policy();

        for (source, topic, hops) in [
            ("source", "topic", None),
            ("source", "source", None),
            ("source", "sourcetopic", None),
            ("source2", "source1.topic", None),
            ("source1", "source1.topic", Some(1)),
            ("source1", "source2.source1.topic", Some(2)),
            ("source2", "source2.source1.topic", Some(1)),
            ("source1", "source3.source2.source1.topic", Some(3)),
            ("source4", "source3.source2.source1.topic", None),
        ] {
            assert_eq!(policy.hops_from(source, topic), hops, "{source} in {topic}");
        }
    }

    #[test]
    fn internal_names_may_keep_the_dot_when_replicas_use_another_separator() {
        let policy =
            ReplicationPolicy::new(PolicyKind::Default, "_", None).with_internal_separator(".");

        assert_eq!(policy.internal().checkpoints(&alias("A")).as_str(), "A.checkpoints.internal");
        assert_eq!(policy.remote(&alias("A"), &"t".into()).as_str(), "A_t");
    }
}
