//! How a flow's partitions stand, as values for whoever shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::sync::{mpsc, oneshot};

use super::shard::Command;
use crate::copy::Counts;
use crate::model::{FlowId, Gap, GapReason, Offset, Side, Timestamp, TopicName, TopicPartition};
use crate::wire::ErrorCode;

/// How long a shard may take to describe its partitions. It looks at its commands between two
/// events, so more than this means that the process has no processor to run on.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a partition is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionState {
    /// It is copied, or there is nothing to copy.
    Copying,
    /// It will be copied; see what it waits for.
    Waiting,
    /// Both logs are looked at before it goes on.
    Doubt,
    /// It ends.
    Draining,
    /// It stopped.
    Halted,
}

impl PartitionState {
    /// The word in status and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Waiting => "waiting",
            Self::Doubt => "doubt",
            Self::Draining => "draining",
            Self::Halted => "halted",
        }
    }
}

/// What a partition waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// More records on the source.
    Records,
    /// A leader, or a connection to it, on the source.
    Source,
    /// A leader, or a connection to it, on the target.
    Target,
    /// The source to give records.
    Unreadable(ErrorCode),
    /// The target to take what it refused.
    Refused(ErrorCode),
    /// A broker's quota: it asked to hold back (KIP-219).
    Throttled(Side),
    /// The flow's own limit (`max.bytes.per.second`).
    RateLimit,
    /// A decision about where it starts, which cannot be taken yet.
    Decision(String),
    /// The same, because its topic on this side must not be read.
    Denied(Side, String),
}

impl Waiting {
    /// What is waited for, as a label of few values; [`Self::kind`] gives one of them.
    pub const KINDS: [&str; 8] = [
        "source broker",
        "target broker",
        "source refuses",
        "target refuses",
        "source quota",
        "target quota",
        "rate limit",
        "start",
    ];

    /// One of [`Self::KINDS`]; none where there is just nothing to copy.
    #[must_use]
    pub fn kind(&self) -> Option<&'static str> {
        let place = match self {
            Self::Records => return None,
            Self::Source => 0,
            Self::Target => 1,
            Self::Unreadable(_) => 2,
            Self::Refused(_) => 3,
            Self::Throttled(Side::Source) => 4,
            Self::Throttled(Side::Target) => 5,
            Self::RateLimit => 6,
            Self::Decision(_) | Self::Denied(..) => 7,
        };
        Some(Self::KINDS[place])
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records => f.write_str("records"),
            Self::Source => f.write_str("source broker"),
            Self::Target => f.write_str("target broker"),
            Self::Unreadable(code) => write!(f, "source refuses: {code}"),
            Self::Refused(code) => write!(f, "target refuses: {code}"),
            Self::Throttled(Side::Source) => f.write_str("source quota"),
            Self::Throttled(Side::Target) => f.write_str("target quota"),
            Self::RateLimit => f.write_str("rate limit"),
            Self::Decision(why) | Self::Denied(_, why) => write!(f, "start: {why}"),
        }
    }
}

/// A gap, and when it was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenGap {
    /// What is missing.
    pub gap: Gap,
    /// Wall time at which it was met.
    pub at: Timestamp,
}

/// Writes the line about a gap. It comes before a position behind the gap is written: a crash
/// between the two tells it twice, and never not at all.
pub(super) fn log_gap(flow: &FlowId, partition: &TopicPartition, gap: Gap) {
    let (first, end, count, reason) = (gap.range.start, gap.range.end, gap.range.len(), gap.reason);
    match reason {
        GapReason::Oversize => tracing::warn!(%flow, %partition, %first, %end, count, %reason,
            "source records are larger than the target takes and are left out"),
        GapReason::Lost
        | GapReason::Control
        | GapReason::Aborted
        | GapReason::Emptied
        | GapReason::Compacted => tracing::warn!(%flow, %partition, %first, %end, count, %reason,
            "source records are gone before they were copied"),
    }
}

/// One partition, at one moment.
#[derive(Clone, Debug)]
pub struct PartitionStatus {
    /// Where from.
    pub source: TopicPartition,
    /// Where to.
    pub target: TopicPartition,
    /// What it is doing.
    pub state: PartitionState,
    /// What it waits for, if for anything.
    pub waiting_for: Option<Waiting>,
    /// Why it stopped.
    pub halt: Option<String>,
    /// First upstream offset not acknowledged by the target.
    pub copied: Offset,
    /// End of the source's log as last told.
    pub source_end: Option<Offset>,
    /// Downstream offset that comes next.
    pub downstream: Offset,
    /// Upstream offsets not yet acknowledged.
    pub lag: Option<i64>,
    /// The source has records, and for a while none was acknowledged.
    pub stalled: bool,
    /// How long the oldest record that was not acknowledged has been there, as far as this process
    /// saw it; zero if there is none.
    pub oldest: Duration,
    /// What it did since the process started.
    pub counts: Counts,
    /// The last gaps that are loss.
    pub gaps: Vec<SeenGap>,
}

/// Latencies of one flow, seconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// From sending a produce request to its answer.
    pub produce: Histogram,
    /// From the time of a batch's newest record to the target's acknowledgement.
    pub replication: Histogram,
}

impl Default for Latencies {
    fn default() -> Self {
        // 0.5 ms to 16 s, each twice the one before.
        let buckets = || exponential_buckets(0.0005, 2.0, 16);
        Self { produce: Histogram::new(buckets()), replication: Histogram::new(buckets()) }
    }
}

/// What the supervisor says about a partition that is not simply copied.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) target: TopicPartition,
    pub(super) state: PartitionState,
    pub(super) waiting_for: Option<Waiting>,
    pub(super) halt: Option<String>,
}

#[derive(Debug)]
struct Inner {
    id: FlowId,
    latencies: Latencies,
    shards: OnceLock<Vec<mpsc::Sender<Command>>>,
    notices: Mutex<BTreeMap<TopicPartition, Notice>>,
    /// Topics of the flow's own that the target did not take the last records for.
    unwritten: Mutex<BTreeMap<TopicName, ErrorCode>>,
}

/// Looks into a running flow.
#[derive(Clone, Debug)]
pub struct Probe(Arc<Inner>);

impl Probe {
    /// A probe of a flow that has not started yet.
    #[must_use]
    pub fn new(id: FlowId) -> Self {
        Self(Arc::new(Inner {
            id,
            latencies: Latencies::default(),
            shards: OnceLock::new(),
            notices: Mutex::default(),
            unwritten: Mutex::default(),
        }))
    }

    /// Which flow.
    #[must_use]
    pub fn id(&self) -> &FlowId {
        &self.0.id
    }

    /// Its latencies.
    #[must_use]
    pub fn latencies(&self) -> &Latencies {
        &self.0.latencies
    }

    pub(super) fn connect(&self, shards: &[mpsc::Sender<Command>]) {
        // A flow starts once.
        drop(self.0.shards.set(shards.to_vec()));
    }

    /// Takes note of how the last write to a topic of the flow's own went.
    pub(super) fn wrote(&self, topic: &TopicName, refused: Option<ErrorCode>) {
        let mut unwritten = self.0.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        match refused {
            Some(code) => drop(unwritten.insert(topic.clone(), code)),
            None => drop(unwritten.remove(topic)),
        }
    }

    /// Topics of the flow's own that the target did not take the last records for.
    #[must_use]
    pub fn unwritten(&self) -> BTreeMap<TopicName, ErrorCode> {
        self.0.unwritten.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn post(&self, notices: BTreeMap<TopicPartition, Notice>) {
        *self.0.notices.lock().unwrap_or_else(PoisonError::into_inner) = notices;
    }

    /// Every partition of the flow, in order.
    pub async fn partitions(&self) -> Vec<PartitionStatus> {
        let mut all = BTreeMap::new();
        for shard in self.0.shards.get().into_iter().flatten() {
            let (reply, described) = oneshot::channel();
            let asked = async {
                shard.send(Command::Describe(reply)).await.ok()?;
                described.await.ok()
            };
            let statuses: Vec<PartitionStatus> =
                tokio::time::timeout(PATIENCE, asked).await.ok().flatten().unwrap_or_default();
            all.extend(statuses.into_iter().map(|status| (status.source.clone(), status)));
        }
        let notices = self.0.notices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (source, notice) in notices {
            let status = all.entry(source.clone()).or_insert_with(|| PartitionStatus {
                source,
                target: notice.target.clone(),
                state: notice.state,
                waiting_for: None,
                halt: None,
                copied: Offset(-1),
                source_end: None,
                downstream: Offset(-1),
                lag: None,
                stalled: false,
                oldest: Duration::ZERO,
                counts: Counts::default(),
                gaps: Vec::new(),
            });
            status.state = notice.state;
            status.waiting_for = notice.waiting_for;
            status.halt = notice.halt;
        }
        all.into_values().collect()
    }
}
