//! A run from its first record to its last commit.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use heliograph::batch::Oversize;
use heliograph::client::{Clock, Cluster, ClusterSettings, FrameBudget};
use heliograph::flow::{
    Claims, ExistingRecords, FlowSettings, FlowStatus, GapPolicy, Offsets, PartitionState, Probe,
    Recreate, Reset, Translated, Truncation, Workers,
};
use heliograph::mirror::{
    FlowEnd, GroupRules, InternalTopic, MirrorFlow, MirrorSettings, TopicRules,
};
use heliograph::model::{ClusterAlias, FlowId, Offset, TopicName, TopicPartition};
use heliograph::policy::{
    ConfigFilter, ConfigMode, ConfigRules, FlowNames, FlowTopics, GroupFilter, NameList, Origins,
    PolicyKind, ReplicationPolicy, Rewind, TopicFilter,
};
use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::capture::{Capture, Line};
use super::judge::{Committed, Drained, Evidence, Gap};
use super::rng::Rng;
use super::script::{Event, Script, Which};
use super::seeded::{Seeded, Weather};
use super::world::{Kind, Place, World};
use crate::broker::{FakeCluster, NoFaults, Quirks, State, batch};

/// The mirror's own bounds: one request, one attempt to connect, a whole drain.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_PATIENCE: Duration = Duration::from_secs(15);

/// How long an end may take beyond draining: each cluster is asked for a sign of life, and a
/// first attempt is made to its end.
const FAREWELL: Duration = Duration::from_secs(12);

/// Longer than a mirror of a simulation waits for the answer to a produce request, and asks again.
const ANSWER_MISSED: Duration = Duration::from_secs(15);

/// How long a run may take in calm weather until everything is copied.
const SETTLE: Duration = Duration::from_secs(90);

/// Requests of one run to one cluster. The usual run has a thousand.
const REQUESTS_MAX: usize = 50_000;

/// Frames that may be alive.
const BUDGET: usize = 1024 * 1024;

const POSITIONS: &str = "mm2-heliograph-positions.a.internal";
const MAPS: &str = "mm2-heliograph-offset-map.a.internal";
const OFFSETS: &str = "mm2-offsets.a.internal";

/// What is different from the seed's own run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keep every line and request for printing.
    pub trace: bool,
    /// What the target does wrong.
    pub quirks: Option<Quirks>,
    /// Other weather.
    pub weather: Option<Weather>,
    /// The script, instead of the seed's.
    pub script: Option<Script>,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// For the judge.
    pub evidence: Evidence,
    /// What must be the same when it is run again.
    pub fingerprint: u64,
    /// Requests that both clusters saw.
    pub requests: usize,
    /// The mirror ended by itself, or panicked: how.
    pub broken: Option<String>,
    /// Every line, if asked for.
    pub trace: Vec<String>,
}

/// How an incarnation of the mirror ended.
enum End {
    Killed(usize),
    Drained(usize),
    Over,
}

struct Run {
    script: Script,
    next: usize,
    world: World,
    target: FakeCluster,
    capture: Capture,
    evidence: Evidence,
    broken: Option<String>,
    tracing: bool,
    trace: Vec<String>,
    hasher: DefaultHasher,
    weather: (Weather, Weather),
    seed: u64,
    /// Partitions that were copied once, each of a topic of its name.
    begun: BTreeSet<(Place, usize)>,
}

/// Runs a seed.
///
/// # Panics
///
/// If no runtime can be made.
#[must_use]
pub fn run(seed: u64, options: &Options) -> Outcome {
    let script = options.script.clone().unwrap_or_else(|| Script::from_seed(seed));
    let rng = Rng::new(seed, 2);
    let mut world = World::new(script.source.1, script.source.0, script.value_bytes_max, rng);
    let target = FakeCluster::new("b", script.target.1, script.target.0);
    let weather = options.weather.map_or(script.weather, |weather| (weather, weather));
    world.source.with(|state| state.sessions_max = script.sessions_max);
    for cluster in [&world.source, &target] {
        cluster.with(|state| state.requests_max = REQUESTS_MAX);
    }
    if let Some(quirks) = &options.quirks {
        target.with(|state| state.quirks = quirks.clone());
    }
    for (index, (kind, partitions)) in script.topics.iter().enumerate() {
        world.make_topic(&format!("t{index}"), *partitions, *kind);
    }
    if let Some(max) = script.batch_bytes_max {
        let max = max.to_string();
        for (index, (kind, partitions)) in script.topics.iter().enumerate() {
            let mut configs = vec![("max.message.bytes", max.as_str())];
            if *kind == Kind::Compacted {
                configs.push(("cleanup.policy", "compact"));
            }
            target.with(|state| state.make_topic(&format!("a.t{index}"), *partitions, &configs));
        }
    }
    let capture = Capture::new(options.trace);
    let mut run = Run {
        script,
        next: 0,
        world,
        target,
        capture: capture.clone(),
        evidence: Evidence::default(),
        broken: None,
        tracing: options.trace,
        trace: Vec::new(),
        hasher: DefaultHasher::new(),
        weather,
        seed,
        begun: BTreeSet::new(),
    };
    run.stir_up();
    capture.during(|| while run.incarnation() {});
    run.finish()
}

impl Run {
    fn stir_up(&self) {
        let (source, target) = self.weather;
        self.world.source.set_faults(Seeded::new(Rng::new(self.seed, 3), source));
        self.target.set_faults(Seeded::new(Rng::new(self.seed, 4), target));
    }

    /// One life of the mirror. `false` if it was the last.
    fn incarnation(&mut self) -> bool {
        self.evidence.halts.clear();
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let end = runtime.block_on(async {
            let end = self.live().await;
            // The clock that stands still here is the runtime's.
            self.world.source.detach();
            self.target.detach();
            end
        });
        drop(runtime);
        let away = match end {
            End::Killed(away) | End::Drained(away) if self.broken.is_none() => away,
            End::Killed(_) | End::Drained(_) | End::Over => return false,
        };
        for _ in 0..away {
            if let Some((_, event)) = self.script.events.get(self.next).copied() {
                self.next += 1;
                self.apply(event);
            }
        }
        true
    }

    async fn live(&mut self) -> End {
        self.world.source.attach();
        self.target.attach();
        let (clock, tracker) = (Clock::seeded(self.seed), TaskTracker::new());
        let (shutdown, end) = (CancellationToken::new(), CancellationToken::new());
        let budget = FrameBudget::new(BUDGET);
        let cluster = |alias: &str, fake: &FakeCluster| {
            let settings = ClusterSettings {
                alias: ClusterAlias::new(alias),
                bootstrap: fake.bootstrap(),
                client_id: "heliograph".into(),
                request_timeout: REQUEST_TIMEOUT,
                connect_timeout: CONNECT_TIMEOUT,
                dialer: fake.dialer(),
                security: heliograph::client::Security::default(),
            };
            Cluster::new(settings, clock, &tracker, end.clone())
        };
        let (source, target) = (cluster("a", &self.world.source), cluster("b", &self.target));
        let flow = MirrorFlow::new(
            self.settings(),
            (&source, &target),
            &budget,
            (&Workers::here(), &tracker),
        );
        let (status, probe, offsets) = (flow.status(), flow.probe(), flow.offsets());
        let running = Handle::current().spawn(flow.run(shutdown.clone()));
        let mut mirror = Mirror { running, shutdown, budget, status, probe, offsets };
        let ended = self.drive(&mut mirror).await;
        if !matches!(ended, End::Killed(_)) {
            end.cancel();
            drop((source, target));
            // Connections end behind their last answers.
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.evidence.left_alive = mirror.budget.in_use_bytes();
        }
        self.listen();
        ended
    }

    async fn drive(&mut self, mirror: &mut Mirror) -> End {
        while let Some((at, event)) = self.script.events.get(self.next).copied() {
            let wait = at.saturating_sub(self.world.source.now());
            if !wait.is_zero() && !self.pass(mirror, wait).await {
                return End::Over;
            }
            self.next += 1;
            match event {
                Event::Kill(stirs, away) => {
                    for _ in 0..stirs {
                        let stirred = self.target.stirred();
                        drop(tokio::time::timeout(Duration::from_millis(700), stirred).await);
                        self.listen();
                    }
                    self.note(&"killed");
                    return End::Killed(away);
                }
                Event::Drain(away) => {
                    self.drain(mirror, false).await;
                    return End::Drained(away);
                }
                other => self.apply(other),
            }
            self.listen();
        }
        self.calm();
        let deadline = Instant::now() + SETTLE;
        loop {
            if !self.pass(mirror, Duration::from_millis(300)).await {
                return End::Over;
            }
            self.collect();
            if self.evidence.settled() || Instant::now() >= deadline {
                break;
            }
        }
        // Where records lie whose answer was lost is known only once that is missed, and they are asked for.
        let deadline = Instant::now() + ANSWER_MISSED;
        while Instant::now() < deadline && !acknowledged(mirror).await {
            if !self.pass(mirror, Duration::from_millis(300)).await {
                return End::Over;
            }
        }
        // The status is renewed every second, and so are positions.
        if !self.pass(mirror, Duration::from_millis(2500)).await {
            return End::Over;
        }
        self.evidence.halted = mirror.status.borrow().halted;
        let shown = mirror.probe.partitions().await;
        let halted = shown.iter().filter(|one| one.state == PartitionState::Halted);
        self.evidence.shown_halted = halted
            .map(|one| (one.source.topic.as_str().to_owned(), one.source.partition))
            .collect();
        self.translate(mirror).await;
        self.drain(mirror, true).await;
        End::Over
    }

    /// Asks where every record of the source lies on the target.
    async fn translate(&mut self, mirror: &Mirror) {
        let Some(offsets) = mirror.offsets.borrow().clone() else { return };
        self.collect();
        for (place, entries) in &self.evidence.ledger {
            let generation = self.world.generation(&place.0);
            let source = TopicPartition::new(place.0.as_str(), place.1);
            let asked: Vec<_> = entries
                .iter()
                .filter(|entry| entry.generation == generation)
                .map(|entry| (source.clone(), Offset(entry.record.offset)))
                .collect();
            let answers = offsets.translate(&asked).await;
            let answers = answers.unwrap_or_else(|_| vec![Translated::Unknown; asked.len()]);
            let told = asked.into_iter().zip(answers).map(|((_, upstream), answer)| match answer {
                Translated::Exact(downstream) => (upstream.0, Some(downstream.0)),
                Translated::Unknown => (upstream.0, None),
            });
            self.evidence.translated.insert(place.clone(), (generation, told.collect()));
        }
    }

    /// Lets time pass; `false` if the mirror ended meanwhile.
    async fn pass(&mut self, mirror: &mut Mirror, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        while Instant::now() < until {
            let step = until.min(Instant::now() + Duration::from_millis(250));
            tokio::select! {
                biased;
                ended = &mut mirror.running => {
                    self.listen();
                    self.broken = Some(format!("it ended by itself: {ended:?}"));
                    return false;
                }
                () = tokio::time::sleep_until(step) => {}
            }
            let (most, total, _) = self.evidence.budget;
            let most = most.max(mirror.budget.in_use_bytes());
            self.evidence.budget = (most, total, 0);
            self.listen();
        }
        true
    }

    async fn drain(&mut self, mirror: &mut Mirror, calm: bool) {
        let begun = Instant::now();
        mirror.shutdown.cancel();
        let limit = DRAIN_PATIENCE + FAREWELL;
        let ended = tokio::time::timeout(limit * 2, &mut mirror.running).await;
        let whole = match ended {
            Ok(Ok(end)) => end == FlowEnd::Drained,
            Ok(Err(panic)) => {
                self.broken = Some(format!("it panicked while draining: {panic}"));
                false
            }
            Err(_) => {
                mirror.running.abort();
                false
            }
        };
        self.evidence.drains.push(Drained { took: begun.elapsed(), limit, whole, calm });
        self.listen();
    }

    fn settings(&self) -> MirrorSettings {
        let flow = FlowId { source: ClusterAlias::new("a"), target: ClusterAlias::new("b") };
        let internal = |name: &str, partitions| InternalTopic {
            name: TopicName::new(name),
            partitions,
            replication_factor: -1,
        };
        let (fetch_bytes_max, partition_bytes_max) = self.script.fetch_bytes;
        let policy = ReplicationPolicy::new(PolicyKind::Default, ".", None);
        let names = FlowNames::new(policy, &flow.source);
        let topics = FlowTopics {
            flow: flow.clone(),
            filter: TopicFilter {
                include: NameList::new(&["t.*"]).expect("a pattern"),
                exclude: NameList::none(),
            },
            names: names.clone(),
            origins: Origins::default(),
            heartbeats: false,
        };
        let groups = GroupRules {
            topics: topics.clone(),
            groups: GroupFilter { include: NameList::none(), exclude: NameList::none() },
            refresh: None,
            checkpoints: None,
            offsets: None,
            rewind: Rewind::Monotonic,
            topic: internal("a.checkpoints.internal", 1),
            syncs_topic: TopicName::new("mm2-offset-syncs.b.internal"),
        };
        MirrorSettings {
            flow: FlowSettings {
                id: flow,
                names,
                read_committed: true,
                verify: false,
                // Two shards would be woken in an order that tokio draws by lot.
                shards: 1,
                reset: Reset::Earliest,
                gap_policy: GapPolicy::Record,
                recreate: Recreate::Restart,
                truncation: Truncation::Halt,
                oversize: Oversize::Refuse,
                existing_records: ExistingRecords::Halt,
                claims: Claims::default(),
                fetch_wait: self.script.fetch_wait,
                fetch_bytes_max,
                partition_bytes_max,
                fetch_grows: self.script.fetch_grows,
                bytes_per_second_max: self.script.bytes_per_second_max,
                commit_interval: Duration::from_secs(3),
                offsets_topic: TopicName::new(OFFSETS),
                positions_topic: TopicName::new(POSITIONS),
                map_topic: TopicName::new(MAPS),
                syncs: None,
                connector_name: "MirrorSourceConnector".into(),
            },
            rules: TopicRules {
                topics,
                configs: ConfigRules {
                    filter: ConfigFilter { exclude: NameList::none() },
                    source_defaults: false,
                    mode: ConfigMode::Owned,
                },
                replication_factor: -1,
            },
            internal: vec![internal(OFFSETS, 5), internal(POSITIONS, 1)],
            map: internal(MAPS, 1),
            syncs: None,
            groups,
            refresh: Some(Duration::from_secs(2)),
            configs: None,
            acls: None,
            drain_patience: DRAIN_PATIENCE,
        }
    }

    /// All faults end.
    fn calm(&mut self) {
        self.note(&"calm");
        self.world.source.set_faults(NoFaults);
        self.target.set_faults(NoFaults);
        self.world.end_transactions();
        for cluster in [&self.world.source, &self.target] {
            let nodes: Vec<i32> = cluster.with(|state| state.nodes.keys().copied().collect());
            for node in nodes {
                cluster.with(|state| state.start_node(node));
            }
        }
    }

    fn note(&mut self, what: &impl std::fmt::Debug) {
        if self.tracing {
            let at = self.world.source.now();
            self.trace.push(format!("{at:>12.3?} == {what:?}"));
        }
    }

    fn place(&self, topic: usize, partition: usize) -> Place {
        let name = format!("t{}", topic % self.script.topics.len());
        let partitions = self.world.partitions(&name).max(1);
        let partition = i32::try_from(partition % partitions).unwrap_or(0);
        (name, partition)
    }

    fn apply(&mut self, event: Event) {
        self.note(&event);
        match event {
            Event::Append(topic, partition, batches, records) => {
                let place = self.place(topic, partition);
                for batch in 0..batches {
                    let count = i64::try_from(1 + (records / 2 + batch * 7) % records.max(1));
                    self.world.append(&place, count.unwrap_or(1), batch % 2 == 0);
                }
            }
            Event::Transact(topic, partition, commit) => {
                let place = self.place(topic, partition);
                if self.world.kinds[&place.0] == Kind::Transactional {
                    self.world.transact(&place, commit);
                }
            }
            Event::Compact(topic, partition) => {
                let place = self.place(topic, partition);
                if self.world.kinds[&place.0] == Kind::Compacted {
                    self.evidence.blurred.insert(place.clone());
                    self.world.compact(&place);
                }
            }
            Event::Retain(topic, partition, per_mille) => {
                let place = self.place(topic, partition);
                self.evidence.blurred.insert(place.clone());
                self.world.retain(&place, per_mille);
            }
            Event::Roll(topic, partition) => {
                let place = self.place(topic, partition);
                self.world.source.with(|state| {
                    if let Some(found) = state.partition_mut(&place.0, place.1) {
                        found.log.roll();
                    }
                });
            }
            Event::MoveLeader(which, topic, partition, node) => {
                let place = self.place(topic, partition);
                let (name, cluster) = match which {
                    Which::Source => (place.0, &self.world.source),
                    Which::Target => (format!("a.{}", place.0), &self.target),
                };
                cluster.with(|state| {
                    let nodes = i32::try_from(state.nodes.len()).unwrap_or(1);
                    let node = 1 + node % nodes;
                    if state.nodes[&node].up {
                        state.move_leader(&name, place.1, node);
                    }
                });
            }
            Event::StopNode(which, node) => {
                let cluster = self.cluster(which);
                let nodes = cluster.with(|state| state.nodes.len());
                cluster.stop_node(1 + node % i32::try_from(nodes).unwrap_or(1));
            }
            Event::StartNode(which, node) => {
                let cluster = self.cluster(which);
                cluster.with(|state| {
                    let nodes = i32::try_from(state.nodes.len()).unwrap_or(1);
                    state.start_node(1 + node % nodes);
                });
            }
            Event::Recreate(topic) => {
                let (name, _) = self.place(topic, 0);
                if self.some_node_up() {
                    let partitions = self.world.partitions(&name).max(1);
                    self.world.make_topic(&name, partitions, self.world.kinds[&name]);
                }
            }
            Event::Grow(topic) => {
                let (name, _) = self.place(topic, 0);
                let partitions = self.world.partitions(&name);
                if self.some_node_up() && partitions < 4 {
                    self.world.source.with(|state| state.grow_topic(&name, partitions + 1));
                }
            }
            Event::Truncate(topic, partition, records) => {
                let place = self.place(topic, partition);
                // Fetch tells about a cut log from version 12 on.
                let told = self.script.source.0 as usize >= crate::broker::Release::V2_8 as usize;
                if told && self.world.kinds[&place.0] == Kind::Plain {
                    self.world.truncate(&place, records);
                }
            }
            Event::Damage(topic, partition) => {
                let place = self.place(topic, partition);
                self.world.damage(&place);
            }
            Event::Kill(..) | Event::Drain(_) => {}
        }
    }

    fn cluster(&self, which: Which) -> &FakeCluster {
        match which {
            Which::Source => &self.world.source,
            Which::Target => &self.target,
        }
    }

    fn some_node_up(&self) -> bool {
        self.world.source.with(|state| state.nodes.values().any(|node| node.up))
    }

    /// Takes in what the mirror has said.
    fn listen(&mut self) {
        for line in self.capture.take() {
            if self.tracing {
                let at = self.world.source.now();
                self.trace.push(format!("{at:>12.3?} {line}"));
            }
            line.message.hash(&mut self.hasher);
            line.fields.hash(&mut self.hasher);
            self.take_line(&line);
        }
    }

    fn take_line(&mut self, line: &Line) {
        self.evidence.without_map |= line.message.starts_with("no offset map");
        let Some((topic, partition)) = line.field("partition").rsplit_once('-') else { return };
        let Ok(partition) = partition.parse() else { return };
        let place = (topic.to_owned(), partition);
        match line.message.as_str() {
            "source records are gone before they were copied" => {
                let (first, end) = (line.field("first").parse(), line.field("end").parse());
                let (Ok(from), Ok(to)) = (first, end) else { return };
                let generation = self.world.generation(&place.0);
                self.evidence.gaps.push(Gap { place, generation, range: (from, to) });
            }
            // A partition that is copied for the first time begins where the source's log begins:
            // what was gone by then is no loss.
            "copying partition" => {
                let generation = self.world.generation(&place.0);
                let Ok(from) = line.field("from").parse() else { return };
                if self.begun.insert((place.clone(), generation)) {
                    self.evidence.gaps.push(Gap { place, generation, range: (0, from) });
                }
            }
            "partition halted" => {
                self.evidence.halts.insert(place, line.field("reason").to_owned());
            }
            message if message.starts_with("source topic was made anew") => {
                self.evidence.halts.remove(&place);
            }
            _ => {}
        }
    }

    /// What both clusters hold now.
    fn collect(&mut self) {
        self.evidence.ledger.clone_from(&self.world.ledger);
        let places: Vec<Place> = self.world.ledger.keys().cloned().collect();
        self.evidence.target = self.target.with(|state| {
            let read = |place: &Place| {
                let found = state.partition(&format!("a.{}", place.0), place.1);
                found.map_or_else(Vec::new, |found| found.log.records())
            };
            places.iter().map(|place| (place.clone(), read(place))).collect()
        });
        self.evidence.truncated.clone_from(&self.world.truncated);
        self.evidence.damaged.clone_from(&self.world.damaged);
    }

    fn finish(mut self) -> Outcome {
        self.collect();
        let frame = self.world.source.with(|state| state.fetch_answer_max);
        self.evidence.budget = (self.evidence.budget.0, BUDGET, frame);
        self.evidence.committed = self.target.with(|state| positions(state, &self.world.ids));
        let mut requests = 0;
        for cluster in [&self.world.source, &self.target] {
            cluster.with(|state| {
                requests += state.seen.len();
                if state.seen.len() >= REQUESTS_MAX {
                    let name = &state.name;
                    self.broken = Some(format!("it asks {name} without end: {REQUESTS_MAX} times"));
                }
                state.seen.hash(&mut self.hasher);
                if self.tracing {
                    for seen in &state.seen {
                        self.trace.push(format!(
                            "{:>12.3?} {}{} #{} api {} v{} {}>{} {}",
                            seen.at,
                            state.name,
                            seen.node,
                            seen.connection,
                            seen.api.0,
                            seen.api.1,
                            seen.bytes.0,
                            seen.bytes.1,
                            seen.fault,
                        ));
                    }
                }
            });
        }
        Outcome {
            evidence: self.evidence,
            fingerprint: self.hasher.finish(),
            requests,
            broken: self.broken,
            trace: self.trace,
        }
    }
}

/// One incarnation, as its keeper holds it.
struct Mirror {
    running: JoinHandle<FlowEnd>,
    shutdown: CancellationToken,
    budget: FrameBudget,
    status: watch::Receiver<FlowStatus>,
    probe: Probe,
    offsets: watch::Receiver<Option<Offsets>>,
}

/// The positions in what was written to the two topics that hold them. Read by this module's own
/// rules, not by the mirror's.
fn positions(state: &State, ids: &BTreeMap<String, Vec<[u8; 16]>>) -> Vec<Committed> {
    let mut out = Vec::new();
    for mark in &state.marks {
        for record in batch::records(&mark.batch).unwrap_or_default() {
            let parse =
                |bytes: Option<&Vec<u8>>| -> Option<Value> { serde_json::from_slice(bytes?).ok() };
            let (Some(key), Some(value)) =
                (parse(record.key.as_ref()), parse(record.value.as_ref()))
            else {
                continue;
            };
            let at = &key[1];
            let (Some(topic), Some(partition)) = (at["topic"].as_str(), at["partition"].as_i64())
            else {
                continue;
            };
            let place = (topic.to_owned(), i32::try_from(partition).unwrap_or(-1));
            let known = &ids[topic];
            let (generation, upstream) = if mark.topic == POSITIONS {
                let id = value["sourceTopicId"].as_str().unwrap_or_default();
                let hex = |id: &[u8; 16]| -> String {
                    id.iter().map(|byte| format!("{byte:02x}")).collect()
                };
                let found = known.iter().position(|one| hex(one) == id);
                (found.map(|at| at + 1), value["upstream"].as_i64())
            } else {
                // Connect's offsets do not say which topic of the name they are about.
                let only = (known.len() == 1).then_some(1);
                (only, value["offset"].as_i64().map(|last| last + 1))
            };
            let (Some(generation), Some(upstream)) = (generation, upstream) else { continue };
            let index = usize::try_from(place.1).unwrap_or(0);
            let end = mark.ends.get(&(format!("a.{topic}"), index)).copied().unwrap_or(0);
            let downstream = value["downstream"].as_i64();
            out.push(Committed { place, generation, upstream, downstream, end });
        }
    }
    out
}

/// Whether the target has acknowledged all that the partitions that go on have to copy.
async fn acknowledged(mirror: &Mirror) -> bool {
    let shown = mirror.probe.partitions().await;
    shown.iter().all(|one| one.state != PartitionState::Copying || one.lag == Some(0))
}
