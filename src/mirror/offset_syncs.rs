//! Writes offset syncs where MM2 and its checkpoints look for them.

use std::time::Duration;

use super::internal_topics::{InternalTopic, ensure};
use crate::client::{Cluster, NewRecord};
use crate::flow::Offsets;
use crate::mm2::OffsetSync;
use crate::model::FlowId;

/// How often syncs are written that are due.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

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
    /// How often partitions that came to rest get their last sync.
    flush_interval: Duration,
    ready: bool,
    failing: bool,
}

impl SyncWriter {
    pub(super) fn new(
        flow: &FlowId,
        cluster: &Cluster,
        topic: &InternalTopic,
        offsets: &Offsets,
        flush_interval: Duration,
    ) -> Self {
        Self {
            flow: flow.clone(),
            cluster: cluster.clone(),
            topic: topic.clone(),
            offsets: offsets.clone(),
            flush_interval,
            ready: false,
            failing: false,
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
        if tokio::time::timeout(LAST_PATIENCE, self.write(true)).await.is_err() {
            tracing::warn!(flow = %self.flow, topic = %self.topic.name,
                "the last offset syncs could not be written in time");
        }
    }

    /// What cannot be written is lost, as in MM2: newer syncs say as much.
    async fn write(&mut self, all: bool) {
        let due = self.offsets.take_syncs(all);
        if due.is_empty() {
            return;
        }
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
                tracing::info!(flow = %self.flow, topic = %self.topic.name,
                    "offset syncs are written again");
            }
            Ok(()) => {}
            Err(why) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(flow = %self.flow, cluster = %self.cluster.alias(),
                        topic = %self.topic.name, why,
                        "offset syncs are not written; copying and checkpoints go on without them, \
                         but MirrorMaker 2 could not translate offsets after this process");
                }
            }
        }
    }

    async fn write_records(&mut self, records: &[NewRecord]) -> Result<(), String> {
        if !self.ready {
            let topics = std::slice::from_ref(&self.topic);
            let ensured = ensure(&self.flow, &self.cluster, topics).await;
            let ensured = ensured.map_err(|error| error.to_string())?;
            if let Some(refused) = ensured.refused.first() {
                return Err(refused.clone());
            }
            self.ready = true;
        }
        match self.cluster.append(&self.topic.name, records).await {
            Ok(_) => Ok(()),
            Err(error) => {
                // It may have been deleted.
                self.ready = false;
                Err(error.to_string())
            }
        }
    }
}
