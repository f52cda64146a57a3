//! Heartbeats: a sign of life per flow, and the base of MM2's end-to-end latency.
//!
//! Records of `heartbeats` on the target; the flow replicates them onward like any topic.
//! MM2 class: `Heartbeat`.

use super::field::{Malformed, Reader, put_string};
use crate::model::{ClusterAlias, FlowId, Timestamp};

/// One sign of life of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The flow that is alive.
    pub flow: FlowId,
    /// When it was; the record carries the same time.
    pub timestamp: Timestamp,
}

impl Heartbeat {
    /// The record's key: source alias, then target alias.
    ///
    /// # Panics
    ///
    /// If an alias is longer than 32767 bytes; it is part of topic names, which stop at 249.
    #[must_use]
    pub fn encode_key(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for alias in [&self.flow.source, &self.flow.target] {
            put_string(&mut out, "alias", alias.as_str()).expect("an alias fits a topic name");
        }
        out
    }

    /// The record's value, version 0.
    #[must_use]
    pub fn encode_value(&self) -> [u8; 10] {
        let mut out = [0; 10];
        out[2..].copy_from_slice(&self.timestamp.0.to_be_bytes());
        out
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if a field is cut off or no text, or the version is not 0.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("heartbeat value", value);
        reader.version_zero()?;
        let timestamp = Timestamp(reader.i64("timestamp")?);
        let mut reader = Reader::new("heartbeat key", key);
        let source = ClusterAlias::new(reader.string("source alias")?);
        let target = ClusterAlias::new(reader.string("target alias")?);
        Ok(Self { flow: FlowId { source, target }, timestamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_has_the_bytes_that_mm2_writes() {
        let heartbeat = Heartbeat {
            flow: FlowId {
                source: ClusterAlias::new("source-1"),
                target: ClusterAlias::new("target-2"),
            },
            timestamp: Timestamp(1_234_567_890),
        };

        assert_eq!(heartbeat.encode_key(), b"\0\x08source-1\0\x08target-2");
        assert_eq!(heartbeat.encode_value(), *b"\0\0\0\0\0\0\x49\x96\x02\xd2");
        assert_eq!(
            Heartbeat::decode(&heartbeat.encode_key(), &heartbeat.encode_value()),
            Ok(heartbeat)
        );
    }
}
