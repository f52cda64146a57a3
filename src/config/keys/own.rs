//! Keys of our own. Process-wide ones begin with `heliograph.`; those of a flow follow MM2's
//! prefixes.

use super::Key;
use super::Status::Same;
use super::keys;

pub(super) const KEYS: &[&[Key]] = &[
    keys! { Process, "Heliograph";
        "heliograph.memory.bytes": Long = "16777216", Same,
            "Bytes of fetched records that may be in memory at a time; unless set, up to four times as many on links with a long round trip.";
        "heliograph.verify.crc": String = "never", Same,
            "Whether checksums of raw batches are verified here too: never or always.";
        "heliograph.http.listen": String = "", Same,
            "HOST:PORT on which /metrics, /status, /healthz and /readyz are served, to whoever can reach it; off unless set.";
    },
    keys! { Flow, "Heliograph";
        "topics.rename": List = "", Same,
            "What topics are called on the target instead of what the replication policy says: rules `from:to`, either two names or two beginnings with a `*` behind them, as in orders:orders-eu, payments.*:eu.payments.*, *:eu-*. The first that matches counts; internal topics and heartbeats are never renamed. MirrorMaker 2 knows no such rules, and progress of renamed topics is not shared with it.";
        "gap.policy": String = "record", Same,
            "What to do when the source lost records before they were copied: record or halt.";
        "start.timestamp": String = "", Same,
            "Where partitions without progress start: at the first record of this time or later, as 2026-05-01T12:30:00Z or milliseconds since 1970; unset, auto.offset.reset of the source consumer says.";
        "recreate.policy": String = "restart", Same,
            "What to do when a source topic was deleted and created again: restart or halt.";
        "existing.records.policy": String = "halt", Same,
            "What to do when a target partition holds records that no progress explains: halt or append.";
        "oversize.policy": String = "halt", Same,
            "What to do when a record is larger than the target takes: halt, or skip it and record a gap.";
        "truncation.policy": String = "halt", Same,
            "What to do when the source lost records after they were copied (unclean election): halt, or record it and copy what the source has now.";
        "sync.topic.configs.mode": String = "owned", Same,
            "What the sync of topic configs may take away on the target: what it set itself (owned), or everything that is not set on the source, as MirrorMaker 2 does (mm2).";
        "sync.topic.acls.prefixed.enabled": Boolean = "false", Same,
            "Whether ACLs on prefixes of topic names are copied like those on names: `team-` of `a` becomes `a.team-`, or stays `team-` where names are kept. One that grants is not added while it would reach a topic of the target that the flow does not mirror. On topics that topics.rename names it becomes an ACL by name, on each that exists.";
        "sync.group.acls.enabled": Boolean = "false", Same,
            "Whether ACLs of groups, on names and on prefixes, are copied as they are, where `groups` and `groups.exclude` let a group of that name through; as often as those of topics.";
        "sync.acls.remove.enabled": Boolean = "false", Same,
            "Whether ACLs that the flow added on the target are removed there when two looks in a row do not find them on the source; what was added before one of these three keys was set, by hand or by another program stays. A flow that is given up goes on claiming what it claimed until mm2-heliograph-owned-acls.<source>.internal is deleted.";
        "sync.group.offsets.policy": String = "monotonic", Same,
            "What becomes of a group that was set back on the source: its offsets on the target stay and the difference is shown (monotonic), or follow as long as nobody has used the group on the target (follow).";
        "connect.offset.storage.topic": String = "", Same,
            "The offset.storage.topic of a Connect cluster that runs MirrorMaker 2's source connector: progress is read and kept there, so that this process goes on behind that connector, and it behind this process. It must exist; source.cluster.alias of the connector must be the flow's source.";
        "connect.offset.storage.cluster": String = "", Same,
            "Alias of the Kafka cluster that holds connect.offset.storage.topic; the flow's target by default.";
        "connect.connector.name": String = "MirrorSourceConnector", Same,
            "Name of that connector.";
        "max.bytes.per.second": Long = "0", Same,
            "Most bytes of batches that the flow sends to its target in a second; 0 for no limit.";
    },
];
