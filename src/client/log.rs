//! Small topics as logs: read one to its end, append to one.
//!
//! For internal topics of a few thousand records, not for mirrored data.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;

use super::admin::{EARLIEST, LATEST, PartitionError};
use super::cluster::{Cluster, RequestCause, RequestError};
use super::retry::Backoff;
use crate::batch::{
    AbortedIndex, BatchBuilder, Batches, BatchesError, Codec, RawBatch, RecordError,
    for_each_record,
};
use crate::model::{
    LeaderEpoch, NodeId, Offset, PartitionIndex, Timestamp, TopicId, TopicName, TopicPartition,
};
use crate::wire::fetch::{self, FetchWish, PartitionWish, TopicRef, uses_topic_ids};
use crate::wire::{Api, ErrorCode, Malformed, PartitionBatch, decode_produce, encode_produce};

/// Most bytes of one answer while reading; internal topics are small.
const READ_BYTES_MAX: i32 = 4 * 1024 * 1024;

/// Bytes of records that go into one batch; far below every broker's `max.message.bytes`.
const BATCH_BYTES: usize = 256 * 1024;

/// How long reading or appending may take before it is an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often in a row a scan may get no news: an open transaction hides the rest.
const SCAN_IDLE_MAX: u32 = 20;

/// A batch met by a scan.
#[derive(Clone, Debug)]
pub struct ScannedBatch {
    /// The batch.
    pub batch: RawBatch,
    /// Its transaction was aborted. Only known to scans with `read_committed`.
    pub aborted: bool,
}

/// A record of a small topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its partition.
    pub partition: PartitionIndex,
    /// Its offset.
    pub offset: Offset,
    /// Its time.
    pub timestamp: Timestamp,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value; none is a tombstone.
    pub value: Option<Bytes>,
}

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Where to.
    pub partition: PartitionIndex,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value; none is a tombstone.
    pub value: Option<Vec<u8>>,
}

/// Where records went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Partition, offset of the first record, and count of each batch, in the order written.
    pub batches: Vec<(PartitionIndex, Offset, i32)>,
    /// Each was acknowledged at the first attempt; what was tried again may be there twice.
    pub once: bool,
}

impl Default for Appended {
    fn default() -> Self {
        Self { batches: Vec::new(), once: true }
    }
}

/// Why a small topic cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It does not exist, or may not be seen.
    #[error("topic {0} does not exist, or may not be described")]
    Missing(TopicName),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A connection failed.
    #[error("{topic} on node {node}: {cause}")]
    Lane {
        /// Which topic.
        topic: TopicName,
        /// Which node.
        node: NodeId,
        /// What happened.
        cause: RequestCause,
    },
    /// A partition refused.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// A batch cannot be read.
    #[error("{partition}: {cause}")]
    Records {
        /// Where.
        partition: TopicPartition,
        /// Why.
        cause: RecordError,
    },
    /// A record set makes no sense.
    #[error("{partition}: {cause}")]
    Batches {
        /// Where.
        partition: TopicPartition,
        /// Why.
        cause: BatchesError,
    },
    /// It took too long.
    #[error("{what} took longer than {PATIENCE:?}")]
    Late {
        /// What was tried.
        what: String,
    },
}

/// A partition being read: where the reader is, and where it stops.
struct Reading {
    position: Offset,
    end: Offset,
    leader: NodeId,
}

impl Cluster {
    /// Reads every partition of `topic` up to the end it has now, in offset order within each.
    ///
    /// With `read_committed` aborted records are left out, and open transactions are waited
    /// for.
    ///
    /// # Errors
    ///
    /// [`LogError`]; [`LogError::Missing`] if there is no such topic.
    pub async fn read_to_end(
        &self,
        topic: &TopicName,
        read_committed: bool,
    ) -> Result<Vec<LogRecord>, LogError> {
        let mut records: BTreeMap<PartitionIndex, Vec<LogRecord>> = BTreeMap::new();
        let keep = |record: LogRecord| records.entry(record.partition).or_default().push(record);
        self.read_each(topic, read_committed, keep).await?;
        Ok(records.into_values().flatten().collect())
    }

    /// Shows the records of every partition of `topic` up to the end it has now, in offset order
    /// within each, and keeps none of them.
    ///
    /// # Errors
    ///
    /// As [`Cluster::read_to_end`].
    pub async fn read_each(
        &self,
        topic: &TopicName,
        read_committed: bool,
        show: impl FnMut(LogRecord),
    ) -> Result<(), LogError> {
        let late = || LogError::Late { what: format!("reading {topic} on {}", self.alias()) };
        tokio::time::timeout(PATIENCE, self.read_all(topic, read_committed, show))
            .await
            .map_err(|_| late())?
    }

    async fn read_all(
        &self,
        topic: &TopicName,
        read_committed: bool,
        mut show: impl FnMut(LogRecord),
    ) -> Result<(), LogError> {
        let mut backoff = Backoff::new(2);
        let (id, mut reading) = loop {
            self.refresh(Some(std::slice::from_ref(topic))).await?;
            let Some(found) = self.view().topics.get(topic).cloned() else {
                return Err(LogError::Missing(topic.clone()));
            };
            match self.ends(topic, found.partitions.keys()).await {
                Ok(reading) => break (found.id, reading),
                Err(error) if backoff.failures() > 20 => return Err(error.into()),
                Err(_) => tokio::time::sleep(backoff.fail()).await,
            }
        };
        loop {
            reading.retain(|_, one| one.position < one.end);
            let Some(node) = reading.values().map(|one| one.leader).next() else { break };
            let mut failed = Ok(());
            let mut visit = |partition, from, scanned: &ScannedBatch| {
                let hidden = read_committed && scanned.aborted;
                if !hidden
                    && !scanned.batch.header().attributes.is_control()
                    && let Err(cause) = collect(&scanned.batch, from, partition, &mut show)
                {
                    let partition = TopicPartition { topic: topic.clone(), partition };
                    failed = Err(LogError::Records { partition, cause });
                }
                ControlFlow::Continue(())
            };
            self.read_from(node, (topic, id), read_committed, &mut reading, &mut visit).await?;
            failed?;
        }
        Ok(())
    }

    /// First and end offsets and leaders of a topic's partitions.
    async fn ends(
        &self,
        topic: &TopicName,
        partitions: impl Iterator<Item = &PartitionIndex>,
    ) -> Result<BTreeMap<PartitionIndex, Reading>, PartitionError> {
        let all: Vec<TopicPartition> =
            partitions.map(|p| TopicPartition { topic: topic.clone(), partition: *p }).collect();
        let starts = self.list_offsets(&all, EARLIEST, false).await;
        let ends = self.list_offsets(&all, LATEST, false).await;
        let view = self.view();
        let mut reading = BTreeMap::new();
        for partition in all {
            let (start, end) = (starts[&partition].clone()?, ends[&partition].clone()?);
            let no_leader = || PartitionError { partition: partition.clone(), code: ErrorCode(5) };
            let leader = view.leader(topic, partition.partition).ok_or_else(no_leader)?.node;
            let one = Reading { position: start.offset, end: end.offset, leader };
            reading.insert(partition.partition, one);
        }
        Ok(reading)
    }

    /// Shows the batches of one partition that hold offsets from `from` up to `until`, in
    /// order, until `visit` breaks off. `until` must not lie behind what the log can show:
    /// the high watermark, or the last stable offset with `read_committed`.
    ///
    /// # Errors
    ///
    /// [`LogError`], also when the partition's leader changes meanwhile.
    pub async fn scan(
        &self,
        partition: &TopicPartition,
        from: Offset,
        until: Offset,
        read_committed: bool,
        mut visit: impl FnMut(ScannedBatch) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let topic = &partition.topic;
        let view = self.view();
        let missing = || LogError::Missing(topic.clone());
        let id = view.topics.get(topic).ok_or_else(missing)?.id;
        let leader = view.leader(topic, partition.partition).ok_or_else(missing)?.node;
        let one = Reading { position: from, end: until, leader };
        let mut reading = BTreeMap::from([(partition.partition, one)]);
        let mut broken_off = false;
        let mut idle = 0;
        while !broken_off && reading.values().any(|one| one.position < one.end) {
            let before = reading[&partition.partition].position;
            let mut one_batch = |_, _, scanned: &ScannedBatch| {
                let flow = visit(scanned.clone());
                broken_off |= flow.is_break();
                flow
            };
            self.read_from(leader, (topic, id), read_committed, &mut reading, &mut one_batch)
                .await?;
            // An open transaction holds back the rest for readers of committed records only.
            idle = if reading[&partition.partition].position == before { idle + 1 } else { 0 };
            if idle > SCAN_IDLE_MAX {
                break;
            }
        }
        Ok(())
    }

    /// One fetch of all partitions that `node` leads.
    async fn read_from(
        &self,
        node: NodeId,
        (topic, id): (&TopicName, TopicId),
        read_committed: bool,
        reading: &mut BTreeMap<PartitionIndex, Reading>,
        visit: &mut impl FnMut(PartitionIndex, Offset, &ScannedBatch) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let lane = |cause| LogError::Lane { topic: topic.clone(), node, cause };
        let connection = self.control(Some(node), Api::Fetch).await.1.map_err(lane)?;
        let limit = if id.is_some() { i16::MAX } else { 12 };
        let version = connection
            .versions()
            .choose_at_most(Api::Fetch, limit)
            .map_err(|error| lane(error.into()))?;
        let name =
            if uses_topic_ids(version) { TopicRef::Id(id) } else { TopicRef::Name(topic.clone()) };
        let of_node = reading.iter().filter(|(_, one)| one.leader == node);
        let wishes = of_node.map(|(partition, one)| PartitionWish {
            partition: *partition,
            position: one.position,
            leader_epoch: LeaderEpoch::UNKNOWN,
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            bytes_max: READ_BYTES_MAX,
        });
        let wish = FetchWish {
            wait_ms_max: 100,
            bytes_min: 1,
            bytes_max: READ_BYTES_MAX,
            read_committed,
            session_id: 0,
            session_epoch: -1,
            topics: vec![(name, wishes.collect())],
            forgotten: Vec::new(),
        };
        let settings = self.settings();
        let frame = fetch::encode(version, &settings.client_id, &wish);
        let body = connection.send(frame, settings.request_timeout).await;
        let body = body.map_err(|fault| lane(fault.into()))?;
        let malformed = |error: Malformed| lane(error.into());
        let answer = fetch::decode(version, &body).map_err(malformed)?;
        if answer.code.is_error() {
            return Err(lane(RequestCause::Refused(answer.code)));
        }
        for part in answer.partitions {
            let partition = TopicPartition { topic: topic.clone(), partition: part.partition };
            if part.code.is_error() {
                return Err(PartitionError { partition, code: part.code }.into());
            }
            let Some(one) = reading.get_mut(&part.partition) else { continue };
            let mut index = AbortedIndex::new(part.aborted);
            for batch in Batches::new(part.records) {
                let batch = batch
                    .map_err(|cause| LogError::Batches { partition: partition.clone(), cause })?;
                let aborted = index.covers(&batch);
                let next = batch.header().next_offset();
                if batch.header().base_offset >= one.end {
                    one.position = one.end;
                    break;
                }
                let flow = visit(part.partition, one.position, &ScannedBatch { batch, aborted });
                one.position = one.position.max(next);
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Appends records to a small topic and waits until all replicas have them.
    ///
    /// The records get the time of writing.
    ///
    /// Tried again through leader changes; a record may then stand there twice, which a
    /// compacted topic does not mind.
    ///
    /// # Errors
    ///
    /// [`LogError`] when a partition keeps refusing.
    pub async fn append(
        &self,
        topic: &TopicName,
        records: &[NewRecord],
    ) -> Result<Appended, LogError> {
        self.append_at(topic, self.clock().wall(), records).await
    }

    /// [`Cluster::append`] with a time for the records.
    ///
    /// # Errors
    ///
    /// As [`Cluster::append`].
    pub async fn append_at(
        &self,
        topic: &TopicName,
        time: Timestamp,
        records: &[NewRecord],
    ) -> Result<Appended, LogError> {
        let late = || LogError::Late { what: format!("writing to {topic} on {}", self.alias()) };
        let appending = self.append_all(topic, time, records);
        tokio::time::timeout(PATIENCE, appending).await.map_err(|_| late())?
    }

    async fn append_all(
        &self,
        topic: &TopicName,
        time: Timestamp,
        records: &[NewRecord],
    ) -> Result<Appended, LogError> {
        let mut batches: Vec<(PartitionIndex, BatchBuilder, usize)> = Vec::new();
        for record in records {
            let bytes = record.key.len() + record.value.as_ref().map_or(0, Vec::len);
            let open = batches.iter_mut().rev().find(|(partition, _, size)| {
                *partition == record.partition && size + bytes <= BATCH_BYTES
            });
            let batch = match open {
                Some(batch) => batch,
                None => {
                    batches.push((record.partition, BatchBuilder::new(Codec::None), 0));
                    batches.last_mut().expect("just pushed")
                }
            };
            batch.1.push(time, Some(&record.key), record.value.as_deref());
            batch.2 += bytes;
        }
        let mut appended = Appended::default();
        for (partition, builder, _) in batches {
            let count = builder.count();
            let partition = TopicPartition { topic: topic.clone(), partition };
            let batch = builder
                .finish(Offset::ZERO)
                .map_err(|cause| LogError::Records { partition: partition.clone(), cause })?;
            let (base, once) = self.append_batch(&partition, &batch).await?;
            appended.once &= once;
            appended.batches.push((partition.partition, base, count));
        }
        Ok(appended)
    }

    async fn append_batch(
        &self,
        partition: &TopicPartition,
        batch: &RawBatch,
    ) -> Result<(Offset, bool), LogError> {
        let mut backoff = Backoff::new(3);
        loop {
            let Some(leader) = self.view().leader(&partition.topic, partition.partition) else {
                if backoff.failures() > 20 {
                    return Err(LogError::Missing(partition.topic.clone()));
                }
                tokio::time::sleep(backoff.fail()).await;
                self.refresh(Some(std::slice::from_ref(&partition.topic))).await?;
                continue;
            };
            let lane =
                |cause| LogError::Lane { topic: partition.topic.clone(), node: leader.node, cause };
            match self.append_once(leader.node, partition, batch).await {
                Ok((code, base)) if !code.is_error() => return Ok((base, backoff.failures() == 0)),
                Ok((code, _)) if matches!(code.0, 3 | 5 | 6 | 7 | 19 | 20 | 56) => {}
                Ok((code, _)) => {
                    return Err(PartitionError { partition: partition.clone(), code }.into());
                }
                Err(cause @ (RequestCause::NoVersion(_) | RequestCause::Malformed(_))) => {
                    return Err(lane(cause));
                }
                Err(_) => {}
            }
            tokio::time::sleep(backoff.fail()).await;
            self.refresh(Some(std::slice::from_ref(&partition.topic))).await?;
        }
    }

    async fn append_once(
        &self,
        node: NodeId,
        partition: &TopicPartition,
        batch: &RawBatch,
    ) -> Result<(ErrorCode, Offset), RequestCause> {
        let connection = self.control(Some(node), Api::Produce).await.1?;
        let version = connection.versions().choose(Api::Produce)?;
        let settings = self.settings();
        let mut head = *batch.header_bytes();
        head[..8].fill(0);
        let wanted = PartitionBatch {
            topic: &partition.topic,
            partition: partition.partition,
            head: &head,
            body: batch.body(),
        };
        let timeout_ms = i32::try_from(settings.request_timeout.as_millis()).unwrap_or(i32::MAX);
        let frame = encode_produce(version, &settings.client_id, timeout_ms, &[wanted]);
        let body = connection.send(frame, settings.request_timeout).await?;
        let answer = decode_produce(version, &body)?;
        let first = answer.partitions.first();
        Ok(first.map_or((ErrorCode(-1), Offset(-1)), |one| (one.code, one.base_offset)))
    }
}

fn collect(
    batch: &RawBatch,
    from: Offset,
    partition: PartitionIndex,
    show: &mut impl FnMut(LogRecord),
) -> Result<(), RecordError> {
    for_each_record(batch, |record| {
        if record.offset >= from {
            show(LogRecord {
                partition,
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(Bytes::copy_from_slice),
                value: record.value.map(Bytes::copy_from_slice),
            });
        }
    })
}
