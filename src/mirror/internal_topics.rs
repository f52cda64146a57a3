//! The topics that a flow itself needs on its target.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rights::is_denied;
use crate::client::{Backoff, Cluster, CreateTopic, RequestError};
use crate::model::{AclOperation, FlowId, TopicName};

/// How long a new topic may take until all its partitions have a leader.
const SETTLE: Duration = Duration::from_secs(30);

/// A compacted topic that must be there before a flow starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopic {
    /// Its name.
    pub name: TopicName,
    /// Partitions if it must be made; -1 for the target's default.
    pub partitions: i32,
    /// Replicas if it must be made; -1 for the target's default.
    pub replication_factor: i16,
}

impl InternalTopic {
    /// The wish to make it.
    pub(super) fn creation(&self) -> CreateTopic {
        CreateTopic {
            name: self.name.clone(),
            partitions: self.partitions,
            replication_factor: self.replication_factor,
            configs: BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]),
        }
    }
}

/// What became of the topics that a flow needs.
#[derive(Debug, Default)]
pub(super) struct Ensured {
    /// Made just now: there is nothing in them.
    pub(super) made: BTreeSet<TopicName>,
    /// Not to be had, in words.
    pub(super) refused: Vec<String>,
    /// Those of them that may not be made.
    pub(super) denied: BTreeSet<TopicName>,
    /// Those of them that exist, and that may neither be read nor written.
    pub(super) hidden: BTreeSet<TopicName>,
}

impl Ensured {
    /// The operation that our principal lacks first, of one who writes to the topic.
    pub(super) fn lacks(&self, topic: &TopicName) -> Option<AclOperation> {
        if self.denied.contains(topic) {
            Some(AclOperation::CREATE)
        } else {
            self.hidden.contains(topic).then_some(AclOperation::WRITE)
        }
    }
}

/// Makes the topics that are missing. A topic that exists is taken as it is, as MM2 does.
///
/// # Errors
///
/// [`RequestError`] if the target does not answer.
pub(super) async fn ensure(
    flow: &FlowId,
    target: &Cluster,
    topics: &[InternalTopic],
) -> Result<Ensured, RequestError> {
    let names: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
    target.refresh(Some(&names)).await?;
    let view = target.view();
    let missing: Vec<CreateTopic> = topics
        .iter()
        .filter(|topic| !view.topics.contains_key(&topic.name))
        .map(InternalTopic::creation)
        .collect();
    let mut ensured = Ensured::default();
    if missing.is_empty() {
        return Ok(ensured);
    }
    let mut there: BTreeSet<TopicName> = names.iter().cloned().collect();
    let mut unseen = Vec::new();
    for (name, outcome) in target.create_topics(&missing).await? {
        match outcome {
            Ok(()) => {
                tracing::info!(%flow, cluster = %target.alias(), topic = %name,
                    "internal topic created");
                ensured.made.insert(name);
            }
            Err(error) if error.code.0 == 36 => unseen.push(name),
            Err(error) => {
                there.remove(&name);
                if is_denied(error.code) {
                    ensured.denied.insert(name.clone());
                }
                ensured.refused.push(format!("{name} cannot be created: {error}"));
            }
        }
    }
    // Somebody has just made it; or it was there, and is not shown to us.
    for (name, told) in target.topic_operations(&unseen).await? {
        if told.is_err_and(is_denied) {
            there.remove(&name);
            ensured.refused.push(format!("{name} exists, and may neither be read nor written"));
            ensured.hidden.insert(name);
        }
    }
    settle(target, &there.into_iter().collect::<Vec<_>>()).await?;
    Ok(ensured)
}

/// Waits until every partition of the topics that exist has a leader: a creation is answered
/// before that.
pub(super) async fn settle(target: &Cluster, names: &[TopicName]) -> Result<(), RequestError> {
    let deadline = target.clock().now().after(SETTLE);
    let mut backoff = Backoff::between(Duration::from_millis(10), Duration::from_millis(500), 5);
    loop {
        target.refresh(Some(names)).await?;
        let view = target.view();
        let settled = names.iter().all(|name| {
            view.topics
                .get(name)
                .is_some_and(|topic| topic.partitions.values().all(|one| one.leader.is_some()))
        });
        if settled || target.clock().now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(backoff.fail()).await;
    }
}
