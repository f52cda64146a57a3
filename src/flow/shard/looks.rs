//! How a shard's partitions stand: for the book, for the supervisor, for who asks.

use std::time::Duration;

use super::super::slot::{Slot, Unstable};
use super::super::status::{PartitionState, PartitionStatus, Waiting, log_gap};
use super::super::supervisor::{Report, ShardSummary};
use super::{Shard, SlotId};
use crate::model::{FlowId, Gap, Moment, Offset, Side, Timestamp};

/// How often positions are noted in the book.
const NOTE_INTERVAL: Duration = Duration::from_millis(500);

/// A partition of which the source has records and the target acknowledged none for this long is
/// stalled: longer than a leader's election, shorter than anybody's patience.
const STALLED_AFTER: Duration = Duration::from_secs(15);

/// A last stable offset below the high watermark that has not moved for this long has a
/// transaction that hangs: `transaction.timeout.ms` is a minute by default.
const UNSTABLE_AFTER: Duration = Duration::from_secs(60);

impl Shard {
    pub(super) fn summary(&self) -> ShardSummary {
        let mut summary = self.retired;
        for slot in self.slots.values() {
            let counts = slot.copier.counts();
            summary.partitions += 1;
            summary.records += counts.records;
            summary.bytes += counts.bytes;
            summary.batches += counts.batches();
            summary.lag += slot.copier.lag().unwrap_or(0);
            summary.halted += usize::from(slot.copier.halted().is_some());
            summary.leaderless +=
                usize::from(slot.source_leader.is_none() || slot.target_leader.is_none());
        }
        summary
    }

    pub(super) fn describe(&self, now: Moment) -> Vec<PartitionStatus> {
        self.slots.values().map(|slot| self.describe_one(slot, now)).collect()
    }

    fn describe_one(&self, slot: &Slot, now: Moment) -> PartitionStatus {
        let copier = &slot.copier;
        let halt = copier.halted().map(ToString::to_string);
        // One that is tried again has not stopped to be stuck.
        let stuck = slot.halted_for.as_ref().filter(|_| copier.lag() != Some(0));
        let halt = halt.or_else(|| stuck.map(|(_, reason)| reason.clone()));
        let waiting_for = if halt.is_some() { None } else { self.waiting_for(slot, now) };
        let state = match &waiting_for {
            _ if halt.is_some() => PartitionState::Halted,
            _ if copier.is_in_doubt() => PartitionState::Doubt,
            _ if copier.is_draining() => PartitionState::Draining,
            None | Some(Waiting::Records) => PartitionState::Copying,
            Some(_) => PartitionState::Waiting,
        };
        let anchor = copier.anchor();
        PartitionStatus {
            source: slot.source.clone(),
            target: slot.target.clone(),
            state,
            waiting_for,
            stalled: halt.is_none()
                && copier.lag() != Some(0)
                && now.since(slot.moved) >= STALLED_AFTER,
            halt,
            copied: anchor.upstream,
            source_end: copier.positions().1,
            downstream: anchor.downstream,
            // What the source does not let us see, it does not tell the end of.
            lag: copier.lag().filter(|_| slot.unreadable.is_none()),
            oldest: slot.age.at(anchor.upstream, now),
            counts: copier.counts().clone(),
            gaps: slot.gaps.iter().copied().collect(),
        }
    }

    fn waiting_for(&self, slot: &Slot, now: Moment) -> Option<Waiting> {
        let fetch_lane = slot.source_leader.and_then(|leader| self.fetch_lanes.get(&leader.node));
        let produce_lane =
            slot.target_leader.and_then(|leader| self.produce_lanes.get(&leader.node));
        if !fetch_lane.is_some_and(|lane| lane.lane.is_up()) {
            return Some(Waiting::Source);
        }
        if !produce_lane.is_some_and(|lane| lane.lane.is_up()) {
            return Some(Waiting::Target);
        }
        if let Some(code) = slot.unreadable {
            return Some(Waiting::Unreadable(code));
        }
        if let Some(code) = slot.refused {
            return Some(Waiting::Refused(code));
        }
        // A source that throttles may not even say what it has.
        if fetch_lane.is_some_and(|lane| lane.lane.is_throttled(now)) {
            return Some(Waiting::Throttled(Side::Source));
        }
        if slot.copier.lag() == Some(0) {
            return Some(Waiting::Records);
        }
        if produce_lane.is_some_and(|lane| lane.lane.is_throttled(now)) {
            return Some(Waiting::Throttled(Side::Target));
        }
        self.rate.wait_until(now).map(|_| Waiting::RateLimit)
    }

    /// Notes in the book how far the target has acknowledged, and looks for partitions whose
    /// source does not come to a stable offset.
    pub(super) fn note(&mut self, now: Moment) {
        self.next_note = now.after(NOTE_INTERVAL);
        for slot in self.slots.values_mut() {
            let anchor = slot.copier.anchor();
            if let Some(end) = slot.copier.positions().1 {
                slot.age.note(end, anchor.upstream, now);
            }
            if slot.noted != Some(anchor.upstream) {
                slot.noted = Some(anchor.upstream);
                let bends = (slot.copier.take_bends(), self.settings.lag_max());
                self.book.note(&slot.source, slot.page, anchor, bends);
                slot.moved = now;
            } else if slot.copier.lag() == Some(0) {
                slot.moved = now;
                slot.copier.rest();
            }
            if let Some(unstable) = &mut slot.unstable
                && !unstable.told
                && now.since(unstable.since) >= UNSTABLE_AFTER
            {
                unstable.told = true;
                let report = Report::Unstable { source: slot.source.clone(), at: unstable.at };
                self.mailbox.put(report, anchor);
            }
        }
    }

    /// Takes notice of a source's last stable offset and high watermark.
    pub(super) fn note_stable(slot: &mut Slot, stable: Offset, high: Offset, now: Moment) {
        if stable >= high || stable < Offset::ZERO {
            slot.unstable = None;
        } else if slot.unstable.is_none_or(|unstable| unstable.at != stable) {
            slot.unstable = Some(Unstable { at: stable, since: now, told: false });
        }
    }

    /// Counts what a partition holds outside of frames.
    pub(super) fn weigh(&mut self, id: SlotId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            let owned = slot.copier.owned_bytes();
            self.owned.replace(slot.owned, owned);
            slot.owned = owned;
        }
    }

    /// Tells of records that will not be on the target.
    pub(super) fn tell_gap(flow: &FlowId, slot: &mut Slot, gap: Gap, at: Timestamp) {
        slot.remember(gap, at);
        log_gap(flow, &slot.source, gap);
    }
}
