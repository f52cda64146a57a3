//! What answers mean: for the lane, for the partition, for the supervisor.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::supervisor::Report;
use super::{Asked, Shard, SlotId};
use crate::client::{Answer, ConnectionFault};
use crate::copy::{Effect, HaltReason, Outcome};
use crate::model::{Leader, Moment, NodeId, Sequence, Side};
use crate::wire::decode_produce;
use crate::wire::fetch::{self, FetchAnswer};

/// How long a partition is not asked for after its source refused: errors of remote storage and
/// missing rights pass within seconds, or not at all.
const SOURCE_PAUSE: Duration = Duration::from_millis(500);

impl Shard {
    pub(super) fn on_produced(&mut self, node: NodeId, answer: Answer, now: Moment) {
        let Some(lane) = self.produce_lanes.get_mut(&node) else { return };
        let Some(request) = lane.in_flight.pop_front() else { return };
        let lost = |fault: String, parts: Vec<(SlotId, Sequence)>| (fault, parts);
        let decoded = match answer {
            Ok(body) => decode_produce(request.version, &body)
                .map_err(|error| lost(format!("malformed answer {error}"), request.parts.clone())),
            Err(ConnectionFault { cause, .. }) => {
                Err(lost(cause.to_string(), request.parts.clone()))
            }
        };
        let answer = match decoded {
            Ok(answer) => answer,
            Err((cause, parts)) => {
                for (id, sequence) in parts {
                    self.settle(id, sequence, Outcome::Unknown, now);
                }
                return self.on_lane_lost(Side::Target, node, &cause, now);
            }
        };
        let elapsed = now.since(request.sent);
        let throttled = lane.lane.throttle(now, answer.throttle_ms);
        lane.round_trips.note(elapsed, request.depth);
        let failures = lane.lane.succeed();
        self.latencies.produce.observe(elapsed.as_secs_f64());
        self.on_healthy(Side::Target, node, failures);
        if throttled {
            self.on_throttled(Side::Target, node, answer.throttle_ms);
        }
        let mut answered: BTreeMap<_, _> = answer
            .partitions
            .into_iter()
            .map(|one| {
                ((one.topic, one.partition), (one.code, one.base_offset, one.message, one.leader))
            })
            .collect();
        for (id, sequence) in request.parts {
            let Some(slot) = self.slots.get(&id) else { continue };
            let key = (slot.target.topic.clone(), slot.target.partition);
            let outcome = match answered.remove(&key) {
                None => Outcome::Unknown,
                Some((code, base, ..)) if !code.is_error() => Outcome::Stored(base),
                Some((code, _, message, leader)) => {
                    if let Some((node, epoch)) = leader {
                        let leader = Leader { node, epoch };
                        self.target.hint_leader(&key.0, key.1, leader);
                    }
                    Outcome::Refused(code, message)
                }
            };
            self.settle(id, sequence, outcome, now);
        }
    }

    /// Tells a copier the outcome of a batch and carries out what follows.
    pub(super) fn settle(&mut self, id: SlotId, sequence: Sequence, outcome: Outcome, now: Moment) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if matches!(outcome, Outcome::Stored(_)) {
            slot.thrive();
        }
        let was_full = slot.copier.wish().is_none();
        slot.copier.on_produced(sequence, outcome, &mut self.effects);
        self.perform(id, now);
        self.weigh(id);
        self.enqueue(id);
        if was_full {
            self.mark_dirty(id);
        }
        self.tell_when_quiet(id);
    }

    pub(super) fn on_fetched(&mut self, node: NodeId, answer: Answer, now: Moment) {
        let Some(lane) = self.fetch_lanes.get_mut(&node) else { return };
        let Some(Asked { version, sent, .. }) = lane.pending.take() else { return };
        let decoded = match answer {
            Ok(body) => fetch::decode(version, &body).map_err(|error| format!("malformed {error}")),
            Err(ConnectionFault { cause, .. }) => Err(cause.to_string()),
        };
        let answer = match decoded {
            Ok(answer) => answer,
            Err(cause) => return self.on_lane_lost(Side::Source, node, &cause, now),
        };
        let throttled = lane.lane.throttle(now, answer.throttle_ms);
        let bytes = answer.partitions.iter().map(|part| part.records.len());
        let filled = (bytes.clone().max().unwrap_or(0), bytes.sum());
        // A quarter of the budget: one answer is read while others are on their way out.
        let most = self.budget.most_bytes() / 4;
        let took = (lane.lane.first_words(), now.since(sent));
        if self.settings.fetch_grows && lane.sizing.on_answer(took, filled, most) {
            lane.dirty.extend(&lane.members);
            self.budget.widen(lane.sizing.answer * 4);
        }
        let failures = lane.lane.succeed();
        self.on_healthy(Side::Source, node, failures);
        if throttled {
            self.on_throttled(Side::Source, node, answer.throttle_ms);
        }
        self.take_fetched(node, answer, now);
    }

    fn take_fetched(&mut self, node: NodeId, answer: FetchAnswer, now: Moment) {
        for part in answer.partitions {
            let Some(lane) = self.fetch_lanes.get_mut(&node) else { return };
            let key = (part.topic.clone(), part.partition);
            let (Some(id), Some(asked)) = (lane.names.get(&key).copied(), lane.session.asked(&key))
            else {
                continue;
            };
            lane.dirty.insert(id);
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if slot.source_leader.is_none_or(|leader| leader.node != node) {
                continue;
            }
            slot.copier.set_ready_bytes_max(lane.sizing.partition);
            if !part.code.is_error()
                && let Some(code) = slot.unreadable.take()
            {
                tracing::info!(flow = %self.settings.id, partition = %slot.source, %code,
                    "source gives records again");
            }
            if self.settings.read_committed && !part.code.is_error() {
                Self::note_stable(slot, part.last_stable_offset, part.high_watermark, now);
            }
            slot.copier.on_fetched(asked, part, &mut self.effects);
            self.perform(id, now);
            self.weigh(id);
            self.enqueue(id);
            self.tell_when_quiet(id);
        }
        if let Some(lane) = self.fetch_lanes.get_mut(&node) {
            if answer.code.is_error() {
                tracing::debug!(flow = %self.settings.id, %node, code = %answer.code,
                    "fetch session ended");
            }
            lane.session.on_answer(answer.code, answer.session_id);
        }
    }

    /// Carries out what a copier asked for.
    fn perform(&mut self, id: SlotId, now: Moment) {
        let effects = std::mem::take(&mut self.effects);
        let wall = self.source.clock().wall();
        for effect in &effects {
            let flow = &self.settings.id;
            let Some(slot) = self.slots.get_mut(&id) else { break };
            match effect {
                Effect::Passed(gap) => Self::tell_gap(flow, slot, *gap, wall),
                Effect::Stored(newest) => {
                    if slot.halted_for.take().is_some() {
                        tracing::info!(%flow, partition = %slot.source, "partition goes on");
                    }
                    let late_ms = wall.since(*newest).max(0);
                    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this century")]
                    self.latencies.replication.observe(late_ms as f64 / 1000.0);
                }
                Effect::Foreign { expected, found, upstream } => {
                    slot.foreign += 1;
                    // Two writers meet at every batch; the first times tell the story.
                    if slot.foreign.is_power_of_two() {
                        tracing::warn!(%flow, partition = %slot.target, %expected, %found,
                            %upstream, times = slot.foreign,
                            "somebody else writes to the target partition");
                    }
                }
                Effect::FindSourceLeader => {
                    self.source.hint_stale(&slot.source.topic);
                    slot.fetch_not_before = now.after(Duration::from_millis(100));
                    self.paused.insert(id);
                }
                Effect::FindTargetLeader => {
                    self.target.hint_stale(slot.target_topic());
                    slot.pause(now);
                    slot.copier.release();
                    self.paused.insert(id);
                }
                Effect::Pause(Side::Source, code) => {
                    // A leader that has just been elected says 75 or 78 for a moment.
                    let passing = matches!(code.0, 75 | 78);
                    if !passing && slot.unreadable.replace(*code) != Some(*code) {
                        tracing::warn!(%flow, partition = %slot.source, %code,
                            "source gives no records; trying again");
                    }
                    slot.fetch_not_before = now.after(SOURCE_PAUSE);
                    self.paused.insert(id);
                }
                Effect::Pause(Side::Target, code) => {
                    slot.refused = Some(*code);
                    if slot.pause(now) {
                        tracing::warn!(%flow, partition = %slot.target, %code,
                            "batch not taken; trying again");
                    }
                    slot.fetch_not_before = slot.not_before;
                    // Frames must not wait with it: other partitions need the budget.
                    slot.copier.release();
                    self.paused.insert(id);
                }
                Effect::Doubt(doubt) => {
                    tracing::info!(%flow, partition = %slot.source, ?doubt, "looking at both logs");
                }
                Effect::Halted => {
                    if let Some(reason) = slot.copier.halted() {
                        let gist = reason.gist();
                        // Tried again for the same end: said once.
                        if slot.halted_for.as_ref().is_none_or(|(before, _)| *before != gist) {
                            tracing::error!(%flow, partition = %slot.source,
                                acked = %slot.copier.acked(), %reason, "partition halted");
                        }
                        slot.halted_for = Some((gist, reason.to_string()));
                    }
                }
            }
        }
        let Some(slot) = self.slots.get_mut(&id) else { return };
        for effect in &effects {
            let source = slot.source.clone();
            match effect {
                Effect::Doubt(doubt) => slot.report = Some(Report::Doubt { source, doubt: *doubt }),
                Effect::Halted => {
                    let may_pass = slot.copier.halted().is_some_and(HaltReason::may_pass);
                    slot.report = Some(Report::Halted { source, may_pass });
                }
                Effect::Passed(_)
                | Effect::Stored(_)
                | Effect::Foreign { .. }
                | Effect::FindSourceLeader
                | Effect::FindTargetLeader
                | Effect::Pause(..) => {}
            }
        }
        self.effects = effects;
        self.effects.clear();
    }
}
