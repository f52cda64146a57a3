//! Keys of MM2's driver and of its three connectors.

use super::Key;
use super::Status::Same;
use super::{accepted, differs, keys, refused};

const REST: super::Status =
    accepted("processes do not share a flow and do not talk to each other: one has all of it");
const RAW: super::Status = accepted("records are copied as they are, nothing is converted");
const JMX: super::Status = accepted("there is no JMX here");
const CHEAP: super::Status = differs("60", "only differences are sent, so comparing is cheap");
const BROKER_DEFAULT: super::Status =
    differs("the target's own default", "a target with one broker must work without a setting");
const NO_JAVA: super::Status =
    refused("Java classes cannot be loaded here", "use MM2's default class");
const BYTES_ONLY: super::Status = accepted("records are copied byte for byte");
const NO_CHANGES: super::Status =
    refused("records are copied as they are", "transform them at the source or at the target");

pub(super) const KEYS: &[&[Key]] = &[
    keys! { Process, "MirrorMakerConfig";
        "clusters": List = "", Same, "Aliases of all clusters.";
        "config.providers": List = "", Same, "Names of the config providers that `${name:..}` may ask.";
        "config.providers.*": String = "", Same, "Class and parameters of a config provider.";
        "dedicated.mode.enable.internal.rest": Boolean = "false", REST, "Whether workers talk to each other over REST.";
        "listeners": List = "http://:8083", REST, "Addresses of the internal REST server.";
        "listeners.https.*": String = "", REST, "TLS of the internal REST server.";
        "admin.listeners": List = "", REST, "Addresses of Connect's admin endpoints.";
        "rest.advertised.host.name": String = "", REST, "Host name under which other workers reach the REST server.";
        "rest.advertised.port": Int = "", REST, "Port under which other workers reach the REST server.";
        "rest.advertised.listener": String = "", REST, "Which of the listeners other workers use.";
        "rest.extension.classes": List = "", REST, "Classes that extend Connect's REST server.";
        "access.control.allow.origin": String = "", REST, "CORS origins of the REST server.";
        "access.control.allow.methods": String = "", REST, "CORS methods of the REST server.";
        "response.http.headers.config": String = "", REST, "More headers in REST responses.";
        "ssl.client.auth": String = "none", REST, "Whether the REST server asks for client certificates.";
    },
    keys! { Flow, "MirrorConnectorConfig";
        "enabled": Boolean = "true", differs("false", "as in MM2's dedicated mode, a flow is on only where the file says so"), "Whether the flow replicates.";
        "name": String = "", refused("the connector's name is part of MM2's stored progress", "leave it out"), "Name of the connector.";
        "connector.class": String = "", accepted("there are no connectors here"), "Class of the connector.";
        "connector.plugin.version": String = "", accepted("there are no plugins here"), "Version of the connector to load.";
        "tasks.max": Int = "1", differs("no bound", "partitions are copied in parallel anyway; a value is an upper bound"), "How many tasks may share the flow.";
        "tasks.max.enforce": Boolean = "true", accepted("the bound always holds"), "Whether more tasks than allowed are an error.";
        "key.converter": Class = "", BYTES_ONLY, "Converter of record keys.";
        "value.converter": Class = "", BYTES_ONLY, "Converter of record values.";
        "header.converter": Class = "", BYTES_ONLY, "Converter of record headers.";
        "key.converter.plugin.version": String = "", RAW, "Version of the key converter.";
        "value.converter.plugin.version": String = "", RAW, "Version of the value converter.";
        "header.converter.plugin.version": String = "", RAW, "Version of the header converter.";
        "transforms": List = "", NO_CHANGES, "Names of record transformations.";
        "transforms.*": String = "", NO_CHANGES, "Settings of a record transformation.";
        "predicates": List = "", NO_CHANGES, "Names of predicates for transformations.";
        "predicates.*": String = "", NO_CHANGES, "Settings of a predicate.";
        "config.action.reload": String = "restart", accepted("providers are asked at the start only"), "What to do when a config provider's value expires.";
        "errors.retry.timeout": Long = "0", RAW, "How long conversions are retried.";
        "errors.retry.delay.max.ms": Long = "60000", RAW, "Longest pause between retried conversions.";
        "errors.tolerance": String = "none", accepted("no record is ever skipped in silence"), "Whether records that fail are skipped.";
        "errors.log.enable": Boolean = "false", RAW, "Whether failed conversions are logged.";
        "errors.log.include.messages": Boolean = "false", RAW, "Whether their records are logged.";
        "source.cluster.alias": String = "", accepted("the flow's name says it"), "Alias of the source.";
        "target.cluster.alias": String = "target", accepted("the flow's name says it"), "Alias of the target.";
        "replication.policy.class": Class = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy", Same, "How replicas are named: DefaultReplicationPolicy or IdentityReplicationPolicy.";
        "replication.policy.separator": String = ".", Same, "What stands between alias and topic in a replica's name.";
        "replication.policy.internal.topic.separator.enabled": Boolean = "true", Same, "Whether internal topics use that separator too.";
        "replication.policy.*": String = "", accepted("only MM2's own policies exist here"), "Settings of a custom policy.";
        "admin.timeout.ms": Long = "60000", accepted("each request has its own deadline"), "How long start-up steps may take.";
        "forwarding.admin.class": Class = "org.apache.kafka.clients.admin.ForwardingAdmin", NO_JAVA, "Class of the admin client.";
        "metric.reporters": List = "org.apache.kafka.common.metrics.JmxReporter", JMX, "Classes that report metrics.";
    },
    keys! { Flow, "MirrorSourceConfig";
        "topics": List = ".*", Same, "Topics to copy, as Java patterns for the whole name.";
        "topics.exclude": List = "mm2.*\\.internal,.*\\.replica,__.*", Same, "Topics not to copy; wins over `topics`.";
        "topics.blacklist": List = "", differs("topics.exclude", "an old name, removed in Kafka 4.0 and honoured here"), "Old name of `topics.exclude`.";
        "config.properties.exclude": List = "follower.replication.throttled.replicas,leader.replication.throttled.replicas,message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,log.message.timestamp.after.max.ms,message.timestamp.type,unclean.leader.election.enable,min.insync.replicas", Same, "Topic configs not to copy, as Java patterns.";
        "config.properties.blacklist": List = "", differs("config.properties.exclude", "an old name, removed in Kafka 4.0 and honoured here"), "Old name of `config.properties.exclude`.";
        "topic.filter.class": Class = "org.apache.kafka.connect.mirror.DefaultTopicFilter", NO_JAVA, "Class that selects topics.";
        "config.property.filter.class": Class = "org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter", NO_JAVA, "Class that selects topic configs.";
        "consumer.poll.timeout.ms": Long = "1000", accepted("fetches wait as long as fetch.max.wait.ms says"), "How long a task's poll waits.";
        "refresh.topics.enabled": Boolean = "true", Same, "Whether new topics and partitions are looked for.";
        "refresh.topics.interval.seconds": Long = "600", differs("5", "only differences are sent, so looking is cheap; a new topic must not wait ten minutes"), "How often new topics and partitions are looked for.";
        "sync.topic.configs.enabled": Boolean = "true", Same, "Whether topic configs are copied.";
        "sync.topic.configs.interval.seconds": Long = "600", CHEAP, "How often topic configs are copied.";
        "sync.topic.acls.enabled": Boolean = "true", Same, "Whether ACLs of topics are copied.";
        "sync.topic.acls.interval.seconds": Long = "600", CHEAP, "How often ACLs are copied.";
        "replication.factor": Int = "2", BROKER_DEFAULT, "Replication factor of new replicas; -1 for the target's default.";
        "offset-syncs.topic.replication.factor": Short = "3", differs("the cluster's own default", "a cluster with one broker must work without a setting"), "Replication factor of the topic of offset syncs.";
        "offset-syncs.topic.location": String = "source", Same, "Which cluster holds the offset syncs: source or target.";
        "emit.offset-syncs.enabled": Boolean = "true", Same, "Whether offset syncs are written.";
        "offset.lag.max": Long = "100", Same, "How many offsets apart offset syncs may be.";
        "heartbeats.replication.enabled": Boolean = "true", Same, "Whether heartbeat topics are copied whatever the filter says.";
        "metric.names.formats": List = "legacy", JMX, "Which names MM2's MBeans have.";
        "add.source.alias.to.metrics": Boolean = "false", accepted("removed in Kafka 4.0; the source is always a label"), "Whether metrics name the source.";
        "use.incremental.alter.configs": String = "requested", accepted("removed in Kafka 4.0; incremental changes are always used"), "How topic configs are changed.";
        "auto.include.jmx.reporter": Boolean = "true", JMX, "Whether metrics go to JMX.";
    },
    keys! { Flow, "MirrorCheckpointConfig";
        "groups": List = ".*", Same, "Consumer groups to mirror, as Java patterns.";
        "groups.exclude": List = "console-consumer-.*,connect-.*,__.*", Same, "Consumer groups not to mirror; wins over `groups`.";
        "groups.blacklist": List = "", differs("groups.exclude", "an old name, removed in Kafka 4.0 and honoured here"), "Old name of `groups.exclude`.";
        "group.filter.class": Class = "org.apache.kafka.connect.mirror.DefaultGroupFilter", NO_JAVA, "Class that selects groups.";
        "refresh.groups.enabled": Boolean = "true", Same, "Whether new groups are looked for.";
        "refresh.groups.interval.seconds": Long = "600", differs("30", "only differences are sent; a new group must not wait ten minutes"), "How often new groups are looked for.";
        "emit.checkpoints.enabled": Boolean = "true", Same, "Whether checkpoints are written.";
        "emit.checkpoints.interval.seconds": Long = "60", Same, "How often checkpoints are written.";
        "sync.group.offsets.enabled": Boolean = "false", Same, "Whether offsets of idle groups are written on the target.";
        "sync.group.offsets.interval.seconds": Long = "60", Same, "How often they are.";
        "checkpoints.topic.replication.factor": Short = "3", differs("the cluster's own default", "a cluster with one broker must work without a setting"), "Replication factor of the topic of checkpoints.";
    },
    keys! { Flow, "MirrorHeartbeatConfig";
        "emit.heartbeats.enabled": Boolean = "true", differs("true for enabled flows and their ways back", "no connection to a cluster that nobody asked for; MM2 takes every pair"), "Whether heartbeats are written.";
        "emit.heartbeats.interval.seconds": Long = "1", Same, "How often heartbeats are written.";
        "heartbeats.topic.replication.factor": Short = "3", BROKER_DEFAULT, "Replication factor of the topic of heartbeats.";
    },
    keys! { FlowOnly, "MirrorSourceTaskConfig";
        "task.assigned.partitions": List = "", accepted("MM2 sets it for its tasks; partitions are shared in another way here"), "Partitions of one task.";
        "task.assigned.groups": List = "", accepted("MM2 sets it for its tasks"), "Groups of one task.";
        "task.index": Int = "", accepted("MM2 sets it for its tasks"), "Number of one task.";
    },
    keys! { FlowOnly, "SourceConnectorConfig";
        "use.defaults.from": String = "target", Same, "Whose default a topic config takes that is not set on the source: source or target.";
        "offsets.storage.topic": String = "", refused("progress is kept in offset.storage.topic only", "leave it out, or set offset.storage.topic"), "A topic of its own for the connector's progress.";
        "exactly.once.support": String = "requested", accepted("exactly.once.source.support of the target decides"), "Whether the connector insists on exactly-once.";
        "transaction.boundary": String = "poll", accepted("there are no transactions in this version"), "When a transaction ends.";
        "transaction.boundary.interval.ms": Long = "", accepted("there are no transactions in this version"), "How long a transaction may be open.";
        "topic.creation.*": String = "", refused("replicas are created by the flow's own rules", "use replication.factor"), "How Connect creates topics.";
    },
];
