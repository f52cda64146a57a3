//! The supervisor: which partitions a flow copies, from where, in which shard; and the end.

mod decide;
mod tell;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::offsets::Offsets;
use super::progress::{Committer, Loaded, ProgressBook};
use super::rate::RateLimit;
use super::resume::{Occasion, Planner};
use super::settings::FlowSettings;
use super::shard::{Command, Shard};
use super::status::Probe;
use super::workers::Workers;
use crate::client::{Cluster, FrameBudget, LogError};
use crate::copy::{Doubt, Start};
use crate::model::{Moment, Offset, ProducerIdentity, Side, TopicId, TopicName, TopicPartition};

/// Commands that may wait for a shard. It reads them between two events, so a few suffice; a
/// start with thousands of partitions waits here instead of in memory.
const COMMANDS_MAX: usize = 64;

/// How long a partition waits the first time that it could not be decided about: leaders of a topic
/// just made need a moment to know it.
const LATER_FIRST: Duration = Duration::from_millis(50);

/// After what time a partition is tried again whose records the target refused: the remedy is a
/// setting that a person changes, and a try costs a few requests.
const STUCK_RETRY: Duration = Duration::from_secs(15);

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
}
