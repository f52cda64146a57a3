//! Offset syncs: which target offset stands for which source offset, as MM2 records it.
//!
//! Records of `mm2-offset-syncs.<alias>.internal`. The value has no version field. When one
//! is due is decided elsewhere. MM2 class: `OffsetSync`.

use super::field::{Malformed, Reader, put_string};
use crate::model::{Offset, TopicPartition};

/// One pair of offsets of one source partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetSync {
    /// The source's topic and partition, under the source's name for it.
    pub partition: TopicPartition,
    /// Offset of a record on the source.
    pub upstream: Offset,
    /// Offset of the same record on the target.
    pub downstream: Offset,
}

impl OffsetSync {
    /// The record's key: compaction keeps the newest sync of each source partition.
    ///
    /// # Panics
    ///
    /// If the topic's name is longer than 32767 bytes; brokers stop at 249.
    #[must_use]
    pub fn encode_key(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(6 + self.partition.topic.as_str().len());
        put_string(&mut out, "topic", self.partition.topic.as_str())
            .expect("a broker's topic name is at most 249 bytes");
        out.extend_from_slice(&self.partition.partition.to_be_bytes());
        out
    }

    /// The record's value: upstream offset, then downstream offset.
    #[must_use]
    pub fn encode_value(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.upstream.0.to_be_bytes());
        out[8..].copy_from_slice(&self.downstream.0.to_be_bytes());
        out
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if a field is cut off or no text; MM2 skips such records.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("offset sync key", key);
        let topic = reader.string("topic")?;
        let partition = TopicPartition::new(topic, reader.i32("partition")?);
        let mut reader = Reader::new("offset sync value", value);
        let upstream = Offset(reader.i64("upstream offset")?);
        let downstream = Offset(reader.i64("downstream offset")?);
        Ok(Self { partition, upstream, downstream })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_sync_has_the_bytes_that_mm2_writes() {
        let sync = OffsetSync {
            partition: TopicPartition::new("topic-1", 2),
            upstream: Offset(3),
            downstream: Offset(4),
        };

        assert_eq!(sync.encode_key(), b"\0\x07topic-1\0\0\0\x02");
        assert_eq!(sync.encode_value(), *b"\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04");
        assert_eq!(OffsetSync::decode(&sync.encode_key(), &sync.encode_value()), Ok(sync));
    }

    #[test]
    fn a_record_cut_off_anywhere_is_refused_and_never_read_as_something_else() {
        let key = b"\0\x07topic-1\0\0\0\x02";
        let value = [0; 16];

        for length in 0..key.len() {
            assert!(OffsetSync::decode(&key[..length], &value).is_err(), "key of {length} bytes");
        }
        for length in 0..value.len() {
            assert!(OffsetSync::decode(key, &value[..length]).is_err(), "value of {length} bytes");
        }
        assert!(OffsetSync::decode(b"\xff\xff\0\0\0\x02", &value).is_err());
    }
}
