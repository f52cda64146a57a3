//! The ACLs round: access rules on the source's topics, on their replicas.
//!
//! Adds what is missing on the target and takes nothing away, as MM2 does; which rules, and how
//! they are narrowed, is `policy`'s business.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::complaints::{Complaints, complain};
use super::rights::{Missing, Resource, is_denied, refusal};
use super::rounds::{Notes, Round, Trouble};
use crate::client::{Cluster, RequestError};
use crate::model::{AclOperation, TopicAcl};
use crate::policy::{FlowTopics, Thing, missing_acls};

/// Rules that are added in one request.
///
/// A KRaft controller takes all of a request's rules as one change of its log, and refuses more
/// than 10,000 records in one.
const ACLS_PER_REQUEST: usize = 500;

/// How often a rule is added, a round after the other, before that is taken for a contest.
const CONTESTED_AFTER: u32 = 5;

/// After how many rounds in its place a rule is as good as new.
const FORGOTTEN_AFTER: u64 = 10;

/// What is said about a rule that is.
const CONTESTED: &str = "is taken away on the target each time it is added, by an operator perhaps; it \
     is added more and more seldom. sync.topic.acls.enabled=false leaves rules to the target";

/// `SECURITY_DISABLED`: the cluster has no authorizer.
const SECURITY_DISABLED: i16 = 54;

/// How ACLs are kept in step.
#[derive(Clone, Copy, Debug)]
pub struct AclSync {
    /// How often.
    pub interval: Duration,
}

/// One flow's ACLs round.
#[derive(Debug)]
pub(super) struct AclsRound {
    topics: FlowTopics,
    source: Cluster,
    target: Cluster,
    complaints: Complaints,
    contested: Contested,
}

impl AclsRound {
    pub(super) fn new(topics: FlowTopics, source: &Cluster, target: &Cluster) -> Self {
        let complaints = Complaints::new(&topics.flow, "acls");
        let contested = Contested::default();
        Self { topics, source: source.clone(), target: target.clone(), complaints, contested }
    }
}

impl Round for AclsRound {
    /// Compares the rules of both clusters and adds what is missing.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if a cluster does not answer, has no authorizer, or does not let us.
    async fn run(&mut self) -> Result<Notes, Trouble> {
        let source = self.source.topic_acls().await;
        let source = source.map_err(|error| trouble(error, &self.source, Thing::SourceCluster))?;
        // Without rules to mirror, the target need not be asked.
        if missing_acls(&source, &[], &self.topics).acls.is_empty() {
            self.complaints.renew(BTreeMap::new());
            return Ok(Notes::default());
        }
        let target = self.target.topic_acls().await;
        let target = target.map_err(|error| trouble(error, &self.target, Thing::TargetCluster))?;
        let missing = missing_acls(&source, &target, &self.topics);
        let (mut complaints, mut added) = (BTreeMap::new(), 0_usize);
        for what in missing.unclear {
            complain(&mut complaints, &"*".into(), &format!("not decided: {what}"));
        }
        let (missing, contested) = self.contested.choose(missing.acls);
        for acl in &contested {
            complain(&mut complaints, &acl.topic, &format!("contested: {acl} {CONTESTED}"));
        }
        for chunk in missing.chunks(ACLS_PER_REQUEST) {
            let outcomes = self.target.create_topic_acls(chunk).await?;
            for (acl, outcome) in chunk.iter().zip(outcomes) {
                match outcome {
                    Ok(()) => {
                        added += 1;
                        self.contested.added(acl);
                    }
                    Err(error) if is_denied(error.code) => {
                        return Err(Trouble::Denied {
                            what: format!(
                                "ACLs of topics cannot be added on {}: {error}",
                                self.target.alias()
                            ),
                            missing: on_cluster(&self.target, Thing::TargetCluster),
                        });
                    }
                    Err(error) => {
                        let what = format!("the target does not take {acl}: {error}");
                        complain(&mut complaints, &acl.topic, &what);
                    }
                }
            }
        }
        if added > 0 {
            tracing::info!(flow = %self.topics.flow, added, "ACLs of topics added");
        }
        Ok(Notes { undone: self.complaints.renew(complaints), ..Notes::default() })
    }
}

/// Rules that somebody takes away again and again, an operator of the target say, who keeps what
/// is written elsewhere. After some rounds they are added ever more seldom.
///
/// Holds as many entries as rules were added in the last rounds, or are missing again.
#[derive(Debug, Default)]
struct Contested {
    round: u64,
    added: BTreeMap<TopicAcl, Added>,
}

/// How often one rule was added, in which round last, and in which next if it is missing again.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    times: u32,
    last: u64,
    not_before: u64,
}

impl Contested {
    /// Begins a round: which of the missing rules are added now, and which are left for later.
    fn choose(&mut self, missing: BTreeSet<TopicAcl>) -> (Vec<TopicAcl>, Vec<TopicAcl>) {
        self.round += 1;
        let round = self.round;
        self.added
            .retain(|acl, added| missing.contains(acl) || round < added.last + FORGOTTEN_AFTER);
        let due =
            |acl: &TopicAcl| self.added.get(acl).is_none_or(|added| added.not_before <= self.round);
        missing.into_iter().partition(due)
    }

    /// A rule was added in this round.
    fn added(&mut self, acl: &TopicAcl) {
        let added = self.added.entry(acl.clone()).or_default();
        added.times += 1;
        added.last = self.round;
        let pause = added.times.checked_sub(CONTESTED_AFTER).map_or(0, |times| 2 << times.min(10));
        added.not_before = self.round + 1 + pause;
    }
}

/// The right on a cluster itself that this takes.
fn on_cluster(cluster: &Cluster, thing: Thing) -> Missing {
    let operation = match thing {
        Thing::TargetCluster => AclOperation::ALTER,
        _ => AclOperation::DESCRIBE,
    };
    Missing::new(cluster, thing, operation, Resource::Cluster)
}

/// What a refusal of a whole request means.
fn trouble(error: RequestError, cluster: &Cluster, thing: Thing) -> Trouble {
    match refusal(&error) {
        Some(code) if code.0 == SECURITY_DISABLED => Trouble::Off(format!(
            "{} has no authorizer, so there are no ACLs to mirror",
            cluster.alias()
        )),
        Some(code) if is_denied(code) => Trouble::Denied {
            what: format!("ACLs of topics cannot be read on {}: {code}", cluster.alias()),
            missing: on_cluster(cluster, thing),
        },
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AclOperation, AclPermission};

    #[test]
    fn a_rule_that_is_taken_away_each_time_is_added_more_and_more_seldom() {
        let acl = TopicAcl {
            topic: "a.t".into(),
            principal: "User:alice".into(),
            host: "*".into(),
            operation: AclOperation::READ,
            permission: AclPermission::Allow,
        };
        let mut contested = Contested::default();
        let mut rounds = Vec::new();
        for round in 1..=40 {
            let (due, left) = contested.choose(BTreeSet::from([acl.clone()]));
            assert_eq!(due.len() + left.len(), 1);
            for acl in due {
                contested.added(&acl);
                rounds.push(round);
            }
        }
        assert_eq!(rounds, [1, 2, 3, 4, 5, 8, 13, 22, 39]);
        // Once it has stayed for a while, all is forgotten.
        for _ in 0..=FORGOTTEN_AFTER {
            contested.choose(BTreeSet::new());
        }
        assert!(contested.added.is_empty());
    }
}
