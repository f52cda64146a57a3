//! One partition as a shard holds it: its copier, its leaders, its pauses.

use std::collections::VecDeque;
use std::time::Duration;

use super::age::Age;
use super::progress::Page;
use super::status::SeenGap;
use super::supervisor::Report;
use crate::client::SessionKey;
use crate::copy::{Copier, Start, Terms};
use crate::model::{Gap, Leader, Moment, Offset, Timestamp, TopicId, TopicName, TopicPartition};
use crate::wire::ErrorCode;

/// First pause after the target refused a batch for a passing reason, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// Gaps shown of one partition; the counts know of all.
const GAPS_REMEMBERED: usize = 20;

/// A partition to be copied, and from where.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) source: TopicPartition,
    pub(super) target: TopicPartition,
    pub(super) source_id: TopicId,
    pub(super) target_id: TopicId,
    pub(super) start: Start,
    /// Where its progress is noted.
    pub(super) page: Page,
    /// What the source lost before it.
    pub(super) gap: Option<Gap>,
    pub(super) terms: Terms,
}

/// A last stable offset that does not move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unstable {
    pub(super) at: Offset,
    pub(super) since: Moment,
    pub(super) told: bool,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) source: TopicPartition,
    pub(super) target: TopicPartition,
    pub(super) source_id: TopicId,
    pub(super) target_id: TopicId,
    /// Where its progress is noted.
    pub(super) page: Page,
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
    /// With which code the source refused to give records, until it gives some.
    pub(super) unreadable: Option<ErrorCode>,
    /// With which code the target refused the last batch, until it takes one.
    pub(super) refused: Option<ErrorCode>,
    /// Why it stopped, in short and in words, here or before it was tried again, until a batch is
    /// stored.
    pub(super) halted_for: Option<(String, String)>,
    /// Bytes outside of frames, as last counted.
    pub(super) owned: usize,
    /// When something was acknowledged, or nothing was left to copy.
    pub(super) moved: Moment,
    /// How long the oldest record that is not copied has been waiting.
    pub(super) age: Age,
    /// Since when the last stable offset has stood here, below the high watermark.
    pub(super) unstable: Option<Unstable>,
    /// Batches that did not go where they should have.
    pub(super) foreign: u64,
    /// The last gaps that are loss.
    pub(super) gaps: VecDeque<SeenGap>,
    /// `acked` as last noted in the progress book.
    pub(super) noted: Option<Offset>,
    /// What the supervisor is told once nothing is in flight.
    pub(super) report: Option<Report>,
}

impl Slot {
    pub(super) fn new(assignment: Assignment, now: Moment) -> Self {
        let Assignment { source, target, source_id, target_id, start, page, gap: _, terms } =
            assignment;
        Self {
            source,
            target,
            source_id,
            target_id,
            page,
            copier: Copier::new(start, terms),
            source_leader: None,
            target_leader: None,
            queued: false,
            not_before: Moment(Duration::ZERO),
            pause: PAUSE_FIRST,
            fetch_not_before: Moment(Duration::ZERO),
            unreadable: None,
            refused: None,
            halted_for: None,
            owned: 0,
            moved: now,
            age: Age::default(),
            unstable: None,
            foreign: 0,
            gaps: VecDeque::new(),
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
        self.refused = None;
    }

    /// Keeps a gap for who asks.
    pub(super) fn remember(&mut self, gap: Gap, at: Timestamp) {
        if self.gaps.len() == GAPS_REMEMBERED {
            self.gaps.pop_front();
        }
        self.gaps.push_back(SeenGap { gap, at });
    }

    /// What another slot of the same partition has counted, taken over.
    pub(super) fn inherit(&mut self, before: Self) {
        let same_log = self.source_id == before.source_id;
        self.copier.inherit(&before.copier, same_log);
        self.gaps = before.gaps;
        self.age = before.age;
        self.foreign = before.foreign;
        self.halted_for = before.halted_for;
    }

    pub(super) fn target_topic(&self) -> &TopicName {
        &self.target.topic
    }
}
