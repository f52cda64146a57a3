//! Who leads what: an immutable picture of one cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::MetadataResponse;

use super::dial::Endpoint;
use crate::model::{Leader, LeaderEpoch, NodeId, PartitionIndex, TopicId, TopicName};
use crate::wire::ErrorCode;

/// What a topic that may not be described is answered with where it is asked for by name; where all
/// are asked for it is left out.
const TOPIC_AUTHORIZATION_FAILED: ErrorCode = ErrorCode(29);

/// One broker as the cluster advertises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Where to reach it.
    pub endpoint: Endpoint,
}

/// One partition: who leads it, if anyone does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// `None` while an election runs or all replicas are down.
    pub leader: Option<Leader>,
    /// Replicas, in sync or not.
    pub replicas: usize,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicView {
    /// [`TopicId::NONE`] from brokers before 2.8.
    pub id: TopicId,
    /// Flagged internal by the broker (`__consumer_offsets` and the like).
    pub internal: bool,
    /// By partition number; a gap means that the broker did not list it.
    pub partitions: BTreeMap<PartitionIndex, PartitionView>,
    /// It may not be described any more; this is what was known before.
    pub denied: bool,
}

/// A cluster as it was at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataView {
    /// The cluster's id, if it has one.
    pub cluster_id: Option<String>,
    /// Where controller requests go; in KRaft clusters a broker that forwards them.
    pub controller: Option<NodeId>,
    /// The brokers that are up.
    pub brokers: BTreeMap<NodeId, Broker>,
    /// The topics that the principal may describe.
    pub topics: BTreeMap<TopicName, Arc<TopicView>>,
}

impl MetadataView {
    /// Who leads a partition, as far as known.
    #[must_use]
    pub fn leader(&self, topic: &TopicName, partition: PartitionIndex) -> Option<Leader> {
        self.topics.get(topic)?.partitions.get(&partition)?.leader
    }

    /// This picture, changed by an answer about some topics (`asked`) or all (`None`).
    ///
    /// Within one topic id a lower leader epoch never replaces a higher one (KIP-320): a broker
    /// that lags behind would send us back to a leader that is none. Topics asked for and not
    /// found are removed; topics that answer with a passing error keep what was known.
    #[must_use]
    pub fn updated(&self, answer: &MetadataResponse, asked: Option<&[TopicName]>) -> Self {
        let mut next = Self {
            cluster_id: answer.cluster_id.as_ref().map(|id| id.as_str().to_owned()),
            controller: (answer.controller_id.0 >= 0).then_some(NodeId(answer.controller_id.0)),
            brokers: brokers(answer),
            topics: BTreeMap::new(),
        };
        if next.cluster_id.is_none() {
            next.cluster_id.clone_from(&self.cluster_id);
        }
        if let Some(asked) = asked {
            next.topics = self.topics.clone();
            for topic in asked {
                next.topics.remove(topic);
            }
        }
        for topic in &answer.topics {
            let Some(name) = &topic.name else { continue };
            let name = TopicName::new(name.0.as_str());
            let known = self.topics.get(&name);
            match (ErrorCode(topic.error_code), known) {
                (ErrorCode::NONE, _) => {}
                // Being made, or the broker does not know yet: keep what was known.
                (ErrorCode(5), Some(known)) => {
                    next.topics.insert(name, Arc::clone(known));
                    continue;
                }
                // Lost rights are no lost topic.
                (TOPIC_AUTHORIZATION_FAILED, Some(known)) => {
                    let mut kept = Arc::clone(known);
                    if !kept.denied {
                        Arc::make_mut(&mut kept).denied = true;
                    }
                    next.topics.insert(name, kept);
                    continue;
                }
                _ => continue,
            }
            let id = TopicId(*topic.topic_id.as_bytes());
            let same = known.filter(|known| known.id == id);
            let partitions = topic.partitions.iter().map(|partition| {
                let said = (partition.leader_id.0 >= 0).then_some(Leader {
                    node: NodeId(partition.leader_id.0),
                    epoch: LeaderEpoch(partition.leader_epoch),
                });
                let before =
                    same.and_then(|known| known.partitions.get(&partition.partition_index)?.leader);
                let leader = match (before, said) {
                    (Some(old), Some(new)) if new.epoch.is_known() && new.epoch < old.epoch => {
                        Some(old)
                    }
                    _ => said,
                };
                let replicas = partition.replica_nodes.len();
                (partition.partition_index, PartitionView { leader, replicas })
            });
            let view = TopicView {
                id,
                internal: topic.is_internal,
                partitions: partitions.collect(),
                denied: false,
            };
            let view = match known {
                Some(known) if **known == view => Arc::clone(known),
                _ => Arc::new(view),
            };
            next.topics.insert(name, view);
        }
        next
    }

    /// The topics of `before` that this picture, of all topics, does not show: gone, or not to be
    /// seen any more.
    #[must_use]
    pub fn vanished_since(&self, before: &Self) -> Vec<TopicName> {
        before.topics.keys().filter(|name| !self.topics.contains_key(*name)).cloned().collect()
    }

    /// This picture, with those of the topics `vanished` since `before` that `answer` refuses to
    /// describe, instead of denying that they exist.
    #[must_use]
    pub fn with_denied(
        mut self,
        answer: &MetadataResponse,
        vanished: &[TopicName],
        before: &Self,
    ) -> Self {
        let known = vanished.iter().filter_map(|name| before.topics.get_key_value(name));
        self.topics.extend(known.map(|(name, topic)| (name.clone(), Arc::clone(topic))));
        self.updated(answer, Some(vanished))
    }

    /// This picture, with what a broker said about one leader beside an error.
    #[must_use]
    pub fn with_leader(
        &self,
        topic: &TopicName,
        partition: PartitionIndex,
        leader: Leader,
    ) -> Self {
        let mut next = self.clone();
        let known = next.topics.get(topic).and_then(|topic| topic.partitions.get(&partition));
        let Some(known) = known.copied() else { return next };
        let newer = known.leader.is_none_or(|old| leader.epoch > old.epoch);
        if newer
            && next.brokers.contains_key(&leader.node)
            && let Some(topic) = next.topics.get_mut(topic)
        {
            let view = PartitionView { leader: Some(leader), ..known };
            Arc::make_mut(topic).partitions.insert(partition, view);
        }
        next
    }
}

fn brokers(answer: &MetadataResponse) -> BTreeMap<NodeId, Broker> {
    let broker = |broker: &kafka_protocol::messages::metadata_response::MetadataResponseBroker| {
        let port = u16::try_from(broker.port).ok()?;
        let endpoint = Endpoint { host: broker.host.as_str().to_owned(), port };
        Some((NodeId(broker.node_id.0), Broker { endpoint }))
    };
    answer.brokers.iter().filter_map(broker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{BrokerId, TopicName as WireName};
    use kafka_protocol::protocol::StrBytes;

    fn answer(topic: &str, id: u8, leader: i32, epoch: i32) -> MetadataResponse {
        let partition = MetadataResponsePartition::default()
            .with_leader_id(BrokerId(leader))
            .with_leader_epoch(epoch);
        let broker = |id| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(id))
                .with_host(StrBytes::from_static_str("h"))
        };
        MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]).with_topics(vec![
            MetadataResponseTopic::default()
                .with_name(Some(WireName(StrBytes::from_string(topic.to_owned()))))
                .with_topic_id(uuid::Uuid::from_bytes([id; 16]))
                .with_partitions(vec![partition]),
        ])
    }

    #[test]
    fn a_lower_leader_epoch_never_replaces_a_higher_one_within_one_topic_id() {
        let t = TopicName::new("t");
        let view = MetadataView::default().updated(&answer("t", 1, 1, 7), None);
        let behind = view.updated(&answer("t", 1, 2, 6), None);
        assert_eq!(behind.leader(&t, 0).unwrap().node, NodeId(1));

        let ahead = view.updated(&answer("t", 1, 2, 8), None);
        assert_eq!(ahead.leader(&t, 0).unwrap().node, NodeId(2));
        let made_anew = view.updated(&answer("t", 2, 2, 0), None);
        assert_eq!(made_anew.leader(&t, 0).unwrap().node, NodeId(2));
        let no_leader = view.updated(&answer("t", 1, -1, 8), None);
        assert_eq!(no_leader.leader(&t, 0), None);
    }

    #[test]
    fn an_answer_about_some_topics_leaves_the_others_and_removes_what_is_gone() {
        let view = MetadataView::default().updated(&answer("t", 1, 1, 7), None);
        let more = view.updated(&answer("u", 2, 1, 0), Some(&["u".into()]));
        assert_eq!(more.topics.len(), 2);

        let gone = more.updated(&MetadataResponse::default(), Some(&["t".into()]));
        assert_eq!(gone.topics.keys().map(TopicName::as_str).collect::<Vec<_>>(), ["u"]);
    }

    #[test]
    fn a_topic_that_may_not_be_described_any_more_is_kept_and_one_that_is_gone_is_not() {
        let t = TopicName::new("t");
        let view = MetadataView::default().updated(&answer("t", 1, 1, 7), None);
        let refused = |code| {
            let mut refused = answer("t", 0, -1, -1);
            refused.topics[0].error_code = code;
            refused.topics[0].partitions.clear();
            refused
        };
        let next = view.updated(&MetadataResponse::default(), None);
        let vanished = next.vanished_since(&view);
        assert_eq!(vanished, ["t".into()]);

        let denied = next.clone().with_denied(&refused(29), &vanished, &view);
        assert!(denied.topics[&t].denied);
        assert_eq!(denied.leader(&t, 0), view.leader(&t, 0));
        let gone = next.with_denied(&refused(3), &vanished, &view);
        assert!(gone.topics.is_empty());
        let granted = denied.updated(&answer("t", 1, 1, 7), None);
        assert!(!granted.topics[&t].denied);
    }

    #[test]
    fn a_leader_named_beside_an_error_is_believed_if_its_epoch_is_newer() {
        let t = TopicName::new("t");
        let view = MetadataView::default().updated(&answer("t", 1, 1, 7), None);
        let leader = |epoch| Leader { node: NodeId(2), epoch: LeaderEpoch(epoch) };
        assert_eq!(view.with_leader(&t, 0, leader(8)).leader(&t, 0), Some(leader(8)));
        assert_eq!(view.with_leader(&t, 0, leader(7)).leader(&t, 0).unwrap().node, NodeId(1));
    }
}
