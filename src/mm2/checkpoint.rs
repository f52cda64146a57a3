//! Checkpoints: a consumer group's position on the source and its translation.
//!
//! Records of `<source>.checkpoints.internal`. MM2 class: `Checkpoint`.

use super::field::{Malformed, Reader, TooLong, put_string};
use crate::model::{Offset, TopicPartition};

/// A group's position on one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The consumer group.
    pub group: String,
    /// Topic and partition under the TARGET's name for them.
    pub partition: TopicPartition,
    /// What the group committed on the source.
    pub upstream: Offset,
    /// Where that is on the target.
    pub downstream: Offset,
    /// The metadata of the group's commit; empty if there was none.
    pub metadata: String,
}

impl Checkpoint {
    /// The record's key: compaction keeps the newest checkpoint of each group and partition.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if the group's or topic's name does not fit.
    pub fn encode_key(&self) -> Result<Vec<u8>, TooLong> {
        let mut out = Vec::new();
        put_string(&mut out, "group", &self.group)?;
        put_string(&mut out, "topic", self.partition.topic.as_str())?;
        out.extend_from_slice(&self.partition.partition.to_be_bytes());
        Ok(out)
    }

    /// The record's value, version 0.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if the metadata does not fit.
    pub fn encode_value(&self) -> Result<Vec<u8>, TooLong> {
        let mut out = Vec::new();
        out.extend_from_slice(&0_i16.to_be_bytes());
        out.extend_from_slice(&self.upstream.0.to_be_bytes());
        out.extend_from_slice(&self.downstream.0.to_be_bytes());
        put_string(&mut out, "metadata", &self.metadata)?;
        Ok(out)
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if a field is cut off or no text, or the version is not 0; MM2 skips
    /// such records.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("checkpoint value", value);
        reader.version_zero()?;
        let upstream = Offset(reader.i64("upstream offset")?);
        let downstream = Offset(reader.i64("downstream offset")?);
        let metadata = reader.string("metadata")?.to_owned();
        let mut reader = Reader::new("checkpoint key", key);
        let group = reader.string("group")?.to_owned();
        let topic = reader.string("topic")?;
        let partition = TopicPartition::new(topic, reader.i32("partition")?);
        Ok(Self { group, partition, upstream, downstream, metadata })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            group: "group-1".to_owned(),
            partition: TopicPartition::new("topic-2", 3),
            upstream: Offset(4),
            downstream: Offset(5),
            metadata: "metadata-6".to_owned(),
        }
    }

    #[test]
    fn a_checkpoint_has_the_bytes_that_mm2_writes() {
        let checkpoint = checkpoint();
        let key = checkpoint.encode_key().unwrap();
        let value = checkpoint.encode_value().unwrap();

        assert_eq!(key, b"\0\x07group-1\0\x07topic-2\0\0\0\x03");
        assert_eq!(value, b"\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\x0ametadata-6");
        assert_eq!(Checkpoint::decode(&key, &value), Ok(checkpoint));
    }

    #[test]
    fn a_checkpoint_of_an_unknown_version_is_refused() {
        let key = checkpoint().encode_key().unwrap();
        let mut value = checkpoint().encode_value().unwrap();
        value[1] = 1;

        let refused = Checkpoint::decode(&key, &value).unwrap_err();

        assert_eq!(
            refused.to_string(),
            "checkpoint value is malformed at byte 2: version 1 is unknown; known: 0"
        );
    }

    #[test]
    fn metadata_that_the_format_cannot_hold_is_refused_and_not_cut() {
        let long = Checkpoint { metadata: "x".repeat(32_768), ..checkpoint() };

        assert_eq!(long.encode_value(), Err(TooLong { field: "metadata", bytes: 32_768 }));
    }
}
