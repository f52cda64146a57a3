//! What the data plane is refused for want of a right: looked for beside it, told on the board.
//!
//! The data plane tries again by itself and knows no names of rights; here its partitions' states
//! become rows of [`RIGHTS`](crate::policy::RIGHTS). The topic of offset maps is made here too if
//! that was refused at the start: the data plane goes on without it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::internal_topics::{InternalTopic, ensure};
use super::rights::{Missing, Resource, is_denied};
use super::rounds::RoundBoard;
use crate::client::Cluster;
use crate::flow::{FlowSettings, PartitionStatus, Probe, Waiting};
use crate::model::{AclOperation, Side};
use crate::policy::{FlowTopics, Thing};

/// How often partitions are looked at. Asking thousands of them takes a millisecond.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Between two attempts to make the topic of offset maps, in looks.
const MAKE_EVERY: u32 = 3;

/// Whose lacks these are, on the board.
pub(super) const DATA: &str = "data";
pub(super) const OFFSET_MAP: &str = "offset map";

/// What one flow's data plane is refused.
#[derive(Debug)]
pub(super) struct Denials<'a> {
    pub(super) flow: &'a FlowSettings,
    pub(super) topics: &'a FlowTopics,
    pub(super) ends: (&'a Cluster, &'a Cluster),
    pub(super) probe: &'a Probe,
    pub(super) board: &'a RoundBoard,
}

impl Denials<'_> {
    /// Looks without end. `map` is the topic of offset maps, if it could not be made yet.
    pub(super) async fn watch(&self, mut map: Option<&InternalTopic>) {
        let mut looks = 0_u32;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.look().await;
            looks = looks.wrapping_add(1);
            if let Some(topic) = map
                && looks.is_multiple_of(MAKE_EVERY)
                && self.make(topic).await
            {
                map = None;
            }
        }
    }

    async fn look(&self) {
        let partitions = self.probe.partitions().await;
        let mut missing: BTreeSet<Missing> =
            partitions.iter().filter_map(|status| self.refused(status)).collect();
        for (topic, _) in self.probe.unwritten().into_iter().filter(|(_, code)| is_denied(*code)) {
            let thing = if topic == self.flow.positions_topic {
                Thing::Positions
            } else if topic == self.flow.map_topic {
                Thing::OffsetMap
            } else {
                Thing::SourceOffsets
            };
            let (target, write) = (self.ends.1, AclOperation::WRITE);
            missing.insert(Missing::on_topic(target, thing, write, topic.as_str()));
        }
        self.board.lack(&self.flow.id, DATA, missing);
    }

    /// The right that a partition waits for.
    fn refused(&self, status: &PartitionStatus) -> Option<Missing> {
        let (side, operation) = match status.waiting_for.as_ref()? {
            Waiting::Unreadable(code) if is_denied(*code) => (Side::Source, AclOperation::READ),
            Waiting::Refused(code) if is_denied(*code) => (Side::Target, AclOperation::WRITE),
            Waiting::Denied(side, _) => (*side, AclOperation::READ),
            _ => return None,
        };
        Some(match side {
            Side::Source => {
                let topic = status.source.topic.as_str();
                Missing::on_topic(self.ends.0, Thing::Topics, operation, topic)
            }
            Side::Target => {
                let replica = Resource::replica(self.topics, status.target.topic.as_str());
                Missing::new(self.ends.1, Thing::Replicas, operation, replica)
            }
        })
    }

    /// Makes the topic of offset maps; whether it is there now.
    pub(super) async fn make(&self, map: &InternalTopic) -> bool {
        let target = self.ends.1;
        match ensure(&self.flow.id, target, std::slice::from_ref(map)).await {
            Ok(ensured) if ensured.refused.is_empty() => {
                self.board.lack(&self.flow.id, OFFSET_MAP, BTreeSet::new());
                true
            }
            Ok(ensured) => {
                let lack = |operation| {
                    Missing::on_topic(target, Thing::OffsetMap, operation, map.name.as_str())
                };
                let missing = ensured.lacks(&map.name).map(lack).into_iter().collect();
                self.board.lack(&self.flow.id, OFFSET_MAP, missing);
                false
            }
            Err(error) => {
                tracing::debug!(flow = %self.flow.id, %error, "offset map topic not looked for");
                false
            }
        }
    }
}
