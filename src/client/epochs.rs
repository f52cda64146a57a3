//! Where leader epochs ended, as leaders know it now (KIP-320).

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{BrokerId, OffsetForLeaderEpochRequest, TopicName as WireName};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Cluster, Route};
use crate::model::{LeaderEpoch, NodeId, Offset, TopicName, TopicPartition};

/// How long one node may take, as for listing offsets.
const NODE_PATIENCE: Duration = Duration::from_secs(5);

impl Cluster {
    /// Where the leaders' logs end, which is behind what [`Cluster::list_offsets`] calls the latest
    /// offset as long as followers do not have it all. Partitions of which that cannot be had are
    /// left out.
    pub async fn log_ends(
        &self,
        partitions: &[TopicPartition],
    ) -> BTreeMap<TopicPartition, Offset> {
        let view = self.view();
        // A leader's own epoch has not ended: it lasts up to the end of its log.
        let epochs = partitions.iter().filter_map(|partition| {
            let leader = view.leader(&partition.topic, partition.partition)?;
            Some((partition.clone(), leader.epoch))
        });
        self.epoch_ends(&epochs.collect()).await
    }

    /// For each partition and epoch, the offset at which the leader's log leaves that epoch, or the
    /// largest one before it. A log that was cut off leaves it before what was read of it.
    ///
    /// Partitions without a known leader, without an answer, and epochs that the leader cannot say
    /// anything about, are left out.
    pub async fn epoch_ends(
        &self,
        epochs: &BTreeMap<TopicPartition, LeaderEpoch>,
    ) -> BTreeMap<TopicPartition, Offset> {
        let view = self.view();
        let mut by_node: BTreeMap<NodeId, BTreeMap<TopicName, Vec<OffsetForLeaderPartition>>> =
            BTreeMap::new();
        for (partition, epoch) in epochs.iter().filter(|(_, epoch)| epoch.is_known()) {
            let leader = view.leader(&partition.topic, partition.partition);
            let Some(leader) = leader else { continue };
            let one = OffsetForLeaderPartition::default()
                .with_partition(partition.partition)
                .with_current_leader_epoch(leader.epoch.0)
                .with_leader_epoch(epoch.0);
            let topics = by_node.entry(leader.node).or_default();
            topics.entry(partition.topic.clone()).or_default().push(one);
        }
        let mut ends = BTreeMap::new();
        for (node, topics) in by_node {
            let topics = topics.into_iter().map(|(name, partitions)| {
                let name = WireName(StrBytes::from_string(name.as_str().to_owned()));
                OffsetForLeaderTopic::default().with_topic(name).with_partitions(partitions)
            });
            let request = OffsetForLeaderEpochRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_topics(topics.collect());
            match self.request_within(Route::Node(node), &request, NODE_PATIENCE).await {
                Ok(answer) => {
                    for topic in &answer.topics {
                        let name = topic.topic.0.as_str();
                        let known = topic.partitions.iter().filter(|one| {
                            one.error_code == 0 && one.leader_epoch >= 0 && one.end_offset >= 0
                        });
                        ends.extend(known.map(|one| {
                            (TopicPartition::new(name, one.partition), Offset(one.end_offset))
                        }));
                    }
                }
                Err(error) => {
                    tracing::debug!(cluster = %self.alias(), %node, %error, "epochs not known");
                }
            }
        }
        ends
    }
}
