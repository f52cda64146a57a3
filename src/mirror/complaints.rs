//! What cannot be done for single topics: told once, kept for the report.

use std::collections::BTreeMap;

use super::rounds::Lines;
use crate::model::{FlowId, TopicName};

/// Topics that one round complains about line by line; of the rest only the number is told. A
/// right that is missing is often missing for thousands at once.
const TOLD_MAX: usize = 20;

/// The complaints of one kind of round.
#[derive(Debug)]
pub(super) struct Complaints {
    flow: FlowId,
    round: &'static str,
    standing: BTreeMap<TopicName, String>,
}

impl Complaints {
    pub(super) fn new(flow: &FlowId, round: &'static str) -> Self {
        Self { flow: flow.clone(), round, standing: BTreeMap::new() }
    }

    /// Takes the complaints of a run that came to its end: tells those that are new, forgets
    /// those that are gone, and gives them all as lines.
    pub(super) fn renew(&mut self, now: BTreeMap<TopicName, String>) -> Lines {
        let (flow, round) = (&self.flow, self.round);
        let new = |(topic, what): &(&TopicName, &String)| self.standing.get(*topic) != Some(what);
        let new: Vec<_> = now.iter().filter(new).collect();
        for (topic, what) in new.iter().take(TOLD_MAX) {
            tracing::warn!(%flow, round, %topic, "{what}");
        }
        if let Some(more) = new.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            tracing::warn!(%flow, round, more, "more topics with trouble; see /status");
        }
        let mut lines = Lines::default();
        lines.extend(now.iter().map(|(topic, what)| format!("{topic}: {what}")));
        self.standing = now;
        lines
    }
}

/// Adds `what` to what is said about `topic`.
pub(super) fn complain(into: &mut BTreeMap<TopicName, String>, topic: &TopicName, what: &str) {
    let text = into.entry(topic.clone()).or_default();
    if !text.is_empty() {
        text.push_str("; ");
    }
    text.push_str(what);
}
