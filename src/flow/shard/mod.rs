//! The shard: one task that owns partitions, lanes and the answers it waits for.
//!
//! It selects one event, applies it without awaiting, and pumps: every produce lane with credit
//! sends one batch of each partition that has one, every idle fetch lane asks for what its
//! partitions want. Order of selection is fixed, so a run with a paused clock repeats itself.

mod answers;
mod follow;
mod looks;
mod requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::lane::Lane;
use super::progress::ProgressBook;
use super::rate::RateLimit;
use super::settings::FlowSettings;
use super::sizing::{RoundTrips, Sizing};
use super::slot::{Assignment, Slot};
use super::status::{Latencies, PartitionStatus};
use super::supervisor::{Mailbox, Report, ShardSummary};
use crate::client::{
    Answer, Cluster, FetchSession, FrameBudget, Outside, Pending, RequestCause, SessionKey,
};
use crate::copy::Effect;
use crate::model::{Moment, NodeId, Sequence, Side, TopicPartition};

/// Commands taken before the next look at the lanes, whose answers must not wait for long.
const COMMANDS_AT_ONCE: usize = 1000;

/// What a supervisor tells a shard.
#[derive(Debug)]
pub(super) enum Command {
    /// Copy this partition; if it is known already, go on from here.
    Begin(Box<Assignment>),
    /// Stop copying this source partition once nothing of it is in flight.
    Stop(TopicPartition),
    /// Say how things stand, summed up.
    Summarise(oneshot::Sender<ShardSummary>),
    /// Say how each partition stands.
    Describe(oneshot::Sender<Vec<PartitionStatus>>),
    /// Fetch no more, see through what is in flight, note positions, end.
    Drain,
}

type SlotId = u32;

struct InFlight {
    pending: Pending,
    version: i16,
    sent: Moment,
    /// Requests of the lane without an answer when it was sent, itself included.
    depth: usize,
    parts: Vec<(SlotId, Sequence)>,
}

struct ProduceLane {
    lane: Lane,
    in_flight: VecDeque<InFlight>,
    /// Partitions that have a batch; each stands here once.
    queue: VecDeque<SlotId>,
    round_trips: RoundTrips,
}

/// A question for more.
struct Asked {
    pending: Pending,
    version: i16,
    sent: Moment,
}

struct FetchLane {
    lane: Lane,
    session: FetchSession,
    pending: Option<Asked>,
    sizing: Sizing,
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
    rate: RateLimit,
    latencies: Latencies,
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
    /// Bytes that partitions hold outside of frames.
    owned: Outside,
    /// What partitions did whose copier was replaced or taken away.
    retired: ShardSummary,
}

impl Shard {
    pub(super) fn new(
        settings: Arc<FlowSettings>,
        (source, target): (&Cluster, &Cluster),
        budget: FrameBudget,
        (book, mailbox): (Arc<ProgressBook>, Arc<Mailbox>),
        (rate, latencies): (RateLimit, Latencies),
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        let owned = budget.outside();
        Self {
            settings,
            source: source.clone(),
            target: target.clone(),
            budget,
            book,
            mailbox,
            rate,
            latencies,
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
            owned,
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
        let queued = self.produce_lanes.values().any(|lane| !lane.queue.is_empty());
        let limited = queued.then(|| self.rate.wait_until(now)).flatten();
        lanes
            .filter_map(|lane| lane.next_moment(now))
            .chain(limited)
            .chain(paused.filter(|moment| *moment > now))
            .fold(self.next_note.max(now), Moment::min)
    }

    fn apply(&mut self, event: Event, now: Moment) {
        match event {
            Event::Command(Some(Command::Begin(assignment))) => self.begin(*assignment, now),
            Event::Command(Some(Command::Stop(source))) => self.stop(&source),
            Event::Command(Some(Command::Summarise(reply))) => drop(reply.send(self.summary())),
            Event::Command(Some(Command::Describe(reply))) => {
                drop(reply.send(self.describe(now)));
            }
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

    fn begin(&mut self, assignment: Assignment, now: Moment) {
        let before = self.by_source.remove(&assignment.source).and_then(|id| self.take_out(id));
        let id = self.next_slot;
        self.next_slot += 1;
        self.by_source.insert(assignment.source.clone(), id);
        let gap = assignment.gap;
        let mut slot = Slot::new(assignment, now);
        if let Some(before) = before {
            slot.inherit(before);
        }
        if let Some(gap) = gap {
            slot.copier.note_gap(gap);
            // The supervisor has said so already.
            slot.remember(gap, self.source.clock().wall());
        }
        self.slots.insert(id, slot);
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
            let bends = (slot.copier.take_bends(), self.settings.lag_max());
            self.book.note(&slot.source, slot.page, anchor, bends);
            if left {
                self.by_source.remove(&slot.source);
                self.remove(id);
            }
            self.mailbox.put(report, anchor);
        }
    }

    /// Forgets a partition; what it did still counts.
    fn remove(&mut self, id: SlotId) {
        if let Some(slot) = self.take_out(id) {
            let counts = slot.copier.counts();
            self.retired.records += counts.records;
            self.retired.bytes += counts.bytes;
            self.retired.batches += counts.batches();
        }
    }

    fn take_out(&mut self, id: SlotId) -> Option<Slot> {
        let slot = self.slots.remove(&id);
        self.owned.replace(slot.as_ref().map_or(0, |slot| slot.owned), 0);
        for lane in self.fetch_lanes.values_mut() {
            // A session may hold a partition that is no member any more, as its leader moved or
            // its topic was made anew: what it says must not come back without end.
            let member = lane.members.remove(&id);
            if member || lane.names.values().any(|slot| *slot == id) {
                lane.dirty.remove(&id);
                lane.names.retain(|_, slot| *slot != id);
                lane.session.reset();
            }
        }
        for lane in self.produce_lanes.values_mut() {
            lane.queue.retain(|slot| *slot != id);
        }
        slot
    }

    fn drain(&mut self) {
        self.draining = true;
        for slot in self.slots.values_mut() {
            slot.copier.drain();
        }
        // Fetch lanes are of no more use, and a long poll must not hold up the end.
        self.fetch_lanes.clear();
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
        if let Some(asked) = &mut lane.pending
            && let Poll::Ready(answer) = Pin::new(&mut asked.pending).poll(cx)
        {
            return Poll::Ready(Event::Fetched(*node, answer));
        }
        if let Poll::Ready(outcome) = lane.lane.poll_dialling(cx) {
            return Poll::Ready(Event::Dialled(Side::Source, *node, outcome));
        }
    }
    Poll::Pending
}
