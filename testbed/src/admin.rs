//! Topics, offsets, configs and groups of a cluster, through the agent.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::{ANSWER_WAIT, Agent, Pending};
use crate::cluster::Cluster;

/// Reading a whole topic, for tests that look at every record.
const READ_WAIT: Duration = Duration::from_secs(300);

/// A topic to create.
#[derive(Debug, Clone)]
pub struct Topic {
    name: String,
    partitions: u32,
    replication_factor: Option<u16>,
    configs: BTreeMap<String, String>,
    assignment: Vec<Vec<u32>>,
}

impl Topic {
    /// One partition, as many replicas as the cluster has nodes for (one or three).
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partitions: 1,
            replication_factor: None,
            configs: BTreeMap::new(),
            assignment: Vec::new(),
        }
    }

    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    pub fn replication_factor(mut self, factor: u16) -> Self {
        self.replication_factor = Some(factor);
        self
    }

    pub fn config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.configs.insert(key.into(), value.into());
        self
    }

    /// Replicas per partition, the first one preferred as leader; instead of partitions and factor.
    pub fn assignment(mut self, replicas: Vec<Vec<u32>>) -> Self {
        self.assignment = replicas;
        self
    }
}

/// A topic as a broker describes it.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Described {
    pub name: String,
    pub topic_id: String,
    pub partitions: Vec<DescribedPartition>,
}

#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct DescribedPartition {
    pub partition: u32,
    /// Node id, -1 for none.
    pub leader: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

/// Which offset of each partition is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum At {
    Earliest,
    /// The high watermark.
    Latest,
    /// The last stable offset: where a committed reader stops.
    Stable,
}

#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct TopicConfig {
    pub value: Option<String>,
    /// As Kafka names it: `DYNAMIC_TOPIC_CONFIG`, `DEFAULT_CONFIG`, ...
    pub source: String,
}

#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Group {
    pub group: String,
    pub protocol: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct GroupOffset {
    pub topic: String,
    pub partition: u32,
    pub offset: i64,
    #[serde(default)]
    pub metadata: String,
}

/// A record as a reader sees it; key and value in hexadecimal.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Record {
    pub partition: u32,
    pub offset: i64,
    pub timestamp: i64,
    pub timestamp_type: String,
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<RecordHeader>,
}

#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct RecordHeader {
    pub name: String,
    pub value: Option<String>,
}

/// When things were first seen on a topic; microseconds since 1970, 0 for never.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Seen {
    pub topic_at_us: u64,
    pub first_at_us: u64,
    pub done_at_us: u64,
    pub end_offsets: i64,
    pub last_trouble: String,
}

/// Age of stamped records on arrival.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Latencies {
    pub records: u64,
    pub p50_us: i64,
    pub p90_us: i64,
    pub p99_us: i64,
    pub max_us: i64,
}

/// An access rule, in Kafka's words: `TOPIC`, `LITERAL`, `User:alice`, `READ`, `ALLOW`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub resource_type: String,
    pub name: String,
    pub pattern: String,
    pub principal: String,
    pub host: String,
    pub operation: String,
    pub permission: String,
}

impl Rule {
    /// `ALLOW` from any host, on a topic's literal name.
    pub fn allow(topic: &str, principal: &str, operation: &str) -> Self {
        Self {
            resource_type: "TOPIC".into(),
            name: topic.into(),
            pattern: "LITERAL".into(),
            principal: principal.into(),
            host: "*".into(),
            operation: operation.into(),
            permission: "ALLOW".into(),
        }
    }
}

/// How members of a group share its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Classic,
    /// KIP-848; from Kafka 4.0 on.
    Consumer,
}

/// A member of a group, until it is dropped.
#[derive(Debug)]
pub struct Member {
    pending: Pending,
}

impl Member {
    /// Leaves the group in good order.
    pub fn leave(self) -> Result<()> {
        self.pending.stop()?;
        self.pending.answer::<Value>(READ_WAIT).map(drop)
    }
}

/// A cluster as `MirrorClient` and `RemoteClusterUtils` see it.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct MirrorView {
    pub heartbeat_topics: Vec<String>,
    pub checkpoint_topics: Vec<String>,
    pub upstream_clusters: Vec<String>,
    pub remote_topics: Vec<String>,
    pub hops: i32,
    /// Translated offsets of the groups asked for.
    pub groups: BTreeMap<String, Vec<GroupOffset>>,
}

/// A watch that runs in the agent.
#[derive(Debug)]
pub struct Watching {
    pending: Pending,
    within: Duration,
}

impl Watching {
    /// Waits until all is seen, or the watch gives up.
    pub fn seen(self) -> Result<Seen> {
        self.pending.answer(self.within + ANSWER_WAIT)
    }

    /// Ends the watch and takes what was seen so far.
    pub fn stop(self) -> Result<Seen> {
        self.pending.stop()?;
        self.pending.answer(ANSWER_WAIT)
    }
}

impl Cluster {
    fn ask<T: serde::de::DeserializeOwned>(&self, op: &'static str, mut args: Value) -> Result<T> {
        args["bootstrap"] = Value::String(self.bootstrap());
        let what =
            args["topic"].as_str().or_else(|| args["group"].as_str()).unwrap_or("").to_owned();
        Agent::shared()?
            .call(op, args, ANSWER_WAIT)
            .with_context(|| format!("{op} {what} on cluster {}", self.name()))
    }

    /// Creates a topic and waits until each partition has a leader.
    pub fn create_topic(&self, topic: &Topic) -> Result<Described> {
        let args = json!({
            "topic": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor.unwrap_or_else(|| self.replication_factor()),
            "configs": topic.configs,
            "assignment": topic.assignment,
        });
        self.ask("create_topic", args)
    }

    /// Grows a topic to `total` partitions and waits until each has a leader.
    pub fn add_partitions(&self, topic: &str, total: u32) -> Result<Described> {
        self.ask("add_partitions", json!({ "topic": topic, "total": total }))
    }

    pub fn delete_topic(&self, topic: &str) -> Result<()> {
        self.ask::<Value>("delete_topic", json!({ "topic": topic })).map(drop)
    }

    /// Names of all topics, the internal ones too, sorted.
    pub fn topics(&self) -> Result<Vec<String>> {
        self.ask("list_topics", json!({}))
    }

    /// `None` if there is no such topic.
    pub fn describe_topic(&self, topic: &str) -> Result<Option<Described>> {
        self.ask("describe_topic", json!({ "topic": topic }))
    }

    /// An offset of each partition; empty if there is no such topic.
    pub fn offsets(&self, topic: &str, at: At) -> Result<Vec<i64>> {
        self.ask("list_offsets", json!({ "topic": topic, "at": at }))
    }

    /// Deletes the records of a partition before `offset`.
    pub fn delete_records(&self, topic: &str, partition: u32, offset: i64) -> Result<()> {
        let offsets = json!([{ "topic": topic, "partition": partition, "offset": offset }]);
        self.ask::<Value>("delete_records", json!({ "topic": topic, "offsets": offsets })).map(drop)
    }

    pub fn set_topic_config(&self, topic: &str, key: &str, value: &str) -> Result<()> {
        self.ask::<Value>("alter_topic_configs", json!({ "topic": topic, "set": { key: value } }))
            .map(drop)
    }

    /// Back to the default.
    pub fn unset_topic_config(&self, topic: &str, key: &str) -> Result<()> {
        self.ask::<Value>("alter_topic_configs", json!({ "topic": topic, "unset": [key] }))
            .map(drop)
    }

    pub fn topic_configs(&self, topic: &str) -> Result<BTreeMap<String, TopicConfig>> {
        self.ask("topic_configs", json!({ "topic": topic }))
    }

    /// Configs that are set on the topic itself, by name.
    pub fn own_configs(&self, topic: &str) -> Result<BTreeMap<String, String>> {
        let all = self.topic_configs(topic)?.into_iter();
        let own = all.filter(|(_, config)| config.source == "DYNAMIC_TOPIC_CONFIG");
        Ok(own.map(|(name, config)| (name, config.value.unwrap_or_default())).collect())
    }

    pub fn create_acls(&self, rules: &[Rule]) -> Result<()> {
        self.ask::<Value>("create_acls", json!({ "rules": rules })).map(drop)
    }

    pub fn delete_acls(&self, rules: &[Rule]) -> Result<()> {
        self.ask::<Value>("delete_acls", json!({ "rules": rules })).map(drop)
    }

    /// All access rules, sorted.
    pub fn acls(&self) -> Result<Vec<Rule>> {
        let mut rules: Vec<Rule> = self.ask("acls", json!({}))?;
        rules.sort();
        Ok(rules)
    }

    /// Makes the first replica of each partition its leader.
    pub fn elect_preferred_leaders(&self, topic: &str) -> Result<()> {
        self.ask::<Value>("elect_leaders", json!({ "topic": topic })).map(drop)
    }

    /// Moves a partition to other replicas and waits until it is there.
    pub fn reassign(&self, topic: &str, partition: u32, replicas: &[u32]) -> Result<()> {
        let args = json!({ "topic": topic, "partition": partition, "replicas": replicas });
        self.ask::<Value>("reassign", args).map(drop)
    }

    pub fn groups(&self) -> Result<Vec<Group>> {
        self.ask("list_groups", json!({}))
    }

    /// Commits for a group without members.
    pub fn commit_offsets(&self, group: &str, offsets: &[GroupOffset]) -> Result<()> {
        self.ask::<Value>("commit_offsets", json!({ "group": group, "offsets": offsets })).map(drop)
    }

    pub fn group_offsets(&self, group: &str) -> Result<Vec<GroupOffset>> {
        self.ask("group_offsets", json!({ "group": group }))
    }

    /// Commits the same offsets for `count` groups, `prefix0` and so on.
    pub fn commit_many(&self, prefix: &str, count: u32, offsets: &[GroupOffset]) -> Result<()> {
        let args = json!({
            "bootstrap": self.bootstrap(), "prefix": prefix, "count": count, "offsets": offsets,
        });
        Agent::shared()?.call::<Value>("commit_many", args, READ_WAIT).map(drop)
    }

    /// What `count` groups, `prefix0` and so on, have committed; those without anything are left out.
    pub fn many_offsets(
        &self,
        prefix: &str,
        count: u32,
    ) -> Result<BTreeMap<String, Vec<GroupOffset>>> {
        let args = json!({ "bootstrap": self.bootstrap(), "prefix": prefix, "count": count });
        Agent::shared()?.call("groups_offsets", args, READ_WAIT)
    }

    /// Takes away what a group has committed for these partitions.
    pub fn delete_group_offsets(&self, group: &str, offsets: &[GroupOffset]) -> Result<()> {
        let args = json!({ "group": group, "offsets": offsets });
        self.ask::<Value>("delete_group_offsets", args).map(drop)
    }

    /// Creates `count` topics like `topic`, named `<its name>0` and so on.
    pub fn create_topics(&self, topic: &Topic, count: u32) -> Result<()> {
        let args = json!({
            "bootstrap": self.bootstrap(),
            "prefix": topic.name,
            "count": count,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor.unwrap_or_else(|| self.replication_factor()),
            "configs": topic.configs,
        });
        Agent::shared()?.call::<Value>("create_topics", args, READ_WAIT).map(drop)
    }

    /// Has the cluster forget a node that is stopped; a stopped one alone still gets replicas.
    pub fn unregister(&self, node: usize) -> Result<()> {
        self.ask::<Value>("unregister_broker", json!({ "node": node })).map(drop)
    }

    /// A quota of a client id, bytes per second: `consumer_byte_rate`, `producer_byte_rate`.
    pub fn set_quota(&self, client_id: &str, key: &str, value: f64) -> Result<()> {
        let args = json!({ "client_id": client_id, "key": key, "value": value });
        self.ask::<Value>("set_quota", args).map(drop)
    }

    pub fn delete_group(&self, group: &str) -> Result<()> {
        self.ask::<Value>("delete_group", json!({ "group": group })).map(drop)
    }

    /// Bytes of a topic's segments: batches as they are stored, one replica counted.
    pub fn log_size(&self, topic: &str) -> Result<u64> {
        let answer: Value = self.ask("log_size", json!({ "topic": topic }))?;
        answer["bytes"].as_u64().context("no size in the answer")
    }

    /// Up to `max` records as a committed reader sees them.
    pub fn read(&self, topic: &str, max: u32) -> Result<Vec<Record>> {
        let args = json!({ "bootstrap": self.bootstrap(), "topic": topic, "max": max });
        Agent::shared()?.call("read", args, READ_WAIT)
    }

    /// Reads a topic to its end; how many records a committed reader sees in each partition.
    pub fn drain(&self, topic: &str) -> Result<Vec<u64>> {
        let args = json!({ "bootstrap": self.bootstrap(), "topic": topic });
        Agent::shared()?.call("drain", args, READ_WAIT)
    }

    /// The offset of every record that a committed reader sees, by partition.
    pub fn record_offsets(&self, topic: &str) -> Result<Vec<Vec<i64>>> {
        let args = json!({ "bootstrap": self.bootstrap(), "topic": topic });
        Agent::shared()?.call("record_offsets", args, READ_WAIT)
    }

    /// A member that joins a group, polls a topic and commits nothing, until it is dropped.
    pub fn member(&self, group: &str, topic: &str, protocol: Protocol) -> Result<Member> {
        let protocol = match protocol {
            Protocol::Classic => "classic",
            Protocol::Consumer => "consumer",
        };
        let args = json!({
            "bootstrap": self.bootstrap(),
            "group": group,
            "topic": topic,
            "protocol": protocol,
        });
        Ok(Member { pending: Agent::shared()?.ask("sit", args)? })
    }

    /// What MirrorMaker 2's own client classes say about this cluster and what comes from `upstream`.
    pub fn mirror_client(&self, upstream: &str, groups: &[&str]) -> Result<MirrorView> {
        let args = json!({ "bootstrap": self.bootstrap(), "upstream": upstream, "groups": groups });
        Agent::shared()?.call("mirror_client", args, READ_WAIT)
    }

    /// Watches a topic (which need not exist yet) until its end offsets sum up to `records`.
    pub fn watch(&self, topic: &str, records: u64, within: Duration) -> Result<Watching> {
        let args = json!({
            "bootstrap": self.bootstrap(),
            "topic": topic,
            "records": records,
            "wait_ms": millis(within),
        });
        Ok(Watching { pending: Agent::shared()?.ask("watch", args)?, within })
    }

    /// Waits until a topic's end offsets sum up to `records`; an error if they do not in time.
    pub fn await_end_offsets(&self, topic: &str, records: u64, within: Duration) -> Result<Seen> {
        let seen = self.watch(topic, records, within)?.seen()?;
        if seen.done_at_us == 0 {
            bail!(
                "topic {topic} on cluster {} has {} of {records} records after {within:?}{}{}",
                self.name(),
                seen.end_offsets,
                if seen.topic_at_us == 0 { ": it does not exist" } else { "" },
                if seen.last_trouble.is_empty() {
                    String::new()
                } else {
                    format!("; {}", seen.last_trouble)
                },
            );
        }
        Ok(seen)
    }

    /// Waits until every partition of a topic has all its replicas in sync.
    pub fn await_in_sync(&self, topic: &str, within: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            let described =
                self.describe_topic(topic)?.with_context(|| format!("no topic {topic}"))?;
            let lagging = described.partitions.iter().find(|p| p.isr.len() < p.replicas.len());
            match lagging {
                None => return Ok(()),
                Some(partition) if begun.elapsed() > within => bail!(
                    "partition {} of {topic} on cluster {} is not in sync after {within:?}: replicas {:?}, in sync {:?}",
                    partition.partition,
                    self.name(),
                    partition.replicas,
                    partition.isr
                ),
                Some(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Waits until the leader of a partition is as wanted, as one broker after the other tells it.
    pub fn await_leader(
        &self,
        topic: &str,
        partition: u32,
        within: Duration,
        wanted: impl Fn(i32) -> bool,
    ) -> Result<i32> {
        let begun = Instant::now();
        loop {
            let described = self.describe_topic(topic)?;
            let partitions = described.map(|topic| topic.partitions).unwrap_or_default();
            let found =
                partitions.iter().find(|p| p.partition == partition).map_or(-1, |p| p.leader);
            if found >= 0 && wanted(found) {
                return Ok(found);
            }
            if begun.elapsed() > within {
                bail!(
                    "{topic}-{partition} on cluster {} is led by {found} after {within:?}, not as wanted",
                    self.name()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Reads `topic` live until `records` stamped records have arrived.
    pub fn latency(&self, topic: &str, records: u64, within: Duration) -> Result<LatencyProbe> {
        let args = json!({
            "bootstrap": self.bootstrap(),
            "topic": topic,
            "records": records,
            "wait_ms": millis(within),
        });
        Ok(LatencyProbe { pending: Agent::shared()?.ask("latency", args)?, within })
    }
}

/// A latency measurement that runs in the agent.
#[derive(Debug)]
pub struct LatencyProbe {
    pending: Pending,
    within: Duration,
}

impl LatencyProbe {
    pub fn result(self) -> Result<Latencies> {
        self.pending.answer(self.within + ANSWER_WAIT)
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
