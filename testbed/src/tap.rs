//! `testbed tap`: requests as Heliograph writes them and answers as real brokers give them, byte for byte.
//!
//! One plain node of each version, topics and records made for the purpose, one connection, one request after the
//! other. What is recorded goes to `proto-tests/golden/frames`; nothing in it is secret, and nothing outside of it is
//! touched.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use heliograph::batch::{BatchBuilder, Codec as BatchCodec, OutBatch, restamp};
use heliograph::model::{
    LeaderEpoch, Offset, ProducerIdentity, Sequence, Timestamp, TopicId, TopicName,
};
use heliograph::wire::fetch::{self, FetchWish, PartitionWish, TopicRef, uses_topic_ids};
use heliograph::wire::message::{Call, decode, encode, split_header};
use heliograph::wire::{
    Api, Handshake, HandshakeStep, OutFrame, PartitionBatch, Versions, encode_produce,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    BrokerId, CreateAclsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest,
    DescribeAclsRequest, DescribeConfigsRequest, DescribeProducersRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, InitProducerIdResponse,
    ListOffsetsRequest, MetadataRequest, MetadataResponse, OffsetForLeaderEpochRequest,
    TopicName as WireName, describe_producers_request,
};
use kafka_protocol::protocol::StrBytes;
use serde_json::{Value, json};

use crate::admin::Topic;
use crate::cluster::{Cluster, ClusterSpec};
use crate::fill::{Codec, Fill};
use crate::version::Version;

const CLIENT_ID: &str = "tap";
pub(super) const PLAIN: &str = "tap-plain";
const TRANSACTIONS: &str = "tap-transactions";
const COMPACTED: &str = "tap-compacted";
const GROWN: &str = "tap-grown";
pub(super) const MISSING: &str = "tap-missing";

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Records frames of one node of each version into `out`, which is emptied first.
pub fn run(versions: &[Version], out: &Path) -> Result<()> {
    match fs::remove_dir_all(out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", out.display()));
        }
        _ => fs::create_dir_all(out)?,
    }
    let mut exchanges = Vec::new();
    for version in versions {
        println!("tapping a node of Apache Kafka {version}");
        let cluster = ClusterSpec::new(*version).named("tap").with_authorizer().start()?;
        prepare(&cluster)?;
        let mut tap = Tap::connect(&cluster, out)?;
        tap.record_all()?;
        println!("{} exchanges", tap.recorded.len());
        exchanges.append(&mut tap.recorded);
    }
    let manifest = json!({
        "what": "requests as Heliograph writes them, and the answers of real brokers",
        "how": "cargo testbed tap",
        "brokers": versions.iter().map(|v| format!("Apache Kafka {v}, one node, test bed settings")).collect::<Vec<_>>(),
        "exchanges": exchanges,
    });
    fs::write(out.join("manifest.json"), serde_json::to_string_pretty(&manifest)? + "\n")?;
    Ok(())
}

fn prepare(cluster: &Cluster) -> Result<()> {
    cluster.create_topic(&Topic::new(PLAIN).partitions(2).config("retention.ms", "-1"))?;
    cluster.create_topic(&Topic::new(TRANSACTIONS))?;
    cluster.create_topic(&Topic::new(COMPACTED).config("cleanup.policy", "compact"))?;
    cluster.create_topic(&Topic::new(GROWN))?;
    cluster
        .fill(&Fill::new(PLAIN, 24).size(8, 40).codec(Codec::Lz4).headers(0.5).batches(256, 1))?;
    cluster.fill(&Fill::new(TRANSACTIONS, 12).size(8, 16).transactions(3, 2))?;
    Ok(())
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn name(topic: &str) -> WireName {
    WireName(text(topic))
}

fn to<'b>(topic: &'b TopicName, partition: i32, batch: &'b OutBatch) -> PartitionBatch<'b> {
    PartitionBatch { topic, partition, head: &batch.header, body: batch.body.clone() }
}

/// One connection, and what it has recorded.
pub(super) struct Tap<'a> {
    out: &'a Path,
    version: Version,
    stream: TcpStream,
    correlation: i32,
    versions: Versions,
    recorded: Vec<Value>,
    ids: Vec<(String, TopicId)>,
    identity: ProducerIdentity,
    sequence: Sequence,
}

impl<'a> Tap<'a> {
    fn connect(cluster: &Cluster, out: &'a Path) -> Result<Self> {
        let stream = TcpStream::connect(cluster.bootstrap())?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        let mut tap = Self {
            out,
            version: cluster.version(),
            stream,
            correlation: 0,
            versions: Versions::default(),
            recorded: Vec::new(),
            ids: Vec::new(),
            identity: ProducerIdentity { id: 0, epoch: 0 },
            sequence: Sequence::ZERO,
        };
        tap.versions = tap.handshake()?;
        tap.ids = tap.topic_ids()?;
        tap.identity = tap.producer()?;
        Ok(tap)
    }

    /// Sends a request and reads its answer, both with their length in front.
    fn ask(&mut self, mut frame: OutFrame) -> Result<(Vec<u8>, Vec<u8>)> {
        self.correlation += 1;
        frame.set_correlation(self.correlation);
        let request = frame.to_vec();
        self.stream.write_all(&request)?;
        let mut answer = vec![0; 4];
        self.stream
            .read_exact(&mut answer)
            .with_context(|| format!("no answer to {} v{}", frame.api, frame.version))?;
        let length = i32::from_be_bytes([answer[0], answer[1], answer[2], answer[3]]);
        answer.resize(4 + usize::try_from(length)?, 0);
        self.stream.read_exact(&mut answer[4..])?;
        Ok((request, answer))
    }

    fn handshake(&mut self) -> Result<Versions> {
        let (mut handshake, mut frame) = Handshake::new(CLIENT_ID);
        loop {
            let (_, answer) = self.ask(frame)?;
            match handshake.on_answer(&answer[8..])? {
                HandshakeStep::Send(next) => frame = next,
                HandshakeStep::Ready(versions) => return Ok(versions),
            }
        }
    }

    pub(super) fn call<C: Call>(&mut self, request: &C) -> Result<C::Answer> {
        let version = self.versions.choose(C::API)?;
        let frame = encode(version, CLIENT_ID, request).map_err(anyhow::Error::msg)?;
        let (_, answer) = self.ask(frame)?;
        let body = split_header(C::API, version, &Bytes::from(answer).slice(4..))?;
        Ok(decode(C::API, version, &body)?)
    }

    fn topic_ids(&mut self) -> Result<Vec<(String, TopicId)>> {
        let request = MetadataRequest::default().with_topics(None);
        let answer: MetadataResponse = self.call(&request)?;
        let named = answer.topics.iter().filter_map(|topic| {
            let name = topic.name.as_ref()?.as_str().to_owned();
            Some((name, TopicId(*topic.topic_id.as_bytes())))
        });
        Ok(named.collect())
    }

    fn producer(&mut self) -> Result<ProducerIdentity> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000);
        let answer: InitProducerIdResponse = self.call(&request)?;
        ensure!(answer.error_code == 0, "InitProducerId: error {}", answer.error_code);
        Ok(ProducerIdentity { id: answer.producer_id.0, epoch: answer.producer_epoch })
    }

    /// Every version of an API on the newest broker; the lowest and the highest on others.
    pub(super) fn versions_of(&self, api: Api) -> Result<BTreeSet<i16>> {
        let (lowest, highest) = (api.range().0, self.versions.choose(api)?);
        let all = (lowest..=highest).filter(|v| self.versions.choose_at_most(api, *v) == Ok(*v));
        let all: BTreeSet<i16> = all.collect();
        if self.version == Version::CLIENTS {
            return Ok(all);
        }
        Ok(all.first().into_iter().chain(all.last()).copied().collect())
    }

    fn record(&mut self, case: &str, frame: OutFrame) -> Result<Vec<u8>> {
        let (api, version) = (frame.api, frame.version);
        let (request, answer) = self.ask(frame)?;
        let folder = api.name().to_lowercase();
        let file = format!("{folder}/v{version}/kafka-{}-{case}", self.version);
        fs::create_dir_all(self.out.join(&folder).join(format!("v{version}")))?;
        fs::write(self.out.join(format!("{file}.req")), &request)?;
        fs::write(self.out.join(format!("{file}.res")), &answer)?;
        self.recorded.push(json!({
            "file": file,
            "api": api.name(),
            "version": version,
            "broker": self.version.as_str(),
            "case": case,
            "request_bytes": request.len(),
            "answer_bytes": answer.len(),
        }));
        Ok(answer)
    }

    pub(super) fn record_call<C: Call>(
        &mut self,
        case: &str,
        version: i16,
        request: &C,
    ) -> Result<()> {
        let frame = encode(version, CLIENT_ID, request).map_err(anyhow::Error::msg)?;
        self.record(case, frame).map(drop)
    }

    fn record_all(&mut self) -> Result<()> {
        for version in self.versions_of(Api::Fetch)? {
            self.fetches(version)?;
        }
        for version in self.versions_of(Api::Produce)? {
            self.produces(version)?;
        }
        for version in self.versions_of(Api::Metadata)? {
            self.metadata(version)?;
        }
        for version in self.versions_of(Api::ListOffsets)? {
            self.offsets(version)?;
        }
        for version in self.versions_of(Api::CreateTopics)? {
            self.topics(version)?;
        }
        for version in self.versions_of(Api::CreatePartitions)? {
            self.partitions(version)?;
        }
        for version in self.versions_of(Api::DescribeConfigs)? {
            self.configs(version)?;
        }
        for version in self.versions_of(Api::InitProducerId)? {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(60_000);
            self.record_call("given", version, &request)?;
        }
        for version in self.versions_of(Api::OffsetForLeaderEpoch)? {
            self.epochs(version)?;
        }
        for version in self.versions_of(Api::DescribeProducers)? {
            self.producers(version)?;
        }
        for version in self.versions_of(Api::IncrementalAlterConfigs)? {
            self.config_changes(version)?;
        }
        for version in self.versions_of(Api::CreateAcls)? {
            self.new_acls(version)?;
        }
        for version in self.versions_of(Api::DescribeAcls)? {
            self.acls(version)?;
        }
        for version in self.versions_of(Api::DeleteAcls)? {
            self.acls_away(version)?;
        }
        self.record_groups()
    }

    fn topic(&self, version: i16, topic: &str) -> Result<TopicRef> {
        if !uses_topic_ids(version) {
            return Ok(TopicRef::Name(TopicName::new(topic)));
        }
        match self.ids.iter().find(|(name, _)| name == topic) {
            Some((_, id)) => Ok(TopicRef::Id(*id)),
            None if topic == MISSING => Ok(TopicRef::Id(TopicId([7; 16]))),
            None => bail!("topic {topic} has no id"),
        }
    }

    fn fetches(&mut self, version: i16) -> Result<()> {
        let wish = |partition, position, bytes_max| PartitionWish {
            partition,
            position: Offset(position),
            leader_epoch: LeaderEpoch(0),
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            bytes_max,
        };
        let of = |topics: Vec<(TopicRef, Vec<PartitionWish>)>| FetchWish {
            wait_ms_max: 200,
            bytes_min: 1,
            bytes_max: 1 << 20,
            read_committed: false,
            session_id: 0,
            session_epoch: -1,
            topics,
            forgotten: Vec::new(),
        };
        let plain = self.topic(version, PLAIN)?;
        let transactions = self.topic(version, TRANSACTIONS)?;
        let missing = self.topic(version, MISSING)?;
        let mut record = |case: &str, wish: &FetchWish| {
            let frame = fetch::encode(version, CLIENT_ID, wish);
            self.record(case, frame)
        };

        let both = vec![wish(0, 0, 1 << 20), wish(1, 0, 1 << 20)];
        record("plain", &of(vec![(plain.clone(), both.clone())]))?;
        // Smaller than two batches: the second is cut off.
        record("cut", &of(vec![(plain.clone(), vec![wish(0, 0, 300)])]))?;
        let aborted = of(vec![(transactions, vec![wish(0, 0, 1 << 20)])]);
        record("committed", &FetchWish { read_committed: true, ..aborted })?;
        let refused = vec![wish(0, 1_000_000, 1000), wish(9, 0, 1000)];
        record("refused", &of(vec![(plain.clone(), refused), (missing, vec![wish(0, 0, 1000)])]))?;

        // A session: everything, then nothing new, then an end with a partition forgotten.
        let first = FetchWish { session_epoch: 0, ..of(vec![(plain.clone(), both)]) };
        let answer = record("session-first", &first)?;
        let body = split_header(Api::Fetch, version, &Bytes::from(answer).slice(4..))?;
        let session_id = fetch::decode(version, &body)?.session_id;
        let end = vec![(plain.clone(), vec![wish(0, 12, 1000)])];
        record("session-next", &FetchWish { session_id, session_epoch: 1, ..of(end) })?;
        let left = FetchWish { session_id, session_epoch: 2, ..of(Vec::new()) };
        record("session-left", &FetchWish { forgotten: vec![(plain, vec![1])], ..left })?;
        Ok(())
    }

    /// One record without a key.
    fn batch(&mut self) -> Result<OutBatch> {
        let mut builder = BatchBuilder::new(BatchCodec::None);
        builder.push(Timestamp(1_700_000_000_000), None, Some(b"from the tap"));
        let batch = builder.finish(Offset(0))?;
        Ok(restamp(&batch, self.identity, self.sequence))
    }

    fn produces(&mut self, version: i16) -> Result<()> {
        let (plain, compacted) = (TopicName::new(PLAIN), TopicName::new(COMPACTED));
        let missing = TopicName::new(MISSING);
        let good = self.batch()?;
        let mut damaged = self.batch()?;
        damaged.header[17] ^= 1;
        let stored = [to(&plain, 0, &good)];
        self.record("stored", encode_produce(version, CLIENT_ID, 10_000, &stored))?;
        // A wrong checksum, a partition that is not there, a record that must have a key.
        let refused = [
            to(&plain, 1, &damaged),
            to(&plain, 9, &good),
            to(&compacted, 0, &good),
            to(&missing, 0, &good),
        ];
        self.record("refused", encode_produce(version, CLIENT_ID, 10_000, &refused))?;
        // The same once more: answered as stored, with the offset it had.
        self.record("again", encode_produce(version, CLIENT_ID, 10_000, &stored))?;
        self.sequence = self.sequence.advance(1);
        Ok(())
    }

    fn metadata(&mut self, version: i16) -> Result<()> {
        let named = [PLAIN, MISSING, "not a name"]
            .map(|topic| MetadataRequestTopic::default().with_name(Some(name(topic))));
        let request = MetadataRequest::default().with_allow_auto_topic_creation(false);
        self.record_call("named", version, &request.clone().with_topics(Some(named.into())))?;
        self.record_call("all", version, &request.with_topics(None))
    }

    fn offsets(&mut self, version: i16) -> Result<()> {
        for (case, timestamp) in [("earliest", -2), ("latest", -1), ("at-time", 1_000)] {
            let one = |index| {
                ListOffsetsPartition::default()
                    .with_partition_index(index)
                    .with_current_leader_epoch(-1)
                    .with_timestamp(timestamp)
            };
            let topic = ListOffsetsTopic::default().with_name(name(PLAIN)).with_partitions(vec![
                one(0),
                one(1),
                one(9),
            ]);
            let request = ListOffsetsRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_topics(vec![topic]);
            self.record_call(case, version, &request)?;
        }
        Ok(())
    }

    fn topics(&mut self, version: i16) -> Result<()> {
        let topic = |topic: &str, replicas| {
            let config = CreatableTopicConfig::default()
                .with_name(text("cleanup.policy"))
                .with_value(Some(text("compact")));
            CreatableTopic::default()
                .with_name(name(topic))
                .with_num_partitions(2)
                .with_replication_factor(replicas)
                .with_configs(vec![config])
        };
        let created = vec![topic(&format!("tap-created-{version}"), 1)];
        let refused = vec![topic(PLAIN, 1), topic("tap-wide", 9), topic("not a name", 1)];
        let request = CreateTopicsRequest::default().with_timeout_ms(10_000);
        self.record_call("created", version, &request.clone().with_topics(created))?;
        self.record_call("refused", version, &request.with_topics(refused))
    }

    fn partitions(&mut self, version: i16) -> Result<()> {
        let topic = |topic: &str, count| {
            CreatePartitionsTopic::default()
                .with_name(name(topic))
                .with_count(count)
                .with_assignments(None)
        };
        let request = CreatePartitionsRequest::default().with_timeout_ms(10_000);
        let grown = vec![topic(GROWN, i32::from(version) + 1)];
        let refused = vec![topic(PLAIN, 1), topic(MISSING, 4)];
        self.record_call("grown", version, &request.clone().with_topics(grown))?;
        self.record_call("refused", version, &request.with_topics(refused))
    }

    fn configs(&mut self, version: i16) -> Result<()> {
        let topic = |topic: &str| {
            DescribeConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text(topic))
                .with_configuration_keys(None)
        };
        let keys = vec![text("cleanup.policy"), text("max.message.bytes")];
        let some = topic(COMPACTED).with_configuration_keys(Some(keys));
        let request = DescribeConfigsRequest::default();
        let all = request.clone().with_resources(vec![topic(COMPACTED), topic(MISSING)]);
        self.record_call("topic", version, &all)?;
        self.record_call(
            "synonyms",
            version,
            &request.with_resources(vec![some]).with_include_synonyms(true),
        )
    }

    fn config_changes(&mut self, version: i16) -> Result<()> {
        let change = |name: &str, value: Option<&str>| {
            AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(i8::from(value.is_none()))
                .with_value(value.map(text))
        };
        let topic = |topic: &str, changes| {
            AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text(topic))
                .with_configs(changes)
        };
        let changed = topic(
            GROWN,
            vec![change("retention.ms", Some("86400000")), change("flush.messages", None)],
        );
        let refused = vec![
            topic(GROWN, vec![change("no.such.config", Some("1"))]),
            topic(PLAIN, vec![change("retention.ms", Some("soon"))]),
            topic(MISSING, vec![change("retention.ms", Some("1"))]),
        ];
        let request = IncrementalAlterConfigsRequest::default();
        self.record_call("changed", version, &request.clone().with_resources(vec![changed]))?;
        self.record_call("refused", version, &request.with_resources(refused))
    }

    fn new_acls(&mut self, version: i16) -> Result<()> {
        let acl = |name: &str, operation, permission| {
            AclCreation::default()
                .with_resource_type(2)
                .with_resource_name(text(name))
                .with_resource_pattern_type(3)
                .with_principal(text("User:tap"))
                .with_host(text("*"))
                .with_operation(operation)
                .with_permission_type(permission)
        };
        let request = CreateAclsRequest::default();
        // READ allowed, ALL forbidden, and the rule for every topic.
        let added = vec![acl(PLAIN, 3, 3), acl(COMPACTED, 2, 2), acl("*", 8, 3)];
        self.record_call("added", version, &request.clone().with_creations(added))?;
        // One that needs a cluster for its resource.
        let wrong = acl("not-the-cluster", 3, 3).with_resource_type(4);
        self.record_call("refused", version, &request.with_creations(vec![wrong]))
    }

    fn acls(&mut self, version: i16) -> Result<()> {
        let request = DescribeAclsRequest::default()
            .with_resource_type_filter(2)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(3)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(1)
            .with_permission_type(1);
        self.record_call("topics", version, &request)?;
        let nobody = request.with_principal_filter(Some(text("User:nobody")));
        self.record_call("none", version, &nobody)?;
        // Rules on prefixes beside those on names, and rules on groups.
        let pattern = |kind, pattern| {
            AclCreation::default()
                .with_resource_type(kind)
                .with_resource_name(text("tap-"))
                .with_resource_pattern_type(pattern)
                .with_principal(text("User:tap"))
                .with_host(text("*"))
                .with_operation(3)
                .with_permission_type(3)
        };
        let creations = vec![pattern(2, 4), pattern(3, 3), pattern(3, 4)];
        self.record_call(
            "patterns",
            version,
            &CreateAclsRequest::default().with_creations(creations),
        )?;
        let every = DescribeAclsRequest::default()
            .with_resource_name_filter(None)
            .with_pattern_type_filter(1)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(1)
            .with_permission_type(1);
        self.record_call("topic-patterns", version, &every.clone().with_resource_type_filter(2))?;
        self.record_call("group-patterns", version, &every.with_resource_type_filter(3))
    }

    fn acls_away(&mut self, version: i16) -> Result<()> {
        let filter = |pattern, name: &str| {
            DeleteAclsFilter::default()
                .with_resource_type_filter(2)
                .with_resource_name_filter(Some(text(name)))
                .with_pattern_type_filter(pattern)
                .with_principal_filter(Some(text("User:tap")))
                .with_host_filter(Some(text("*")))
                .with_operation(3)
                .with_permission_type(3)
        };
        // Made again for each version: one by its name, one by its prefix, one that is not there.
        let acl = |pattern, name: &str| {
            AclCreation::default()
                .with_resource_type(2)
                .with_resource_name(text(name))
                .with_resource_pattern_type(pattern)
                .with_principal(text("User:tap"))
                .with_host(text("*"))
                .with_operation(3)
                .with_permission_type(3)
        };
        let there = vec![acl(3, PLAIN), acl(4, "tap-")];
        self.call(&CreateAclsRequest::default().with_creations(there))?;
        let filters = vec![filter(3, PLAIN), filter(4, "tap-"), filter(3, MISSING)];
        let request = DeleteAclsRequest::default();
        self.record_call("removed", version, &request.clone().with_filters(filters))?;
        let nothing = vec![filter(4, MISSING)];
        self.record_call("nothing", version, &request.with_filters(nothing))
    }

    fn producers(&mut self, version: i16) -> Result<()> {
        let topic = |topic: &str| {
            describe_producers_request::TopicRequest::default()
                .with_name(name(topic))
                .with_partition_indexes(vec![0, 9])
        };
        let request = DescribeProducersRequest::default()
            .with_topics(vec![topic(TRANSACTIONS), topic(MISSING)]);
        self.record_call("active", version, &request)
    }

    fn epochs(&mut self, version: i16) -> Result<()> {
        let one = |partition, epoch| {
            OffsetForLeaderPartition::default()
                .with_partition(partition)
                .with_current_leader_epoch(-1)
                .with_leader_epoch(epoch)
        };
        let topic = OffsetForLeaderTopic::default().with_topic(name(PLAIN)).with_partitions(vec![
            one(0, 0),
            one(1, 5),
            one(9, 0),
        ]);
        let request = OffsetForLeaderEpochRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        self.record_call("ends", version, &request)
    }
}
