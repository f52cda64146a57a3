//! Names of the topics that MM2 keeps for itself.
//!
//! Only the separator of internal names matters here, and it is given: how a replication
//! policy picks it is `policy::naming`'s business.

use crate::model::{ClusterAlias, TopicName};

/// The heartbeat topic. No separator and no policy changes it (`ReplicationPolicy`).
pub const HEARTBEATS: &str = "heartbeats";

/// Internal topic names under one separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalNames {
    separator: String,
}

impl InternalNames {
    /// Names whose parts are joined by `separator`; MM2's default is a dot.
    #[must_use]
    pub fn new(separator: impl Into<String>) -> Self {
        Self { separator: separator.into() }
    }

    /// The topic of offset syncs. `other` is the cluster that does NOT host it: with the
    /// default location, on the source, it is the target's alias.
    #[must_use]
    pub fn offset_syncs(&self, other: &ClusterAlias) -> TopicName {
        let separator = &self.separator;
        TopicName::new(format!("mm2-offset-syncs{separator}{other}{separator}internal"))
    }

    /// The topic of checkpoints on a target, for positions on `source`.
    #[must_use]
    pub fn checkpoints(&self, source: &ClusterAlias) -> TopicName {
        TopicName::new(format!("{source}{}", self.checkpoints_suffix()))
    }

    /// Whether some source's checkpoints are in `topic`.
    #[must_use]
    pub fn is_checkpoints(&self, topic: &str) -> bool {
        topic.ends_with(&self.checkpoints_suffix())
    }

    /// Whether MM2 keeps `topic` for itself. Since 4.0 a user's `orders.internal` is not meant.
    #[must_use]
    pub fn is_mm2_internal(&self, topic: &str) -> bool {
        let internal = format!("{}internal", self.separator);
        (topic.starts_with("mm2") && topic.ends_with(&internal)) || self.is_checkpoints(topic)
    }

    /// Whether `topic` is never replicated: MM2's own, Kafka's (`__`) or hidden (`.`).
    #[must_use]
    pub fn is_internal(&self, topic: &str) -> bool {
        self.is_mm2_internal(topic) || topic.starts_with("__") || topic.starts_with('.')
    }

    fn checkpoints_suffix(&self) -> String {
        let separator = &self.separator;
        format!("{separator}checkpoints{separator}internal")
    }
}

/// Connect's default topic of source offsets, on the target. Separators do not touch it.
#[must_use]
pub fn connect_offsets(source: &ClusterAlias) -> TopicName {
    TopicName::new(format!("mm2-offsets.{source}.internal"))
}

/// Connect's default topic of configurations, on the target.
#[must_use]
pub fn connect_configs(source: &ClusterAlias) -> TopicName {
    TopicName::new(format!("mm2-configs.{source}.internal"))
}

/// Connect's default topic of statuses, on the target.
#[must_use]
pub fn connect_status(source: &ClusterAlias) -> TopicName {
    TopicName::new(format!("mm2-status.{source}.internal"))
}

/// The group that MM2's workers form on the target. Members in it mean that MM2 is running.
#[must_use]
pub fn connect_group(source: &ClusterAlias) -> String {
    format!("{source}-mm2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_topics_follow_the_internal_separator_only() {
        let alias = ClusterAlias::new("CLUSTER");
        let dots = InternalNames::new(".");
        let underscores = InternalNames::new("__");

        assert_eq!(dots.offset_syncs(&alias).as_str(), "mm2-offset-syncs.CLUSTER.internal");
        assert_eq!(
            underscores.offset_syncs(&alias).as_str(),
            "mm2-offset-syncs__CLUSTER__internal"
        );
        assert_eq!(dots.checkpoints(&alias).as_str(), "CLUSTER.checkpoints.internal");
        assert_eq!(underscores.checkpoints(&alias).as_str(), "CLUSTER__checkpoints__internal");
        assert_eq!(connect_offsets(&alias).as_str(), "mm2-offsets.CLUSTER.internal");
    }

    #[test]
    fn only_names_of_mm2_kafka_and_hidden_ones_are_internal() {
        let names = InternalNames::new(".");

        for internal in ["__consumer_offsets", ".hiddentopic", "mm2-offsets.CLUSTER.internal"] {
            assert!(names.is_internal(internal), "{internal}");
        }
        for ordinary in [
            "mm2-offsets_CLUSTER_internal",
            "mm2-offsets-CLUSTER-internal",
            "orders.internal",
            "app-internal",
        ] {
            assert!(!names.is_internal(ordinary), "{ordinary}");
        }
    }

    #[test]
    fn a_checkpoints_topic_needs_an_alias_in_front() {
        let names = InternalNames::new(".");

        assert!(names.is_checkpoints("source1.checkpoints.internal"));
        for other in [
            "checkpoints.internal",
            "checkpoints-internal",
            "checkpoints.internal!",
            "!checkpoints.internal",
            "source1checkpointsinternal",
        ] {
            assert!(!names.is_checkpoints(other), "{other}");
        }
    }
}
