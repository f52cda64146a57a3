//! One partition as a shard holds it: its copier, its leaders, its pauses.

use std::time::Duration;

use super::supervisor::Report;
use crate::client::SessionKey;
use crate::copy::{Copier, Start, Terms};
use crate::model::{Leader, Moment, Offset, TopicId, TopicName, TopicPartition};

/// First pause after the target refused a batch for a passing reason, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// A partition to be copied, and from where.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) source: TopicPartition,
    pub(super) target: TopicPartition,
    pub(super) source_id: TopicId,
    pub(super) target_id: TopicId,
    pub(super) start: Start,
    pub(super) terms: Terms,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) source: TopicPartition,
    pub(super) target: TopicPartition,
    pub(super) source_id: TopicId,
    pub(super) target_id: TopicId,
    pub(super) copier: Copier,
    pub(super) source_leader: Option<Leader>,
    pub(super) target_leader: Option<Leader>,
    /// It stands in its produce lane's queue.
    pub(super) queued: bool,
    /// Nothing is sent for it before this moment.
    pub(super) not_before: Moment,
    pause: Duration,
    /// Nothing is fetched for it before this moment.
    pub(super) fetch_not_before: Moment,
    /// `acked` as last noted in the progress book.
    pub(super) noted: Option<Offset>,
    /// What the supervisor is told once nothing is in flight.
    pub(super) report: Option<Report>,
}

impl Slot {
    pub(super) fn new(assignment: Assignment) -> Self {
        let Assignment { source, target, source_id, target_id, start, terms } = assignment;
        Self {
            source,
            target,
            source_id,
            target_id,
            copier: Copier::new(start, terms),
            source_leader: None,
            target_leader: None,
            queued: false,
            not_before: Moment(Duration::ZERO),
            pause: PAUSE_FIRST,
            fetch_not_before: Moment(Duration::ZERO),
            noted: None,
            report: None,
        }
    }

    /// How a fetch session of a version with or without topic ids names it.
    pub(super) fn session_key(&self, topic_ids: bool) -> SessionKey {
        use crate::wire::fetch::TopicRef;
        let topic = if topic_ids {
            TopicRef::Id(self.source_id)
        } else {
            TopicRef::Name(self.source.topic.clone())
        };
        (topic, self.source.partition)
    }

    /// Holds back; each pause in a row is twice the one before. Says whether it is the first.
    pub(super) fn pause(&mut self, now: Moment) -> bool {
        let first = self.pause == PAUSE_FIRST;
        self.not_before = now.after(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MOST);
        first
    }

    /// A batch was stored: the next pause is short again.
    pub(super) fn thrive(&mut self) {
        self.pause = PAUSE_FIRST;
    }

    pub(super) fn target_topic(&self) -> &TopicName {
        &self.target.topic
    }
}
