//! The copier: one source partition to one target partition, as a state machine.
//!
//! A copier turns fetched batches into batches ready to produce, remembers which of them are
//! in flight, and learns from the answers. It performs no I/O, reads no clock and holds no
//! lock; the shard that owns it carries out the effects.
//!
//! ```text
//!   fetched ──▶ ready ──▶ window ──▶ acknowledged
//!      │          ▲          │
//!      └─ rebuild ┘          └──▶ halted (a reason, a way out) or in doubt (look again)
//! ```
//!
//! Offsets are upstream, half open, never out of order: `acked <= window <= ready <= fetched`.
//! A restart resumes at the durable copy of `acked`.
//!
//! What a copier does not know: brokers, connections, topics' names, other partitions.

use std::collections::{BTreeMap, VecDeque};

use super::halt::{Doubt, HaltReason};
use super::window::{Failed, Window};
use crate::batch::{
    self, AbortedIndex, Batches, Disposition, OutBatch, RawBatch, RebuildReason, disposition,
    is_whole, rebuild,
};
use crate::model::{Gap, GapReason, LeaderEpoch, Offset, OffsetRange, ProducerIdentity, Sequence};
use crate::wire::fetch::FetchedPartition;
use crate::wire::{Api, ErrorCode, Verdict, verdict};

/// Bytes of ready batches beyond which a partition is not fetched any more.
///
/// Four fetches of the usual size: enough to keep a window full over one round trip to the
/// source, small enough that a few busy partitions do not fill the frame budget.
const READY_BYTES_MAX: usize = 1024 * 1024;

/// The terms under which a partition is copied.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Committed records only.
    pub read_committed: bool,
    /// Largest batch that the target topic takes (`max.message.bytes`).
    pub batch_bytes_max: usize,
    /// Verify every batch's checksum (`heliograph.verify.crc=always`).
    pub verify: bool,
}

/// Where a copier starts, as reconciled from progress and both logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// First upstream offset to copy.
    pub upstream: Offset,
    /// Downstream offset that its first record will have.
    pub downstream: Offset,
    /// Leader epoch of the last batch copied, if known.
    pub epoch: LeaderEpoch,
    /// Under whose name to produce.
    pub identity: ProducerIdentity,
    /// With which sequence next.
    pub sequence: Sequence,
}

/// What a copier wants fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// First offset wanted.
    pub position: Offset,
    /// Epoch of the last batch fetched.
    pub last_fetched_epoch: LeaderEpoch,
}

/// How a produce request ended for one partition.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Stored, its first record at this downstream offset (-1 when the broker does not say).
    Stored(Offset),
    /// The broker said no.
    Refused(ErrorCode, Option<String>),
    /// No answer will come; it may be stored.
    Unknown,
}

/// What the owner must do or know.
#[derive(Debug)]
pub enum Effect {
    /// Upstream offsets were passed without copying.
    Passed(Gap),
    /// An acknowledgement came with another downstream offset than the batches before it
    /// explain: somebody else writes to the target partition, or its log was changed.
    Foreign {
        /// Where the batch should have gone.
        expected: Offset,
        /// Where it went.
        found: Offset,
        /// Which records it held.
        upstream: OffsetRange,
    },
    /// Who leads the source or target partition must be asked anew.
    FindSourceLeader,
    /// Who leads the target partition must be asked anew.
    FindTargetLeader,
    /// The target does not take the batch now; try again after a pause.
    Pause(ErrorCode),
    /// Both logs must be looked at before the partition goes on.
    Doubt(Doubt),
    /// The partition stopped.
    Halted,
}

/// What one partition has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records acknowledged by the target.
    pub records: u64,
    /// Bytes of batches acknowledged by the target.
    pub bytes: u64,
    /// Batches acknowledged by the target.
    pub batches: u64,
    /// Batches written anew, by reason.
    pub rebuilt: BTreeMap<RebuildReason, u64>,
    /// Upstream offsets passed, by reason.
    pub passed: BTreeMap<GapReason, u64>,
}

#[derive(Debug)]
struct Ready {
    batch: RawBatch,
    upstream: OffsetRange,
}

#[derive(Debug)]
enum State {
    Copying,
    InDoubt,
    Draining,
    /// The source has something that cannot be copied; what lies before it is seen through.
    Halting(HaltReason),
    Halted(HaltReason),
}

/// One partition's copy.
#[derive(Debug)]
pub struct Copier {
    terms: Terms,
    state: State,
    /// Next upstream offset to ask for.
    fetched: Offset,
    /// Epoch of the last batch fetched.
    epoch: LeaderEpoch,
    ready: VecDeque<Ready>,
    ready_bytes: usize,
    window: Window,
    /// First upstream offset not yet acknowledged by the target. Never moves back.
    acked: Offset,
    /// Downstream offset that the next acknowledgement must have.
    downstream: Offset,
    /// End of the source's log as last told; for lag.
    source_end: Offset,
    counts: Counts,
}

impl Copier {
    /// A copier at its start.
    #[must_use]
    pub fn new(start: Start, terms: Terms) -> Self {
        Self {
            terms,
            state: State::Copying,
            fetched: start.upstream,
            epoch: start.epoch,
            ready: VecDeque::new(),
            ready_bytes: 0,
            window: Window::new(start.identity, start.sequence),
            acked: start.upstream,
            downstream: start.downstream,
            source_end: Offset(-1),
            counts: Counts::default(),
        }
    }

    /// What to fetch next; `None` while enough is ready, or while the partition stands still.
    #[must_use]
    pub fn wish(&self) -> Option<Wish> {
        let wants = matches!(self.state, State::Copying) && self.ready_bytes < READY_BYTES_MAX;
        wants.then_some(Wish { position: self.fetched, last_fetched_epoch: self.epoch })
    }

    /// Whether it does not want to be fetched only because enough is ready.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.state, State::Copying) && self.ready_bytes >= READY_BYTES_MAX
    }

    /// Whether [`Copier::take`] would give a batch.
    #[must_use]
    pub fn has_batch(&self) -> bool {
        match self.state {
            State::Copying | State::Draining | State::Halting(_) => {
                self.window.can_resend() || (self.window.has_room() && !self.ready.is_empty())
            }
            State::InDoubt | State::Halted(_) => false,
        }
    }

    /// The next batch to produce and its sequence, by which its outcome is reported.
    pub fn take(&mut self) -> Option<(OutBatch, Sequence)> {
        if !self.has_batch() {
            return None;
        }
        if !self.window.can_resend()
            && let Some(Ready { batch, upstream }) = self.ready.pop_front()
        {
            self.ready_bytes -= batch.bytes().len();
            self.window.push(&batch, upstream);
        }
        self.window.send()
    }

    /// Everything before this upstream offset is on the target, or was passed with a reason.
    #[must_use]
    pub fn acked(&self) -> Offset {
        self.acked
    }

    /// Where a restart would begin, as far as the target has acknowledged.
    #[must_use]
    pub fn anchor(&self) -> Start {
        Start {
            upstream: self.acked,
            downstream: self.downstream,
            epoch: self.epoch,
            identity: self.window.identity(),
            sequence: self.window.first_sequence(),
        }
    }

    /// Upstream offsets not yet acknowledged, `None` before the source told its end.
    #[must_use]
    pub fn lag(&self) -> Option<i64> {
        (self.source_end.0 >= 0).then(|| self.source_end.since(self.acked).max(0))
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Why it stopped, if it did.
    #[must_use]
    pub fn halted(&self) -> Option<&HaltReason> {
        match &self.state {
            State::Halted(reason) => Some(reason),
            State::Copying | State::InDoubt | State::Draining | State::Halting(_) => None,
        }
    }

    /// Whether nothing is in flight: what was sent has its answer.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        match self.state {
            State::Copying | State::Halting(_) => false,
            State::Draining => self.window.is_empty(),
            State::InDoubt | State::Halted(_) => self.window.outstanding() == 0,
        }
    }

    /// Fetches no more and lets go of what was not sent yet; what is in flight is seen through.
    pub fn drain(&mut self) {
        if matches!(self.state, State::Copying | State::Halting(_)) {
            self.state = State::Draining;
            self.forget_ready();
        }
    }

    /// Sends nothing any more: the topic that the batches were meant for is gone.
    pub fn abandon(&mut self) {
        if matches!(self.state, State::Copying | State::Draining | State::Halting(_)) {
            self.forget_ready();
            self.state = State::InDoubt;
        }
    }

    /// The target cannot be reached for now: whole frames are let go of, and what was not sent
    /// will be fetched again.
    pub fn release(&mut self) {
        if matches!(self.state, State::Halting(_)) {
            // What stops it will be met again behind what has to be fetched again.
            self.state = State::Copying;
        }
        self.forget_ready();
        self.window.detach();
    }

    fn forget_ready(&mut self) {
        self.ready.clear();
        self.ready_bytes = 0;
        self.fetched = self.window.upstream_end().unwrap_or(self.acked);
    }

    fn halt(&mut self, reason: HaltReason, out: &mut Vec<Effect>) {
        self.forget_ready();
        self.state = State::Halted(reason);
        out.push(Effect::Halted);
    }

    /// Stops once everything before the bad place is on the target.
    fn halt_behind(&mut self, reason: HaltReason, out: &mut Vec<Effect>) {
        self.state = State::Halting(reason);
        self.settle(out);
    }

    fn doubt(&mut self, doubt: Doubt, out: &mut Vec<Effect>) {
        if matches!(self.state, State::Copying | State::Halting(_)) {
            self.forget_ready();
            self.state = State::InDoubt;
            out.push(Effect::Doubt(doubt));
        }
    }

    /// Takes one partition's part of a Fetch answer that was asked from `asked` on.
    ///
    /// An answer to another question than the present one is not looked at: after the position
    /// moved back, what lies between would seem to be missing.
    pub fn on_fetched(&mut self, asked: Offset, part: FetchedPartition, out: &mut Vec<Effect>) {
        if !matches!(self.state, State::Copying) || asked != self.fetched {
            return;
        }
        match verdict(Api::Fetch, part.code) {
            Verdict::Ok => {}
            Verdict::OutOfRange => return self.doubt(Doubt::OutOfRange, out),
            Verdict::FindLeader | Verdict::FindTopic => {
                return out.push(Effect::FindSourceLeader);
            }
            Verdict::Retry
            | Verdict::NewSession
            | Verdict::NewIdentity
            | Verdict::Halt
            | Verdict::Denied => return out.push(Effect::Pause(part.code)),
        }
        if let Some((epoch, end)) = part.diverging {
            let copied = self.acked;
            return self.halt_behind(HaltReason::Diverged { epoch, end, copied }, out);
        }
        self.source_end =
            if self.terms.read_committed { part.last_stable_offset } else { part.high_watermark };
        let mut aborted = AbortedIndex::new(part.aborted);
        for batch in Batches::new(part.records) {
            let done = match batch {
                Ok(batch) => self.on_batch(batch, &mut aborted, out),
                Err(cause) => Err(HaltReason::SourceMalformed { position: self.fetched, cause }),
            };
            if let Err(reason) = done {
                return self.halt_behind(reason, out);
            }
        }
        self.settle(out);
    }

    fn on_batch(
        &mut self,
        batch: RawBatch,
        aborted: &mut AbortedIndex,
        out: &mut Vec<Effect>,
    ) -> Result<(), HaltReason> {
        let header = *batch.header();
        // Every batch is shown, in order: markers end transactions.
        let hidden = aborted.covers(&batch) && self.terms.read_committed;
        let next = header.next_offset();
        if next <= self.fetched {
            return Ok(());
        }
        if header.base_offset > self.fetched {
            self.pass(self.fetched, header.base_offset, GapReason::Compacted, out);
        }
        let position = self.fetched;
        let terms =
            batch::Terms { position, aborted: hidden, batch_bytes_max: self.terms.batch_bytes_max };
        let decision = disposition(&header, terms);
        let raw = decision == Disposition::Forward;
        if (!raw || self.terms.verify) && !batch::verify(&batch) {
            return Err(HaltReason::SourceDamaged(header.base_offset));
        }
        match decision {
            Disposition::Forward => {
                self.push(batch, OffsetRange::new(header.base_offset, next));
            }
            Disposition::Rebuild(reason) => {
                let pieces = rebuild(&batch, position, self.terms.batch_bytes_max);
                let pieces = pieces
                    .map_err(|cause| HaltReason::Rebuild { offset: header.base_offset, cause })?;
                *self.counts.rebuilt.entry(reason).or_default() += 1;
                for piece in pieces {
                    self.push(piece.batch, piece.upstream);
                }
            }
            Disposition::Drop(reason) => {
                self.pass(position.max(header.base_offset), next, reason, out);
            }
            Disposition::Refuse(cause) => {
                return Err(HaltReason::NotUnderstood { offset: header.base_offset, cause });
            }
        }
        self.fetched = next;
        if header.leader_epoch.is_known() {
            self.epoch = header.leader_epoch;
        }
        Ok(())
    }

    fn push(&mut self, batch: RawBatch, upstream: OffsetRange) {
        self.ready_bytes += batch.bytes().len();
        self.ready.push_back(Ready { batch, upstream });
    }

    fn pass(&mut self, from: Offset, to: Offset, reason: GapReason, out: &mut Vec<Effect>) {
        let range = OffsetRange::new(from, to);
        *self.counts.passed.entry(reason).or_default() += range.len().unsigned_abs();
        if reason == GapReason::Lost {
            out.push(Effect::Passed(Gap { range, reason }));
        }
    }

    /// With nothing ready and nothing in flight, what was passed is done as well.
    fn settle(&mut self, out: &mut Vec<Effect>) {
        if !self.window.is_empty() || !self.ready.is_empty() {
            return;
        }
        self.acked = self.fetched;
        if let State::Halting(_) = self.state
            && let State::Halting(reason) = std::mem::replace(&mut self.state, State::Copying)
        {
            self.halt(reason, out);
        }
    }

    /// Takes the outcome of the batch that went out with `sequence`.
    pub fn on_produced(&mut self, sequence: Sequence, outcome: Outcome, out: &mut Vec<Effect>) {
        let (code, message) = match outcome {
            Outcome::Stored(base) => return self.on_stored(sequence, base, out),
            Outcome::Unknown => {
                let _resent = self.window.fail(sequence);
                return;
            }
            Outcome::Refused(code, message) => (code, message),
        };
        let failed = self.window.fail(sequence);
        // What is behind a failed batch fails as a consequence, with 45, and says nothing new: the
        // batch before it is stored by now, or will be, and sent again this one follows it.
        if failed == Failed::Behind || (code.0 == 45 && failed != Failed::Leading) {
            return;
        }
        let Some(first) = self.window.first() else { return };
        let (upstream, bytes) = (first.upstream, first.batch.total_bytes());
        match verdict(Api::Produce, code) {
            Verdict::FindLeader | Verdict::FindTopic => out.push(Effect::FindTargetLeader),
            Verdict::NewIdentity => self.doubt(Doubt::Identity(code), out),
            Verdict::Halt if matches!(code.0, 10 | 18) => {
                self.doubt(Doubt::TooLarge(bytes - 1), out);
            }
            Verdict::Halt if code.0 == 2 && !is_whole(&first.batch) => {
                self.halt(HaltReason::SourceDamaged(upstream.start), out);
            }
            Verdict::Halt => self.halt(HaltReason::Refused { upstream, code, message }, out),
            Verdict::Ok
            | Verdict::Retry
            | Verdict::OutOfRange
            | Verdict::NewSession
            | Verdict::Denied => out.push(Effect::Pause(code)),
        }
    }

    fn on_stored(&mut self, sequence: Sequence, base: Offset, out: &mut Vec<Effect>) {
        let Some(done) = self.window.succeed(sequence) else { return };
        if base.0 >= 0 && base != self.downstream {
            out.push(Effect::Foreign {
                expected: self.downstream,
                found: base,
                upstream: done.upstream,
            });
            self.downstream = base;
        }
        self.downstream = self.downstream.advance(i64::from(done.count));
        self.acked = done.upstream.end;
        self.counts.records += u64::from(done.count.unsigned_abs());
        self.counts.bytes += done.batch.total_bytes() as u64;
        self.counts.batches += 1;
        self.settle(out);
    }
}
