//! Keys of the Connect worker. MM2 runs one per flow, on the flow's target.

use super::Key;
use super::Status::Same;
use super::{accepted, differs, keys, later, refused};

const BYTES_ONLY: super::Status = accepted("records are copied byte for byte");
const NO_STORE: super::Status = accepted("Connect's own state is not kept");
const NO_PLUGINS: super::Status = accepted("there are no plugins here");
const NO_REST: super::Status = accepted("workers do not talk over REST");
const SHARING: super::Status = later("sharing a flow among several workers");
const OWN_BROKER_DEFAULT: &str = "a target with one broker must work without a setting";

pub(super) const KEYS: &[&[Key]] = &[
    keys! { WorkerFromTop, "DistributedConfig";
        "offset.storage.topic": String = "", Same, "Topic on the target that holds the progress; mm2-offsets.<source>.internal by default.";
        "offset.storage.partitions": Int = "25", Same, "Its partitions if it is to be created.";
        "offset.storage.replication.factor": Short = "3", differs("the target's own default", OWN_BROKER_DEFAULT), "Its replication factor if it is to be created.";
        "offset.storage.*": String = "", later("more configs for the progress topic"), "A topic config for it.";
        "config.storage.topic": String = "", NO_STORE, "Topic of Connect's configurations.";
        "config.storage.replication.factor": Short = "3", NO_STORE, "Its replication factor.";
        "config.storage.*": String = "", NO_STORE, "A topic config for it.";
        "status.storage.topic": String = "", NO_STORE, "Topic of Connect's statuses.";
        "status.storage.partitions": Int = "5", NO_STORE, "Its partitions.";
        "status.storage.replication.factor": Short = "3", NO_STORE, "Its replication factor.";
        "status.storage.*": String = "", NO_STORE, "A topic config for it.";
        "key.converter": Class = "", BYTES_ONLY, "Converter of record keys.";
        "value.converter": Class = "", BYTES_ONLY, "Converter of record values.";
        "header.converter": Class = "org.apache.kafka.connect.storage.SimpleHeaderConverter", BYTES_ONLY, "Converter of record headers.";
        "key.converter.plugin.version": String = "", NO_PLUGINS, "Version of the key converter.";
        "value.converter.plugin.version": String = "", NO_PLUGINS, "Version of the value converter.";
        "header.converter.plugin.version": String = "", NO_PLUGINS, "Version of the header converter.";
        "task.shutdown.graceful.timeout.ms": Long = "5000", later("a bound for stopping"), "How long stopping may take.";
        "worker.sync.timeout.ms": Int = "3000", SHARING, "How long a worker waits for the others' configuration.";
        "worker.unsync.backoff.ms": Int = "300000", SHARING, "How long a worker stays away after that failed.";
    },
    keys! { Worker, "DistributedConfig";
        "group.id": String = "", SHARING, "Group of the workers of one flow; <source>-mm2 by default.";
        "client.id": String = "", Same, "How this program calls itself to the cluster's brokers.";
        "exactly.once.source.support": String = "disabled", refused("transactions are not in this version yet", "leave it out: without it records are copied in order and without duplicates, but their progress is not in one transaction with them"), "Whether records and progress are written in one transaction.";
        "offset.flush.interval.ms": Long = "60000", Same, "How often progress is written.";
        "offset.flush.timeout.ms": Long = "5000", Same, "How long writing progress may take.";
        "session.timeout.ms": Int = "10000", SHARING, "When a silent worker counts as lost.";
        "heartbeat.interval.ms": Int = "3000", SHARING, "How often a worker shows that it lives.";
        "rebalance.timeout.ms": Int = "60000", SHARING, "How long workers may take to agree again.";
        "scheduled.rebalance.max.delay.ms": Int = "300000", SHARING, "How long work of a lost worker waits for its return.";
        "connect.protocol": String = "sessioned", accepted("workers share work by a protocol of our own"), "How Connect's workers agree.";
        "topic.creation.enable": Boolean = "true", accepted("it only matters with topic.creation.* keys"), "Whether Connect may create topics.";
        "topic.tracking.enable": Boolean = "true", NO_STORE, "Whether topics in use are noted in the status topic.";
        "topic.tracking.allow.reset": Boolean = "true", NO_STORE, "Whether that note may be reset.";
        "inter.worker.*": String = "", NO_REST, "How workers sign requests to each other.";
        "connector.client.config.override.policy": String = "All", accepted("MM2 itself always uses All"), "Which client settings a connector may override.";
        "plugin.path": List = "", NO_PLUGINS, "Where plugins are.";
        "plugin.discovery": String = "hybrid_warn", NO_PLUGINS, "How plugins are found.";
        "replication.policy.*": String = "", accepted("only a flow's replication policy is asked"), "Replication policy for MM2's client library.";
        "retry.backoff.ms": Long = "100", Same, "First pause before a request is repeated.";
        "retry.backoff.max.ms": Long = "1000", Same, "Longest pause before a request is repeated.";
        "request.timeout.ms": Int = "40000", Same, "How long an answer may take.";
        "metadata.max.age.ms": Long = "300000", Same, "How old knowledge about leaders may get.";
        "metadata.recovery.strategy": String = "rebootstrap", accepted("the bootstrap servers are always tried again"), "What to do when no known broker answers.";
        "metadata.recovery.rebootstrap.trigger.ms": Long = "300000", accepted("the bootstrap servers are always tried again"), "After how long the bootstrap servers are tried again.";
        "connections.max.idle.ms": Long = "540000", Same, "After how long an unused connection is closed.";
        "reconnect.backoff.ms": Long = "50", Same, "First pause before connecting again.";
        "reconnect.backoff.max.ms": Long = "1000", Same, "Longest pause before connecting again.";
        "socket.connection.setup.timeout.ms": Long = "10000", Same, "How long connecting may take at first.";
        "socket.connection.setup.timeout.max.ms": Long = "30000", Same, "How long connecting may take after failures.";
        "client.dns.lookup": String = "use_all_dns_ips", accepted("all addresses of a name are always tried"), "Which addresses of a name are tried.";
        "receive.buffer.bytes": Int = "32768", accepted("the system sizes the buffers"), "Size of a connection's receive buffer.";
        "send.buffer.bytes": Int = "131072", accepted("the system sizes the buffers"), "Size of a connection's send buffer.";
        "metric.reporters": List = "org.apache.kafka.common.metrics.JmxReporter", accepted("there is no JMX here"), "Classes that report metrics.";
        "metrics.*": String = "", accepted("there is no JMX here"), "How JMX metrics are sampled.";
    },
];
