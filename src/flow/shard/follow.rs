//! Following leaders, and lanes that come up and go down.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::lane::Lane;
use super::super::sizing::{RoundTrips, Sizing};
use super::{FetchLane, InFlight, ProduceLane, Shard, SlotId};
use crate::client::{Cluster, FetchSession, MetadataView};
use crate::copy::Outcome;
use crate::model::{Moment, NodeId, Side};

impl Shard {
    pub(super) fn follow_leaders(&mut self) {
        let views = (self.source.view(), self.target.view());
        let all: Vec<SlotId> = self.slots.keys().copied().collect();
        for id in all {
            self.follow_leader(id, (&views.0, &views.1));
        }
        self.produce_lanes.retain(|node, lane| {
            !lane.in_flight.is_empty()
                || self
                    .slots
                    .values()
                    .any(|slot| slot.target_leader.is_some_and(|leader| leader.node == *node))
        });
        self.fetch_lanes.retain(|_, lane| lane.pending.is_some() || !lane.members.is_empty());
    }

    /// Puts a partition where its leaders are now.
    pub(super) fn follow_leader(
        &mut self,
        id: SlotId,
        (source, target): (&MetadataView, &MetadataView),
    ) {
        let flow = &self.settings.id;
        let Some(slot) = self.slots.get_mut(&id) else { return };
        // Another topic under the old name is not followed: the round that looks at topics
        // decides about it.
        let same = |view: &MetadataView| {
            view.topics.get(&slot.source.topic).is_some_and(|topic| topic.id == slot.source_id)
        };
        let leader =
            source.leader(&slot.source.topic, slot.source.partition).filter(|_| same(source));
        if leader != slot.source_leader {
            let (old, new) = (slot.source_leader, leader);
            if let (Some(old), Some(new)) = (old, new)
                && old.node != new.node
            {
                tracing::info!(%flow, side = "source", partition = %slot.source, from = %old.node,
                    to = %new.node, epoch = %new.epoch, "leader moved");
            }
            slot.source_leader = leader;
            if let Some(old) = old
                && let Some(lane) = self.fetch_lanes.get_mut(&old.node)
                && new.is_none_or(|new| new.node != old.node)
            {
                lane.members.remove(&id);
                lane.dirty.insert(id);
            }
            if let Some(new) = new
                && !self.draining
            {
                let lane = self.fetch_lanes.entry(new.node).or_insert_with(|| FetchLane {
                    lane: Lane::new(&self.source, new.node, Some(self.budget.clone())),
                    session: FetchSession::default(),
                    pending: None,
                    sizing: Sizing::new(
                        self.settings.partition_bytes_max,
                        self.settings.fetch_bytes_max,
                    ),
                    members: BTreeSet::new(),
                    dirty: BTreeSet::new(),
                    names: BTreeMap::new(),
                });
                lane.members.insert(id);
                lane.dirty.insert(id);
            }
        }
        let known = target.topics.get(&slot.target.topic);
        let made_anew = known.is_some_and(|topic| topic.id != slot.target_id);
        if made_anew {
            slot.copier.abandon();
        }
        let leader =
            target.leader(&slot.target.topic, slot.target.partition).filter(|_| !made_anew);
        if leader != slot.target_leader {
            let (old, new) = (slot.target_leader, leader);
            if let (Some(old), Some(new)) = (old, new)
                && old.node != new.node
            {
                tracing::info!(%flow, side = "target", partition = %slot.target, from = %old.node,
                    to = %new.node, epoch = %new.epoch, "leader moved");
            }
            slot.target_leader = leader;
            if let Some(old) = old
                && slot.queued
                && let Some(lane) = self.produce_lanes.get_mut(&old.node)
            {
                lane.queue.retain(|queued| *queued != id);
                slot.queued = false;
            }
            if let Some(new) = new {
                self.produce_lanes.entry(new.node).or_insert_with(|| ProduceLane {
                    lane: Lane::new(&self.target, new.node, None),
                    in_flight: VecDeque::new(),
                    queue: VecDeque::new(),
                    round_trips: RoundTrips::default(),
                });
            } else {
                slot.copier.release();
            }
            self.enqueue(id);
            self.mark_dirty(id);
        }
        self.tell_when_quiet(id);
    }

    pub(super) fn mark_dirty(&mut self, id: SlotId) {
        if let Some(leader) = self.slots.get(&id).and_then(|slot| slot.source_leader)
            && let Some(lane) = self.fetch_lanes.get_mut(&leader.node)
        {
            lane.dirty.insert(id);
        }
    }

    /// Puts a partition into its produce lane's queue if it has a batch.
    pub(super) fn enqueue(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if let Some(leader) = slot.target_leader
            && !slot.queued
            && slot.copier.has_batch()
            && let Some(lane) = self.produce_lanes.get_mut(&leader.node)
        {
            lane.queue.push_back(id);
            slot.queued = true;
        }
    }

    pub(super) fn on_up(&mut self, side: Side, node: NodeId) {
        match side {
            Side::Source => {
                if let Some(lane) = self.fetch_lanes.get_mut(&node) {
                    lane.session = FetchSession::default();
                    lane.names.clear();
                    lane.dirty = lane.members.clone();
                }
            }
            Side::Target => self.mark_members_dirty(node),
        }
    }

    /// Partitions whose target lane came up or went down may want to be fetched, or not.
    fn mark_members_dirty(&mut self, node: NodeId) {
        let of_node: Vec<SlotId> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.target_leader.is_some_and(|leader| leader.node == node))
            .map(|(id, _)| *id)
            .collect();
        for id in of_node {
            self.enqueue(id);
            self.mark_dirty(id);
        }
    }

    pub(super) fn on_lane_lost(&mut self, side: Side, node: NodeId, cause: &str, now: Moment) {
        let flow = self.settings.id.clone();
        let (failures, topics) = match side {
            Side::Source => {
                let Some(lane) = self.fetch_lanes.get_mut(&node) else { return };
                lane.pending = None;
                lane.session = FetchSession::default();
                let slots = lane.members.iter().filter_map(|id| self.slots.get(id));
                let topics: BTreeSet<_> = slots.map(|slot| slot.source.topic.clone()).collect();
                (lane.lane.fail(now), topics)
            }
            Side::Target => {
                let Some(lane) = self.produce_lanes.get_mut(&node) else { return };
                let failures = lane.lane.fail(now);
                let lost: Vec<InFlight> = lane.in_flight.drain(..).collect();
                for (id, sequence) in lost.into_iter().flat_map(|request| request.parts) {
                    self.settle(id, sequence, Outcome::Unknown, now);
                }
                let mut topics = BTreeSet::new();
                for slot in self.slots.values_mut() {
                    if slot.target_leader.is_some_and(|leader| leader.node == node) {
                        slot.copier.release();
                        topics.insert(slot.target.topic.clone());
                    }
                }
                self.mark_members_dirty(node);
                (failures, topics)
            }
        };
        let cluster = self.cluster(side);
        topics.iter().for_each(|topic| cluster.hint_stale(topic));
        // The first time, and then less and less often: an outage is one story.
        if is_worth_a_line(failures) {
            tracing::warn!(%flow, %side, cluster = %cluster.alias(), %node, failures, cause,
                "broker lost; trying again");
        }
    }

    pub(super) fn cluster(&self, side: Side) -> &Cluster {
        match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        }
    }

    pub(super) fn on_healthy(&self, side: Side, node: NodeId, failures_before: u32) {
        if failures_before > 0 {
            let flow = &self.settings.id;
            let cluster = self.cluster(side).alias();
            tracing::info!(%flow, %side, %cluster, %node, failures_before, "broker answers again");
        }
    }

    pub(super) fn on_throttled(&self, side: Side, node: NodeId, throttle_ms: i32) {
        let flow = &self.settings.id;
        let cluster = self.cluster(side).alias();
        tracing::info!(%flow, %side, %cluster, %node, throttle_ms,
            "broker asks to hold back: a quota for this principal or client id is used up");
    }
}

/// Whether a failure is told: the first of an outage, the fourth, the sixteenth and so on. Every flow
/// tells of every broker, so doubling was a dozen lines in half a minute already.
fn is_worth_a_line(failures: u32) -> bool {
    failures.is_power_of_two() && failures.trailing_zeros().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_at_once_and_then_ever_more_seldom() {
        let told: Vec<u32> = (0..=256).filter(|failures| is_worth_a_line(*failures)).collect();
        assert_eq!(told, [1, 4, 16, 64, 256]);
    }
}
