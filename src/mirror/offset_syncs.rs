//! Writes offset syncs where MM2 and its checkpoints look for them.
//!
//! Not of topics that a rename rule names: MM2 would take them for offsets of the topic that the
//! replication policy names, which is another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::internal_topics::{InternalTopic, ensure};
use super::rights::{Missing, log_denied};
use super::rounds::RoundBoard;
use crate::client::{Cluster, NewRecord};
use crate::flow::Offsets;
use crate::mm2::OffsetSync;
use crate::model::{AclOperation, Bend, FlowId, Moment, TopicPartition};
use crate::policy::{FlowNames, Thing};

/// How often syncs are written that are due.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait after syncs could not be written. The newest of each partition are kept until
/// then.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Whose lacks these are, on the flow's board.
const SYNCS: &str = "offset syncs";

/// The last syncs, when a flow ends, may take as long: without them a later MM2 translates a little
/// less exactly.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// The writer of a flow's offset syncs.
#[derive(Debug)]
pub(super) struct SyncWriter {
    flow: FlowId,
    cluster: Cluster,
    topic: InternalTopic,
    offsets: Offsets,
    names: FlowNames,
    /// How often partitions that came to rest get their last sync.
    flush_interval: Duration,
    ready: bool,
    failing: bool,
    board: RoundBoard,
    /// What could not be written: the newest sync of each partition.
    unwritten: BTreeMap<TopicPartition, Bend>,
    not_before: Moment,
}

impl SyncWriter {
    pub(super) fn new(
        (flow, board): (&FlowId, &RoundBoard),
        cluster: &Cluster,
        topic: &InternalTopic,
        (offsets, names): (&Offsets, &FlowNames),
        flush_interval: Duration,
    ) -> Self {
        Self {
            flow: flow.clone(),
            cluster: cluster.clone(),
            topic: topic.clone(),
            offsets: offsets.clone(),
            names: names.clone(),
            flush_interval,
            ready: false,
            failing: false,
            board: board.clone(),
            unwritten: BTreeMap::new(),
            not_before: cluster.clock().now(),
        }
    }

    /// Writes without end; to be dropped between two writes.
    pub(super) async fn run(&mut self) {
        let clock = self.cluster.clock();
        let mut flush_at = clock.now().after(self.flush_interval);
        loop {
            tokio::time::sleep(WRITE_INTERVAL).await;
            let all = clock.now() >= flush_at;
            if all {
                flush_at = clock.now().after(self.flush_interval);
            }
            self.write(all).await;
        }
    }

    /// The last syncs of every partition.
    pub(super) async fn finish(&mut self) {
        self.not_before = self.cluster.clock().now();
        if tokio::time::timeout(LAST_PATIENCE, self.write(true)).await.is_err() {
            tracing::warn!(flow = %self.flow, topic = %self.topic.name,
                "the last offset syncs could not be written in time");
        }
    }

    /// Of what cannot be written, the newest sync of each partition is tried again; MM2 lets go of
    /// all of it.
    async fn write(&mut self, all: bool) {
        let now = self.cluster.clock().now();
        let mut due = self.offsets.take_syncs(all);
        due.retain(|(partition, _)| !self.names.is_by_rule(partition.topic.as_str()));
        if self.failing && now < self.not_before {
            self.unwritten.extend(due);
            return;
        }
        due.splice(..0, std::mem::take(&mut self.unwritten));
        if due.is_empty() {
            return;
        }
        let newest: BTreeMap<TopicPartition, Bend> = due.iter().cloned().collect();
        let records: Vec<NewRecord> = due
            .into_iter()
            .map(|(partition, sync)| {
                let sync =
                    OffsetSync { partition, upstream: sync.upstream, downstream: sync.downstream };
                NewRecord {
                    partition: 0,
                    key: sync.encode_key(),
                    value: Some(sync.encode_value().to_vec()),
                }
            })
            .collect();
        match self.write_records(&records).await {
            Ok(()) if self.failing => {
                self.failing = false;
                self.board.lack(&self.flow, SYNCS, BTreeSet::new());
                tracing::info!(flow = %self.flow, topic = %self.topic.name,
                    "offset syncs are written again");
            }
            Ok(()) => {}
            Err((why, denied)) => {
                self.unwritten = newest;
                self.not_before = now.after(RETRY_AFTER);
                let topic = self.topic.name.as_str();
                let lack = |operation| {
                    Missing::on_topic(&self.cluster, Thing::OffsetSyncs, operation, topic)
                };
                self.board.lack(&self.flow, SYNCS, denied.map(lack).into_iter().collect());
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(flow = %self.flow, cluster = %self.cluster.alias(),
                        topic = %self.topic.name, why,
                        "offset syncs are not written; copying and checkpoints go on without them, \
                         but MirrorMaker 2 could not translate offsets after this process");
                }
            }
        }
    }

    /// Why not, and the operation that is not allowed, if that is why.
    async fn write_records(
        &mut self,
        records: &[NewRecord],
    ) -> Result<(), (String, Option<AclOperation>)> {
        if !self.ready {
            let topics = std::slice::from_ref(&self.topic);
            let ensured = ensure(&self.flow, &self.cluster, topics).await;
            let ensured = ensured.map_err(|error| (error.to_string(), None))?;
            if let Some(refused) = ensured.refused.first() {
                return Err((refused.clone(), ensured.lacks(&self.topic.name)));
            }
            self.ready = true;
        }
        match self.cluster.append(&self.topic.name, records).await {
            Ok(_) => Ok(()),
            Err(error) => {
                // It may have been deleted.
                self.ready = false;
                let denied = log_denied(&error).then_some(AclOperation::WRITE);
                Err((error.to_string(), denied))
            }
        }
    }
}
