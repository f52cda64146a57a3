//! The supervisor: which partitions a flow copies, from where, in which shard; and the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::anchor::Anchor;
use super::offsets::Offsets;
use super::progress::{Committer, Loaded, Page, ProgressBook};
use super::rate::RateLimit;
use super::resume::{Decision, Occasion, Planner};
use super::settings::FlowSettings;
use super::shard::{Command, Shard};
use super::slot::Assignment;
use super::status::{Notice, PartitionState, Probe, Waiting, log_gap};
use super::workers::Workers;
use crate::batch::SizeLimits;
use crate::client::{Backoff, Cluster, FrameBudget, LogError};
use crate::copy::{Doubt, Start, Terms};
use crate::model::{
    Gap, Moment, Offset, ProducerIdentity, Side, TopicId, TopicName, TopicPartition,
};

/// Commands that may wait for a shard. It reads them between two events, so a few suffice; a
/// start with thousands of partitions waits here instead of in memory.
const COMMANDS_MAX: usize = 64;

/// How long a partition waits that could not be decided about: the first time (leaders of a topic
/// just made need a moment to know it), and at most.
const LATER_FIRST: Duration = Duration::from_millis(50);
const LATER_MOST: Duration = Duration::from_secs(1);

/// After what time a partition is tried again whose records the target refused: the remedy is a
/// setting that a person changes, and a try costs a few requests.
const STUCK_RETRY: Duration = Duration::from_secs(15);

/// Topics that are told of one by one when they begin together; of more the number is told.
const BEGUN_TOLD_MAX: usize = 5;

/// How often the progress line is written while something moves.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The topic config that bounds a batch.
const LIMIT_CONFIG: &str = "max.message.bytes";

/// The topic config that says whose time records have.
const STAMP_CONFIG: &str = "message.timestamp.type";
const LOG_APPEND_TIME: &str = "LogAppendTime";

/// Topics described in one request: an answer holds about forty configs of each.
const DESCRIBED_AT_ONCE: usize = 200;

/// [`LIMIT_CONFIG`] where the target does not tell: no limit of ours, its refusal tells.
const BATCH_BYTES_UNKNOWN: usize = i32::MAX as usize;

/// A source partition and the target partition it is copied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Where from.
    pub source: TopicPartition,
    /// Where to.
    pub target: TopicPartition,
    /// The source topic's id.
    pub source_id: TopicId,
    /// The target topic's id.
    pub target_id: TopicId,
}

/// What a shard tells its supervisor about one partition. At most one per partition is
/// waiting, so the box is bounded by their number.
#[derive(Debug)]
pub(super) enum Report {
    /// Both logs must be looked at.
    Doubt { source: TopicPartition, doubt: Doubt },
    /// It stopped; and whether that may pass when somebody changes a setting.
    Halted { source: TopicPartition, may_pass: bool },
    /// It was told to stop, and has.
    Left { source: TopicPartition },
    /// Its source's last stable offset does not move.
    Unstable { source: TopicPartition, at: Offset },
}

/// Reports that wait for the supervisor.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    waiting: Mutex<VecDeque<(Report, Start)>>,
    arrived: Notify,
}

impl Mailbox {
    pub(super) fn put(&self, report: Report, anchor: Start) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back((report, anchor));
        self.arrived.notify_one();
    }

    fn take(&self) -> VecDeque<(Report, Start)> {
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a shard's partitions stand, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardSummary {
    pub(super) partitions: usize,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) batches: u64,
    pub(super) lag: i64,
    pub(super) halted: usize,
    pub(super) leaderless: usize,
}

/// How a flow's data plane stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStatus {
    /// Partitions that are copied, or stopped.
    pub partitions: usize,
    /// Records acknowledged by the target since the start of this process.
    pub records: u64,
    /// Bytes of batches acknowledged by the target since the start of this process.
    pub bytes: u64,
    /// Upstream offsets not yet acknowledged, over all partitions that know.
    pub lag: i64,
    /// Partitions that stopped.
    pub halted: usize,
    /// Partitions that cannot be decided about yet.
    pub waiting: usize,
}

/// One partition as the supervisor knows it.
#[derive(Debug)]
struct Known {
    pair: Pair,
    shard: Option<usize>,
    state: Standing,
    /// How long it waits the next time that it cannot be decided about.
    later: Duration,
    /// `acked` at the last doubt about the identity: twice without progress means a new one.
    doubted_at: Option<Offset>,
    /// Bytes of the largest batch it may take, after its target refused a larger one.
    batch_bytes_max: Option<usize>,
    /// The record that the target refused last though it stood alone.
    refused: Option<Offset>,
    /// Why it stopped, or cannot be decided about, where its shard does not know.
    why: Option<String>,
    /// The cluster whose topic must not be read, if that is why.
    denied: Option<Side>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// To be decided about, not before this moment.
    Waiting(Moment, Occasion),
    Copying,
    /// Told to stop; `true` if it is to be decided about anew after that.
    Leaving(bool),
    Halted,
    /// Halted, and tried again at this moment.
    Stuck(Moment),
}

/// The owner of one flow's data plane.
#[derive(Debug)]
pub struct Supervisor {
    settings: Arc<FlowSettings>,
    source: Cluster,
    target: Cluster,
    planner: Planner,
    committer: Arc<Committer>,
    book: Arc<ProgressBook>,
    mailbox: Arc<Mailbox>,
    progress: Loaded,
    shards: Vec<mpsc::Sender<Command>>,
    tasks: Vec<JoinHandle<()>>,
    known: BTreeMap<TopicPartition, Known>,
    limits: BTreeMap<TopicName, usize>,
    /// Target topics that stamp records themselves, and were named.
    stamped: BTreeSet<TopicName>,
    /// Source partitions whose last stable offset has stood at the offset for long.
    unstable: Vec<(TopicPartition, Offset)>,
    probe: Probe,
    status: watch::Sender<FlowStatus>,
}

impl Supervisor {
    /// Reads progress and starts the shards, which have nothing to do yet. Topics that were made
    /// just now (`empty`) are not read. Partitions without progress are produced under `identity`.
    /// Connect's offsets are kept on the third cluster, which is the target unless MM2 ran in a
    /// Connect cluster.
    ///
    /// # Errors
    ///
    /// [`LogError`] if progress cannot be read; it may be tried again.
    pub async fn start(
        settings: FlowSettings,
        (source, target, offsets): (&Cluster, &Cluster, &Cluster),
        identity: ProducerIdentity,
        empty: &BTreeSet<TopicName>,
        budget: &FrameBudget,
        (workers, tracker): (&Workers, &TaskTracker),
        probe: &Probe,
    ) -> Result<Self, LogError> {
        let settings = Arc::new(settings);
        let mut progress = Loaded::read(&settings, (target, offsets), empty).await?;
        let book = Arc::new(ProgressBook::default());
        book.restore(std::mem::take(&mut progress.maps));
        let mailbox = Arc::new(Mailbox::default());
        let rate = RateLimit::new(settings.bytes_per_second_max);
        let (mut shards, mut tasks) = (Vec::new(), Vec::new());
        for index in 0..settings.shards.max(1) {
            let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
            let (settings, book, mailbox) =
                (Arc::clone(&settings), Arc::clone(&book), Arc::clone(&mailbox));
            let limits = (rate.clone(), probe.latencies().clone());
            let (ends, books) = ((source, target), (book, mailbox));
            let shard = Shard::new(settings, ends, budget.clone(), books, limits, receiver);
            tasks.push(workers.spawn(tracker, index, shard.run()));
            shards.push(commands);
        }
        probe.connect(&shards);
        let planner = Planner {
            settings: Arc::clone(&settings),
            source: source.clone(),
            target: target.clone(),
            identity,
        };
        let committer = Arc::new(Committer {
            settings: Arc::clone(&settings),
            target: target.clone(),
            offsets: offsets.clone(),
            book: Arc::clone(&book),
            probe: probe.clone(),
            writing: tokio::sync::Mutex::default(),
            maps_told: AtomicBool::new(false),
        });
        tracing::debug!(flow = %settings.id, producer = %identity, anchors = progress.anchors.len(),
            connect_offsets = progress.connect.len(), "progress read");
        Ok(Self {
            settings,
            source: source.clone(),
            target: target.clone(),
            planner,
            committer,
            book,
            mailbox,
            progress,
            shards,
            tasks,
            known: BTreeMap::new(),
            limits: BTreeMap::new(),
            stamped: BTreeSet::new(),
            unstable: Vec::new(),
            probe: probe.clone(),
            status: watch::Sender::new(FlowStatus::default()),
        })
    }

    /// Where upstream offsets lie on the target.
    #[must_use]
    pub fn offsets(&self) -> Offsets {
        Offsets {
            book: Arc::clone(&self.book),
            target: self.target.clone(),
            map_topic: self.settings.map_topic.clone(),
        }
    }

    /// The flow's state, renewed every second.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<FlowStatus> {
        self.status.subscribe()
    }

    /// Copies what `plan` names until `shutdown`, then drains: no new fetches, what is in
    /// flight is seen through, positions are written. `true` if all of that was done within
    /// `patience`.
    pub async fn run(
        mut self,
        mut plan: watch::Receiver<Arc<Vec<Pair>>>,
        shutdown: CancellationToken,
        patience: Duration,
    ) -> bool {
        let stop_committer = CancellationToken::new();
        let committer = {
            let (committer, stop) = (Arc::clone(&self.committer), stop_committer.clone());
            #[expect(clippy::disallowed_methods, reason = "awaited below, whatever happens")]
            tokio::spawn(async move { committer.run(stop).await })
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = self.supervise(&mut plan) => {}
        }
        let flow = self.settings.id.clone();
        tracing::info!(%flow, "draining");
        let drained = tokio::time::timeout(patience, async {
            for shard in &self.shards {
                drop(shard.send(Command::Drain).await);
            }
            for task in &mut self.tasks {
                drop(task.await);
            }
            stop_committer.cancel();
            drop(committer.await);
            self.committer.flush().await
        })
        .await;
        stop_committer.cancel();
        for task in &self.tasks {
            task.abort();
        }
        match drained {
            Ok(Ok(())) => {
                tracing::info!(%flow, "drained");
                true
            }
            Ok(Err(error)) => {
                tracing::error!(%flow, %error, "drained, but positions were not written");
                false
            }
            Err(_) => {
                tracing::error!(%flow, patience_s = patience.as_secs(),
                    "not drained in time; the target's log says at the next start how far this run \
                     came");
                false
            }
        }
    }

    async fn supervise(&mut self, plan: &mut watch::Receiver<Arc<Vec<Pair>>>) {
        let clock = self.source.clock();
        let mut next_status = clock.now();
        let mut told = (clock.now(), FlowStatus::default());
        plan.mark_changed();
        loop {
            let next_decision = self
                .known
                .values()
                .filter_map(|known| match known.state {
                    Standing::Waiting(until, _) | Standing::Stuck(until) => Some(until),
                    Standing::Copying | Standing::Leaving(_) | Standing::Halted => None,
                })
                .min();
            let wake = next_decision.map_or(next_status, |moment| moment.min(next_status));
            let mailbox = Arc::clone(&self.mailbox);
            tokio::select! {
                biased;
                changed = plan.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let pairs = Arc::clone(&plan.borrow_and_update());
                    self.follow_plan(&pairs).await;
                }
                () = mailbox.arrived.notified() => self.read_mail(clock.now()),
                () = clock.sleep_until(wake) => {}
            }
            let now = clock.now();
            if now >= next_status {
                next_status = now.after(Duration::from_secs(1));
                let status = self.summarise().await;
                self.status.send_replace(status);
                told = self.tell(told, (now, status));
            }
            self.decide(now).await;
            self.post_notices();
            self.tell_unstable().await;
        }
    }

    async fn follow_plan(&mut self, pairs: &[Pair]) {
        let now = self.source.clock().now();
        let wanted: BTreeMap<_, _> = pairs.iter().map(|pair| (&pair.source, pair)).collect();
        let gone: Vec<TopicPartition> =
            self.known.keys().filter(|source| !wanted.contains_key(source)).cloned().collect();
        for source in gone {
            self.leave(&source, false).await;
        }
        for pair in pairs {
            let Some(known) = self.known.get_mut(&pair.source) else {
                let known = Known {
                    pair: pair.clone(),
                    shard: None,
                    state: Standing::Waiting(now, Occasion::First),
                    later: LATER_FIRST,
                    doubted_at: None,
                    batch_bytes_max: None,
                    refused: None,
                    why: None,
                    denied: None,
                };
                self.known.insert(pair.source.clone(), known);
                continue;
            };
            if known.pair != *pair {
                // Another topic under an old name is another partition: decided about anew, once
                // nothing of the old one is in flight.
                known.pair = pair.clone();
                (known.batch_bytes_max, known.refused) = (None, None);
                self.leave(&pair.source, true).await;
            } else if known.state == Standing::Leaving(false) {
                known.state = Standing::Leaving(true);
            }
        }
    }

    /// Stops a partition; it is forgotten, or decided about anew, when its shard says it left.
    async fn leave(&mut self, source: &TopicPartition, comes_back: bool) {
        let now = self.source.clock().now();
        let Some(known) = self.known.get_mut(source) else { return };
        match (known.state, known.shard) {
            (Standing::Copying | Standing::Halted | Standing::Stuck(_), Some(shard)) => {
                known.state = Standing::Leaving(comes_back);
                drop(self.shards[shard].send(Command::Stop(source.clone())).await);
            }
            (Standing::Leaving(_), _) => known.state = Standing::Leaving(comes_back),
            _ if comes_back => known.state = Standing::Waiting(now, Occasion::First),
            _ => {
                self.known.remove(source);
            }
        }
    }

    fn read_mail(&mut self, now: Moment) {
        for (report, start) in self.mailbox.take() {
            let (Report::Doubt { source, .. }
            | Report::Halted { source, .. }
            | Report::Left { source }
            | Report::Unstable { source, .. }) = &report;
            let Some(known) = self.known.get_mut(source) else { continue };
            if let Some(anchor) = self.progress.anchors.get_mut(source) {
                // The ids stay those of the topics that it was true for.
                anchor.start = start;
            }
            match report {
                Report::Halted { may_pass: true, .. } => {
                    known.state = Standing::Stuck(now.after(STUCK_RETRY));
                }
                Report::Halted { may_pass: false, .. } => known.state = Standing::Halted,
                Report::Unstable { source, at } => self.unstable.push((source, at)),
                Report::Left { source } => {
                    if known.state == Standing::Leaving(true) {
                        known.state = Standing::Waiting(now, Occasion::First);
                    } else {
                        self.known.remove(&source);
                    }
                }
                Report::Doubt { doubt, .. } => {
                    let new_identity = match doubt {
                        Doubt::Identity(code) => {
                            let at = start.upstream;
                            let again = known.doubted_at.replace(at) == Some(at);
                            again || matches!(code.0, 47 | 49 | 90)
                        }
                        Doubt::BatchTooLarge(bytes) => {
                            known.batch_bytes_max = Some(bytes);
                            false
                        }
                        Doubt::RecordTooLarge(offset) => {
                            known.refused = Some(offset);
                            false
                        }
                        Doubt::OutOfRange | Doubt::Diverged(_) => false,
                    };
                    let out_of_range = doubt == Doubt::OutOfRange;
                    let diverged = match doubt {
                        Doubt::Diverged(end) => Some(end),
                        Doubt::Identity(_)
                        | Doubt::OutOfRange
                        | Doubt::BatchTooLarge(_)
                        | Doubt::RecordTooLarge(_) => None,
                    };
                    let occasion = Occasion::Doubt { out_of_range, new_identity, diverged };
                    if known.state == Standing::Copying {
                        known.state = Standing::Waiting(now, occasion);
                    }
                }
            }
        }
    }

    /// Decides about every partition whose time has come, and starts those that can start.
    async fn decide(&mut self, now: Moment) {
        let mut due: Vec<(Pair, Occasion)> = Vec::new();
        for known in self.known.values_mut() {
            match known.state {
                Standing::Waiting(at, occasion) if at <= now => {
                    due.push((known.pair.clone(), occasion));
                }
                Standing::Stuck(at) if at <= now => {
                    // What the target takes may have changed.
                    (known.batch_bytes_max, known.refused) = (None, None);
                    due.push((known.pair.clone(), Occasion::First));
                }
                Standing::Waiting(..)
                | Standing::Stuck(_)
                | Standing::Copying
                | Standing::Leaving(_)
                | Standing::Halted => {}
            }
        }
        if due.is_empty() {
            return;
        }
        self.learn_limits(&due).await;
        if due
            .iter()
            .any(|(_, occasion)| matches!(occasion, Occasion::Doubt { new_identity: true, .. }))
        {
            match self.target.init_producer_id().await {
                Ok(identity) => self.planner.identity = identity,
                Err(error) => {
                    tracing::warn!(flow = %self.settings.id, %error, "no new producer id");
                    due.retain(|(_, occasion)| *occasion == Occasion::First);
                }
            }
        }
        // Those that are decided about for one reason are decided about together.
        let mut groups: Vec<(Occasion, Vec<Pair>)> = Vec::new();
        for (pair, occasion) in due {
            match groups.iter_mut().find(|(of, _)| *of == occasion) {
                Some((_, pairs)) => pairs.push(pair),
                None => groups.push((occasion, vec![pair])),
            }
        }
        for (occasion, pairs) in groups {
            let decisions = self.planner.decide(&pairs, &self.progress, occasion).await;
            self.carry_out(decisions, occasion).await;
        }
    }

    fn limits(&self, pair: &Pair) -> SizeLimits {
        let told = self.limits.get(&pair.target.topic).copied().unwrap_or(BATCH_BYTES_UNKNOWN);
        let known = self.known.get(&pair.source);
        let batch = known.and_then(|known| known.batch_bytes_max).unwrap_or(told).min(told);
        SizeLimits { batch, record: told, refused: known.and_then(|known| known.refused) }
    }

    /// Asks for `max.message.bytes` of the target topics. Without the right to ask, the target's
    /// refusal of a batch tells.
    async fn learn_limits(&mut self, due: &[(Pair, Occasion)]) {
        let topics: BTreeSet<TopicName> =
            due.iter().map(|(pair, _)| pair.target.topic.clone()).collect();
        let topics: Vec<TopicName> = topics.into_iter().collect();
        for topics in topics.chunks(DESCRIBED_AT_ONCE) {
            match self.target.describe_topic_configs(topics).await {
                Ok(described) => {
                    for (topic, configs) in described {
                        let configs = configs.unwrap_or_default();
                        let value = |name: &str| {
                            configs.iter().find(|one| one.name == name)?.value.as_deref()
                        };
                        if value(STAMP_CONFIG) == Some(LOG_APPEND_TIME)
                            && self.stamped.insert(topic.clone())
                        {
                            tracing::warn!(flow = %self.settings.id, %topic,
                                "the target stamps records itself (message.timestamp.type is \
                                 LogAppendTime there): the times of the source are not kept");
                        }
                        let limit = value(LIMIT_CONFIG).and_then(|limit| limit.parse().ok());
                        match limit {
                            Some(limit) => drop(self.limits.insert(topic, limit)),
                            None => drop(self.limits.remove(&topic)),
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(flow = %self.settings.id, %error, "target limits not known");
                }
            }
        }
    }

    async fn carry_out(&mut self, decisions: Vec<(Pair, Decision)>, occasion: Occasion) {
        let flow = self.settings.id.clone();
        let now = self.source.clock().now();
        let (mut anchors, mut reset) = (BTreeMap::new(), BTreeMap::new());
        let mut starting = Vec::new();
        let mut renamed: BTreeMap<TopicName, (TopicName, TopicName)> = BTreeMap::new();
        for (pair, decision) in decisions {
            let Some(known) = self.known.get_mut(&pair.source) else { continue };
            match decision {
                Decision::Start(start, gap, history, _) => {
                    let anchor =
                        Anchor { start, source_id: pair.source_id, target_id: pair.target_id };
                    if let Some(gap) = gap {
                        log_gap(&flow, &pair.source, gap);
                    }
                    if self.progress.is_behind(&pair.source, &anchor) {
                        reset.insert(pair.source.clone(), start.upstream);
                    }
                    if let Some(before) = self.progress.moved.remove(&pair.source) {
                        let names = (before, pair.target.topic.clone());
                        renamed.insert(pair.source.topic.clone(), names);
                    }
                    let ids = (pair.source_id, pair.target_id);
                    let page = self.book.open(&pair.source, ids, start, history);
                    anchors.insert(pair.source.clone(), anchor);
                    starting.push((pair, start, page, gap));
                }
                Decision::Halt(reason) => {
                    known.state = Standing::Halted;
                    known.why = Some(reason.to_string());
                    tracing::error!(%flow, partition = %pair.source, target = %pair.target, %reason,
                        "partition halted");
                }
                Decision::Later(later) => {
                    known.state = Standing::Waiting(now.after(known.later), occasion);
                    known.later = (known.later * 2).min(LATER_MOST);
                    tracing::debug!(%flow, partition = %pair.source, why = later.why,
                        "not decided yet");
                    known.why = Some(later.why);
                    known.denied = later.denied;
                }
            }
        }
        for (topic, (before, target)) in renamed.iter().take(BEGUN_TOLD_MAX) {
            tracing::warn!(%flow, %topic, %target, %before,
                "topic has another name on the target than before: it begins anew there, and its copy \
                 under the former name stays as it is");
        }
        if renamed.len() > BEGUN_TOLD_MAX {
            tracing::warn!(%flow, topics = renamed.len() - BEGUN_TOLD_MAX,
                "so have more topics another name on the target than before");
        }
        // Before the first batch goes out under an anchor, the anchor is on the target.
        let mut backoff = Backoff::new(4);
        while let Err(error) = self.committer.write_now(&anchors, &reset).await {
            if backoff.failures() == 0 {
                tracing::warn!(%flow, %error, "positions are not written; copying waits for it");
            }
            tokio::time::sleep(backoff.fail()).await;
        }
        for source in anchors.keys() {
            // From here on the anchor says where it stands.
            self.progress.connect.remove(source);
        }
        self.progress.anchors.extend(anchors);
        let mut begun: BTreeMap<(TopicName, TopicName), usize> = BTreeMap::new();
        for (pair, start, page, gap) in starting {
            let known = self.known.get(&pair.source);
            if known.is_some_and(|known| !matches!(known.state, Standing::Stuck(_))) {
                let topics = (pair.source.topic.clone(), pair.target.topic.clone());
                *begun.entry(topics).or_default() += 1;
            }
            self.begin(pair, start, (page, gap)).await;
        }
        if begun.len() > BEGUN_TOLD_MAX {
            let partitions: usize = begun.values().sum();
            tracing::info!(%flow, topics = begun.len(), partitions, "copying");
            return;
        }
        for ((topic, target), partitions) in begun {
            tracing::info!(%flow, %topic, %target, partitions, "copying");
        }
    }

    async fn begin(&mut self, pair: Pair, start: Start, (page, gap): (Page, Option<Gap>)) {
        let terms = Terms {
            read_committed: self.settings.read_committed,
            limits: self.limits(&pair),
            verify: self.settings.verify,
            oversize: self.settings.oversize,
        };
        // The shard with the fewest partitions; a partition stays in its shard.
        let mut loads = vec![0_usize; self.shards.len()];
        for shard in self.known.values().filter_map(|known| known.shard) {
            loads[shard] += 1;
        }
        let lightest = (0..loads.len()).min_by_key(|shard| loads[*shard]).unwrap_or(0);
        let Some(known) = self.known.get_mut(&pair.source) else { return };
        let shard = *known.shard.get_or_insert(lightest);
        known.state = Standing::Copying;
        known.later = LATER_FIRST;
        known.why = None;
        known.denied = None;
        tracing::debug!(flow = %self.settings.id, partition = %pair.source, target = %pair.target,
            from = %start.upstream, to = %start.downstream, "copying partition");
        let Pair { source, target, source_id, target_id } = pair;
        let assignment =
            Assignment { source, target, source_id, target_id, start, page, gap, terms };
        drop(self.shards[shard].send(Command::Begin(Box::new(assignment))).await);
    }

    /// Says what shards do not know about partitions that are not simply copied.
    fn post_notices(&self) {
        let mut notices = BTreeMap::new();
        for (source, known) in &self.known {
            let (state, waiting_for, halt) = match known.state {
                Standing::Copying | Standing::Leaving(_) => continue,
                Standing::Waiting(_, Occasion::Doubt { .. }) => {
                    let why = known.why.clone().unwrap_or_default();
                    let denied = known.denied.map(|side| Waiting::Denied(side, why));
                    (PartitionState::Doubt, denied, None)
                }
                Standing::Waiting(_, Occasion::First) => {
                    let decision = |why| match known.denied {
                        Some(side) => Waiting::Denied(side, why),
                        None => Waiting::Decision(why),
                    };
                    let waiting = known.why.clone().map(decision);
                    (PartitionState::Waiting, waiting, None)
                }
                // Its shard says why.
                Standing::Stuck(_) => continue,
                Standing::Halted if known.why.is_none() => continue,
                Standing::Halted => (PartitionState::Halted, None, known.why.clone()),
            };
            let target = known.pair.target.clone();
            notices.insert(source.clone(), Notice { target, state, waiting_for, halt });
        }
        self.probe.post(notices);
    }

    /// Names the transactions that hold back what was committed behind them.
    async fn tell_unstable(&mut self) {
        for (partition, stable) in std::mem::take(&mut self.unstable) {
            let flow = &self.settings.id;
            let producers = match self.source.open_transactions(&partition).await {
                Ok(open) => open.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                Err(error) => format!("not known: {error}"),
            };
            tracing::warn!(%flow, %partition, last_stable_offset = %stable, producers,
                "last stable offset has not moved for a minute: a transaction hangs, and what \
                 follows it is not copied before it ends");
        }
    }

    async fn summarise(&self) -> FlowStatus {
        let mut status = FlowStatus { partitions: self.known.len(), ..FlowStatus::default() };
        for known in self.known.values() {
            match known.state {
                Standing::Waiting(..) => status.waiting += 1,
                Standing::Halted | Standing::Stuck(_) => status.halted += 1,
                Standing::Copying | Standing::Leaving(_) => {}
            }
        }
        for shard in &self.shards {
            let (reply, summary) = oneshot::channel();
            drop(shard.send(Command::Summarise(reply)).await);
            if let Ok(summary) = summary.await {
                status.records += summary.records;
                status.bytes += summary.bytes;
                status.lag += summary.lag;
            }
        }
        status
    }

    /// One line every ten seconds while something moves.
    fn tell(
        &self,
        told: (Moment, FlowStatus),
        (now, status): (Moment, FlowStatus),
    ) -> (Moment, FlowStatus) {
        let elapsed = now.since(told.0);
        if elapsed < PROGRESS_INTERVAL {
            return told;
        }
        let records = status.records.saturating_sub(told.1.records);
        if records > 0 || status.halted != told.1.halted || status.waiting != told.1.waiting {
            #[expect(clippy::cast_precision_loss, reason = "rates for people")]
            let (records_per_s, mb_per_s) = (
                (records as f64 / elapsed.as_secs_f64()).round(),
                status.bytes.saturating_sub(told.1.bytes) as f64 / elapsed.as_secs_f64() / 1e6,
            );
            tracing::info!(flow = %self.settings.id, partitions = status.partitions, records,
                records_per_s, mb_per_s = format!("{mb_per_s:.1}"), lag = status.lag,
                waiting = status.waiting, halted = status.halted, "progress");
        }
        (now, status)
    }
}
