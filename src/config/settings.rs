//! What a properties file asks for, as values that cannot be wrong.
//!
//! These structs know no key names; [`load`](super::load::load) fills them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::problems::Problem;
use crate::client::Security;
use crate::model::{ClusterAlias, FlowId, Timestamp, TopicName};
use crate::policy::{
    ConfigFilter, ConfigMode, FlowNames, FlowTopics, GroupFilter, Origins, Rewind, TopicFilter,
};

/// All of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSettings {
    /// What holds for the whole process.
    pub process: ProcessSettings,
    /// How to reach each cluster that an enabled flow or a heartbeat touches.
    pub clusters: BTreeMap<ClusterAlias, ClusterSettings>,
    /// The flows that the file speaks of, into the targets asked for.
    pub flows: Vec<FlowSettings>,
    /// The heartbeats to write, into the targets asked for: for every enabled flow of the file
    /// and its way back. A file may ask for nothing else.
    pub heartbeats: Vec<HeartbeatSettings>,
    /// What may stay in the file, but may not be what was meant.
    pub warnings: Vec<Problem>,
}

/// What holds for the whole process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSettings {
    /// Bytes of fetched records that may be in memory at a time.
    pub memory_bytes: u64,
    /// Bytes up to which that may grow by itself where a link needs it.
    pub memory_bytes_max: u64,
    /// Whether raw batches are verified here too.
    pub verify_crc: VerifyCrc,
    /// Where metrics and status are served, if anywhere.
    pub http_listen: Option<(String, u16)>,
}

/// Which checksums are verified here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyCrc {
    /// Those of batches that are not just forwarded; the target verifies the rest.
    Never,
    /// All.
    Always,
}

/// How to reach one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Its name in the file.
    pub alias: ClusterAlias,
    /// Brokers to ask first; at least one. IPv6 addresses stand without brackets.
    pub bootstrap: Vec<(String, u16)>,
    /// How connections are secured.
    pub security: Security,
    /// How this program calls itself to the brokers, if the file says so.
    pub client_id: Option<String>,
    /// How long an answer may take.
    pub request_timeout: Duration,
    /// How old knowledge about leaders may get.
    pub metadata_max_age: Duration,
    /// After how long an unused connection is closed.
    pub connections_max_idle: Duration,
    /// How long connecting may take.
    pub connection_setup_timeout: Backoff,
    /// Pause before connecting again.
    pub reconnect_backoff: Backoff,
    /// Pause before a request is repeated.
    pub retry_backoff: Backoff,
}

/// A time that grows from failure to failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first.
    pub first: Duration,
    /// The longest; at least `first`.
    pub longest: Duration,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSettings {
    /// From where to where.
    pub id: FlowId,
    /// Whether it replicates.
    pub enabled: bool,
    /// Topics to copy.
    pub topics: TopicFilter,
    /// Topic configs to copy.
    pub configs: ConfigFilter,
    /// How replicas are named.
    pub names: FlowNames,
    /// Where topics came from, as all flows of the file say.
    pub origins: Origins,
    /// Whether heartbeat topics are copied whatever the filter says.
    pub heartbeats_replication: bool,
    /// Offset syncs.
    pub offset_syncs: OffsetSyncs,
    /// Checkpoints and group offsets.
    pub groups: GroupSettings,
    /// Replication factor of new replicas; `None` for the target's default.
    pub replication_factor: Option<i16>,
    /// How often new topics are looked for; `None` for only at the start.
    pub refresh_topics_interval: Option<Duration>,
    /// How often topic configs are kept in step; `None` for not at all.
    pub sync_configs_interval: Option<Duration>,
    /// What that may take away from a target topic.
    pub sync_configs_mode: ConfigMode,
    /// How often ACLs of topics are kept in step; `None` for not at all.
    pub sync_acls_interval: Option<Duration>,
    /// What is done about ACLs beyond MM2.
    pub acls: AclSettings,
    /// How many tasks may share the flow; `None` for no bound.
    pub tasks_max: Option<u32>,
    /// Whether data of aborted transactions is left out.
    pub isolation: Isolation,
    /// Where a partition without progress starts.
    pub auto_offset_reset: OffsetReset,
    /// Whose default a topic config takes that is not set on the source.
    pub use_defaults_from: DefaultsFrom,
    /// Where progress is kept.
    pub offset_storage: OffsetStorage,
    /// How often progress is written.
    pub offset_flush_interval: Duration,
    /// How long writing it may take.
    pub offset_flush_timeout: Duration,
    /// Most bytes of one fetch; `None` to size it by the data.
    pub fetch_max_bytes: Option<u32>,
    /// Most bytes of one partition in one fetch; `None` to size it by the data.
    pub max_partition_fetch_bytes: Option<u32>,
    /// How long a broker may wait for data.
    pub fetch_max_wait: Duration,
    /// What client ids of this flow begin with, as MM2's do: `a->b`, behind a configured id and
    /// a bar if there is one.
    pub client_id: String,
    /// What to do about records that the source lost.
    pub gap_policy: GapPolicy,
    /// What to do about a topic that was created again.
    pub recreate_policy: RecreatePolicy,
    /// What to do about records on the target that nothing explains.
    pub existing_records_policy: ExistingRecordsPolicy,
    /// What to do about a record that the target cannot take.
    pub oversize_policy: OversizePolicy,
    /// What to do when the source lost what was copied.
    pub truncation_policy: TruncationPolicy,
    /// Most bytes sent in a second; `None` for no limit.
    pub bytes_per_second_max: Option<u64>,
}

impl FlowSettings {
    /// Whether the flow runs and its progress is kept on this cluster.
    pub(super) fn keeps_progress_on(&self, alias: &ClusterAlias) -> bool {
        let connect = self.offset_storage.connect.as_ref();
        self.enabled && connect.is_some_and(|connect| connect.cluster == *alias)
    }

    /// The flow's choice of topics.
    #[must_use]
    pub fn flow_topics(&self) -> FlowTopics {
        FlowTopics {
            flow: self.id.clone(),
            filter: self.topics.clone(),
            names: self.names.clone(),
            origins: self.origins.clone(),
            heartbeats: self.heartbeats_replication,
        }
    }
}

/// ACLs of a flow beyond MM2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclSettings {
    /// How often they are kept in step, those of topics too if they are.
    pub interval: Duration,
    /// Whether those on prefixes of topic names are mirrored, where those of topics are.
    pub prefixed: bool,
    /// Whether those of groups are mirrored.
    pub groups: bool,
    /// Whether those that the flow added are removed when the source has them no more.
    pub remove: bool,
}

/// Offset syncs of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetSyncs {
    /// Whether they are written.
    pub emit: bool,
    /// Where they are written.
    pub location: SyncsLocation,
    /// How many records apart they may be; 0 for one at every chance.
    pub lag_max: i64,
    /// Replication factor of their topic; `None` for the cluster's default.
    pub replication_factor: Option<i16>,
}

/// Which cluster holds the offset syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncsLocation {
    /// The source, as MM2 by default.
    Source,
    /// The target.
    Target,
}

/// Checkpoints and group offsets of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// Which groups.
    pub filter: GroupFilter,
    /// How often groups are looked for; `None` for only at the start.
    pub refresh: Option<Duration>,
    /// How often checkpoints are written; `None` for never.
    pub checkpoints: Option<Duration>,
    /// How often offsets of idle groups are written on the target; `None` for never.
    pub offsets: Option<Duration>,
    /// What becomes of a group that went back on the source.
    pub rewind: Rewind,
    /// Replication factor of the checkpoints topic; `None` for the target's default.
    pub replication_factor: Option<i16>,
}

/// The heartbeats of one pair of clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatSettings {
    /// Whose life they are a sign of.
    pub pair: FlowId,
    /// How often one is written.
    pub interval: Duration,
    /// Replication factor of their topic; `None` for the target's default.
    pub replication_factor: Option<i16>,
}

/// Where a flow's progress is kept, in MM2's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetStorage {
    /// The topic; on the target unless `connect` says where.
    pub topic: TopicName,
    /// The Connect cluster whose topic it is; `None` for that of MM2's dedicated mode.
    pub connect: Option<ConnectCluster>,
    /// Its partitions if it must be created; `None` for the target's default.
    pub partitions: Option<i32>,
    /// Its replication factor if it must be created; `None` for the target's default.
    pub replication_factor: Option<i16>,
}

/// A Connect cluster that runs, or ran, MM2's source connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectCluster {
    /// The Kafka cluster that holds its offsets topic.
    pub cluster: ClusterAlias,
    /// The connector's name, which its offsets are kept under.
    pub connector: String,
}

/// Which records are seen (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Those of committed transactions and those without one.
    ReadCommitted,
    /// All.
    ReadUncommitted,
}

/// Where a partition without progress starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record that the source still has.
    Earliest,
    /// Behind the last one.
    Latest,
    /// Nowhere: it halts.
    None,
    /// At the first record of this time or later.
    At(Timestamp),
    /// At the first record that is at most as old as this (KIP-1106).
    Ago(Duration),
}

/// Whose default a topic config takes that is not set on the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultsFrom {
    /// The source cluster's.
    Source,
    /// The target cluster's.
    Target,
}

/// What to do about records that the source lost before they were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapPolicy {
    /// Note the gap and go on behind it.
    Record,
    /// Stop the partition.
    Halt,
}

/// What to do about a source topic that was deleted and created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecreatePolicy {
    /// Start at the new topic's beginning and note it.
    Restart,
    /// Stop the partition.
    Halt,
}

/// What to do about a record that is larger than the target takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OversizePolicy {
    /// Stop the partition.
    Halt,
    /// Leave it out and note the gap.
    Skip,
}

/// What to do when the source's log was cut off below what was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruncationPolicy {
    /// Stop the partition.
    Halt,
    /// Note it, and copy what the source has now behind what the target has.
    Record,
}

/// What to do when a target partition already holds records that no progress explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingRecordsPolicy {
    /// Stop the partition.
    Halt,
    /// Write behind them.
    Append,
}
