//! Produce: our own request encoder, which does not copy bodies, and a bounded decoder.

use super::bounded::Writer;
use super::frame::OutFrame;
use super::{Api, ErrorCode, Malformed, Reader};
use crate::model::{LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName};
use bytes::Bytes;

/// One partition's batch in a Produce request. A broker takes exactly one batch per partition
/// and request (`ProduceRequest.validateRecords`).
#[derive(Clone, Debug)]
pub struct PartitionBatch<'a> {
    /// The target topic.
    pub topic: &'a TopicName,
    /// The target partition.
    pub partition: PartitionIndex,
    /// The batch's header, copied into the request.
    pub head: &'a [u8],
    /// The batch's records, shared.
    pub body: Bytes,
}

/// Writes a Produce request with `acks=all`.
///
/// `batches` of one topic must stand together; each `(topic, partition)` may occur once, as a
/// broker keeps only the last of several. `timeout_ms` is how long the leader may wait for its
/// followers.
///
/// # Panics
///
/// If a partition's batch is larger than a length can say.
#[must_use]
pub fn encode_produce(
    version: i16,
    client_id: &str,
    timeout_ms: i32,
    batches: &[PartitionBatch<'_>],
) -> OutFrame {
    let small: usize = batches.iter().map(|batch| 96 + batch.topic.as_str().len()).sum();
    let flexible = Api::Produce.is_flexible(version);
    let mut frame = OutFrame::new(Api::Produce, version, client_id, 32 + small);

    let mut writer = Writer::new(frame.small(), flexible);
    writer.null_string(); // no transactional id
    writer.i16(-1); // acks=all
    writer.i32(timeout_ms);
    let topics = batches.chunk_by(|a, b| a.topic == b.topic);
    writer.length(topics.clone().count());
    for of_topic in topics {
        let mut writer = Writer::new(frame.small(), flexible);
        writer.string(of_topic[0].topic.as_str());
        writer.length(of_topic.len());
        for batch in of_topic {
            let mut writer = Writer::new(frame.small(), flexible);
            writer.i32(batch.partition);
            writer.length(batch.head.len() + batch.body.len());
            writer.raw(batch.head);
            frame.body(batch.body.clone());
            Writer::new(frame.small(), flexible).no_tagged();
        }
        Writer::new(frame.small(), flexible).no_tagged();
    }
    Writer::new(frame.small(), flexible).no_tagged();
    frame.seal()
}

/// One partition's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAnswer {
    /// The target topic.
    pub topic: TopicName,
    /// The target partition.
    pub partition: PartitionIndex,
    /// Whether the batch was taken.
    pub code: ErrorCode,
    /// Downstream offset of the batch's first record; -1 when unknown. To be believed only
    /// without an error: codes 7 and 20 may fill it though nothing is confirmed.
    pub base_offset: Offset,
    /// What the broker says about the error, if anything: its own message, then the records it
    /// names.
    pub message: Option<String>,
    /// The leader that the broker knows of, with errors about leadership (version 10 on).
    pub leader: Option<(NodeId, LeaderEpoch)>,
}

/// A whole Produce answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceAnswer {
    /// One per partition asked for.
    pub partitions: Vec<PartitionAnswer>,
    /// How long to hold back, milliseconds (KIP-219).
    pub throttle_ms: i32,
}

/// Reads a Produce answer from its body, behind the response header.
///
/// # Errors
///
/// [`Malformed`] if the bytes are not exactly such an answer.
pub fn decode_produce(version: i16, body: &[u8]) -> Result<ProduceAnswer, Malformed> {
    let mut reader = Reader::new(body, Api::Produce.is_flexible(version));
    let mut partitions = Vec::new();
    for _ in 0..reader.count(4)? {
        let topic = TopicName::new(reader.string()?);
        let count = reader.count(30)?;
        partitions.reserve(count);
        for _ in 0..count {
            partitions.push(partition_answer(version, &topic, &mut reader)?);
        }
        reader.skip_tagged()?;
    }
    let throttle_ms = reader.i32()?;
    reader.skip_tagged()?;
    reader.finish()?;
    Ok(ProduceAnswer { partitions, throttle_ms })
}

fn partition_answer(
    version: i16,
    topic: &TopicName,
    reader: &mut Reader<'_>,
) -> Result<PartitionAnswer, Malformed> {
    let partition = reader.i32()?;
    let code = ErrorCode(reader.i16()?);
    let base_offset = Offset(reader.i64()?);
    let _log_append_time = reader.i64()?;
    let _log_start_offset = reader.i64()?;
    let mut refused = Vec::new();
    for _ in 0..reader.count(6)? {
        let index = reader.i32()?;
        let why = reader.nullable_string()?.unwrap_or_default();
        reader.skip_tagged()?;
        // Three say enough; a broker may list every record of the batch.
        if refused.len() < 3 {
            refused.push(format!("record {index}: {why}"));
        }
    }
    let said = reader.nullable_string()?.map(str::to_owned);
    let mut leader = None;
    reader.tagged(|tag, field| {
        if tag == 0 && version >= 10 {
            let (node, epoch) = (field.i32()?, field.i32()?);
            leader = (node >= 0).then_some((NodeId(node), LeaderEpoch(epoch)));
        }
        Ok(())
    })?;
    let parts: Vec<String> = said.into_iter().chain(refused).collect();
    let message = (!parts.is_empty()).then(|| parts.join("; "));
    Ok(PartitionAnswer { topic: topic.clone(), partition, code, base_offset, message, leader })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_each_topic_once_and_holds_every_byte_in_order() {
        let (orders, payments) = (TopicName::new("orders"), TopicName::new("payments"));
        let batch = |topic, partition, body: &'static [u8]| PartitionBatch {
            topic,
            partition,
            head: b"HEAD",
            body: Bytes::from_static(body),
        };
        let batches =
            [batch(&orders, 0, b"zero"), batch(&orders, 3, b"three"), batch(&payments, 1, b"one")];

        for version in [8, 9, 12] {
            let frame = encode_produce(version, "me", 30_000, &batches);
            let bytes = frame.to_vec();
            let flexible = version >= 9;
            let mut reader = Reader::new(&bytes[14 + usize::from(flexible) + 2..], flexible);
            assert_eq!(reader.nullable_string(), Ok(None));
            assert_eq!((reader.i16(), reader.i32()), (Ok(-1), Ok(30_000)));
            let mut seen = Vec::new();
            for _ in 0..reader.count(1).unwrap() {
                let topic = reader.string().unwrap();
                for _ in 0..reader.count(1).unwrap() {
                    let partition = reader.i32().unwrap();
                    let length = reader.nullable_bytes().unwrap().unwrap().len();
                    reader.skip_tagged().unwrap();
                    seen.push((topic, partition, length));
                }
                reader.skip_tagged().unwrap();
            }
            reader.skip_tagged().unwrap();
            reader.finish().unwrap();
            assert_eq!(seen, [("orders", 0, 8), ("orders", 3, 9), ("payments", 1, 7)]);
        }
    }
}
