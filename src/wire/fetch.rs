//! Fetch: our own request encoder and a response decoder that yields views into the frame.

use bytes::Bytes;

use super::bounded::Writer;
use super::frame::OutFrame;
use super::{Api, ErrorCode, Malformed, Reader};
use crate::model::{
    AbortedTransaction, LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId, TopicName,
};

/// First version that names topics by id only (KIP-516).
const TOPIC_IDS_FROM: i16 = 13;

/// A topic as requests and answers name it: by name up to version 12, by id from 13 on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicRef {
    /// By name.
    Name(TopicName),
    /// By id.
    Id(TopicId),
}

/// Whether `version` names topics by id.
#[must_use]
pub fn uses_topic_ids(version: i16) -> bool {
    version >= TOPIC_IDS_FROM
}

/// What one partition is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionWish {
    /// Which partition.
    pub partition: PartitionIndex,
    /// First offset wanted.
    pub position: Offset,
    /// The leader epoch we believe in; a broker that knows better says so (KIP-320).
    pub leader_epoch: LeaderEpoch,
    /// Epoch of the last batch copied: a leader whose log differs there says where.
    pub last_fetched_epoch: LeaderEpoch,
    /// Most bytes wanted; a first batch that is larger comes all the same.
    pub bytes_max: i32,
}

/// A whole Fetch request.
#[derive(Clone, Debug)]
pub struct FetchWish {
    /// How long the broker may wait for data, milliseconds.
    pub wait_ms_max: i32,
    /// Answer as soon as this many bytes are there.
    pub bytes_min: i32,
    /// Most bytes wanted over all partitions; one batch that is larger comes all the same.
    pub bytes_max: i32,
    /// Committed records only.
    pub read_committed: bool,
    /// Session id, 0 to ask for one (KIP-227).
    pub session_id: i32,
    /// Session epoch: 0 for a full request, -1 to end the session.
    pub session_epoch: i32,
    /// Partitions new to the session or changed, grouped by topic.
    pub topics: Vec<(TopicRef, Vec<PartitionWish>)>,
    /// Partitions that leave the session, grouped by topic.
    pub forgotten: Vec<(TopicRef, Vec<PartitionIndex>)>,
}

fn topic_ref(writer: &mut Writer<'_>, topic: &TopicRef) {
    match topic {
        TopicRef::Name(name) => writer.string(name.as_str()),
        TopicRef::Id(id) => writer.raw(&id.0),
    }
}

/// Writes a Fetch request.
///
/// # Panics
///
/// If a topic is named in the way of another version.
#[must_use]
pub fn encode(version: i16, client_id: &str, wish: &FetchWish) -> OutFrame {
    let flexible = Api::Fetch.is_flexible(version);
    let partitions: usize = wish.topics.iter().map(|(_, partitions)| 20 + partitions.len()).sum();
    let mut frame = OutFrame::new(Api::Fetch, version, client_id, 64 + 40 * partitions);
    let mut writer = Writer::new(frame.small(), flexible);
    if version < 15 {
        writer.i32(-1); // replica id: a consumer
    }
    writer.i32(wish.wait_ms_max);
    writer.i32(wish.bytes_min);
    writer.i32(wish.bytes_max);
    writer.i8(i8::from(wish.read_committed));
    writer.i32(wish.session_id);
    writer.i32(wish.session_epoch);
    writer.length(wish.topics.len());
    for (topic, partitions) in &wish.topics {
        assert_eq!(matches!(topic, TopicRef::Id(_)), uses_topic_ids(version));
        topic_ref(&mut writer, topic);
        writer.length(partitions.len());
        for partition in partitions {
            writer.i32(partition.partition);
            writer.i32(partition.leader_epoch.0);
            writer.i64(partition.position.0);
            if version >= 12 {
                writer.i32(partition.last_fetched_epoch.0);
            }
            writer.i64(-1); // log start offset: followers only
            writer.i32(partition.bytes_max);
            writer.no_tagged();
        }
        writer.no_tagged();
    }
    writer.length(wish.forgotten.len());
    for (topic, partitions) in &wish.forgotten {
        topic_ref(&mut writer, topic);
        writer.length(partitions.len());
        partitions.iter().for_each(|partition| writer.i32(*partition));
        writer.no_tagged();
    }
    writer.string(""); // rack
    writer.no_tagged();
    frame.seal()
}

/// One partition's part of an answer.
#[derive(Clone, Debug)]
pub struct FetchedPartition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition.
    pub partition: PartitionIndex,
    /// What went wrong, if anything.
    pub code: ErrorCode,
    /// End of what is replicated; -1 when unknown.
    pub high_watermark: Offset,
    /// End of what a `read_committed` reader may see; -1 when unknown.
    pub last_stable_offset: Offset,
    /// First offset that the log still has; -1 when unknown.
    pub log_start: Offset,
    /// Where our log and the leader's part: the leader's epoch there and that epoch's end.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// The leader that the broker knows of, with errors about leadership.
    pub leader: Option<(NodeId, LeaderEpoch)>,
    /// A follower to read from instead (KIP-392).
    pub preferred_replica: Option<NodeId>,
    /// Aborted transactions that overlap the records; complete for this answer only.
    pub aborted: Vec<AbortedTransaction>,
    /// The record set as the broker cut it; a slice of the frame.
    pub records: Bytes,
}

/// A whole Fetch answer.
#[derive(Clone, Debug)]
pub struct FetchAnswer {
    /// How long to hold back, milliseconds (KIP-219).
    pub throttle_ms: i32,
    /// An error about the session or the request as a whole.
    pub code: ErrorCode,
    /// The session the broker keeps for us; 0 for none.
    pub session_id: i32,
    /// Partitions with news; in a session the others are left out.
    pub partitions: Vec<FetchedPartition>,
}

/// Reads a Fetch answer from `body`, which lies behind the response header.
///
/// Allocates one list of partitions; records stay where they are in the frame.
///
/// # Errors
///
/// [`Malformed`] if the bytes are not exactly such an answer.
pub fn decode(version: i16, body: &Bytes) -> Result<FetchAnswer, Malformed> {
    let mut reader = Reader::new(body, Api::Fetch.is_flexible(version));
    let throttle_ms = reader.i32()?;
    let code = ErrorCode(reader.i16()?);
    let session_id = reader.i32()?;
    let mut partitions = Vec::new();
    for _ in 0..reader.count(4)? {
        let topic = if uses_topic_ids(version) {
            TopicRef::Id(reader.topic_id()?)
        } else {
            TopicRef::Name(TopicName::new(reader.string()?))
        };
        let count = reader.count(36)?;
        partitions.reserve(count);
        for _ in 0..count {
            partitions.push(partition(&topic, body, &mut reader)?);
        }
        reader.skip_tagged()?;
    }
    reader.skip_tagged()?; // node endpoints: metadata has them
    reader.finish()?;
    Ok(FetchAnswer { throttle_ms, code, session_id, partitions })
}

fn partition(
    topic: &TopicRef,
    body: &Bytes,
    reader: &mut Reader<'_>,
) -> Result<FetchedPartition, Malformed> {
    let partition = reader.i32()?;
    let code = ErrorCode(reader.i16()?);
    let high_watermark = Offset(reader.i64()?);
    let last_stable_offset = Offset(reader.i64()?);
    let log_start = Offset(reader.i64()?);
    let count = reader.count(16)?;
    let mut aborted = Vec::with_capacity(count);
    for _ in 0..count {
        let (producer_id, first_offset) = (reader.i64()?, Offset(reader.i64()?));
        reader.skip_tagged()?;
        aborted.push(AbortedTransaction { first_offset, producer_id });
    }
    let preferred = reader.i32()?;
    let records = reader.nullable_bytes()?.map_or_else(Bytes::new, |range| body.slice(range));
    let (mut diverging, mut leader) = (None, None);
    reader.tagged(|tag, field| {
        match tag {
            0 => {
                let (epoch, end) = (field.i32()?, field.i64()?);
                diverging = (epoch >= 0 || end >= 0).then_some((LeaderEpoch(epoch), Offset(end)));
            }
            1 => {
                let (node, epoch) = (field.i32()?, field.i32()?);
                leader = (node >= 0).then_some((NodeId(node), LeaderEpoch(epoch)));
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(FetchedPartition {
        topic: topic.clone(),
        partition,
        code,
        high_watermark,
        last_stable_offset,
        log_start,
        diverging,
        leader,
        preferred_replica: (preferred >= 0).then_some(NodeId(preferred)),
        aborted,
        records,
    })
}
