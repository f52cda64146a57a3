//! Heartbeats: a record per pair of clusters and interval, in `heartbeats` on the target.
//!
//! MM2's `MirrorHeartbeatConnector`: the source is never contacted. The heartbeats of `b->a`,
//! written on `a`, are what `a->b` copies as `a.heartbeats`; from those topics' names MM2's
//! clients learn which clusters are upstream and how many hops away. So a pair's heartbeats do
//! not depend on whether its own flow is on.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::internal_topics::{InternalTopic, ensure};
use super::rights::{Missing, is_denied};
use super::rounds::{Notes, Pace, Round, RoundBoard, Rounds, Trouble};
use crate::client::{Cluster, LogError, NewRecord};
use crate::mm2::{HEARTBEATS, Heartbeat};
use crate::model::{AclOperation, FlowId, TopicName};
use crate::policy::Thing;

/// How long one heartbeat may take. One that comes later says nothing any more; the next is
/// written instead.
const DEADLINE: Duration = Duration::from_secs(10);

/// One pair's heartbeats.
#[derive(Clone, Debug)]
pub struct HeartbeatSettings {
    /// Whose life they are a sign of.
    pub pair: FlowId,
    /// How often.
    pub interval: Duration,
    /// Replicas of `heartbeats` if it must be made; -1 for the target's default.
    pub replication_factor: i16,
}

/// Writes one pair's heartbeats.
#[derive(Debug)]
pub struct Heartbeats {
    settings: HeartbeatSettings,
    target: Cluster,
    board: RoundBoard,
}

impl Heartbeats {
    /// Nothing is written yet.
    #[must_use]
    pub fn new(settings: HeartbeatSettings, target: &Cluster) -> Self {
        Self { settings, target: target.clone(), board: RoundBoard::default() }
    }

    /// Which pair.
    #[must_use]
    pub fn pair(&self) -> &FlowId {
        &self.settings.pair
    }

    /// What the rounds say about themselves.
    #[must_use]
    pub fn rounds(&self) -> RoundBoard {
        self.board.clone()
    }

    /// Writes until `end`. The topic is made at once; the first heartbeat follows after one
    /// interval, as MM2's does.
    pub async fn run(self, end: CancellationToken) {
        let pace = Pace {
            kind: "heartbeats",
            interval: Some(self.settings.interval),
            deadline: DEADLINE,
            rests_first: false,
        };
        let rounds = Rounds::new(&self.settings.pair, pace, self.target.clock(), &self.board);
        let Self { settings, target, .. } = self;
        let mut beating =
            Beating { settings, target, topic: TopicName::new(HEARTBEATS), there: false };
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = rounds.run(None, &mut beating) => {}
        }
    }
}

/// The round: the topic first, then one heartbeat each time.
struct Beating {
    settings: HeartbeatSettings,
    target: Cluster,
    topic: TopicName,
    there: bool,
}

impl Round for Beating {
    async fn run(&mut self) -> Result<Notes, Trouble> {
        if self.there {
            // Somebody may have deleted it.
            self.there = self.target.view().topics.contains_key(&self.topic);
        }
        if self.there {
            self.beat().await?;
        } else {
            self.make().await?;
            self.there = true;
        }
        Ok(Notes::default())
    }
}

impl Beating {
    fn lack(&self, operation: AclOperation) -> Missing {
        Missing::on_topic(&self.target, Thing::Heartbeats, operation, self.topic.as_str())
    }

    async fn make(&self) -> Result<(), Trouble> {
        let wanted = InternalTopic {
            name: self.topic.clone(),
            partitions: 1,
            replication_factor: self.settings.replication_factor,
        };
        let ensured = ensure(&self.settings.pair, &self.target, &[wanted]).await?;
        let lacks = ensured.lacks(&self.topic);
        match (ensured.refused.into_iter().next(), lacks) {
            (None, _) => Ok(()),
            (Some(what), Some(operation)) => {
                Err(Trouble::Denied { what, missing: self.lack(operation) })
            }
            (Some(what), None) => Err(Trouble::Failed(what)),
        }
    }

    async fn beat(&self) -> Result<(), Trouble> {
        let now = self.target.clock().wall();
        let heartbeat = Heartbeat { flow: self.settings.pair.clone(), timestamp: now };
        let record = NewRecord {
            partition: 0,
            key: heartbeat.encode_key(),
            value: Some(heartbeat.encode_value().to_vec()),
        };
        match self.target.append_at(&self.topic, now, &[record]).await {
            Ok(_) => Ok(()),
            Err(LogError::Partition(error)) if is_denied(error.code) => Err(Trouble::Denied {
                what: format!("heartbeats cannot be written on {}: {error}", self.target.alias()),
                missing: self.lack(AclOperation::WRITE),
            }),
            Err(error) => Err(error.into()),
        }
    }
}
