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

use std::collections::VecDeque;

use super::counts::Counts;
use super::halt::{Doubt, HaltReason};
use super::path::{MERGED_BATCHES_MAX, Merging, Path};
use super::window::{Failed, Window};
use crate::batch::{
    self, AbortedIndex, Batches, Disposition, OutBatch, Oversize, RawBatch, RebuildError,
    RebuildReason, SizeLimits, disposition, is_whole, merge, mergeable, rebuild, unpacked_bytes,
};
use crate::model::{
    Bend, Gap, GapReason, LeaderEpoch, Offset, OffsetRange, ProducerIdentity, Runs, Sequence, Side,
    Timestamp,
};
use crate::wire::fetch::FetchedPartition;
use crate::wire::{Api, ErrorCode, Verdict, verdict};

/// Bytes of ready batches beyond which a partition is not fetched any more, unless told otherwise.
///
/// Four fetches of the usual size: enough to keep a window full over one round trip to the
/// source, small enough that a few busy partitions do not fill the frame budget.
const READY_BYTES_MAX: usize = 1024 * 1024;

/// The terms under which a partition is copied.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Committed records only.
    pub read_committed: bool,
    /// What the target topic takes.
    pub limits: SizeLimits,
    /// Verify every batch's checksum (`heliograph.verify.crc=always`).
    pub verify: bool,
    /// What to do about a record that the target cannot take (`oversize.policy`).
    pub oversize: Oversize,
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
    /// The target acknowledged a batch; the largest time of its records.
    Stored(Timestamp),
    /// Who leads the source or target partition must be asked anew.
    FindSourceLeader,
    /// Who leads the target partition must be asked anew.
    FindTargetLeader,
    /// The source does not give records now, or the target does not take them; try again after a
    /// pause.
    Pause(Side, ErrorCode),
    /// Both logs must be looked at before the partition goes on.
    Doubt(Doubt),
    /// The partition stopped.
    Halted,
}

#[derive(Debug)]
struct Ready {
    batch: RawBatch,
    upstream: OffsetRange,
    /// Epoch of its source batch, or of the last one in it.
    epoch: LeaderEpoch,
    path: Path,
    runs: Runs,
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
    /// Of these, in batches written anew.
    ready_owned: usize,
    ready_bytes_max: usize,
    merging: Merging,
    /// The target could not be reached, and nothing was sent since.
    released: bool,
    window: Window,
    /// First upstream offset not yet acknowledged by the target. Never moves back.
    acked: Offset,
    /// Epoch of the last batch before it.
    acked_epoch: LeaderEpoch,
    /// Downstream offset that the next acknowledgement must have.
    downstream: Offset,
    /// Where upstream and downstream offsets began to run side by side, as they do now.
    run: Option<Bend>,
    /// Where they did since this was last asked for.
    bends: Vec<Bend>,
    /// Everything passed before this upstream offset has been counted.
    passed_to: Offset,
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
            ready_owned: 0,
            ready_bytes_max: READY_BYTES_MAX,
            merging: Merging::default(),
            released: false,
            window: Window::new(start.identity, start.sequence),
            acked: start.upstream,
            acked_epoch: start.epoch,
            downstream: start.downstream,
            run: None,
            bends: Vec::new(),
            passed_to: start.upstream,
            source_end: Offset(-1),
            counts: Counts::default(),
        }
    }

    /// Says how much may be ready before it is not fetched any more, at least
    /// as much as one fetch brings.
    pub fn set_ready_bytes_max(&mut self, fetch_bytes: usize) {
        self.ready_bytes_max = READY_BYTES_MAX.max(fetch_bytes);
    }

    /// Says when small batches are merged.
    pub fn set_merging(&mut self, merging: Merging) {
        self.merging = merging;
    }

    /// Counts a gap that was met before it began.
    pub fn note_gap(&mut self, gap: Gap) {
        self.counts.pass(gap);
    }

    /// Goes on counting from what the copier before it has counted. Where that was of the same log,
    /// what it passed is not passed a second time.
    pub fn inherit(&mut self, before: &Self, same_log: bool) {
        self.counts = before.counts.clone();
        if same_log && self.acked >= before.acked {
            self.passed_to = self.passed_to.max(before.passed_to);
        }
    }

    /// What to fetch next; `None` while enough is ready, or while the partition stands still.
    #[must_use]
    pub fn wish(&self) -> Option<Wish> {
        let wants = matches!(self.state, State::Copying) && self.ready_bytes < self.ready_bytes_max;
        wants.then_some(Wish { position: self.fetched, last_fetched_epoch: self.epoch })
    }

    /// Whether it does not want to be fetched only because enough is ready.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.state, State::Copying) && self.ready_bytes >= self.ready_bytes_max
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
        self.released = false;
        if !self.window.can_resend()
            && let Some(Ready { batch, upstream, epoch, path, runs }) = self.next_ready()
        {
            self.window.push(&batch, (upstream, epoch), (path, runs));
        }
        self.window.send()
    }

    /// The next batch to send: several small ones in one where that is worth it.
    fn next_ready(&mut self) -> Option<Ready> {
        let mut run = self.small_run();
        while run > 1 {
            // A damaged one is not sealed by writing it anew: it goes out as it is, and the target
            // refuses it. So does one that unpacks to more than is merged.
            let parts = self.ready.range(..run).map(|ready| &ready.batch);
            let Ok((batch, merged)) = merge(parts) else { break };
            if merged == 1 {
                break;
            }
            if batch.bytes().len() > self.terms.limits.batch {
                // Packing together made it no smaller.
                run = merged / 2;
                continue;
            }
            run = merged;
            let start = self.ready.front()?.upstream.start;
            let (end, epoch) =
                self.ready.get(run - 1).map(|last| (last.upstream.end, last.epoch))?;
            let (mut runs, mut index) = (Runs::dense(), 0);
            for part in (0..run).filter_map(|_| self.pop_ready()) {
                runs.append(&part.runs, part.upstream.start, index);
                index += part.batch.header().count;
            }
            let upstream = OffsetRange::new(start, end);
            return Some(Ready { batch, upstream, epoch, path: Path::Merged, runs });
        }
        self.pop_ready()
    }

    fn pop_ready(&mut self) -> Option<Ready> {
        let next = self.ready.pop_front()?;
        let bytes = next.batch.bytes().len();
        self.ready_bytes -= bytes;
        if next.path != Path::Raw {
            self.ready_owned -= bytes;
        }
        Some(next)
    }

    /// How many batches from the first on are small and may become one.
    fn small_run(&self) -> usize {
        let Some(first) = self.ready.front() else { return 0 };
        let first = first.batch.header();
        let below = self.merging.below(first.attributes.codec());
        let bytes_max = self.terms.limits.batch.min(self.merging.bytes_max());
        let (mut bytes, mut records) = (0, 0_i32);
        let fits = |ready: &&Ready| {
            let header = ready.batch.header();
            let size = ready.batch.bytes().len();
            bytes += size;
            let Some(sum) = records.checked_add(header.count) else { return false };
            records = sum;
            size < below && bytes <= bytes_max && mergeable(first, header)
        };
        self.ready.iter().take(MERGED_BATCHES_MAX).take_while(fits).count()
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
            epoch: self.acked_epoch,
            identity: self.window.identity(),
            sequence: self.window.first_sequence(),
        }
    }

    /// Where upstream and downstream offsets began to run side by side, for what was acknowledged
    /// since this was last asked for.
    pub fn take_bends(&mut self) -> Vec<Bend> {
        std::mem::take(&mut self.bends)
    }

    /// Upstream offsets not yet acknowledged, `None` before the source told its end.
    #[must_use]
    pub fn lag(&self) -> Option<i64> {
        (self.source_end.0 >= 0).then(|| self.source_end.since(self.acked).max(0))
    }

    /// Where fetching stands and how far the source's log went when it last answered.
    #[must_use]
    pub fn positions(&self) -> (Offset, Option<Offset>) {
        (self.fetched, (self.source_end.0 >= 0).then_some(self.source_end))
    }

    /// Bytes of batches written anew that are on their way. What waits for a target that cannot be
    /// reached does not count: others must not wait with it, and no more than a window of it is
    /// there.
    #[must_use]
    pub fn owned_bytes(&self) -> usize {
        if self.released { 0 } else { self.ready_owned + self.window.owned_bytes() }
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

    /// Whether both logs must be looked at before it goes on.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.state, State::InDoubt)
    }

    /// Whether it only sees through what is in flight.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining)
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

    /// Nothing comes for now: queues that are empty need no room. Of a thousand partitions it is
    /// nearly a megabyte.
    pub fn rest(&mut self) {
        self.ready.shrink_to_fit();
        self.window.rest();
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
            self.window.give_up();
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
        self.released = true;
    }

    fn forget_ready(&mut self) {
        self.ready.clear();
        (self.ready_bytes, self.ready_owned) = (0, 0);
        (self.fetched, self.epoch) = self.window.end().unwrap_or((self.acked, self.acked_epoch));
    }

    fn halt(&mut self, reason: HaltReason, out: &mut Vec<Effect>) {
        self.forget_ready();
        // Or the frames of a few partitions that stopped would be the whole budget.
        self.window.give_up();
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
            self.window.give_up();
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
            | Verdict::Denied => return out.push(Effect::Pause(Side::Source, part.code)),
        }
        if let Some((_, end)) = part.diverging {
            return self.doubt(Doubt::Diverged(end), out);
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
        let Terms { limits, oversize, .. } = self.terms;
        let batch_bytes_max = if header.count == 1 { limits.record } else { limits.batch };
        let terms = batch::Terms { position, aborted: hidden, batch_bytes_max };
        let mut decision = disposition(&header, terms);
        if decision == Disposition::Forward
            && limits.refused.is_some_and(|refused| position <= refused && refused < next)
        {
            decision = Disposition::Rebuild(RebuildReason::TooLarge);
        }
        let raw = decision == Disposition::Forward;
        if (!raw || self.terms.verify) && !batch::verify(&batch) {
            return Err(HaltReason::SourceDamaged(header.base_offset));
        }
        if header.leader_epoch.is_known() {
            self.epoch = header.leader_epoch;
        }
        match decision {
            Disposition::Forward => {
                let upstream = OffsetRange::new(header.base_offset, next);
                self.push(batch, upstream, Path::Raw, Runs::dense());
            }
            Disposition::Rebuild(reason) => {
                let built = rebuild(&batch, position, limits, oversize)
                    .map_err(|cause| halt_of(header.base_offset, cause))?;
                for skipped in built.skipped {
                    self.pass(skipped.start, skipped.end, GapReason::Oversize, out);
                }
                for piece in built.pieces {
                    self.push(piece.batch, piece.upstream, Path::Rebuilt(reason), piece.runs);
                }
            }
            Disposition::Drop(reason) => {
                if next > self.passed_to {
                    *self.counts.dropped.entry(reason).or_default() += 1;
                }
                self.pass(position.max(header.base_offset), next, reason, out);
            }
            Disposition::Refuse(cause) => {
                return Err(HaltReason::NotUnderstood { offset: header.base_offset, cause });
            }
        }
        self.fetched = next;
        Ok(())
    }

    fn push(&mut self, batch: RawBatch, upstream: OffsetRange, path: Path, runs: Runs) {
        let bytes = batch.bytes().len();
        self.ready_bytes += bytes;
        if path != Path::Raw {
            self.ready_owned += bytes;
        }
        self.ready.push_back(Ready { batch, upstream, epoch: self.epoch, path, runs });
    }

    fn pass(&mut self, from: Offset, to: Offset, reason: GapReason, out: &mut Vec<Effect>) {
        // What is fetched a second time, after frames were let go of, was told the first time.
        let from = from.max(self.passed_to);
        if from >= to {
            return;
        }
        self.passed_to = to;
        let gap = Gap { range: OffsetRange::new(from, to), reason };
        self.counts.pass(gap);
        if reason.is_loss() {
            out.push(Effect::Passed(gap));
        }
    }

    /// With nothing ready and nothing in flight, what was passed is done as well.
    fn settle(&mut self, out: &mut Vec<Effect>) {
        if !self.window.is_empty() || !self.ready.is_empty() {
            return;
        }
        (self.acked, self.acked_epoch) = (self.fetched, self.epoch);
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
        if matches!(self.state, State::InDoubt | State::Halted(_)) {
            return;
        }
        // What is behind a failed batch fails as a consequence, with 45, and says nothing new: the
        // batch before it is stored by now, or will be, and sent again this one follows it.
        if failed == Failed::Behind || (code.0 == 45 && failed != Failed::Leading) {
            return;
        }
        let Some(first) = self.window.first() else { return };
        let upstream = first.upstream;
        match verdict(Api::Produce, code) {
            Verdict::FindLeader | Verdict::FindTopic => out.push(Effect::FindTargetLeader),
            Verdict::NewIdentity => self.doubt(Doubt::Identity(code), out),
            Verdict::Halt if matches!(code.0, 10 | 18) => self.on_too_large(out),
            Verdict::Halt if code.0 == 2 && !is_whole(&first.batch) => {
                self.halt(HaltReason::SourceDamaged(upstream.start), out);
            }
            Verdict::Halt => self.halt(HaltReason::Refused { upstream, code, message }, out),
            Verdict::Ok
            | Verdict::Retry
            | Verdict::OutOfRange
            | Verdict::NewSession
            | Verdict::Denied => out.push(Effect::Pause(Side::Target, code)),
        }
    }

    /// The target refused the first batch under way as too large, though it is within what its
    /// topic takes, as far as that is known: a smaller batch may do, but not for a single record.
    fn on_too_large(&mut self, out: &mut Vec<Effect>) {
        let Some(first) = self.window.first() else { return };
        let (offset, bytes) = (first.upstream.start, first.bytes);
        let alone = first.count == 1;
        if alone && self.terms.oversize == Oversize::Refuse {
            let unpacked = unpacked_bytes(&first.batch);
            return self.halt(HaltReason::TooLargeAlone { offset, bytes, unpacked }, out);
        }
        // All before it is there, or was passed: a restart tells none of that a second time, nor
        // meets a record again that was refused before this one.
        self.acked = offset;
        let doubt =
            if alone { Doubt::RecordTooLarge(offset) } else { Doubt::BatchTooLarge(bytes - 1) };
        self.doubt(doubt, out);
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
        out.push(Effect::Stored(done.batch.max_timestamp()));
        for bend in done.runs.bends(done.upstream.start, self.downstream) {
            if !self.run.is_some_and(|run| run.runs_to(bend)) {
                self.run = Some(bend);
                self.bends.push(bend);
            }
        }
        self.downstream = self.downstream.advance(i64::from(done.count));
        (self.acked, self.acked_epoch) = (done.upstream.end, done.epoch);
        self.counts.records += u64::from(done.count.unsigned_abs());
        self.counts.bytes += done.bytes as u64;
        *self.counts.batches.entry(done.path).or_default() += 1;
        self.settle(out);
    }
}

fn halt_of(batch: Offset, cause: RebuildError) -> HaltReason {
    match cause {
        RebuildError::RecordTooLarge { offset, bytes, max } => {
            HaltReason::Oversize { offset, bytes, max }
        }
        cause @ RebuildError::Records(_) => HaltReason::Rebuild { offset: batch, cause },
    }
}
