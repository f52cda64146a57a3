//! What the data plane of one flow needs to know. Key names are the config floor's business.

use std::time::Duration;

use super::claims::Claims;
use crate::batch::Oversize;
use crate::model::{FlowId, Side, Timestamp, TopicName};
use crate::policy::FlowNames;

/// Where a partition without progress starts (`auto.offset.reset` of the source consumer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// At the first record that the source still has.
    Earliest,
    /// At the end: only what comes from now on.
    Latest,
    /// Nowhere: it stops and says so.
    None,
    /// At the first record of this time or later; at the end if there is none.
    At(Timestamp),
    /// At the first record that is at most as old as this.
    Ago(Duration),
}

/// What to do when the source removed records before they were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapPolicy {
    /// Record the gap and go on behind it.
    Record,
    /// Stop the partition.
    Halt,
}

/// What to do when a source topic was deleted and made again under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recreate {
    /// Copy the new one from its start.
    Restart,
    /// Stop the partition.
    Halt,
}

/// What to do when the source's log was cut off below what was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// Stop the partition.
    Halt,
    /// Record the range that only the target has, and copy what the source has now.
    Record,
}

/// What to do when a target partition holds records that no progress explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingRecords {
    /// Stop the partition and say so.
    Halt,
    /// Copy everything behind them.
    Append,
}

/// Offset syncs, as MM2 writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncSettings {
    /// On which cluster it is (`offset-syncs.topic.location`).
    pub side: Side,
    /// How many records apart they may be (`offset.lag.max`).
    pub lag_max: i64,
}

/// The data plane of one flow.
#[derive(Clone, Debug)]
pub struct FlowSettings {
    /// Which flow.
    pub id: FlowId,
    /// How it names topics on the target: a position is about one name there.
    pub names: FlowNames,
    /// Committed records only.
    pub read_committed: bool,
    /// Verify every batch's checksum before it is forwarded.
    pub verify: bool,
    /// How many shards share the partitions; at least 1.
    pub shards: usize,
    /// Where a partition without progress starts.
    pub reset: Reset,
    /// What to do about lost records.
    pub gap_policy: GapPolicy,
    /// What to do about topics made anew.
    pub recreate: Recreate,
    /// What to do about a source that lost what was copied.
    pub truncation: Truncation,
    /// What to do about records that the target cannot take.
    pub oversize: Oversize,
    /// What to do about records that were there before us.
    pub existing_records: ExistingRecords,
    /// Which flow of this process writes which target topic.
    pub claims: Claims,
    /// How long a source broker may wait for data.
    pub fetch_wait: Duration,
    /// Most bytes of one fetch answer, over all its partitions.
    pub fetch_bytes_max: usize,
    /// Most bytes of one partition in one fetch answer.
    pub partition_bytes_max: usize,
    /// Whether fetches may grow beyond that where a long round trip needs it.
    pub fetch_grows: bool,
    /// Most bytes of batches sent to the target in a second, over all shards.
    pub bytes_per_second_max: Option<u64>,
    /// How often positions are written where MM2 reads them.
    pub commit_interval: Duration,
    /// Connect's offset topic, which MM2 reads: `mm2-offsets.<source>.internal` on the target,
    /// unless MM2 ran in a Connect cluster.
    pub offsets_topic: TopicName,
    /// Our own positions topic on the target, exact on both sides.
    pub positions_topic: TopicName,
    /// Our own topic of offset maps on the target.
    pub map_topic: TopicName,
    /// Where offset syncs go; `None` if none are wanted (`emit.offset-syncs.enabled`).
    pub syncs: Option<SyncSettings>,
    /// First element of the offset keys in the offsets topic (`MirrorSourceConnector`).
    pub connector_name: String,
}

impl FlowSettings {
    /// How many records apart offset syncs may be.
    pub(super) fn lag_max(&self) -> i64 {
        self.syncs.as_ref().map_or(i64::MAX, |syncs| syncs.lag_max)
    }
}
