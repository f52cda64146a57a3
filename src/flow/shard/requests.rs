//! What is sent: one batch of each partition that has one, and questions for more.

use std::time::Duration;

use super::super::slot::Slot;
use super::{Asked, InFlight, Shard, SlotId};
use crate::copy::{Merging, WINDOW_BATCHES_MAX};
use crate::model::{Moment, NodeId, Side};
use crate::wire::fetch::{self, FetchWish, PartitionWish, uses_topic_ids};
use crate::wire::{Api, PartitionBatch, encode_produce};

/// Produce requests in flight to one target node.
///
/// Equals the window: with fewer the window cannot fill, with more a partition's batches could
/// not all be remembered by their leader (KIP-98). A broker works on one request of a
/// connection at a time, so more would only wait in its socket.
const IN_FLIGHT_PER_NODE: usize = WINDOW_BATCHES_MAX;

/// Bytes of batches after which a produce request is closed.
///
/// A broker takes 100 MiB, but holds a request in memory as a whole, and answers it as late as
/// its slowest partition. One batch larger than this still goes alone.
const PRODUCE_BYTES: usize = 2 * 1024 * 1024;

/// How long a source broker may wait for data while a partition of the same node is left out
/// because enough of it is ready: it must come back soon.
const SHORT_WAIT: Duration = Duration::from_millis(5);

/// How long a produce answer may be late beyond what the broker was allowed to wait.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

impl Shard {
    pub(super) fn pump(&mut self, now: Moment) {
        let slots = &self.slots;
        self.paused.retain(|id| {
            slots.get(id).is_some_and(|slot| slot.not_before > now || slot.fetch_not_before > now)
        });
        let nodes: Vec<NodeId> = self.produce_lanes.keys().copied().collect();
        for node in nodes {
            while self.produce(node, now) {}
        }
        let nodes: Vec<NodeId> = self.fetch_lanes.keys().copied().collect();
        for node in nodes {
            self.fetch(node, now);
        }
    }

    /// Sends one produce request if the lane has credit and partitions with a batch.
    fn produce(&mut self, node: NodeId, now: Moment) -> bool {
        let Some(lane) = self.produce_lanes.get_mut(&node) else { return false };
        lane.lane.want(now);
        if lane.in_flight.len() >= IN_FLIGHT_PER_NODE || lane.queue.is_empty() {
            return false;
        }
        if self.rate.wait_until(now).is_some() {
            return false;
        }
        let Some(connection) = lane.lane.usable(now).cloned() else { return false };
        let version = match connection.versions().choose(Api::Produce) {
            Ok(version) => version,
            Err(error) => {
                self.on_lane_lost(Side::Target, node, &error.to_string(), now);
                return false;
            }
        };
        let far = lane.round_trips.are_long(lane.lane.first_words());
        let merging = if far { Merging::Far } else { Merging::Near };
        let mut bytes = 0;
        let mut taken = Vec::new();
        for _ in 0..lane.queue.len() {
            if bytes >= PRODUCE_BYTES {
                break;
            }
            let Some(id) = lane.queue.pop_front() else { break };
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if slot.not_before > now {
                lane.queue.push_back(id);
                continue;
            }
            slot.queued = false;
            slot.copier.set_merging(merging);
            if let Some((batch, sequence)) = slot.copier.take() {
                bytes += batch.total_bytes();
                taken.push((id, batch, sequence));
                if slot.copier.has_batch() {
                    lane.queue.push_back(id);
                    slot.queued = true;
                }
            }
        }
        if taken.is_empty() {
            return false;
        }
        let slots = &self.slots;
        let target = |id: &SlotId| &slots[id].target;
        taken.sort_by(|(a, ..), (b, ..)| target(a).cmp(target(b)));
        let batches: Vec<PartitionBatch<'_>> = taken
            .iter()
            .map(|(id, batch, _)| PartitionBatch {
                topic: &target(id).topic,
                partition: target(id).partition,
                head: &batch.header,
                body: batch.body.clone(),
            })
            .collect();
        let settings = self.target.settings();
        let patience = settings.request_timeout;
        let timeout_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        let frame = encode_produce(version, &settings.client_id, timeout_ms, &batches);
        let pending = connection.send(frame, patience + ANSWER_GRACE);
        let parts = taken.iter().map(|(id, _, sequence)| (*id, *sequence)).collect();
        let depth = lane.in_flight.len() + 1;
        lane.in_flight.push_back(InFlight { pending, version, sent: now, depth, parts });
        self.rate.take(bytes);
        let was_full: Vec<SlotId> = taken.into_iter().map(|(id, ..)| id).collect();
        for id in was_full {
            self.weigh(id);
            self.mark_dirty(id);
        }
        true
    }

    /// Asks one node for what its partitions want, if nothing is asked yet.
    fn fetch(&mut self, node: NodeId, now: Moment) {
        if self.owned.is_heavy() {
            return;
        }
        let Some(lane) = self.fetch_lanes.get_mut(&node) else { return };
        if lane.pending.is_some() || lane.members.is_empty() {
            return;
        }
        lane.lane.want(now);
        let Some(connection) = lane.lane.usable(now).cloned() else { return };
        let produce_lanes = &self.produce_lanes;
        let open = |slot: &Slot| {
            let target_up = slot.target_leader.is_some_and(|leader| {
                produce_lanes.get(&leader.node).is_some_and(|lane| !lane.lane.is_down())
            });
            target_up && slot.fetch_not_before <= now
        };
        let slots = &self.slots;
        let mut any = false;
        let mut full = false;
        for slot in lane.members.iter().filter_map(|id| slots.get(id)) {
            any |= open(slot) && slot.copier.wish().is_some();
            full |= slot.copier.is_full();
        }
        if !any {
            return;
        }
        // Without topic ids on the cluster (an old metadata format) sessions go by name.
        let has_ids = lane.members.iter().all(|id| slots[id].source_id.is_some());
        let limit = if has_ids { i16::MAX } else { 12 };
        let version = match connection.versions().choose_at_most(Api::Fetch, limit) {
            Ok(version) => version,
            Err(error) => {
                return self.on_lane_lost(Side::Source, node, &error.to_string(), now);
            }
        };
        if self.settings.fetch_grows && lane.sizing.share(lane.members.len()) {
            lane.dirty.extend(&lane.members);
        }
        let topic_ids = uses_topic_ids(version);
        let bytes_max = i32::try_from(lane.sizing.partition).unwrap_or(i32::MAX);
        let changed: Vec<SlotId> = if lane.session.is_full() {
            lane.dirty.clear();
            lane.names.clear();
            lane.members.iter().copied().collect()
        } else {
            std::mem::take(&mut lane.dirty).into_iter().collect()
        };
        let mut changes = Vec::with_capacity(changed.len());
        for id in changed {
            let Some(slot) = slots.get(&id) else { continue };
            let key = slot.session_key(topic_ids);
            let epoch = slot.source_leader.map(|leader| leader.epoch);
            let wish = slot
                .copier
                .wish()
                .filter(|_| lane.members.contains(&id) && open(slot))
                .zip(epoch)
                .map(|(wish, leader_epoch)| PartitionWish {
                    partition: slot.source.partition,
                    position: wish.position,
                    leader_epoch,
                    last_fetched_epoch: wish.last_fetched_epoch,
                    bytes_max,
                });
            if wish.is_none() && lane.members.contains(&id) {
                // It will want again; look at it at the next chance.
                lane.dirty.insert(id);
            }
            lane.names.insert(key.clone(), id);
            changes.push((key, wish));
        }
        let plan = lane.session.plan(changes);
        let wait = if full { SHORT_WAIT } else { self.settings.fetch_wait };
        let wish = FetchWish {
            wait_ms_max: i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
            bytes_min: 1,
            bytes_max: i32::try_from(lane.sizing.answer).unwrap_or(i32::MAX),
            read_committed: self.settings.read_committed,
            session_id: plan.id,
            session_epoch: plan.epoch,
            topics: plan.topics,
            forgotten: plan.forgotten,
        };
        let settings = self.source.settings();
        let frame = fetch::encode(version, &settings.client_id, &wish);
        let pending = connection.send(frame, settings.request_timeout + wait);
        lane.pending = Some(Asked { pending, version, sent: now });
    }
}
