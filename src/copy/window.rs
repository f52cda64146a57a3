//! Batches in flight: their sequences, and the order of retry.

use std::collections::VecDeque;

use bytes::Bytes;

use super::path::Path;
use crate::batch::{OutBatch, RawBatch, restamp};
use crate::model::{LeaderEpoch, Offset, OffsetRange, ProducerIdentity, Runs, Sequence};

/// Batches of one partition that may be sent and not yet acknowledged.
///
/// Five is the number of batches per producer that a leader remembers for de-duplication
/// (KIP-98); with more, a resend after a lost answer could be refused or stored twice.
pub const WINDOW_BATCHES_MAX: usize = 5;

/// A batch that was given a sequence.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) batch: OutBatch,
    pub(super) upstream: OffsetRange,
    /// Which upstream offsets its records have.
    pub(super) runs: Runs,
    /// Epoch of the last source batch in it.
    pub(super) epoch: LeaderEpoch,
    pub(super) sequence: Sequence,
    pub(super) count: i32,
    /// How it came to be what it is.
    pub(super) path: Path,
    /// Its size, also once its body is let go of.
    pub(super) bytes: usize,
    /// Its body lies in memory of its own, not in a frame.
    owned: bool,
    /// It was the first of the window when it last went out, so what is said about it is not a
    /// consequence of what became of another.
    pub(super) led: bool,
    /// A request that holds it has no answer yet.
    out: bool,
}

/// Which batch of a window failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The first, sent as the first, with nothing gone wrong since: whatever is said about it, is
    /// about itself.
    Leading,
    /// The first; that it does not follow what was stored may be another's doing.
    First,
    /// One behind the first, or none: it will be sent again, and then it is told.
    Behind,
}

/// The batches between the first unacknowledged and the last that was given a sequence.
///
/// Must hold: sequences are contiguous; what is sent again is a suffix, in order, with the
/// boundaries and sequences it had. A broker that took a batch already answers a resend of the
/// same one with success and its first offset.
#[derive(Debug)]
pub(super) struct Window {
    identity: ProducerIdentity,
    next: Sequence,
    sent: VecDeque<Sent>,
    /// Index of the batch that goes out next; `sent.len()` when all are out.
    cursor: usize,
    /// A batch failed: once nothing is outstanding, all are sent again from the first.
    rewind: bool,
    /// The target has stored a batch of this identity, so its leader knows which sequence is next.
    proven: bool,
}

impl Window {
    pub(super) fn new(identity: ProducerIdentity, next: Sequence) -> Self {
        Self { identity, next, sent: VecDeque::new(), cursor: 0, rewind: false, proven: false }
    }

    pub(super) fn identity(&self) -> ProducerIdentity {
        self.identity
    }

    /// Sequence of the first batch not yet acknowledged.
    pub(super) fn first_sequence(&self) -> Sequence {
        self.sent.front().map_or(self.next, |first| first.sequence)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Batches that are out without an answer.
    pub(super) fn outstanding(&self) -> usize {
        self.sent.iter().filter(|sent| sent.out).count()
    }

    /// Whether a new batch may enter.
    ///
    /// The first one goes alone: a leader that knows nothing of a producer takes any sequence, so
    /// a second batch behind a refused first would be stored in its place
    /// (`ProducerAppendInfo.checkSequence`).
    pub(super) fn has_room(&self) -> bool {
        let batches_max = if self.proven { WINDOW_BATCHES_MAX } else { 1 };
        self.sent.len() < batches_max && !self.rewind
    }

    /// Whether a batch of the window can go out now.
    pub(super) fn can_resend(&self) -> bool {
        if self.rewind { self.outstanding() == 0 } else { self.cursor < self.sent.len() }
    }

    /// End of the upstream offsets in the window, and the epoch there.
    pub(super) fn end(&self) -> Option<(Offset, LeaderEpoch)> {
        self.sent.back().map(|last| (last.upstream.end, last.epoch))
    }

    /// Gives a new batch its sequence; it goes out after those before it.
    pub(super) fn push(
        &mut self,
        batch: &RawBatch,
        (upstream, epoch): (OffsetRange, LeaderEpoch),
        (path, runs): (Path, Runs),
    ) {
        debug_assert!(self.has_room());
        let sequence = self.next;
        let count = batch.header().count;
        self.next = sequence.advance(count);
        let batch = restamp(batch, self.identity, sequence);
        self.sent.push_back(Sent {
            upstream,
            runs,
            epoch,
            sequence,
            count,
            path,
            bytes: batch.total_bytes(),
            batch,
            owned: path != Path::Raw,
            led: false,
            out: false,
        });
    }

    /// The batch that goes out next, marked as out.
    pub(super) fn send(&mut self) -> Option<(OutBatch, Sequence)> {
        if self.rewind {
            if self.outstanding() > 0 {
                return None;
            }
            self.rewind = false;
            self.cursor = 0;
        }
        let next = self.sent.get_mut(self.cursor)?;
        next.led = self.cursor == 0;
        next.out = true;
        self.cursor += 1;
        Some((next.batch.clone(), next.sequence))
    }

    /// The place of the batch with `sequence`, if an answer for it is due.
    fn answered(&mut self, sequence: Sequence) -> Option<usize> {
        let place = self.sent.iter().position(|sent| sent.out && sent.sequence == sequence)?;
        self.sent[place].out = false;
        Some(place)
    }

    /// An answer for the batch with `sequence` came: success. The batch, if it is the first.
    ///
    /// One that overtook the first stays, and is sent again with it: around a leader's move the
    /// first may be stored as well, and only sending again gets this one another answer.
    pub(super) fn succeed(&mut self, sequence: Sequence) -> Option<Sent> {
        if self.answered(sequence)? > 0 {
            self.rewind = true;
            return None;
        }
        self.proven = true;
        self.cursor = self.cursor.saturating_sub(1);
        self.sent.pop_front()
    }

    /// An answer for the batch with `sequence` came, or never will: not known to be stored.
    pub(super) fn fail(&mut self, sequence: Sequence) -> Failed {
        let Some(place) = self.answered(sequence) else { return Failed::Behind };
        let rewinding = std::mem::replace(&mut self.rewind, true);
        match self.sent.get(place) {
            Some(first) if place == 0 && first.led && !rewinding => Failed::Leading,
            Some(_) if place == 0 => Failed::First,
            Some(_) | None => Failed::Behind,
        }
    }

    /// Lets go of all bodies: nothing is sent again, and only answers are still waited for.
    pub(super) fn give_up(&mut self) {
        for sent in &mut self.sent {
            sent.batch.body = Bytes::new();
        }
    }

    /// Keeps no room for more than is in flight.
    pub(super) fn rest(&mut self) {
        self.sent.shrink_to_fit();
    }

    /// Bytes of bodies that lie outside of frames.
    pub(super) fn owned_bytes(&self) -> usize {
        self.sent.iter().filter(|sent| sent.owned).map(|sent| sent.batch.body.len()).sum()
    }

    pub(super) fn first(&self) -> Option<&Sent> {
        self.sent.front()
    }

    /// Takes the bodies out of the frames they came in, so that a partition that waits for its
    /// target does not hold whole frames. At most a window of bytes is copied.
    pub(super) fn detach(&mut self) {
        for sent in &mut self.sent {
            if !sent.owned {
                sent.batch.body = Bytes::copy_from_slice(&sent.batch.body);
                sent.owned = true;
            }
        }
    }
}
