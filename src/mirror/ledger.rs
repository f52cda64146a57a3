//! A compacted topic of ours on the target, in which a flow writes down what is its own there.
//!
//! What is owned is written before the target is changed: a process that dies in between owns
//! what it may have changed. What the records mean is the business of who writes them.

use super::internal_topics::{InternalTopic, ensure};
use super::rights::{Missing, log_denied};
use super::rounds::Trouble;
use crate::client::{Cluster, LogError, LogRecord, NewRecord};
use crate::model::{AclOperation, FlowId};
use crate::policy::Thing;

/// One such topic, of which this process is the only writer.
#[derive(Debug)]
pub(super) struct Ledger {
    flow: FlowId,
    target: Cluster,
    topic: InternalTopic,
    thing: Thing,
    /// The topic was seen, or made.
    exists: bool,
}

impl Ledger {
    /// Reads what was written before; nothing if there is no such topic yet.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if the target does not answer, or does not let us.
    pub(super) async fn open(
        (flow, target): (&FlowId, &Cluster),
        topic: &InternalTopic,
        thing: Thing,
    ) -> Result<(Self, Vec<LogRecord>), Trouble> {
        let (exists, records) = match target.read_to_end(&topic.name, false).await {
            Ok(records) => (true, records),
            Err(LogError::Missing(_)) => (false, Vec::new()),
            Err(error) => return Err(trouble(error, target, topic, (thing, AclOperation::READ))),
        };
        let (flow, target, topic) = (flow.clone(), target.clone(), topic.clone());
        Ok((Self { flow, target, topic, thing, exists }, records))
    }

    /// Whether somebody deleted the topic: everything must be written again.
    pub(super) fn is_lost(&self) -> bool {
        self.exists && !self.target.view().topics.contains_key(&self.topic.name)
    }

    /// Adds records; makes the topic if it is not there.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if it cannot be made or written; nothing may be changed on the target then.
    pub(super) async fn write(&mut self, records: &[NewRecord]) -> Result<(), Trouble> {
        if records.is_empty() {
            return Ok(());
        }
        if !self.exists || self.is_lost() {
            self.exists = false;
            let topics = std::slice::from_ref(&self.topic);
            let ensured = ensure(&self.flow, &self.target, topics).await?;
            let lacks = ensured.lacks(&self.topic.name);
            if let Some(what) = ensured.refused.into_iter().next() {
                return Err(match lacks {
                    Some(operation) => {
                        let missing = lack(&self.target, &self.topic, (self.thing, operation));
                        Trouble::Denied { what, missing }
                    }
                    None => Trouble::Failed(what),
                });
            }
            self.exists = true;
        }
        let appended = self.target.append(&self.topic.name, records).await;
        let right = (self.thing, AclOperation::WRITE);
        appended.map_err(|error| trouble(error, &self.target, &self.topic, right))?;
        Ok(())
    }
}

fn lack(
    target: &Cluster,
    topic: &InternalTopic,
    (thing, operation): (Thing, AclOperation),
) -> Missing {
    Missing::on_topic(target, thing, operation, topic.name.as_str())
}

/// What it means that the topic could not be read or written.
fn trouble(
    error: LogError,
    target: &Cluster,
    topic: &InternalTopic,
    right: (Thing, AclOperation),
) -> Trouble {
    if log_denied(&error) {
        let missing = lack(target, topic, right);
        return Trouble::Denied { what: error.to_string(), missing };
    }
    error.into()
}
