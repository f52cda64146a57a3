//! The topics that a flow itself needs on its target.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rights::is_denied;
use crate::client::{Backoff, Cluster, CreateTopic, RequestError};
use crate::model::{FlowId, TopicName};

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

/// What became of the topics that a flow needs.
#[derive(Debug, Default)]
pub(super) struct Ensured {
    /// Made just now: there is nothing in them.
    pub(super) made: BTreeSet<TopicName>,
    /// Not to be had, in words.
    pub(super) refused: Vec<String>,
    /// One of them because a right is missing.
    pub(super) denied: bool,
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
        .map(|topic| CreateTopic {
            name: topic.name.clone(),
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            configs: BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]),
        })
        .collect();
    let mut ensured = Ensured::default();
    if missing.is_empty() {
        return Ok(ensured);
    }
    for (name, outcome) in target.create_topics(&missing).await? {
        match outcome {
            Ok(()) => {
                tracing::info!(%flow, cluster = %target.alias(), topic = %name,
                    "internal topic created");
                ensured.made.insert(name);
            }
            Err(error) if error.code.0 == 36 => {}
            Err(error) => {
                ensured.denied |= is_denied(error.code);
                ensured.refused.push(format!("{name} cannot be created: {error}"));
            }
        }
    }
    settle(target, &names).await?;
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
