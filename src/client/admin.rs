//! The admin calls we need, with partial results.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DescribeConfigsRequest,
    DescribeProducersRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
    ListOffsetsRequest, ListOffsetsResponse, TopicName as WireName, describe_producers_request,
};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Cluster, RequestCause, RequestError, Route};
use crate::model::{
    ConfigChange, ConfigEntry, ConfigSource, LeaderEpoch, NodeId, Offset, ProducerIdentity,
    Timestamp, TopicName, TopicPartition,
};
use crate::wire::{Api, ErrorCode};

/// `ListOffsets` timestamp for the end of the log.
pub const LATEST: i64 = -1;
/// `ListOffsets` timestamp for the first offset that the log still has.
pub const EARLIEST: i64 = -2;

/// How long one node may take to list offsets. One dead node must not hold up the partitions of
/// the others for a whole request timeout.
const NODE_PATIENCE: Duration = Duration::from_secs(5);

/// Resource type of a topic in config requests.
const TOPIC_RESOURCE: i8 = 2;

/// Operations of `IncrementalAlterConfigs` (`AlterConfigOp.OpType`).
const SET: i8 = 0;
const DELETE: i8 = 1;

/// A broker's refusal of one topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}", message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct TopicError {
    /// The code.
    pub code: ErrorCode,
    /// The broker's own words.
    pub message: Option<String>,
}

/// A broker's refusal of one partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{partition}: {code}")]
pub struct PartitionError {
    /// Which partition.
    pub partition: TopicPartition,
    /// The code.
    pub code: ErrorCode,
}

/// A topic to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopic {
    /// Its name.
    pub name: TopicName,
    /// How many partitions.
    pub partitions: i32,
    /// How many replicas of each; -1 for the broker's default.
    pub replication_factor: i16,
    /// Its configs; what is not named keeps the broker's default.
    pub configs: BTreeMap<String, String>,
}

/// An answer of `ListOffsets` for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 when nothing matches a timestamp.
    pub offset: Offset,
    /// The leader epoch at that offset, if told.
    pub epoch: LeaderEpoch,
}

/// A transaction that is neither committed nor aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Its producer.
    pub id: i64,
    /// The producer's epoch.
    pub epoch: i32,
    /// Offset of its first record in the partition.
    pub first: Offset,
    /// Wall time of its producer's last record.
    pub idle_since: Timestamp,
}

impl fmt::Display for OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, epoch, first, idle_since } = self;
        write!(f, "producer {id} epoch {epoch} from offset {first}, last record at {idle_since} ms")
    }
}

/// First and end offset of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOffsets {
    /// First offset that the log still has.
    pub start: Offset,
    /// Offset after the last record that is replicated.
    pub end: Offset,
}

fn wire_name(name: &TopicName) -> WireName {
    WireName(StrBytes::from_string(name.as_str().to_owned()))
}

impl Cluster {
    /// A producer id without a transactional id: new at every call, epoch 0.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; a missing right is [`RequestCause::Refused`].
    pub async fn init_producer_id(&self) -> Result<ProducerIdentity, RequestError> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(i32::MAX);
        let mut backoff = super::retry::Backoff::new(1);
        loop {
            let answer = self.request(Route::Any, &request).await?;
            let code = ErrorCode(answer.error_code);
            if !code.is_error() {
                return Ok(ProducerIdentity {
                    id: answer.producer_id.0,
                    epoch: answer.producer_epoch,
                });
            }
            // A cluster that has just started knows no coordinator for a moment.
            let passing = matches!(code.0, 14..=16 | 7 | 51 | -1);
            if !passing || backoff.failures() > 20 {
                return Err(self.refused(Api::InitProducerId, backoff.failures() + 1, code));
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    }

    pub(super) fn refused(&self, api: Api, attempts: u32, code: ErrorCode) -> RequestError {
        RequestError {
            cluster: self.alias().clone(),
            place: "(any broker)".into(),
            api,
            attempts,
            cause: RequestCause::Refused(code),
        }
    }

    /// Makes topics. One that exists already counts as an error of its own, with code 36.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the request as a whole got no answer.
    pub async fn create_topics(
        &self,
        topics: &[CreateTopic],
    ) -> Result<BTreeMap<TopicName, Result<(), TopicError>>, RequestError> {
        self.ask_for_topics(topics, false).await
    }

    /// What would become of [`Cluster::create_topics`]: rights, names and configs are checked, and
    /// nothing is made.
    ///
    /// # Errors
    ///
    /// As [`Cluster::create_topics`].
    pub async fn could_create_topics(
        &self,
        topics: &[CreateTopic],
    ) -> Result<BTreeMap<TopicName, Result<(), TopicError>>, RequestError> {
        self.ask_for_topics(topics, true).await
    }

    async fn ask_for_topics(
        &self,
        topics: &[CreateTopic],
        validate_only: bool,
    ) -> Result<BTreeMap<TopicName, Result<(), TopicError>>, RequestError> {
        let one = |topic: &CreateTopic| {
            let config = |(name, value): (&String, &String)| {
                CreatableTopicConfig::default()
                    .with_name(StrBytes::from_string(name.clone()))
                    .with_value(Some(StrBytes::from_string(value.clone())))
            };
            CreatableTopic::default()
                .with_name(wire_name(&topic.name))
                .with_num_partitions(topic.partitions)
                .with_replication_factor(topic.replication_factor)
                .with_configs(topic.configs.iter().map(config).collect())
        };
        let request = CreateTopicsRequest::default()
            .with_topics(topics.iter().map(one).collect())
            .with_validate_only(validate_only)
            .with_timeout_ms(self.timeout_ms());
        let answer = self.request(Route::Controller, &request).await?;
        Ok(answer
            .topics
            .iter()
            .map(|topic| {
                let message = topic.error_message.as_ref().map(|text| text.as_str().to_owned());
                (TopicName::new(topic.name.0.as_str()), outcome(topic.error_code, message))
            })
            .collect())
    }

    /// Grows topics to the given partition counts.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the request as a whole got no answer.
    pub async fn create_partitions(
        &self,
        topics: &BTreeMap<TopicName, i32>,
    ) -> Result<BTreeMap<TopicName, Result<(), TopicError>>, RequestError> {
        let one = |(name, count): (&TopicName, &i32)| {
            CreatePartitionsTopic::default()
                .with_name(wire_name(name))
                .with_count(*count)
                .with_assignments(None)
        };
        let request = CreatePartitionsRequest::default()
            .with_topics(topics.iter().map(one).collect())
            .with_timeout_ms(self.timeout_ms());
        let answer = self.request(Route::Controller, &request).await?;
        Ok(answer
            .results
            .iter()
            .map(|topic| {
                let message = topic.error_message.as_ref().map(|text| text.as_str().to_owned());
                (TopicName::new(topic.name.0.as_str()), outcome(topic.error_code, message))
            })
            .collect())
    }

    /// The configs of topics.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the request as a whole got no answer.
    pub async fn describe_topic_configs(
        &self,
        topics: &[TopicName],
    ) -> Result<BTreeMap<TopicName, Result<Vec<ConfigEntry>, TopicError>>, RequestError> {
        let one = |topic: &TopicName| {
            DescribeConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(StrBytes::from_string(topic.as_str().to_owned()))
                .with_configuration_keys(None)
        };
        let request =
            DescribeConfigsRequest::default().with_resources(topics.iter().map(one).collect());
        let answer = self.request(Route::Any, &request).await?;
        let mut configs = BTreeMap::new();
        for result in &answer.results {
            let message = result.error_message.as_ref().map(|text| text.as_str().to_owned());
            let entries = result.configs.iter().map(|config| ConfigEntry {
                name: config.name.as_str().to_owned(),
                value: config.value.as_ref().map(|value| value.as_str().to_owned()),
                source: match config.config_source {
                    1 => ConfigSource::Topic,
                    2 => ConfigSource::DynamicBroker,
                    3 => ConfigSource::DynamicDefaultBroker,
                    4 => ConfigSource::StaticBroker,
                    5 => ConfigSource::Default,
                    other => ConfigSource::Other(other),
                },
                read_only: config.read_only,
                sensitive: config.is_sensitive,
            });
            let outcome = outcome(result.error_code, message).map(|()| entries.collect());
            configs.insert(TopicName::new(result.resource_name.as_str()), outcome);
        }
        Ok(configs)
    }

    /// Changes configs of topics; what is not named stays. All changes of one topic are made, or
    /// none of them.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the request as a whole got no answer; [`RequestCause::NoVersion`] from
    /// brokers before 2.3.
    pub async fn alter_topic_configs(
        &self,
        changes: &BTreeMap<TopicName, Vec<ConfigChange>>,
    ) -> Result<BTreeMap<TopicName, Result<(), TopicError>>, RequestError> {
        let change = |change: &ConfigChange| {
            AlterableConfig::default()
                .with_name(StrBytes::from_string(change.name.clone()))
                .with_config_operation(if change.value.is_some() { SET } else { DELETE })
                .with_value(change.value.clone().map(StrBytes::from_string))
        };
        let one = |(topic, changes): (&TopicName, &Vec<ConfigChange>)| {
            AlterConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(StrBytes::from_string(topic.as_str().to_owned()))
                .with_configs(changes.iter().map(change).collect())
        };
        let request = IncrementalAlterConfigsRequest::default()
            .with_resources(changes.iter().map(one).collect());
        let answer = self.request(Route::Controller, &request).await?;
        Ok(answer
            .responses
            .iter()
            .map(|topic| {
                let message = topic.error_message.as_ref().map(|text| text.as_str().to_owned());
                let name = TopicName::new(topic.resource_name.as_str());
                (name, outcome(topic.error_code, message))
            })
            .collect())
    }

    /// Offsets of partitions by timestamp ([`LATEST`], [`EARLIEST`] or milliseconds), each asked
    /// of its leader.
    ///
    /// Every partition gets an answer: without a known leader, or if the leader does not answer
    /// in time, `LEADER_NOT_AVAILABLE`, and metadata is asked for anew.
    pub async fn list_offsets(
        &self,
        partitions: &[TopicPartition],
        timestamp: i64,
        read_committed: bool,
    ) -> BTreeMap<TopicPartition, Result<ListedOffset, PartitionError>> {
        let view = self.view();
        let no_leader = |partition: &TopicPartition| {
            self.hint_stale(&partition.topic);
            Err(PartitionError { partition: partition.clone(), code: ErrorCode(5) })
        };
        let mut found: BTreeMap<_, _> = BTreeMap::new();
        let mut by_node: BTreeMap<NodeId, BTreeMap<TopicName, Vec<ListOffsetsPartition>>> =
            BTreeMap::new();
        for partition in partitions {
            let Some(leader) = view.leader(&partition.topic, partition.partition) else {
                found.insert(partition.clone(), no_leader(partition));
                continue;
            };
            let wish = ListOffsetsPartition::default()
                .with_partition_index(partition.partition)
                .with_current_leader_epoch(leader.epoch.0)
                .with_timestamp(timestamp);
            let topics = by_node.entry(leader.node).or_default();
            topics.entry(partition.topic.clone()).or_default().push(wish);
        }
        for (node, topics) in by_node {
            let asked: Vec<TopicPartition> = topics
                .iter()
                .flat_map(|(topic, all)| {
                    all.iter().map(|one| TopicPartition {
                        topic: topic.clone(),
                        partition: one.partition_index,
                    })
                })
                .collect();
            let topics = topics.into_iter().map(|(name, partitions)| {
                ListOffsetsTopic::default().with_name(wire_name(&name)).with_partitions(partitions)
            });
            let request = ListOffsetsRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_isolation_level(i8::from(read_committed))
                .with_topics(topics.collect());
            match self.request_within(Route::Node(node), &request, NODE_PATIENCE).await {
                Ok(answer) => found.extend(listed(&answer)),
                Err(error) => {
                    tracing::debug!(cluster = %self.alias(), %node, %error, "offsets not listed");
                    found.extend(asked.iter().map(|one| (one.clone(), no_leader(one))));
                }
            }
            for partition in asked {
                // Whatever a broker leaves out has no answer either.
                found.entry(partition.clone()).or_insert_with(|| no_leader(&partition));
            }
        }
        found
    }

    /// The transactions that are open in a partition, as its leader knows them (brokers from 2.8
    /// on; needs READ on the topic).
    ///
    /// # Errors
    ///
    /// [`RequestError`]; without a leader, [`RequestCause::Refused`].
    pub async fn open_transactions(
        &self,
        partition: &TopicPartition,
    ) -> Result<Vec<OpenTransaction>, RequestError> {
        let leader = self.view().leader(&partition.topic, partition.partition);
        let route = leader.map_or(Route::Any, |leader| Route::Node(leader.node));
        let topic = describe_producers_request::TopicRequest::default()
            .with_name(wire_name(&partition.topic))
            .with_partition_indexes(vec![partition.partition]);
        let request = DescribeProducersRequest::default().with_topics(vec![topic]);
        let answer = self.request(route, &request).await?;
        let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let open = partitions.flat_map(|one| &one.active_producers).filter_map(|producer| {
            let first = Offset(producer.current_txn_start_offset);
            let (id, epoch) = (producer.producer_id.0, producer.producer_epoch);
            let idle_since = Timestamp(producer.last_timestamp);
            (first >= Offset::ZERO).then_some(OpenTransaction { id, epoch, first, idle_since })
        });
        Ok(open.collect())
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.settings().request_timeout.as_millis()).unwrap_or(i32::MAX)
    }
}

fn listed(
    answer: &ListOffsetsResponse,
) -> impl Iterator<Item = (TopicPartition, Result<ListedOffset, PartitionError>)> {
    answer.topics.iter().flat_map(|topic| {
        let name = TopicName::new(topic.name.0.as_str());
        topic.partitions.iter().map(move |one| {
            let partition = TopicPartition { topic: name.clone(), partition: one.partition_index };
            let code = ErrorCode(one.error_code);
            let outcome = if code.is_error() {
                Err(PartitionError { partition: partition.clone(), code })
            } else {
                Ok(ListedOffset {
                    offset: Offset(one.offset),
                    epoch: LeaderEpoch(one.leader_epoch),
                })
            };
            (partition, outcome)
        })
    })
}

pub(super) fn outcome(code: i16, message: Option<String>) -> Result<(), TopicError> {
    let code = ErrorCode(code);
    if code.is_error() { Err(TopicError { code, message }) } else { Ok(()) }
}
