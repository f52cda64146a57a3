//! One flow from its first connection to its last commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acls::{AclSync, AclsRound};
use super::checkpoints::{FIRST_AFTER, GroupRounds, GroupRules, SOON_AFTER};
use super::configs::{ConfigSync, ConfigsRound, Made};
use super::denials::Denials;
use super::homecoming::{Placed, WayThere};
use super::internal_topics::{InternalTopic, ensure};
use super::offset_syncs::SyncWriter;
use super::rights::{Missing, is_denied};
use super::rounds::{Notes, Pace, Round, RoundBoard, Rounds, Trouble};
use super::topics::{TopicRules, TopicsRound};
use crate::client::{Backoff, Cluster, EARLIEST, FrameBudget, ListedOffset, LogError};
use crate::flow::{FlowSettings, FlowStatus, Offsets, Pair, Probe, Supervisor, Workers};
use crate::model::{AclOperation, FlowId, Side, TopicName};
use crate::policy::Thing;

/// How long a cluster may take to answer at first before that is worth a line. A first attempt
/// that takes longer is still made to its end.
const GREETING: Duration = Duration::from_secs(2);

/// How often the heads of offset maps are dropped: retention is looked at by brokers every five
/// minutes (`log.retention.check.interval.ms`).
const TRIM_INTERVAL: Duration = Duration::from_secs(300);

/// How long each cluster may take to answer once more when the flow ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long one round may take. Each of its requests has a time-out of its own (30 s unless the
/// file says otherwise); this bounds what they come to together, in a cluster that answers each
/// of them late. What a round did before is not lost: the next one finds it done.
const ROUND_DEADLINE: Duration = Duration::from_secs(300);

/// Whose lacks are those of a flow that cannot begin, on the board.
const STARTING: &str = "start";

/// Everything that one flow needs.
#[derive(Clone, Debug)]
pub struct MirrorSettings {
    /// The data plane.
    pub flow: FlowSettings,
    /// Which topics.
    pub rules: TopicRules,
    /// Topics that must be there first: those that hold progress.
    pub internal: Vec<InternalTopic>,
    /// The topic of offset maps, without which copying goes on.
    pub map: InternalTopic,
    /// The topic of offset syncs, on the cluster that `flow.syncs` names.
    pub syncs: Option<InternalTopic>,
    /// Checkpoints and group offsets.
    pub groups: GroupRules,
    /// How often topics are looked at; `None` for only at the start.
    pub refresh: Option<Duration>,
    /// How topic configs are kept in step, if at all.
    pub configs: Option<ConfigSync>,
    /// How ACLs are kept in step, if at all.
    pub acls: Option<AclSync>,
    /// How long draining may take.
    pub drain_patience: Duration,
}

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    /// It was told to end, and everything in flight was seen through.
    Drained,
    /// It was told to end, and something was left undone.
    Late,
    /// It must not run; the reason, for people.
    Refused(String),
}

impl MirrorSettings {
    /// Whether offset syncs are on the target.
    pub(super) fn syncs_on_target(&self) -> bool {
        self.flow.syncs.as_ref().is_some_and(|syncs| syncs.side == Side::Target)
    }
}

/// Why there can be no flow between two aliases that turn out to be one cluster. Both must have
/// answered.
#[must_use]
pub fn one_cluster(source: &Cluster, target: &Cluster) -> Option<String> {
    let (a, b) = (source.view().cluster_id.clone()?, target.view().cluster_id.clone()?);
    (a == b).then(|| {
        format!(
            "aliases {} and {} are one cluster (id {a}); a flow from a cluster into itself would \
             copy its own copies without end. Correct bootstrap.servers of one of them",
            source.alias(),
            target.alias(),
        )
    })
}

/// One flow, ready to run.
#[derive(Debug)]
pub struct MirrorFlow {
    settings: MirrorSettings,
    source: Cluster,
    target: Cluster,
    budget: FrameBudget,
    probe: Probe,
    workers: Workers,
    tracker: TaskTracker,
    status: watch::Sender<FlowStatus>,
    offsets: watch::Sender<Option<Offsets>>,
    /// The cluster that holds the offsets topic of a Connect cluster, if progress is kept there.
    connect: Option<Cluster>,
    /// What it puts on the target for groups.
    placed: Placed,
    /// The flow the other way, if there is one.
    reverse: Option<WayThere>,
    board: RoundBoard,
}

impl MirrorFlow {
    /// A flow that has not spoken to anybody yet.
    #[must_use]
    pub fn new(
        settings: MirrorSettings,
        (source, target): (&Cluster, &Cluster),
        budget: &FrameBudget,
        (workers, tracker): (&Workers, &TaskTracker),
    ) -> Self {
        let settings_id = settings.flow.id.clone();
        let board = RoundBoard::default();
        board.wait_for(Some("it has not begun yet".into()));
        Self {
            settings,
            source: source.clone(),
            target: target.clone(),
            budget: budget.clone(),
            probe: Probe::new(settings_id),
            workers: workers.clone(),
            tracker: tracker.clone(),
            status: watch::Sender::new(FlowStatus::default()),
            offsets: watch::Sender::new(None),
            connect: None,
            placed: Placed::default(),
            reverse: None,
            board,
        }
    }

    /// What its rounds say about themselves.
    #[must_use]
    pub fn rounds(&self) -> RoundBoard {
        self.board.clone()
    }

    /// The flow's state, renewed every second once it copies.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<FlowStatus> {
        self.status.subscribe()
    }

    /// Where upstream offsets lie on the target; nothing before the flow has read its progress.
    #[must_use]
    pub fn offsets(&self) -> watch::Receiver<Option<Offsets>> {
        self.offsets.subscribe()
    }

    /// What the flow the other way has to know of this one.
    #[must_use]
    pub fn way(&self) -> WayThere {
        WayThere { offsets: self.offsets(), placed: self.placed.clone() }
    }

    /// Tells it of the flow that goes the other way: groups that used what came by that one are
    /// translated back to where it came from.
    pub fn set_reverse(&mut self, way: WayThere) {
        self.reverse = Some(way);
    }

    /// Keeps MM2's progress on this cluster, in a topic that a Connect cluster has made.
    pub fn set_connect(&mut self, cluster: &Cluster) {
        self.connect = Some(cluster.clone());
    }

    /// Looks into the flow while it runs.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }

    fn id(&self) -> &FlowId {
        &self.settings.flow.id
    }

    /// Runs until `shutdown`. A cluster that does not answer is waited for.
    pub async fn run(self, shutdown: CancellationToken) -> FlowEnd {
        let met = tokio::select! {
            biased;
            () = shutdown.cancelled() => return self.farewell().await,
            met = self.meet() => met,
        };
        if let Err(why) = met {
            self.board.wait_for(Some(why.clone()));
            return FlowEnd::Refused(why);
        }
        // The first look at topics runs beside the start of the data plane: both wait for the
        // target to make topics.
        let (plan, plans) = watch::channel(Arc::new(Vec::new()));
        let rounds = async {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = self.run_rounds(&plan) => {}
            }
        };
        let (end, ()) = tokio::join!(self.copy(plans, &shutdown), rounds);
        end
    }

    async fn copy(
        &self,
        plans: watch::Receiver<Arc<Vec<Pair>>>,
        shutdown: &CancellationToken,
    ) -> FlowEnd {
        let supervisor = tokio::select! {
            biased;
            () = shutdown.cancelled() => return self.farewell().await,
            started = self.start() => started,
        };
        let (supervisor, mapped) = supervisor;
        let relay = self.relay(supervisor.status());
        let syncs_on = |side| match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        };
        let side = self.settings.flow.syncs.as_ref().map_or(Side::Source, |syncs| syncs.side);
        let offsets = supervisor.offsets();
        self.offsets.send_replace(Some(offsets.clone()));
        let mut syncs = self.settings.syncs.as_ref().map(|topic| {
            let flush = self.settings.flow.commit_interval;
            let about = (&offsets, &self.settings.flow.names);
            SyncWriter::new((self.id(), &self.board), syncs_on(side), topic, about, flush)
        });
        let ends = (&self.source, &self.target, syncs_on(side));
        let ways = (self.placed.clone(), self.reverse.clone());
        let mut groups = GroupRounds::new(self.settings.groups.clone(), ends, &offsets, ways);
        let control = async {
            let write = async {
                if let Some(syncs) = &mut syncs {
                    syncs.run().await;
                }
            };
            let map = (!mapped).then_some(&self.settings.map);
            let denials = self.denials();
            let keep = self.keep_internal(&offsets);
            tokio::join!(
                write,
                self.groups(&mut groups),
                self.trim(&offsets),
                keep,
                denials.watch(map)
            );
            std::future::pending::<()>().await;
        };
        let copying = supervisor.run(plans, shutdown.clone(), self.settings.drain_patience);
        let drained = tokio::select! {
            drained = copying => drained,
            () = relay => false,
            () = control => false,
        };
        if let Some(syncs) = &mut syncs {
            syncs.finish().await;
        }
        if drained { self.farewell().await } else { FlowEnd::Late }
    }

    /// Drops what offset maps say about records that the source has lost; ends never.
    async fn trim(&self, offsets: &Offsets) {
        loop {
            tokio::time::sleep(TRIM_INTERVAL).await;
            let long = offsets.long_maps();
            if long.is_empty() {
                continue;
            }
            let listed = self.source.list_offsets(&long, EARLIEST, false).await;
            let start = |(partition, found): (_, Result<ListedOffset, _>)| {
                Some((partition, found.ok()?.offset))
            };
            offsets.forget_before(&listed.into_iter().filter_map(start).collect());
        }
    }

    /// Makes the topics of positions and maps again where somebody deleted them, or rebuilt the
    /// target: what this process knows is written into the new ones. Ends never.
    async fn keep_internal(&self, offsets: &Offsets) {
        let mut changes = self.target.changes();
        let mut backoff = Backoff::between(
            Duration::from_millis(200),
            Duration::from_secs(5),
            self.target.clock().seed(),
        );
        loop {
            // Never: the target lives as long as the flow.
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
            while self.misses_internal() {
                match ensure(self.id(), &self.target, &self.settings.internal).await {
                    Ok(ensured) if ensured.made.is_empty() => {}
                    Ok(ensured) => {
                        let topics: Vec<&str> =
                            ensured.made.iter().map(TopicName::as_str).collect();
                        tracing::warn!(flow = %self.id(), topics = topics.join(", "),
                            "internal topics were deleted on the target and are made again; what is \
                             known of positions is written anew");
                        offsets.write_anew();
                        break;
                    }
                    Err(error) => tracing::debug!(flow = %self.id(), %error, "internal topics"),
                }
                tokio::time::sleep(backoff.fail()).await;
            }
            backoff.succeed();
        }
    }

    fn misses_internal(&self) -> bool {
        let view = self.target.view();
        self.settings.internal.iter().any(|topic| !view.topics.contains_key(&topic.name))
    }

    /// Passes the supervisor's state on; ends never.
    async fn relay(&self, mut from: watch::Receiver<FlowStatus>) {
        while from.changed().await.is_ok() {
            self.status.send_replace(*from.borrow_and_update());
        }
        std::future::pending().await
    }

    /// Whether both clusters still answer: if not, nobody knows what the source holds that was
    /// not copied, or whether the target has what was sent.
    async fn farewell(&self) -> FlowEnd {
        let (source, target) =
            tokio::join!(self.source.greet(FAREWELL), self.target.greet(FAREWELL));
        let mut end = FlowEnd::Drained;
        for error in [source.err(), target.err()].into_iter().flatten() {
            tracing::error!(flow = %self.id(), %error,
                "a cluster does not answer at the end; what the source holds beyond the positions \
                 written is not copied");
            end = FlowEnd::Late;
        }
        end
    }

    /// Reaches both clusters and checks that they are two.
    async fn meet(&self) -> Result<(), String> {
        tokio::join!(self.reach(&self.source), self.reach(&self.target));
        one_cluster(&self.source, &self.target).map_or(Ok(()), Err)
    }

    fn denials(&self) -> Denials<'_> {
        Denials {
            flow: &self.settings.flow,
            topics: &self.settings.rules.topics,
            ends: (&self.source, &self.target),
            probe: &self.probe,
            board: &self.board,
        }
    }

    /// Makes the topics that are needed and starts the data plane; tries without end. Also says
    /// whether the topic of offset maps is there.
    async fn start(&self) -> (Supervisor, bool) {
        let flow = self.id();
        let mut backoff = Backoff::between(
            Duration::from_millis(200),
            Duration::from_secs(5),
            self.source.clock().seed(),
        );
        let mut told = String::new();
        loop {
            let failed = match self.start_once().await {
                Ok(started) => {
                    self.board.lack(flow, STARTING, BTreeSet::new());
                    self.board.wait_for(None);
                    return started;
                }
                Err(why) => why,
            };
            self.board.wait_for(Some(failed.clone()));
            if told != failed {
                tracing::warn!(%flow, why = %failed, "flow waits; trying again");
                told = failed;
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    }

    /// Takes note of rights that a start lacks.
    fn lack(&self, lacks: impl IntoIterator<Item = (TopicName, AclOperation)>) {
        let flow = &self.settings.flow;
        let missing = lacks.into_iter().map(|(topic, operation)| {
            let thing = if topic == flow.positions_topic {
                Thing::Positions
            } else if topic == flow.map_topic {
                Thing::OffsetMap
            } else {
                Thing::SourceOffsets
            };
            Missing::on_topic(&self.target, thing, operation, topic.as_str())
        });
        self.board.lack(self.id(), STARTING, missing.collect());
    }

    async fn start_once(&self) -> Result<(Supervisor, bool), String> {
        let words = |error: &dyn std::error::Error| error.to_string();
        let denials = self.denials();
        let (ensured, mapped, identity) = tokio::join!(
            ensure(self.id(), &self.target, &self.settings.internal),
            denials.make(&self.settings.map),
            self.target.init_producer_id(),
        );
        let ensured = ensured.map_err(|error| words(&error))?;
        if !ensured.refused.is_empty() {
            let of = |topics: BTreeSet<TopicName>, operation| {
                topics.into_iter().map(move |topic| (topic, operation))
            };
            let denied = of(ensured.denied, AclOperation::CREATE);
            self.lack(denied.chain(of(ensured.hidden, AclOperation::READ)));
            return Err(ensured.refused.join("; "));
        }
        if let Some(connect) = &self.connect {
            self.find_connect_offsets(connect).await?;
        }
        let supervisor = Supervisor::start(
            self.settings.flow.clone(),
            (&self.source, &self.target, self.connect.as_ref().unwrap_or(&self.target)),
            identity.map_err(|error| format!("no producer id: {error}"))?,
            &ensured.made,
            &self.budget,
            (&self.workers, &self.tracker),
            &self.probe,
        )
        .await
        .map_err(|error| {
            if let LogError::Partition(error) = &error
                && is_denied(error.code)
            {
                self.lack([(error.partition.topic.clone(), AclOperation::READ)]);
            }
            format!("progress cannot be read: {error}")
        })?;
        tracing::info!(flow = %self.id(), source = self.source.view().cluster_id.as_deref(),
            target = self.target.view().cluster_id.as_deref(), "flow started");
        Ok((supervisor, mapped))
    }

    /// A Connect cluster makes its topic before it runs a connector. If it is not there, the name
    /// or the cluster is wrong, and everything would be copied from the beginning.
    async fn find_connect_offsets(&self, cluster: &Cluster) -> Result<(), String> {
        let topic = &self.settings.flow.offsets_topic;
        let known = cluster.refresh(Some(std::slice::from_ref(topic))).await;
        known.map_err(|error| error.to_string())?;
        if cluster.view().topics.contains_key(topic) {
            return Ok(());
        }
        Err(format!(
            "connect.offset.storage.topic {topic} is not on cluster {}; correct it or \
             connect.offset.storage.cluster, or start the Connect cluster once, which makes it",
            cluster.alias()
        ))
    }

    async fn reach(&self, cluster: &Cluster) {
        let mut backoff = Backoff::between(Duration::from_millis(200), Duration::from_secs(5), 7);
        while let Err(error) = cluster.greet(GREETING).await {
            if backoff.failures().is_power_of_two() || backoff.failures() == 0 {
                tracing::warn!(flow = %self.id(), cluster = %cluster.alias(), %error,
                    "cluster does not answer; the flow waits for it");
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    }

    /// The control plane: each kind of round at its own pace.
    async fn run_rounds(&self, plan: &watch::Sender<Arc<Vec<Pair>>>) {
        // The other kinds look at what the topics round has learnt and made.
        let (looked, mut seen) = watch::channel(false);
        let made = Made::default();
        let others = async {
            // An error: the topics round ended before it went well once.
            if seen.wait_for(|looked| *looked).await.is_ok() {
                tokio::join!(self.configs(&made), self.acls());
            }
        };
        tokio::join!(self.topics(plan, &made, &looked), others);
    }

    fn pace(kind: &'static str, interval: Option<Duration>) -> Pace {
        Pace { kind, interval, deadline: ROUND_DEADLINE, rests_first: false }
    }

    /// Looks at topics now, and then at every interval.
    async fn topics(
        &self,
        plan: &watch::Sender<Arc<Vec<Pair>>>,
        made: &Made,
        looked: &watch::Sender<bool>,
    ) {
        let ends = (&self.source, &self.target);
        let round = TopicsRound::new(self.settings.rules.clone(), ends, made);
        let mut looking = Looking { round, plan, looked };
        let pace = Self::pace("topics", self.settings.refresh);
        Rounds::new(self.id(), pace, self.source.clock(), &self.board)
            .run(None, &mut looking)
            .await;
    }

    async fn configs(&self, made: &Made) {
        let Some(sync) = &self.settings.configs else { return };
        let ends = (&self.source, &self.target);
        let mut round = ConfigsRound::new(self.settings.rules.clone(), sync.clone(), ends, made);
        let pace = Self::pace("configs", Some(sync.interval));
        Rounds::new(self.id(), pace, self.source.clock(), &self.board)
            .run(Some(made.wake()), &mut round)
            .await;
    }

    async fn groups(&self, round: &mut GroupRounds) {
        let Some(interval) = round.interval() else { return };
        tokio::time::sleep(FIRST_AFTER).await;
        let pace = Self::pace("groups", Some(interval));
        let rounds = Rounds::new(self.id(), pace, self.source.clock(), &self.board);
        let wake = Notify::new();
        let soon = async {
            for wait in SOON_AFTER {
                tokio::time::sleep(wait).await;
                wake.notify_one();
            }
        };
        tokio::join!(rounds.run(Some(&wake), round), soon);
    }

    async fn acls(&self) {
        let Some(sync) = &self.settings.acls else { return };
        let mut round = AclsRound::new(sync.clone(), &self.source, &self.target);
        let pace = Self::pace("acls", Some(sync.interval));
        Rounds::new(self.id(), pace, self.source.clock(), &self.board).run(None, &mut round).await;
    }
}

/// The topics round, and who waits for what it finds.
struct Looking<'a> {
    round: TopicsRound,
    plan: &'a watch::Sender<Arc<Vec<Pair>>>,
    /// It went well once.
    looked: &'a watch::Sender<bool>,
}

impl Round for Looking<'_> {
    async fn run(&mut self) -> Result<Notes, Trouble> {
        let (pairs, notes) = self.round.run().await?;
        if **self.plan.borrow() != pairs {
            self.plan.send_replace(Arc::new(pairs));
        }
        self.looked.send_replace(true);
        Ok(notes)
    }
}
