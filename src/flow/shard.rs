//! The shard: one task that owns partitions, lanes and the answers it waits for.
//!
//! It selects one event, applies it without awaiting, and pumps: every produce lane with credit
//! sends one batch of each partition that has one, every idle fetch lane asks for what its
//! partitions want. Order of selection is fixed, so a run with a paused clock repeats itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::lane::Lane;
use super::progress::ProgressBook;
use super::settings::FlowSettings;
use super::slot::{Assignment, Slot};
use super::supervisor::{Mailbox, Report, ShardSummary};
use crate::client::{
    Answer, Cluster, ConnectionFault, FetchSession, FrameBudget, MetadataView, Pending,
    RequestCause, SessionKey,
};
use crate::copy::{Effect, Outcome, WINDOW_BATCHES_MAX};
use crate::model::{Moment, NodeId, Sequence, Side, TopicPartition};
use crate::wire::fetch::{self, FetchAnswer, FetchWish, PartitionWish, uses_topic_ids};
use crate::wire::{Api, PartitionBatch, decode_produce, encode_produce};

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

/// Commands taken before the next look at the lanes, whose answers must not wait for long.
const COMMANDS_AT_ONCE: usize = 1000;

/// How long a produce answer may be late beyond what the broker was allowed to wait.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// How often positions are noted in the book.
const NOTE_INTERVAL: Duration = Duration::from_millis(500);

/// What a supervisor tells a shard.
#[derive(Debug)]
pub(super) enum Command {
    /// Copy this partition; if it is known already, go on from here.
    Begin(Box<Assignment>),
    /// Stop copying this source partition once nothing of it is in flight.
    Stop(TopicPartition),
    /// Say how things stand.
    Summarise(oneshot::Sender<ShardSummary>),
    /// Fetch no more, see through what is in flight, note positions, end.
    Drain,
}

type SlotId = u32;

struct InFlight {
    pending: Pending,
    version: i16,
    parts: Vec<(SlotId, Sequence)>,
}

struct ProduceLane {
    lane: Lane,
    in_flight: VecDeque<InFlight>,
    /// Partitions that have a batch; each stands here once.
    queue: VecDeque<SlotId>,
}

struct FetchLane {
    lane: Lane,
    session: FetchSession,
    pending: Option<(Pending, i16)>,
    members: BTreeSet<SlotId>,
    /// Members whose wish may differ from what the session knows.
    dirty: BTreeSet<SlotId>,
    names: BTreeMap<SessionKey, SlotId>,
}

enum Event {
    Command(Option<Command>),
    Produced(NodeId, Answer),
    Fetched(NodeId, Answer),
    Dialled(Side, NodeId, Result<(), RequestCause>),
    Metadata,
    Tick,
}

pub(super) struct Shard {
    settings: Arc<FlowSettings>,
    source: Cluster,
    target: Cluster,
    budget: FrameBudget,
    book: Arc<ProgressBook>,
    mailbox: Arc<Mailbox>,
    commands: mpsc::Receiver<Command>,
    source_changes: watch::Receiver<u64>,
    target_changes: watch::Receiver<u64>,
    slots: BTreeMap<SlotId, Slot>,
    by_source: BTreeMap<TopicPartition, SlotId>,
    next_slot: SlotId,
    fetch_lanes: BTreeMap<NodeId, FetchLane>,
    produce_lanes: BTreeMap<NodeId, ProduceLane>,
    next_note: Moment,
    draining: bool,
    effects: Vec<Effect>,
    /// Partitions that hold back until a moment.
    paused: BTreeSet<SlotId>,
    /// What partitions did whose copier was replaced or taken away.
    retired: ShardSummary,
}

impl Shard {
    pub(super) fn new(
        settings: Arc<FlowSettings>,
        (source, target): (&Cluster, &Cluster),
        budget: FrameBudget,
        book: Arc<ProgressBook>,
        mailbox: Arc<Mailbox>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        Self {
            settings,
            source: source.clone(),
            target: target.clone(),
            budget,
            book,
            mailbox,
            commands,
            source_changes: source.changes(),
            target_changes: target.changes(),
            slots: BTreeMap::new(),
            by_source: BTreeMap::new(),
            next_slot: 0,
            fetch_lanes: BTreeMap::new(),
            produce_lanes: BTreeMap::new(),
            next_note: Moment(Duration::ZERO),
            draining: false,
            effects: Vec::new(),
            paused: BTreeSet::new(),
            retired: ShardSummary::default(),
        }
    }

    /// Runs until it is drained.
    pub(super) async fn run(mut self) {
        loop {
            let event = self.next().await;
            let now = self.source.clock().now();
            self.apply(event, now);
            // A plan with many partitions comes as many commands; asking for each alone would
            // make the others wait for a long poll.
            for _ in 0..COMMANDS_AT_ONCE {
                let Ok(command) = self.commands.try_recv() else { break };
                self.apply(Event::Command(Some(command)), now);
            }
            if now >= self.next_note {
                self.note(now);
            }
            if self.draining && self.slots.values().all(|slot| slot.copier.is_quiet()) {
                self.note(now);
                return;
            }
            self.pump(now);
        }
    }

    /// The next thing to learn. Every branch is cancel-safe: what is not returned stays where
    /// it is.
    async fn next(&mut self) -> Event {
        let clock = self.source.clock();
        let wake = self.next_moment(clock.now());
        let (produce_lanes, fetch_lanes) = (&mut self.produce_lanes, &mut self.fetch_lanes);
        tokio::select! {
            biased;
            command = self.commands.recv() => Event::Command(command),
            event = poll_fn(|cx| poll_lanes(produce_lanes, fetch_lanes, cx)) => event,
            Ok(()) = self.source_changes.changed() => Event::Metadata,
            Ok(()) = self.target_changes.changed() => Event::Metadata,
            () = clock.sleep_until(wake) => Event::Tick,
        }
    }

    /// When to look around even if nothing happens.
    fn next_moment(&self, now: Moment) -> Moment {
        let lanes = self.produce_lanes.values().map(|lane| &lane.lane).chain(
            self.fetch_lanes
                .values()
                .filter(|lane| lane.pending.is_none() && !lane.members.is_empty())
                .map(|lane| &lane.lane),
        );
        let paused = self.paused.iter().filter_map(|id| self.slots.get(id));
        let paused = paused.flat_map(|slot| [slot.not_before, slot.fetch_not_before]);
        lanes
            .filter_map(|lane| lane.next_moment(now))
            .chain(paused.filter(|moment| *moment > now))
            .fold(self.next_note.max(now), Moment::min)
    }

    fn apply(&mut self, event: Event, now: Moment) {
        match event {
            Event::Command(Some(Command::Begin(assignment))) => self.begin(*assignment),
            Event::Command(Some(Command::Stop(source))) => self.stop(&source),
            Event::Command(Some(Command::Summarise(reply))) => drop(reply.send(self.summary())),
            // A supervisor that is gone cannot ask for anything any more.
            Event::Command(Some(Command::Drain) | None) => self.drain(),
            Event::Produced(node, answer) => self.on_produced(node, answer, now),
            Event::Fetched(node, answer) => self.on_fetched(node, answer, now),
            Event::Dialled(side, node, Ok(())) => self.on_up(side, node),
            Event::Dialled(side, node, Err(cause)) => {
                let cause = cause.to_string();
                self.on_lane_lost(side, node, &cause, now);
            }
            Event::Metadata => self.follow_leaders(),
            Event::Tick => {}
        }
    }

    fn begin(&mut self, assignment: Assignment) {
        if let Some(id) = self.by_source.remove(&assignment.source) {
            self.remove(id);
        }
        let id = self.next_slot;
        self.next_slot += 1;
        self.by_source.insert(assignment.source.clone(), id);
        self.slots.insert(id, Slot::new(assignment));
        let views = (self.source.view(), self.target.view());
        self.follow_leader(id, (&views.0, &views.1));
        if self.draining {
            self.drain();
        }
    }

    fn stop(&mut self, source: &TopicPartition) {
        let Some(id) = self.by_source.get(source).copied() else { return };
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.copier.drain();
            slot.report = Some(Report::Left { source: source.clone() });
        }
        self.tell_when_quiet(id);
    }

    /// Tells the supervisor about a partition once nothing of it is in flight, so that what it
    /// finds in the target's log is all there is.
    fn tell_when_quiet(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if !slot.copier.is_quiet() {
            return;
        }
        if let Some(report) = slot.report.take() {
            let (anchor, left) = (slot.copier.anchor(), matches!(report, Report::Left { .. }));
            self.book.note(&slot.source, anchor);
            if left {
                self.by_source.remove(&slot.source);
                self.remove(id);
            }
            self.mailbox.put(report, anchor);
        }
    }

    fn remove(&mut self, id: SlotId) {
        if let Some(slot) = self.slots.remove(&id) {
            let counts = slot.copier.counts();
            self.retired.records += counts.records;
            self.retired.bytes += counts.bytes;
            self.retired.batches += counts.batches;
        }
        for lane in self.fetch_lanes.values_mut() {
            // The names stay until the lane's session starts anew; answers for a slot that is
            // gone are not looked at.
            if lane.members.remove(&id) {
                lane.dirty.remove(&id);
                lane.names.retain(|_, slot| *slot != id);
                lane.session.reset();
            }
        }
        for lane in self.produce_lanes.values_mut() {
            lane.queue.retain(|slot| *slot != id);
        }
    }

    fn drain(&mut self) {
        self.draining = true;
        for slot in self.slots.values_mut() {
            slot.copier.drain();
        }
        // Fetch lanes are of no more use, and a long poll must not hold up the end.
        self.fetch_lanes.clear();
    }

    fn summary(&self) -> ShardSummary {
        let mut summary = self.retired;
        for slot in self.slots.values() {
            let counts = slot.copier.counts();
            summary.partitions += 1;
            summary.records += counts.records;
            summary.bytes += counts.bytes;
            summary.batches += counts.batches;
            summary.rebuilt += counts.rebuilt.values().sum::<u64>();
            summary.lag += slot.copier.lag().unwrap_or(0);
            summary.halted += usize::from(slot.copier.halted().is_some());
            summary.leaderless +=
                usize::from(slot.source_leader.is_none() || slot.target_leader.is_none());
        }
        summary
    }

    /// Notes in the book how far the target has acknowledged.
    fn note(&mut self, now: Moment) {
        self.next_note = now.after(NOTE_INTERVAL);
        for slot in self.slots.values_mut() {
            let anchor = slot.copier.anchor();
            if slot.noted != Some(anchor.upstream) {
                slot.noted = Some(anchor.upstream);
                self.book.note(&slot.source, anchor);
            }
        }
    }

    fn follow_leaders(&mut self) {
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
    fn follow_leader(&mut self, id: SlotId, (source, target): (&MetadataView, &MetadataView)) {
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
                });
            } else {
                slot.copier.release();
            }
            self.enqueue(id);
            self.mark_dirty(id);
        }
        self.tell_when_quiet(id);
    }

    fn mark_dirty(&mut self, id: SlotId) {
        if let Some(leader) = self.slots.get(&id).and_then(|slot| slot.source_leader)
            && let Some(lane) = self.fetch_lanes.get_mut(&leader.node)
        {
            lane.dirty.insert(id);
        }
    }

    /// Puts a partition into its produce lane's queue if it has a batch.
    fn enqueue(&mut self, id: SlotId) {
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

    fn on_up(&mut self, side: Side, node: NodeId) {
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

    fn on_lane_lost(&mut self, side: Side, node: NodeId, cause: &str, now: Moment) {
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
        if failures.is_power_of_two() {
            tracing::warn!(%flow, %side, cluster = %cluster.alias(), %node, failures, cause,
                "broker lost; trying again");
        }
    }

    fn cluster(&self, side: Side) -> &Cluster {
        match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        }
    }

    fn on_healthy(&self, side: Side, node: NodeId, failures_before: u32) {
        if failures_before > 0 {
            let flow = &self.settings.id;
            let cluster = self.cluster(side).alias();
            tracing::info!(%flow, %side, %cluster, %node, failures_before, "broker answers again");
        }
    }

    fn on_produced(&mut self, node: NodeId, answer: Answer, now: Moment) {
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
        lane.lane.throttle(now, answer.throttle_ms);
        let failures = lane.lane.succeed();
        self.on_healthy(Side::Target, node, failures);
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
                        let leader = crate::model::Leader { node, epoch };
                        self.target.hint_leader(&key.0, key.1, leader);
                    }
                    Outcome::Refused(code, message)
                }
            };
            self.settle(id, sequence, outcome, now);
        }
    }

    /// Tells a copier the outcome of a batch and carries out what follows.
    fn settle(&mut self, id: SlotId, sequence: Sequence, outcome: Outcome, now: Moment) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if matches!(outcome, Outcome::Stored(_)) {
            slot.thrive();
        }
        let was_full = slot.copier.wish().is_none();
        slot.copier.on_produced(sequence, outcome, &mut self.effects);
        self.perform(id, now);
        self.enqueue(id);
        if was_full {
            self.mark_dirty(id);
        }
        self.tell_when_quiet(id);
    }

    fn on_fetched(&mut self, node: NodeId, answer: Answer, now: Moment) {
        let Some(lane) = self.fetch_lanes.get_mut(&node) else { return };
        let Some((_, version)) = lane.pending.take() else { return };
        let decoded = match answer {
            Ok(body) => fetch::decode(version, &body).map_err(|error| format!("malformed {error}")),
            Err(ConnectionFault { cause, .. }) => Err(cause.to_string()),
        };
        let answer = match decoded {
            Ok(answer) => answer,
            Err(cause) => return self.on_lane_lost(Side::Source, node, &cause, now),
        };
        lane.lane.throttle(now, answer.throttle_ms);
        let failures = lane.lane.succeed();
        self.on_healthy(Side::Source, node, failures);
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
            slot.copier.on_fetched(asked, part, &mut self.effects);
            self.perform(id, now);
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
        for effect in &effects {
            let flow = &self.settings.id;
            let Some(slot) = self.slots.get_mut(&id) else { break };
            match effect {
                Effect::Passed(gap) => tracing::warn!(%flow, partition = %slot.source,
                    missing = %gap.range, count = gap.range.len(), reason = %gap.reason,
                    "source records are gone before they were copied"),
                Effect::Foreign { expected, found, upstream } => tracing::warn!(%flow,
                    partition = %slot.target, %expected, %found, %upstream,
                    "somebody else writes to the target partition"),
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
                Effect::Pause(code) => {
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
                        tracing::error!(%flow, partition = %slot.source, acked = %slot.copier.acked(),
                            %reason, "partition halted");
                    }
                }
            }
        }
        let Some(slot) = self.slots.get_mut(&id) else { return };
        for effect in &effects {
            let source = slot.source.clone();
            match effect {
                Effect::Doubt(doubt) => slot.report = Some(Report::Doubt { source, doubt: *doubt }),
                Effect::Halted => slot.report = Some(Report::Halted { source }),
                Effect::Passed(_)
                | Effect::Foreign { .. }
                | Effect::FindSourceLeader
                | Effect::FindTargetLeader
                | Effect::Pause(_) => {}
            }
        }
        self.effects = effects;
        self.effects.clear();
    }

    fn pump(&mut self, now: Moment) {
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
        let Some(connection) = lane.lane.usable(now).cloned() else { return false };
        let version = match connection.versions().choose(Api::Produce) {
            Ok(version) => version,
            Err(error) => {
                self.on_lane_lost(Side::Target, node, &error.to_string(), now);
                return false;
            }
        };
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
        lane.in_flight.push_back(InFlight { pending, version, parts });
        let was_full: Vec<SlotId> = taken.into_iter().map(|(id, ..)| id).collect();
        for id in was_full {
            self.mark_dirty(id);
        }
        true
    }

    /// Asks one node for what its partitions want, if nothing is asked yet.
    fn fetch(&mut self, node: NodeId, now: Moment) {
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
        let topic_ids = uses_topic_ids(version);
        let bytes_max = i32::try_from(self.settings.partition_bytes_max).unwrap_or(i32::MAX);
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
            bytes_max: i32::try_from(self.settings.fetch_bytes_max).unwrap_or(i32::MAX),
            read_committed: self.settings.read_committed,
            session_id: plan.id,
            session_epoch: plan.epoch,
            topics: plan.topics,
            forgotten: plan.forgotten,
        };
        let settings = self.source.settings();
        let frame = fetch::encode(version, &settings.client_id, &wish);
        let pending = connection.send(frame, settings.request_timeout + wait);
        lane.pending = Some((pending, version));
    }
}

/// The first lane that has something to say, produce lanes first: their answers free frames.
fn poll_lanes(
    produce_lanes: &mut BTreeMap<NodeId, ProduceLane>,
    fetch_lanes: &mut BTreeMap<NodeId, FetchLane>,
    cx: &mut Context<'_>,
) -> Poll<Event> {
    for (node, lane) in produce_lanes {
        // Answers of one connection come in order, so only the first can be there.
        if let Some(request) = lane.in_flight.front_mut()
            && let Poll::Ready(answer) = Pin::new(&mut request.pending).poll(cx)
        {
            return Poll::Ready(Event::Produced(*node, answer));
        }
        if let Poll::Ready(outcome) = lane.lane.poll_dialling(cx) {
            return Poll::Ready(Event::Dialled(Side::Target, *node, outcome));
        }
    }
    for (node, lane) in fetch_lanes {
        if let Some((pending, _)) = &mut lane.pending
            && let Poll::Ready(answer) = Pin::new(pending).poll(cx)
        {
            return Poll::Ready(Event::Fetched(*node, answer));
        }
        if let Poll::Ready(outcome) = lane.lane.poll_dialling(cx) {
            return Poll::Ready(Event::Dialled(Side::Source, *node, outcome));
        }
    }
    Poll::Pending
}
