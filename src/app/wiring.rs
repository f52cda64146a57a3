//! From what a file asks for to what each floor needs.

use std::thread::available_parallelism;
use std::time::Duration;

use crate::batch::Oversize;
use crate::client::{ClusterSettings, Dialer, Endpoint};
use crate::config;
use crate::flow::{
    Claims, ExistingRecords, FlowSettings, GapPolicy, Recreate, Reset, SyncSettings, Truncation,
};
use crate::mirror::{
    AclSync, ConfigSync, GroupRules, HeartbeatSettings, InternalTopic, MirrorSettings, TopicRules,
    claims_topic,
};
use crate::mm2;
use crate::model::{Side, TopicName};
use crate::policy::{AclRules, ConfigRules};

/// Shards of a flow, at most; `tasks.max` lowers it.
///
/// A shard is a thread that moves a gigabyte a second or more. Half of the cores have one: with
/// fewer partitions each, more shards send more and smaller requests, and the other half is for
/// whoever else lives on the machine.
const SHARDS_MAX: usize = 4;

/// Bytes of one fetch answer, if the file does not say otherwise: small enough to stay in the
/// processor's cache between socket and socket.
const FETCH_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of one partition in one fetch answer, if the file does not say otherwise. Measured on
/// a local link: more costs cache, less costs requests.
const PARTITION_BYTES: usize = 256 * 1024;

/// How long draining may take: a process manager kills after thirty seconds.
const DRAIN_PATIENCE: Duration = Duration::from_secs(15);

/// A cluster's settings for the client floor.
pub(crate) fn cluster(settings: &config::ClusterSettings) -> ClusterSettings {
    let endpoint = |(host, port): &(String, u16)| Endpoint { host: host.clone(), port: *port };
    ClusterSettings {
        alias: settings.alias.clone(),
        bootstrap: settings.bootstrap.iter().map(endpoint).collect(),
        client_id: settings.client_id.clone().unwrap_or_else(|| "heliograph".to_owned()),
        request_timeout: settings.request_timeout,
        connect_timeout: settings.connection_setup_timeout.first,
        dialer: Dialer::Tcp,
        security: settings.security.clone(),
    }
}

/// A flow's settings for the floors below.
pub(super) fn flow(
    settings: &config::FlowSettings,
    process: &config::ProcessSettings,
    claims: &Claims,
) -> MirrorSettings {
    let source = &settings.id.source;
    let positions =
        TopicName::new(format!("mm2-heliograph-positions.{}.internal", source.as_str()));
    let owned = TopicName::new(format!("mm2-heliograph-owned.{}.internal", source.as_str()));
    let half = available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)).min(SHARDS_MAX);
    let tasks_max = settings.tasks_max.map_or(usize::MAX, |max| max as usize);
    let memory = usize::try_from(process.memory_bytes).unwrap_or(usize::MAX);
    // A quarter of the budget: one answer is read while others are on their way out.
    let fetch_bytes = settings.fetch_max_bytes.map_or(FETCH_BYTES, |max| max as usize);
    let fetch_bytes = fetch_bytes.min(memory / 4).max(1);
    let partition_bytes =
        settings.max_partition_fetch_bytes.map_or(PARTITION_BYTES, |max| max as usize);
    let storage = &settings.offset_storage;
    let map_topic =
        TopicName::new(format!("mm2-heliograph-offset-map.{}.internal", source.as_str()));
    let target = &settings.id.target;
    let internal = settings.names.policy.internal();
    // The alias in its name is that of the other cluster than the one it is on.
    let (side, other) = match settings.offset_syncs.location {
        config::SyncsLocation::Source => (Side::Source, target),
        config::SyncsLocation::Target => (Side::Target, source),
    };
    let syncs_topic = internal.offset_syncs(other);
    let one = |name: &TopicName, replication_factor: Option<i16>| InternalTopic {
        name: name.clone(),
        partitions: 1,
        replication_factor: replication_factor.unwrap_or(-1),
    };
    // A Connect cluster makes its own: a name that is not there is a wrong name.
    let own_offsets = storage.connect.is_none().then(|| InternalTopic {
        name: storage.topic.clone(),
        partitions: storage.partitions.unwrap_or(-1),
        replication_factor: storage.replication_factor.unwrap_or(-1),
    });
    MirrorSettings {
        flow: FlowSettings {
            id: settings.id.clone(),
            names: settings.names.clone(),
            read_committed: settings.isolation == config::Isolation::ReadCommitted,
            verify: process.verify_crc == config::VerifyCrc::Always,
            shards: half.min(tasks_max).max(1),
            reset: match settings.auto_offset_reset {
                config::OffsetReset::Earliest => Reset::Earliest,
                config::OffsetReset::Latest => Reset::Latest,
                config::OffsetReset::None => Reset::None,
                config::OffsetReset::At(at) => Reset::At(at),
                config::OffsetReset::Ago(age) => Reset::Ago(age),
            },
            gap_policy: match settings.gap_policy {
                config::GapPolicy::Record => GapPolicy::Record,
                config::GapPolicy::Halt => GapPolicy::Halt,
            },
            recreate: match settings.recreate_policy {
                config::RecreatePolicy::Restart => Recreate::Restart,
                config::RecreatePolicy::Halt => Recreate::Halt,
            },
            truncation: match settings.truncation_policy {
                config::TruncationPolicy::Halt => Truncation::Halt,
                config::TruncationPolicy::Record => Truncation::Record,
            },
            oversize: match settings.oversize_policy {
                config::OversizePolicy::Halt => Oversize::Refuse,
                config::OversizePolicy::Skip => Oversize::Skip,
            },
            existing_records: match settings.existing_records_policy {
                config::ExistingRecordsPolicy::Halt => ExistingRecords::Halt,
                config::ExistingRecordsPolicy::Append => ExistingRecords::Append,
            },
            claims: claims.clone(),
            fetch_wait: settings.fetch_max_wait,
            fetch_bytes_max: fetch_bytes,
            partition_bytes_max: partition_bytes.min(fetch_bytes),
            fetch_grows: settings.fetch_max_bytes.is_none()
                && settings.max_partition_fetch_bytes.is_none(),
            bytes_per_second_max: settings.bytes_per_second_max,
            commit_interval: settings.offset_flush_interval,
            offsets_topic: storage.topic.clone(),
            positions_topic: positions.clone(),
            map_topic: map_topic.clone(),
            syncs: settings
                .offset_syncs
                .emit
                .then_some(SyncSettings { side, lag_max: settings.offset_syncs.lag_max }),
            connector_name: match &storage.connect {
                Some(connect) => connect.connector.clone(),
                None => mm2::SOURCE_CONNECTOR.to_owned(),
            },
        },
        rules: TopicRules {
            topics: settings.flow_topics(),
            configs: ConfigRules {
                filter: settings.configs.clone(),
                source_defaults: settings.use_defaults_from == config::DefaultsFrom::Source,
                mode: settings.sync_configs_mode,
            },
            replication_factor: settings.replication_factor.unwrap_or(-1),
        },
        internal: own_offsets
            .into_iter()
            .chain([one(&positions, storage.replication_factor)])
            .collect(),
        map: one(&map_topic, storage.replication_factor),
        syncs: settings
            .offset_syncs
            .emit
            .then(|| one(&syncs_topic, settings.offset_syncs.replication_factor)),
        groups: GroupRules {
            topics: settings.flow_topics(),
            groups: settings.groups.filter.clone(),
            refresh: settings.groups.refresh,
            checkpoints: settings.groups.checkpoints,
            offsets: settings.groups.offsets,
            rewind: settings.groups.rewind,
            topic: one(&internal.checkpoints(source), settings.groups.replication_factor),
            syncs_topic,
        },
        refresh: settings.refresh_topics_interval,
        configs: settings.sync_configs_interval.map(|interval| ConfigSync {
            interval,
            owned: one(&owned, storage.replication_factor),
        }),
        acls: (settings.sync_acls_interval.is_some() || settings.acls.groups).then(|| AclSync {
            interval: settings.acls.interval,
            rules: AclRules {
                topics: settings.flow_topics(),
                groups: settings.groups.filter.clone(),
                of_topics: settings.sync_acls_interval.is_some(),
                of_prefixes: settings.acls.prefixed,
                of_groups: settings.acls.groups,
            },
            remove: settings.acls.remove,
            owned: one(&claims_topic(source), storage.replication_factor),
        }),
        drain_patience: DRAIN_PATIENCE,
    }
}

/// A pair's heartbeats for the mirror floor.
pub(super) fn heartbeats(settings: &config::HeartbeatSettings) -> HeartbeatSettings {
    HeartbeatSettings {
        pair: settings.pair.clone(),
        interval: settings.interval,
        replication_factor: settings.replication_factor.unwrap_or(-1),
    }
}
