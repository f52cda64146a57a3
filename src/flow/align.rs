//! Finding what the target's log holds again in the source's log.
//!
//! Behind an anchor the target holds so many records of ours: the sequences of the last batch
//! say how many, whatever else was written in between. Normally the source is walked by header
//! until as many have passed, and where batch borders coincide their contents are compared. That
//! also ends inside a batch, as after merging or splitting.
//!
//! Counting is wrong once the source has lost records that were copied: compaction or retention
//! may have taken them since. Where the walk meets a hole, records are compared one by one
//! instead: what is left of the source must appear in the target in the same order, and the first
//! record that does not was not copied.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::batch::{
    self, Disposition, RawBatch, RebuildReason, RecordError, Stamp, disposition, for_each_record,
};
use crate::client::ScannedBatch;
use crate::copy::HaltReason;
use crate::model::{Bend, LeaderEpoch, Offset, ProducerIdentity, Sequence};

/// Batches of the target behind an anchor.
#[derive(Debug)]
pub(super) struct Stored {
    identity: ProducerIdentity,
    first: Sequence,
    ours: Vec<Stamp>,
    /// Downstream offset of the first batch of ours that does not follow the one before it.
    torn: Option<Offset>,
    /// Where the next batch of the target should begin.
    next_offset: Offset,
    /// Downstream offset of the anchor.
    anchor: Offset,
    /// Offsets behind the anchor that the target has let go of, by retention or deletion.
    lost: u32,
    /// Batches of somebody else.
    pub(super) foreign: usize,
}

impl Stored {
    /// Nothing yet, behind an anchor at `first` and `downstream`, in a log that begins at
    /// `log_start`.
    pub(super) fn new(
        identity: ProducerIdentity,
        first: Sequence,
        downstream: Offset,
        log_start: Offset,
    ) -> Self {
        Self {
            identity,
            first,
            ours: Vec::new(),
            torn: None,
            next_offset: downstream,
            anchor: downstream,
            lost: u32::try_from(log_start.since(downstream)).unwrap_or(0),
            foreign: 0,
        }
    }

    /// Whether the target has let go of some of what lies behind the anchor.
    pub(super) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether `batch` was produced under the anchor's identity.
    pub(super) fn is_ours(&self, batch: &RawBatch) -> bool {
        let header = batch.header();
        header.producer_id == self.identity.id && header.producer_epoch == self.identity.epoch
    }

    /// Takes notice of a batch of the target, in log order.
    pub(super) fn show(&mut self, batch: &RawBatch) {
        let header = batch.header();
        let hole = header.base_offset.since(self.next_offset);
        self.next_offset = header.next_offset();
        if header.attributes.is_control() {
            return;
        }
        if self.is_ours(batch) {
            // Where the target's own compaction took batches away, offsets are missing with them.
            let skipped = header.base_sequence.map(|first| first.since(self.next_sequence()));
            if self.torn.is_none() && skipped.is_none_or(|skipped| i64::from(skipped) > hole) {
                self.torn = Some(header.base_offset);
            }
            self.ours.push(Stamp::of(batch));
        } else {
            self.foreign += 1;
        }
    }

    /// Where our batches do not follow one another: a leader that had forgotten our producer took
    /// a later batch in an earlier one's place. Counting would pass over what is missing.
    pub(super) fn torn_at(&self) -> Option<Offset> {
        self.torn
    }

    /// Records of ours behind the anchor. By sequence, so that a target that compacts its topic
    /// does not change the count. Where nothing of ours is left, what is lost counts as ours.
    pub(super) fn records(&self) -> u32 {
        let last = self.ours.last().and_then(|last| {
            let header = &last.header;
            Some(header.base_sequence?.advance(header.last_offset_delta).advance(1))
        });
        last.map_or(self.lost, |next| next.since(self.first))
    }

    /// Downstream offset of the record of ours that `records` of ours precede behind the anchor.
    fn place(&self, records: u32) -> Option<Offset> {
        let place = |stored: &Stamp| {
            let header = &stored.header;
            Some((header.base_sequence?.since(self.first), header.base_offset))
        };
        let next = self.ours.partition_point(|one| place(one).is_none_or(|(at, _)| at <= records));
        let (at, base) = place(self.ours.get(next.checked_sub(1)?)?)?;
        Some(base.advance(i64::from(records - at)))
    }

    /// The sequence that comes next.
    pub(super) fn next_sequence(&self) -> Sequence {
        let records = i32::try_from(self.records()).unwrap_or(i32::MAX);
        self.first.advance(records)
    }
}

/// What a walk says after a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Show the next one.
    GoOn,
    /// The place is found.
    Done,
    /// Counting is not to be trusted: records must be compared.
    Compare,
}

/// The walk by header.
#[derive(Debug)]
pub(super) struct CountWalk<'a> {
    stored: &'a Stored,
    /// Records of the target that the source does not explain yet.
    left: u32,
    /// Index of the stored batch that begins where the walk stands, or behind it.
    at: usize,
    /// First upstream offset not copied, as far as walked.
    pub(super) upstream: Offset,
    /// Epoch of the last batch before that place: a fetch that names an older one is told that the
    /// logs part.
    pub(super) epoch: LeaderEpoch,
    /// Where upstream and downstream offsets begin to run side by side.
    bends: Vec<Bend>,
    /// The anchor, while nothing was passed that the target still shows.
    unseen: Option<Bend>,
}

impl<'a> CountWalk<'a> {
    pub(super) fn new(stored: &'a Stored, upstream: Offset, epoch: LeaderEpoch) -> Self {
        let unseen = stored.has_lost().then_some(Bend { upstream, downstream: stored.anchor });
        let left = stored.records();
        Self { stored, left, at: 0, upstream, epoch, bends: Vec::new(), unseen }
    }

    /// Where upstream and downstream offsets began to run side by side, as far as walked.
    pub(super) fn into_bends(mut self) -> Vec<Bend> {
        if let Some(anchor) = self.unseen {
            hold_back(&mut self.bends, anchor, self.upstream);
        }
        self.bends
    }

    /// Whether every record of the target is explained.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Looks at the next source batch.
    ///
    /// # Errors
    ///
    /// [`HaltReason::Unexplained`] if source and target differ where they should not.
    pub(super) fn show(&mut self, scanned: &ScannedBatch) -> Result<Step, HaltReason> {
        if self.left == 0 {
            return Ok(Step::Done);
        }
        let header = scanned.batch.header();
        if header.base_offset > self.upstream {
            return Ok(Step::Compare);
        }
        match judge(scanned, self.upstream)? {
            Disposition::Drop(_) => {
                self.upstream = header.next_offset();
                self.epoch = header.leader_epoch;
            }
            Disposition::Rebuild(RebuildReason::OffsetHoles) => return Ok(Step::Compare),
            _ if header.count != header.last_offset_delta + 1 => return Ok(Step::Compare),
            // Dense, so records can be counted without being seen.
            _ => return self.pass(&scanned.batch),
        }
        Ok(Step::GoOn)
    }

    fn pass(&mut self, batch: &RawBatch) -> Result<Step, HaltReason> {
        let header = batch.header();
        let next = header.next_offset();
        let count = u32::try_from(next.since(self.upstream)).unwrap_or(u32::MAX);
        self.bend();
        let whole = header.base_offset == self.upstream;
        let begins = self.stored.records() - self.left;
        if let Some(stored) = self.stored.ours.get(self.at) {
            let start = stored.header.base_sequence.map(|first| first.since(self.stored.first));
            let coincide = whole
                && start == Some(begins)
                && stored.header.count == header.count
                && stored.header.last_offset_delta == header.last_offset_delta;
            if coincide && !same(&Stamp::of(batch), stored) {
                return Err(HaltReason::Unexplained {
                    downstream: stored.header.base_offset,
                    upstream: header.base_offset,
                });
            }
        }
        if count > self.left {
            // Part of it was copied, so what was copied last is of its epoch.
            self.upstream = self.upstream.advance(i64::from(self.left));
            self.epoch = header.leader_epoch;
            self.left = 0;
            return Ok(Step::Done);
        }
        self.left -= count;
        self.upstream = next;
        self.epoch = header.leader_epoch;
        let walked = begins + count;
        while self.stored.ours.get(self.at).is_some_and(|stored| {
            stored.header.base_sequence.is_some_and(|s| s.since(self.stored.first) < walked)
        }) {
            self.at += 1;
        }
        Ok(if self.left == 0 { Step::Done } else { Step::GoOn })
    }
}

impl CountWalk<'_> {
    /// The target's batches may begin anew, behind somebody else's, within a source batch.
    fn bend(&mut self) {
        let passed = self.stored.records() - self.left;
        if let Some(downstream) = self.stored.place(passed) {
            if let Some(anchor) = self.unseen.take() {
                hold_back(&mut self.bends, anchor, self.upstream);
            }
            bend(&mut self.bends, Bend { upstream: self.upstream, downstream });
        }
    }
}

fn bend(bends: &mut Vec<Bend>, next: Bend) {
    if !bends.last().is_some_and(|last| last.runs_to(next)) {
        bends.push(next);
    }
}

/// Records between `behind` and upstream offset `next` are on the target, and which offsets they had
/// is not known: who stands there goes on at the first of them.
fn hold_back(bends: &mut Vec<Bend>, behind: Bend, next: Offset) {
    let last = Offset(next.0 - 1);
    if last > behind.upstream {
        bend(bends, Bend { upstream: last, downstream: behind.downstream });
    }
}

/// The bends where nothing is known about the records between an anchor and `next`.
pub(super) fn held_back(anchor: Bend, next: Offset) -> Vec<Bend> {
    let mut bends = Vec::new();
    hold_back(&mut bends, anchor, next);
    bends
}

fn judge(scanned: &ScannedBatch, position: Offset) -> Result<Disposition, HaltReason> {
    let header = scanned.batch.header();
    // Where a batch was split does not matter here.
    let terms = batch::Terms { position, aborted: scanned.aborted, batch_bytes_max: usize::MAX };
    match disposition(header, terms) {
        Disposition::Refuse(cause) => {
            Err(HaltReason::NotUnderstood { offset: header.base_offset, cause })
        }
        other => Ok(other),
    }
}

fn same(source: &Stamp, stored: &Stamp) -> bool {
    // Rewritten by us (append time) or by the target's broker (another codec): other bytes.
    let rewritten = source.header.attributes.codec() != stored.header.attributes.codec()
        || source.header.attributes.is_log_append_time();
    if rewritten { source.header.count == stored.header.count } else { source.same_records(stored) }
}

/// The walk record by record.
#[derive(Debug)]
pub(super) struct RecordWalk {
    /// What the target holds of ours, in order.
    stored: Vec<u64>,
    /// Downstream offset of the first of those that follow one another, and its place among them.
    runs: Vec<(usize, Offset)>,
    /// Where upstream and downstream offsets begin to run side by side.
    bends: Vec<Bend>,
    /// Behind the last record that was found, on both sides.
    behind: Bend,
    /// The target shows its own append times: only payloads can be compared.
    without_times: bool,
    at: usize,
    /// Upstream offset behind the last record that was found, or that of the anchor.
    behind_found: Offset,
    /// First upstream offset not copied, as far as walked.
    pub(super) upstream: Offset,
    /// Epoch of the last batch looked at.
    pub(super) epoch: LeaderEpoch,
}

impl RecordWalk {
    /// From an anchor on, or from where the source's log begins if that is behind it.
    pub(super) fn new(anchor: Bend, log_start: Offset, epoch: LeaderEpoch) -> Self {
        let (behind_found, upstream) = (anchor.upstream, anchor.upstream.max(log_start));
        Self {
            stored: Vec::new(),
            runs: Vec::new(),
            bends: Vec::new(),
            behind: anchor,
            without_times: false,
            at: 0,
            behind_found,
            upstream,
            epoch,
        }
    }

    /// Whether the source still has one of the records stored.
    pub(super) fn has_found(&self) -> bool {
        self.at > 0
    }

    /// Takes a batch of ours from the target, in log order. All must be shown before the first of
    /// the source.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if it cannot be read.
    pub(super) fn store(&mut self, batch: &RawBatch) -> Result<(), RecordError> {
        self.without_times |= batch.header().attributes.is_log_append_time();
        let (without_times, stored) = (self.without_times, &mut self.stored);
        let runs = &mut self.runs;
        for_each_record(batch, |record| {
            let follows = |(at, offset): &(usize, Offset)| {
                usize::try_from(record.offset.since(*offset)) == Ok(stored.len() - at)
            };
            if !runs.last().is_some_and(follows) {
                runs.push((stored.len(), record.offset));
            }
            stored.push(print(record.payload, (!without_times).then_some(record.timestamp.0)));
        })
    }

    /// The source's log was shown to its end, which may lie behind its last batch: compaction took
    /// what was there.
    pub(super) fn reach(&mut self, end: Offset) {
        self.upstream = self.upstream.max(end);
    }

    /// Where upstream and downstream offsets began to run side by side, as far as walked, if the
    /// copy goes on at `end`. Where records are gone from the source nobody knows any more which
    /// offsets they had: there, no record of the target is passed over.
    pub(super) fn into_bends(mut self, end: Bend) -> Vec<Bend> {
        if end.downstream > self.behind.downstream {
            hold_back(&mut self.bends, self.behind, end.upstream);
        }
        self.bends
    }

    /// Where the source's log parts from what was copied, and how far that went at least, once all
    /// was shown.
    ///
    /// Every record that is stored and was not found had an upstream offset of its own behind the
    /// last one found. Where compaction took it, that offset is missing; where the log was cut
    /// off, another record has it, or none yet.
    pub(super) fn parted(&self) -> Option<(Offset, Offset)> {
        let left = i64::try_from(self.stored.len() - self.at).unwrap_or(i64::MAX);
        let copied = self.behind_found.advance(left);
        (left > 0 && self.upstream < copied).then_some((self.upstream, copied))
    }

    /// Looks at the next source batch.
    ///
    /// # Errors
    ///
    /// [`HaltReason`] if it cannot be read.
    pub(super) fn show(&mut self, scanned: &ScannedBatch) -> Result<Step, HaltReason> {
        let header = scanned.batch.header();
        if let Disposition::Drop(_) = judge(scanned, self.upstream)? {
            self.upstream = header.next_offset();
            self.epoch = header.leader_epoch;
            return Ok(Step::GoOn);
        }
        let from = self.upstream;
        let (runs, bends, behind) = (&self.runs, &mut self.bends, &mut self.behind);
        let mut found = |index: usize, upstream: Offset| {
            let next = runs.partition_point(|(at, _)| *at <= index);
            if let Some((at, offset)) = next.checked_sub(1).and_then(|run| runs.get(run)) {
                let downstream = offset.advance(i64::try_from(index - at).unwrap_or(i64::MAX));
                let here = Bend { upstream, downstream };
                if behind.runs_to(here) {
                    // As many offsets as records: each of them had one.
                    bend(bends, *behind);
                } else if downstream > behind.downstream {
                    hold_back(bends, *behind, upstream);
                }
                bend(bends, here);
                *behind = Bend { upstream: upstream.advance(1), downstream: downstream.advance(1) };
            }
        };
        let mut stop = None;
        let read = for_each_record(&scanned.batch, |record| {
            if record.offset < from || stop.is_some() {
                return;
            }
            let time = (!self.without_times).then_some(record.timestamp.0);
            let wanted = print(record.payload, time);
            match self.stored[self.at..].iter().position(|stored| *stored == wanted) {
                Some(ahead) => {
                    found(self.at + ahead, record.offset);
                    self.at += ahead + 1;
                    self.behind_found = record.offset.advance(1);
                }
                None => stop = Some(record.offset),
            }
        });
        read.map_err(|cause| HaltReason::Rebuild {
            offset: header.base_offset,
            cause: cause.into(),
        })?;
        if let Some(offset) = stop {
            if offset > from.max(header.base_offset) {
                self.epoch = header.leader_epoch;
            }
            self.upstream = offset;
            return Ok(Step::Done);
        }
        self.upstream = header.next_offset();
        self.epoch = header.leader_epoch;
        Ok(Step::GoOn)
    }
}

fn print(payload: &[u8], time: Option<i64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    time.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, Codec, restamp};
    use crate::model::Timestamp;

    const IDENTITY: ProducerIdentity = ProducerIdentity { id: 9, epoch: 0 };

    fn batch(base: i64, keys: &[&str]) -> RawBatch {
        let mut builder = BatchBuilder::new(Codec::Lz4);
        for (key, time) in keys.iter().zip(base..) {
            builder.push(Timestamp(1000 + time), Some(key.as_bytes()), Some(b"value"));
        }
        builder.finish(Offset(base)).unwrap()
    }

    /// As a target stores it, at the offsets that it has on the source.
    fn as_stored(batch: &RawBatch, sequence: i32) -> RawBatch {
        let out = restamp(batch, IDENTITY, Sequence::from_wire(sequence).unwrap());
        let mut bytes: Vec<u8> = out.header.iter().chain(out.body.iter()).copied().collect();
        bytes[..8].copy_from_slice(&batch.header().base_offset.0.to_be_bytes());
        RawBatch::new(bytes.into()).unwrap()
    }

    fn stored(batches: &[RawBatch]) -> Stored {
        let mut stored = Stored::new(IDENTITY, Sequence::ZERO, Offset::ZERO, Offset::ZERO);
        batches.iter().for_each(|batch| stored.show(batch));
        stored
    }

    fn walk(stored: &Stored, source: &[RawBatch]) -> (Result<Step, String>, Offset) {
        let mut walk = CountWalk::new(stored, Offset(0), LeaderEpoch::UNKNOWN);
        for batch in source {
            let step = walk.show(&ScannedBatch { batch: batch.clone(), aborted: false });
            match step {
                Ok(Step::GoOn) => {}
                other => return (other.map_err(|error| error.to_string()), walk.upstream),
            }
        }
        (Ok(Step::GoOn), walk.upstream)
    }

    #[test]
    fn the_place_behind_the_last_stored_batch_is_found() {
        let source = [batch(0, &["a", "b"]), batch(2, &["c"]), batch(3, &["d", "e"])];
        let target = stored(&[as_stored(&source[0], 0), as_stored(&source[1], 2)]);

        assert_eq!(target.records(), 3);
        assert_eq!(target.next_sequence(), Sequence::ZERO.advance(3));
        assert_eq!(walk(&target, &source), (Ok(Step::Done), Offset(3)));
    }

    #[test]
    fn the_place_inside_a_batch_is_found_where_it_was_stored_in_pieces() {
        let source = [batch(0, &["a", "b", "c", "d"])];
        let first_half = as_stored(&batch(0, &["a", "b", "c"]), 0);

        assert_eq!(walk(&stored(&[first_half]), &source), (Ok(Step::Done), Offset(3)));
    }

    #[test]
    fn the_place_is_found_where_batches_were_merged() {
        let source = [batch(0, &["a", "b"]), batch(2, &["c"]), batch(3, &["d"])];
        let merged = as_stored(&batch(0, &["a", "b", "c"]), 0);

        assert_eq!(walk(&stored(&[merged]), &source), (Ok(Step::Done), Offset(3)));
    }

    /// The log of the target begins behind the anchor.
    fn purged(log_start: i64, left: &[RawBatch]) -> Stored {
        let mut stored = Stored::new(IDENTITY, Sequence::ZERO, Offset::ZERO, Offset(log_start));
        left.iter().for_each(|batch| stored.show(batch));
        stored
    }

    #[test]
    fn what_the_target_has_let_go_of_counts_by_sequence_and_by_offset_if_nothing_is_left() {
        let source = [batch(0, &["a", "b"]), batch(2, &["c"]), batch(3, &["d", "e"])];

        let tail = purged(2, &[as_stored(&source[1], 2)]);
        assert_eq!((tail.records(), tail.torn_at()), (3, None));
        assert_eq!(walk(&tail, &source), (Ok(Step::Done), Offset(3)));

        let nothing = purged(3, &[]);
        assert_eq!((nothing.records(), nothing.next_sequence()), (3, Sequence::ZERO.advance(3)));
        assert_eq!(walk(&nothing, &source), (Ok(Step::Done), Offset(3)));
        // Negative control: a log that begins at the anchor, and holds nothing, has got nothing.
        assert_eq!(walk(&purged(0, &[]), &source), (Ok(Step::Done), Offset(0)));
    }

    #[test]
    fn no_group_is_led_past_what_the_target_has_let_go_of() {
        let source = [batch(0, &["a", "b", "c", "d"]), batch(4, &["e", "f"])];
        let bends = |stored: &Stored| {
            let mut walk = CountWalk::new(stored, Offset(0), LeaderEpoch::UNKNOWN);
            for batch in &source {
                let shown = ScannedBatch { batch: batch.clone(), aborted: false };
                if walk.show(&shown).unwrap() == Step::Done {
                    break;
                }
            }
            walk.into_bends()
        };
        let bend = |upstream, downstream| Bend {
            upstream: Offset(upstream),
            downstream: Offset(downstream),
        };

        // Whoever stands among the first four goes on at the anchor, which is below the log's start.
        let tail = purged(4, &[as_stored(&source[1], 4)]);
        assert_eq!(bends(&tail), [bend(3, 0), bend(4, 4)]);
        assert_eq!(bends(&purged(6, &[])), [bend(5, 0)]);
        let whole = purged(0, &[as_stored(&source[0], 0), as_stored(&source[1], 4)]);
        assert_eq!(bends(&whole), [bend(0, 0)]);
    }

    #[test]
    fn batches_of_somebody_else_do_not_count() {
        let source = [batch(0, &["a", "b"]), batch(2, &["c"])];
        let mut target = stored(&[as_stored(&source[0], 0)]);
        target.show(&batch(7, &["x", "y", "z"]));

        assert_eq!((target.foreign, target.records()), (1, 2));
        assert_eq!(walk(&target, &source), (Ok(Step::Done), Offset(2)));
    }

    #[test]
    fn a_batch_stored_in_the_place_of_another_is_noticed() {
        let source = [batch(0, &["a", "b"]), batch(2, &["c"])];

        let whole = stored(&[as_stored(&source[0], 0), as_stored(&source[1], 2)]);
        assert_eq!(whole.torn_at(), None);
        let in_its_place = batch(0, &["c"]);
        assert_eq!(stored(&[as_stored(&in_its_place, 2)]).torn_at(), Some(Offset(0)));
        // The target compacted the first one away: its offsets are missing too.
        assert_eq!(stored(&[as_stored(&source[1], 2)]).torn_at(), None);
    }

    #[test]
    fn other_records_at_the_same_place_are_not_taken_for_the_same() {
        let source = [batch(0, &["a", "b"])];
        let target = stored(&[as_stored(&batch(0, &["a", "X"]), 0)]);

        let (step, _) = walk(&target, &source);
        assert!(step.unwrap_err().contains("does not match the source"));
    }

    #[test]
    fn a_hole_in_the_source_means_that_records_are_compared() {
        let copied = [batch(0, &["a", "b"]), batch(2, &["c", "d"]), batch(4, &["e"])];
        let target = stored(&[as_stored(&copied[0], 0), as_stored(&copied[1], 2)]);
        // Compaction took the first batch away after it was copied.
        let left = [copied[1].clone(), copied[2].clone()];
        assert_eq!(walk(&target, &left).0, Ok(Step::Compare));

        let mut walk = RecordWalk::new(Bend::new(0, 0), Offset(0), LeaderEpoch::UNKNOWN);
        walk.store(&as_stored(&copied[0], 0)).unwrap();
        walk.store(&as_stored(&copied[1], 2)).unwrap();
        let show = |walk: &mut RecordWalk, batch: &RawBatch| {
            walk.show(&ScannedBatch { batch: batch.clone(), aborted: false }).unwrap()
        };
        assert!(!walk.has_found());
        assert_eq!(show(&mut walk, &left[0]), Step::GoOn);
        assert!(walk.has_found());
        assert_eq!(show(&mut walk, &left[1]), Step::Done);
        assert_eq!(walk.upstream, Offset(4));
        assert_eq!(walk.parted(), None);
    }

    #[test]
    fn a_log_that_went_another_way_is_told_from_one_that_was_cleaned() {
        let copied = [batch(0, &["a", "b"]), batch(2, &["c", "d"])];
        let walked = |left: &[RawBatch]| {
            let mut walk = RecordWalk::new(Bend::new(0, 0), Offset(0), LeaderEpoch::UNKNOWN);
            copied.iter().for_each(|one| walk.store(&as_stored(one, 0)).unwrap());
            for batch in left {
                let scanned = ScannedBatch { batch: batch.clone(), aborted: false };
                if walk.show(&scanned).unwrap() == Step::Done {
                    break;
                }
            }
            walk.parted()
        };

        // Cut off behind "b": others have the offsets, or nobody has yet.
        let parted = Some((Offset(2), Offset(4)));
        assert_eq!(walked(&[copied[0].clone(), batch(2, &["X", "Y", "Z"])]), parted);
        assert_eq!(walked(&[copied[0].clone()]), parted);
        // "c" and "d" were cleaned away: their offsets are nobody's.
        assert_eq!(walked(&[copied[0].clone(), batch(4, &["e"])]), None);
        assert_eq!(walked(&copied), None);
    }
}
