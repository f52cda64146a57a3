//! The control plane's answers, and which function answers what.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, BrokerId, CreatePartitionsRequest, CreatePartitionsResponse,
    CreateTopicsRequest, CreateTopicsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse,
    MetadataRequest, MetadataResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    ProduceRequest, ProducerId, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use uuid::Uuid;

use super::produce::produce;
use super::state::{BATCH_BYTES_MAX, State, Topic};

/// Who asks, in which version, and what is to become of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) node: i32,
    pub(super) version: i16,
    /// The code to answer, whatever happened.
    pub(super) refuse: Option<i16>,
    /// Whether the request is worked on at all.
    pub(super) applies: bool,
    pub(super) throttle_ms: i32,
}

/// The numbers of the APIs that are answered.
pub mod api {
    pub const PRODUCE: i16 = 0;
    pub const FETCH: i16 = 1;
    pub const LIST_OFFSETS: i16 = 2;
    pub const METADATA: i16 = 3;
    pub const API_VERSIONS: i16 = 18;
    pub const CREATE_TOPICS: i16 = 19;
    pub const INIT_PRODUCER_ID: i16 = 22;
    pub const OFFSET_FOR_LEADER_EPOCH: i16 = 23;
    pub const DESCRIBE_CONFIGS: i16 = 32;
    pub const CREATE_PARTITIONS: i16 = 37;
}

/// Reads a request's body.
///
/// # Errors
///
/// The codec's words.
pub(super) fn decode<T: Decodable>(body: &Bytes, version: i16) -> Result<T, String> {
    let mut rest = body.clone();
    let message = T::decode(&mut rest, version).map_err(|error| format!("{error:#}"))?;
    if rest.is_empty() { Ok(message) } else { Err(format!("{} bytes are left", rest.len())) }
}

/// Writes an answer's body.
///
/// # Panics
///
/// If a field is set that the version does not have: a mistake of this broker's.
pub(super) fn encode(answer: &impl Encodable, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    answer.encode(&mut out, version).unwrap_or_else(|error| panic!("version {version}: {error:#}"));
    out.freeze()
}

/// Answers every request but Fetch. `None`: no answer is wanted.
///
/// # Errors
///
/// In words: such a request closes the connection.
pub(super) fn answer(
    state: &mut State,
    key: i16,
    asked: &Asked,
    body: &Bytes,
) -> Result<Option<Bytes>, String> {
    let version = asked.version;
    Ok(Some(match key {
        api::PRODUCE => {
            let request: ProduceRequest = decode(body, version)?;
            return Ok(produce(state, asked, &request).map(|answer| encode(&answer, version)));
        }
        api::LIST_OFFSETS => encode(&list_offsets(state, asked, &decode(body, version)?), version),
        api::METADATA => encode(&metadata(state, asked, &decode(body, version)?), version),
        api::CREATE_TOPICS => {
            encode(&create_topics(state, asked, &decode(body, version)?), version)
        }
        api::CREATE_PARTITIONS => {
            encode(&create_partitions(state, asked, &decode(body, version)?), version)
        }
        api::INIT_PRODUCER_ID => {
            encode(&init_producer_id(state, asked, &decode(body, version)?), version)
        }
        api::OFFSET_FOR_LEADER_EPOCH => {
            encode(&epoch_ends(state, asked, &decode(body, version)?), version)
        }
        api::DESCRIBE_CONFIGS => {
            encode(&describe_configs(state, asked, &decode(body, version)?), version)
        }
        other => return Err(format!("API {other} is not known")),
    }))
}

/// The versions on offer. A version of the question that is not on offer is answered in version
/// 0 with code 35 (KIP-511).
pub(super) fn api_versions(state: &State, asked: &Asked) -> Bytes {
    let known = state.release.offers(api::API_VERSIONS, asked.version);
    let code = asked.refuse.unwrap_or(if known { 0 } else { 35 });
    let one = |(key, min, max): (i16, i16, i16)| {
        ApiVersion::default().with_api_key(key).with_min_version(min).with_max_version(max)
    };
    let keys = state.release.versions().map(one);
    let keys = keys.filter(|one| known || one.api_key == api::API_VERSIONS).collect();
    let answer = ApiVersionsResponse::default().with_error_code(code).with_api_keys(keys);
    encode(&answer, if known { asked.version } else { 0 })
}

fn metadata(state: &State, asked: &Asked, request: &MetadataRequest) -> MetadataResponse {
    let up = state.nodes.iter().filter(|(_, node)| node.up);
    let broker = |(id, node): (&i32, &super::state::Node)| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(*id))
            .with_host(StrBytes::from_string(state.name.clone()))
            .with_port(i32::from(node.port))
    };
    let controller = up.clone().map(|(id, _)| *id).next().unwrap_or(-1);
    let all = || state.topics.iter().map(|(name, topic)| topic_metadata(asked, name, Some(topic)));
    let topics = match &request.topics {
        None => all().collect(),
        Some(wanted) => wanted
            .iter()
            .filter_map(|wanted| wanted.name.as_ref())
            .map(|name| topic_metadata(asked, &name.0, state.topics.get(name.0.as_str())))
            .collect(),
    };
    MetadataResponse::default()
        .with_brokers(up.map(broker).collect())
        .with_cluster_id(Some(StrBytes::from_string(format!("id-of-{}", state.name))))
        .with_controller_id(BrokerId(controller))
        .with_topics(topics)
}

fn topic_metadata(asked: &Asked, name: &str, topic: Option<&Topic>) -> MetadataResponseTopic {
    let answer = MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))));
    let Some(topic) = topic else { return answer.with_error_code(3) };
    if let Some(code) = asked.refuse {
        return answer.with_error_code(code);
    }
    let answer =
        if asked.version >= 10 { answer.with_topic_id(Uuid::from_bytes(topic.id)) } else { answer };
    let partition = |(index, one): (usize, &super::state::Partition)| {
        MetadataResponsePartition::default()
            .with_partition_index(i32::try_from(index).expect("few"))
            .with_error_code(if one.leader < 0 { 5 } else { 0 })
            .with_leader_id(BrokerId(one.leader))
            .with_leader_epoch(one.epoch)
            .with_replica_nodes(vec![BrokerId(one.leader.max(1))])
            .with_isr_nodes(vec![BrokerId(one.leader.max(1))])
    };
    answer.with_partitions(topic.partitions.iter().enumerate().map(partition).collect())
}

fn list_offsets(state: &State, asked: &Asked, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let topic = |topic: &kafka_protocol::messages::list_offsets_request::ListOffsetsTopic| {
        let partition =
            |one: &kafka_protocol::messages::list_offsets_request::ListOffsetsPartition| {
                let answer = ListOffsetsPartitionResponse::default()
                    .with_partition_index(one.partition_index)
                    .with_timestamp(-1)
                    .with_offset(-1)
                    .with_leader_epoch(-1);
                let found = state.led_by(asked.node, &topic.name.0, one.partition_index);
                let found = found.and_then(|found| {
                    State::epoch_code(found, one.current_leader_epoch)?;
                    asked.refuse.map_or(Ok(found), Err)
                });
                let log = match found {
                    Ok(found) => &found.log,
                    Err(code) => return answer.with_error_code(code),
                };
                let offset = match one.timestamp {
                    -1 if request.isolation_level == 1 => log.stable(),
                    -1 => log.end(),
                    -2 => log.start(),
                    time => log
                        .records()
                        .iter()
                        .find(|record| record.time >= time)
                        .map_or(-1, |record| record.offset),
                };
                answer.with_offset(offset).with_leader_epoch(log.epoch_at(offset))
            };
        ListOffsetsTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(topic.partitions.iter().map(partition).collect())
    };
    ListOffsetsResponse::default()
        .with_throttle_time_ms(asked.throttle_ms)
        .with_topics(request.topics.iter().map(topic).collect())
}

fn create_topics(
    state: &mut State,
    asked: &Asked,
    request: &CreateTopicsRequest,
) -> CreateTopicsResponse {
    let mut results = Vec::new();
    for topic in &request.topics {
        let name = topic.name.0.to_string();
        let mut result = CreatableTopicResult::default().with_name(topic.name.clone());
        let code = match asked.refuse {
            Some(code) => code,
            None if state.topics.contains_key(&name) => 36,
            None => 0,
        };
        if asked.applies && !state.topics.contains_key(&name) {
            let partitions = usize::try_from(topic.num_partitions).unwrap_or(1).max(1);
            let configs: BTreeMap<String, String> = topic
                .configs
                .iter()
                .map(|config| {
                    let value = config.value.as_ref().map(ToString::to_string);
                    (config.name.to_string(), value.unwrap_or_default())
                })
                .collect();
            let configs: Vec<(&str, &str)> =
                configs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            state.make_topic(&name, partitions, &configs);
            if code == 0 && asked.version >= 7 {
                result = result.with_topic_id(Uuid::from_bytes(state.topics[&name].id));
            }
        }
        results.push(result.with_error_code(code));
    }
    CreateTopicsResponse::default().with_topics(results)
}

fn create_partitions(
    state: &mut State,
    asked: &Asked,
    request: &CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let mut results = Vec::new();
    for topic in &request.topics {
        let name = topic.name.0.to_string();
        let count = usize::try_from(topic.count).unwrap_or(0);
        let code = match (asked.refuse, state.topics.get(&name)) {
            (Some(code), _) => code,
            (None, None) => 3,
            (None, Some(found)) if found.partitions.len() >= count => 37,
            (None, Some(_)) => 0,
        };
        if asked.applies {
            state.grow_topic(&name, count);
        }
        results.push(
            CreatePartitionsTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_code(code),
        );
    }
    CreatePartitionsResponse::default().with_results(results)
}

fn init_producer_id(
    state: &mut State,
    asked: &Asked,
    request: &InitProducerIdRequest,
) -> InitProducerIdResponse {
    let answer = InitProducerIdResponse::default().with_throttle_time_ms(asked.throttle_ms);
    // Transactional ids have no coordinator here.
    let code = asked.refuse.or_else(|| request.transactional_id.as_ref().map(|_| 15));
    if let Some(code) = code {
        return answer
            .with_error_code(code)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
    }
    state.next_producer += 1;
    answer.with_producer_id(ProducerId(state.next_producer)).with_producer_epoch(0)
}

fn epoch_ends(
    state: &State,
    asked: &Asked,
    request: &OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let mut topics = Vec::new();
    for topic in &request.topics {
        let mut partitions = Vec::new();
        for one in &topic.partitions {
            let answer = EpochEndOffset::default().with_partition(one.partition);
            let found = state.led_by(asked.node, &topic.topic.0, one.partition);
            let found = found.and_then(|found| {
                State::epoch_code(found, one.current_leader_epoch)?;
                asked.refuse.map_or(Ok(found), Err)
            });
            partitions.push(match found {
                Ok(found) => {
                    let (epoch, end) = found.log.epoch_end(one.leader_epoch);
                    answer.with_leader_epoch(epoch).with_end_offset(end)
                }
                Err(code) => answer.with_error_code(code).with_leader_epoch(-1).with_end_offset(-1),
            });
        }
        topics.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic.clone())
                .with_partitions(partitions),
        );
    }
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}

fn describe_configs(
    state: &State,
    asked: &Asked,
    request: &DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let mut results = Vec::new();
    for resource in &request.resources {
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        let found = state.topics.get(resource.resource_name.as_str());
        let topic = match (asked.refuse, found) {
            (Some(code), _) => {
                results.push(result.with_error_code(code));
                continue;
            }
            (None, None) => {
                results.push(result.with_error_code(3));
                continue;
            }
            (None, Some(topic)) => topic,
        };
        let limit = BATCH_BYTES_MAX.to_string();
        let defaults = [
            ("cleanup.policy", "delete"),
            ("max.message.bytes", limit.as_str()),
            ("message.timestamp.type", "CreateTime"),
            ("min.insync.replicas", "1"),
            ("retention.ms", "604800000"),
        ];
        let mut configs: BTreeMap<&str, (&str, i8)> =
            defaults.into_iter().map(|(name, value)| (name, (value, 5))).collect();
        for (name, value) in &topic.configs {
            configs.insert(name, (value, 1));
        }
        let entry = |(name, (value, source)): (&str, (&str, i8))| {
            DescribeConfigsResourceResult::default()
                .with_name(StrBytes::from_string(name.to_owned()))
                .with_value(Some(StrBytes::from_string(value.to_owned())))
                .with_config_source(source)
        };
        results.push(result.with_configs(configs.into_iter().map(entry).collect()));
    }
    DescribeConfigsResponse::default().with_results(results)
}
