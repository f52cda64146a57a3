//! How one flow names what it mirrors: its rename rules, and MM2's policy for the rest.
//!
//! Whatever the rules, no two topics of a flow have one name on the target. Rules are kept apart when
//! they are read; where a rule and the policy meet, the topic that no rule is about gives way
//! ([`NoName::Taken`]). Under the identity policy every rule can meet it, and whether one does, only
//! the source's topics tell; that it gives way even if the other topic is not there keeps names the
//! same from start to start.
//!
//! Proof: `proto-tests/tests/laws_of_renaming.rs`.

use super::naming::{PolicyKind, ReplicationPolicy};
use super::renames::{NAME_BYTES_MAX, Renames};
use crate::model::{ClusterAlias, TopicName};

/// Why a topic that is to be mirrored has no name on the target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoName {
    /// The policy would give it a name that a rule gives to another topic.
    #[error(
        "the policy would call it {name} on the target, the name that topics.rename gives to {by}; \
         with a rule of its own it is mirrored"
    )]
    Taken {
        /// That name.
        name: TopicName,
        /// The source topic that has it, or would have.
        by: TopicName,
    },
    /// A rule gives it a name that is MM2's or Kafka's own.
    #[error(
        "topics.rename would call it {0} on the target, a name of MirrorMaker 2's or Kafka's own"
    )]
    Reserved(TopicName),
    /// A rule gives it a name that brokers do not take.
    #[error(
        "topics.rename would give it a name of {} bytes on the target; brokers take 1 to \
         {NAME_BYTES_MAX}",
        .0.as_str().len()
    )]
    Unusable(TopicName),
}

/// The names of one flow's topics on its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowNames {
    /// For topics that no rule is about, and for MM2's own.
    pub policy: ReplicationPolicy,
    source: ClusterAlias,
    renames: Renames,
}

impl FlowNames {
    /// Names of a flow from `source`, by the policy alone.
    #[must_use]
    pub fn new(policy: ReplicationPolicy, source: &ClusterAlias) -> Self {
        Self { policy, source: source.clone(), renames: Renames::default() }
    }

    /// The same with rules that go before the policy.
    #[must_use]
    pub fn with_renames(self, renames: Renames) -> Self {
        Self { renames, ..self }
    }

    /// The rules.
    #[must_use]
    pub fn renames(&self) -> &Renames {
        &self.renames
    }

    /// What `topic` of the source is called on the target.
    ///
    /// # Errors
    ///
    /// [`NoName`] if it cannot have a name of its own there; never without rules.
    pub fn on_target(&self, topic: &TopicName) -> Result<TopicName, NoName> {
        if let Some(name) = self.renamed(topic.as_str()) {
            return if self.is_reserved(name.as_str()) {
                Err(NoName::Reserved(name))
            } else if is_usable(name.as_str()) {
                Ok(name)
            } else {
                Err(NoName::Unusable(name))
            };
        }
        let name = self.policy.remote(&self.source, topic);
        match self.unrenamed(name.as_str()) {
            Some(by) => Err(NoName::Taken { name, by }),
            None => Ok(name),
        }
    }

    /// Whether a rule names `topic` of the source, and not the policy.
    #[must_use]
    pub fn is_by_rule(&self, topic: &str) -> bool {
        self.renamed(topic).is_some()
    }

    /// The source topic that is called `name` on the target, if any can be.
    #[must_use]
    pub fn upstream(&self, name: &str) -> Option<TopicName> {
        self.unrenamed(name).or_else(|| {
            let prefix = format!("{}{}", self.source, self.policy.separator());
            [name.strip_prefix(&prefix), Some(name)]
                .into_iter()
                .flatten()
                .map(TopicName::new)
                .find(|topic| self.on_target(topic).is_ok_and(|gives| gives.as_str() == name))
        })
    }

    /// The source topic that `name` on the target shows to have come from: by a rule, or by the
    /// alias before it. A name that the policy keeps shows nothing.
    #[must_use]
    pub fn shown_upstream(&self, name: &str) -> Option<TopicName> {
        self.upstream(name)
            .filter(|topic| self.is_by_rule(topic.as_str()) || topic.as_str() != name)
    }

    /// The source topic that a rule calls `name` on the target.
    #[must_use]
    pub fn unrenamed(&self, name: &str) -> Option<TopicName> {
        let named = |topic: &String| {
            let gives = self.renamed(topic);
            gives.is_some_and(|gives| gives.as_str() == name && is_usable(name))
        };
        let topic = self.renames.undo(name).find(named).filter(|_| !self.is_reserved(name))?;
        Some(TopicName::new(topic))
    }

    /// What the replicas' names begin with, `name` among them: by a rule of prefixes, or by the
    /// default policy.
    #[must_use]
    pub fn prefix_of(&self, name: &str) -> Option<String> {
        match self.renames.prefix(name) {
            Some(prefix) => Some(prefix.to_owned()),
            None => {
                let prefix = self.policy.replica_prefix(&self.source);
                prefix.filter(|prefix| name.starts_with(prefix.as_str()))
            }
        }
    }

    /// Whether the policy leaves the name of `topic` as it is.
    pub(super) fn keeps(&self, topic: &str) -> bool {
        self.policy.kind() == PolicyKind::Identity
            && !self.is_by_rule(topic)
            && self.on_target(&TopicName::new(topic)).is_ok_and(|name| name.as_str() == topic)
    }

    /// What a rule calls `topic`. Rules are about users' topics: not about MM2's and Kafka's own, and
    /// not about what is no topic at all, as the `*` of an access rule.
    fn renamed(&self, topic: &str) -> Option<TopicName> {
        if self.renames.is_empty() || !is_usable(topic) || self.is_reserved(topic) {
            return None;
        }
        self.renames.apply(topic).map(TopicName::new)
    }

    fn is_reserved(&self, name: &str) -> bool {
        self.policy.internal().is_internal(name) || self.policy.is_heartbeats(name)
    }
}

/// Whether brokers take a topic of this name (`Topic.validate`).
fn is_usable(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kind: PolicyKind, separator: &str, rules: &[&str]) -> FlowNames {
        let source = ClusterAlias::new("A");
        let policy = ReplicationPolicy::new(kind, separator, Some(source.clone()));
        let renames = Renames::new(rules, &policy, &source).unwrap();
        FlowNames::new(policy, &source).with_renames(renames)
    }

    fn name(names: &FlowNames, topic: &str) -> String {
        names.on_target(&topic.into()).unwrap().as_str().to_owned()
    }

    #[test]
    fn what_no_rule_is_about_is_named_by_the_policy() {
        let default = names(PolicyKind::Default, ".", &["orders:orders-eu", "pay.*:eu.pay.*"]);
        let identity = names(PolicyKind::Identity, ".", &["orders:orders-eu", "pay.*:eu.pay.*"]);
        for (topic, by_default, by_identity) in [
            ("orders", "orders-eu", "orders-eu"),
            ("pay.in", "eu.pay.in", "eu.pay.in"),
            ("other", "A.other", "other"),
            ("heartbeats", "A.heartbeats", "A.heartbeats"),
            ("*", "A.*", "*"),
        ] {
            assert_eq!(name(&default, topic), by_default);
            assert_eq!(name(&identity, topic), by_identity);
            assert_eq!(default.upstream(by_default), Some(topic.into()));
            assert_eq!(identity.upstream(by_identity), Some(topic.into()));
        }
        assert_eq!(default.shown_upstream("A.other"), Some("other".into()));
        assert_eq!(identity.shown_upstream("other"), None, "a name that is kept shows nothing");
        assert_eq!(identity.shown_upstream("eu.pay.in"), Some("pay.in".into()));
        let kept = names(PolicyKind::Default, ".", &["orders:orders"]);
        assert_eq!(kept.shown_upstream("orders"), Some("orders".into()));
        assert_eq!(default.upstream("B.other"), None);
        assert_eq!(default.upstream("A.orders"), None, "a rule calls it otherwise");
    }

    #[test]
    fn heartbeats_and_internal_topics_pass_by_the_rules() {
        let all = names(PolicyKind::Default, ".", &["*:eu-*"]);
        assert_eq!(name(&all, "orders"), "eu-orders");
        assert_eq!(name(&all, "heartbeats"), "A.heartbeats");
        assert_eq!(name(&all, "C.heartbeats"), "A.C.heartbeats");
        assert!(!all.is_by_rule("__consumer_offsets") && !all.is_by_rule("*"));
        assert_eq!(all.upstream("eu-heartbeats"), None, "no rule renames heartbeats");
    }

    #[test]
    fn a_topic_whose_name_a_rule_gives_to_another_gives_way() {
        let moved = names(PolicyKind::Identity, ".", &["orders:payments"]);
        let taken = NoName::Taken { name: "payments".into(), by: "orders".into() };
        assert_eq!(moved.on_target(&"payments".into()), Err(taken));
        assert_eq!(moved.upstream("payments"), Some("orders".into()));
        assert_eq!(moved.upstream("orders"), None);

        let swapped = names(PolicyKind::Identity, ".", &["orders:payments", "payments:orders"]);
        assert_eq!(name(&swapped, "payments"), "orders");

        let stripped = names(PolicyKind::Default, ".", &["team.*:*"]);
        assert_eq!(name(&stripped, "team.A.x"), "A.x");
        assert!(matches!(stripped.on_target(&"x".into()), Err(NoName::Taken { .. })));
        assert_eq!(name(&stripped, "heartbeats"), "A.heartbeats");
    }

    #[test]
    fn names_that_nobody_may_have_are_not_given() {
        let stripped = names(PolicyKind::Default, "_", &["team.*:*"]);
        let reserved = |topic: &str| stripped.on_target(&topic.into());
        assert_eq!(reserved("team.__x"), Err(NoName::Reserved("__x".into())));
        assert_eq!(reserved("team.heartbeats"), Err(NoName::Reserved("heartbeats".into())));
        assert_eq!(reserved("team."), Err(NoName::Unusable("".into())));
        let longer = names(PolicyKind::Identity, ".", &["*:longer-*"]);
        let topic = TopicName::new("x".repeat(245));
        assert!(matches!(longer.on_target(&topic), Err(NoName::Unusable(_))));
        assert!(longer.on_target(&TopicName::new("x".repeat(242))).is_ok());
    }

    #[test]
    fn rights_are_granted_by_prefix_where_there_is_one() {
        let default = names(PolicyKind::Default, ".", &["orders:orders-eu", "pay.*:eu.pay.*"]);
        assert_eq!(default.prefix_of("A.x").as_deref(), Some("A."));
        assert_eq!(default.prefix_of("eu.pay.in").as_deref(), Some("eu.pay."));
        assert_eq!(default.prefix_of("orders-eu"), None);
        assert_eq!(names(PolicyKind::Identity, ".", &["a.*:*"]).prefix_of("x"), None);
    }
}
