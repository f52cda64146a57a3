//! The ACLs round: access rules on the source's topics, on their replicas.
//!
//! Adds what is missing on the target and takes nothing away, as MM2 does; which rules, and how
//! they are narrowed, is `policy`'s business.

use std::collections::BTreeMap;
use std::time::Duration;

use super::complaints::{Complaints, complain};
use super::rights::{On, grant, is_denied, refusal};
use super::rounds::{Notes, Round, Trouble};
use crate::client::{Cluster, RequestError};
use crate::model::TopicAcl;
use crate::policy::{FlowTopics, missing_acls};

/// Rules that are added in one request.
///
/// A KRaft controller takes all of a request's rules as one change of its log, and refuses more
/// than 10,000 records in one.
const ACLS_PER_REQUEST: usize = 500;

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
}

impl AclsRound {
    pub(super) fn new(topics: FlowTopics, source: &Cluster, target: &Cluster) -> Self {
        let complaints = Complaints::new(&topics.flow, "acls");
        Self { topics, source: source.clone(), target: target.clone(), complaints }
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
        let source = source.map_err(|error| trouble(error, &self.source, "Describe"))?;
        // Without rules to mirror, the target need not be asked.
        if missing_acls(&source, &[], &self.topics).acls.is_empty() {
            self.complaints.renew(BTreeMap::new());
            return Ok(Notes::default());
        }
        let target = self.target.topic_acls().await;
        let target = target.map_err(|error| trouble(error, &self.target, "Alter"))?;
        let missing = missing_acls(&source, &target, &self.topics);
        let (mut complaints, mut added) = (BTreeMap::new(), 0_usize);
        for what in missing.unclear {
            complain(&mut complaints, &"*".into(), &format!("not decided: {what}"));
        }
        let missing: Vec<TopicAcl> = missing.acls.into_iter().collect();
        for chunk in missing.chunks(ACLS_PER_REQUEST) {
            let outcomes = self.target.create_topic_acls(chunk).await?;
            for (acl, outcome) in chunk.iter().zip(outcomes) {
                match outcome {
                    Ok(()) => added += 1,
                    Err(error) if is_denied(error.code) => {
                        return Err(Trouble::Denied {
                            what: format!(
                                "ACLs of topics cannot be added on {}: {error}",
                                self.target.alias()
                            ),
                            grant: grant(&self.target, "Alter", On::Cluster),
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

/// What a refusal of a whole request means; `operation` on the cluster is what it takes.
fn trouble(error: RequestError, cluster: &Cluster, operation: &str) -> Trouble {
    match refusal(&error) {
        Some(code) if code.0 == SECURITY_DISABLED => Trouble::Off(format!(
            "{} has no authorizer, so there are no ACLs to mirror",
            cluster.alias()
        )),
        Some(code) if is_denied(code) => Trouble::Denied {
            what: format!("ACLs of topics cannot be read on {}: {code}", cluster.alias()),
            grant: grant(cluster, operation, On::Cluster),
        },
        _ => error.into(),
    }
}
