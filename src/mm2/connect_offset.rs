//! Connect's source offsets: where MM2 says how far it has copied.
//!
//! Records of `mm2-offsets.<source>.internal` on the target, as Connect's `JsonConverter`
//! writes them for `MirrorSourceTask`. MM2 looks its progress up by the key's exact BYTES and
//! relies on the partition that Java's partitioner gives; one blank or another member order
//! and it would start from the beginning. So writing is strict and reading is liberal.

use std::fmt::Write as _;

use serde_json::Value;

use super::field::Malformed;
use crate::model::{ClusterAlias, Offset, TopicPartition};

/// Name of the source connector in dedicated mode, and so in its offset keys.
pub const SOURCE_CONNECTOR: &str = "MirrorSourceConnector";

/// Name of the checkpoint connector; its records in this topic are never read back.
pub const CHECKPOINT_CONNECTOR: &str = "MirrorCheckpointConnector";

/// Name of the heartbeat connector; its records in this topic are never read back.
pub const HEARTBEAT_CONNECTOR: &str = "MirrorHeartbeatConnector";

/// Which progress a record speaks of: one source partition under one connector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceOffsetKey {
    /// The connector's `name`; [`SOURCE_CONNECTOR`] unless a Connect cluster ran it.
    pub connector: String,
    /// The source cluster's alias.
    pub cluster: ClusterAlias,
    /// Topic and partition under the source's names.
    pub partition: TopicPartition,
}

impl SourceOffsetKey {
    /// The key of MM2's dedicated mode.
    #[must_use]
    pub fn new(cluster: ClusterAlias, partition: TopicPartition) -> Self {
        Self { connector: SOURCE_CONNECTOR.to_owned(), cluster, partition }
    }

    /// The record's key, byte for byte as Connect writes it.
    ///
    /// The members stand in the iteration order of a Java `HashMap` with these three names.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = String::with_capacity(96);
        out.push('[');
        put_json_string(&mut out, &self.connector);
        out.push_str(",{\"cluster\":");
        put_json_string(&mut out, self.cluster.as_str());
        out.push_str(",\"partition\":");
        out.push_str(&self.partition.partition.to_string());
        out.push_str(",\"topic\":");
        put_json_string(&mut out, self.partition.topic.as_str());
        out.push_str("}]");
        out.into_bytes()
    }

    /// Reads a key: any member order, blanks allowed.
    ///
    /// `None` for a well-formed key of another kind of connector: checkpoint and heartbeat
    /// connectors, and any connector of a shared Connect cluster, write here too.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is not a JSON array of a connector name and an object.
    pub fn decode(key: &[u8]) -> Result<Option<Self>, Malformed> {
        let key: Value = parse("connect offset key", key)?;
        let Some([Value::String(connector), Value::Object(members)]) =
            key.as_array().map(Vec::as_slice)
        else {
            return Err(malformed("connect offset key", 0, "not [\"connector\",{..}]"));
        };
        let (Some(Value::String(cluster)), Some(partition), Some(Value::String(topic)), 3) =
            (members.get("cluster"), members.get("partition"), members.get("topic"), members.len())
        else {
            return Ok(None);
        };
        let Some(partition) = partition.as_i64().and_then(|number| i32::try_from(number).ok())
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            connector: connector.clone(),
            cluster: ClusterAlias::new(cluster),
            partition: TopicPartition::new(topic.as_str(), partition),
        }))
    }
}

/// The record's value. `last` is the LAST upstream offset known to be on the target, not the
/// next one to read.
#[must_use]
pub fn encode_value(last: Offset) -> Vec<u8> {
    format!("{{\"offset\":{last}}}").into_bytes()
}

/// Reads a value: the last upstream offset that is on the target; the next to read is one
/// further. `None` for a tombstone, which means that nothing is known.
///
/// # Errors
///
/// [`Malformed`] if it is neither null nor a JSON object with an integer `offset` from 0.
pub fn decode_value(value: Option<&[u8]>) -> Result<Option<Offset>, Malformed> {
    let Some(value) = value else { return Ok(None) };
    let parsed: Value = parse("connect offset value", value)?;
    let offset = match &parsed {
        Value::Null => return Ok(None),
        Value::Object(members) => members.get("offset"),
        _ => return Err(malformed("connect offset value", 0, "not {\"offset\":..}")),
    };
    match offset {
        None | Some(Value::Null) => Ok(None),
        Some(number) => match number.as_i64() {
            // The last offset of `i64` has none behind it to go on at.
            Some(offset) if (0..i64::MAX).contains(&offset) => Ok(Some(Offset(offset))),
            _ => Err(malformed(
                "connect offset value",
                0,
                &format!("offset {number} is no whole number from 0"),
            )),
        },
    }
}

/// The partition that Java's default partitioner picks for `key` (`Utils.murmur2`, made
/// positive, modulo the count). MM2 keeps the last value it sees per key over all partitions,
/// so a key in two partitions could resolve to the older value.
///
/// # Panics
///
/// If `partitions` is not positive.
#[must_use]
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic with {partitions} partitions");
    (murmur2(key) & i32::MAX) % partitions
}

/// MurmurHash2 in Kafka's variant: 32 bits, seed `0x9747b28c`.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const MULTIPLIER: u32 = 0x5bd1_e995;

    // Java's array lengths are `int`; a longer key cannot reach this code.
    #[expect(clippy::cast_possible_truncation, reason = "record keys are far below 4 GiB")]
    let length = bytes.len() as u32;
    let mut hash = SEED ^ length;
    let mut words = bytes.chunks_exact(4);
    for word in words.by_ref() {
        let mut word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        word = word.wrapping_mul(MULTIPLIER);
        word ^= word >> 24;
        word = word.wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ word;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^= hash >> 15;
    hash.cast_signed()
}

fn parse(record: &'static str, bytes: &[u8]) -> Result<Value, Malformed> {
    serde_json::from_slice(bytes).map_err(|error| {
        // Connect writes one line, so the column is the byte.
        malformed(record, error.column().saturating_sub(1), &error.to_string())
    })
}

fn malformed(record: &'static str, at: usize, problem: &str) -> Malformed {
    Malformed { record, at, problem: problem.to_owned() }
}

/// Appends `text` as Jackson writes it: short escapes, upper-case hex, and two surrogate
/// escapes for what lies beyond U+FFFF. Everything else, `/` and U+007F included, is raw.
fn put_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{10000}'.. => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}").expect("a String takes everything");
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, topic: &str, partition: i32) -> SourceOffsetKey {
        SourceOffsetKey::new(ClusterAlias::new(cluster), TopicPartition::new(topic, partition))
    }

    #[test]
    fn a_key_has_the_bytes_that_connect_looks_up() {
        assert_eq!(
            key("A", "test", 0).encode(),
            br#"["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"test"}]"#
        );
    }

    #[test]
    fn a_key_is_escaped_as_jackson_escapes() {
        let odd = key("a\"\\/\u{8}\u{1}\u{1f}\u{7f}\u{2028}\u{e9}\u{1F600}", "t", 0);

        assert_eq!(
            String::from_utf8(odd.encode()).unwrap(),
            "[\"MirrorSourceConnector\",{\"cluster\":\"a\\\"\\\\/\\b\\u0001\\u001F\u{7f}\u{2028}\u{e9}\
             \\uD83D\\uDE00\",\"partition\":0,\"topic\":\"t\"}]"
        );
        assert_eq!(SourceOffsetKey::decode(&odd.encode()), Ok(Some(odd)));
    }

    #[test]
    fn a_key_lands_in_the_partition_that_java_picks() {
        let first = key("primary", "test-topic-1", 0).encode();
        let second = key("A", "t", 3).encode();

        assert_eq!((murmur2(&first), partition_for_key(&first, 25)), (2_058_005_464, 14));
        assert_eq!((murmur2(&second), partition_for_key(&second, 25)), (1_828_102_022, 22));

        let checkpoint =
            br#"["MirrorCheckpointConnector",{"partition":0,"topic":"A.t","group":"g"}]"#;
        assert_eq!((murmur2(checkpoint), partition_for_key(checkpoint, 25)), (-449_127_652, 21));
    }

    #[test]
    fn a_key_is_read_in_any_member_order_and_other_connectors_are_passed_over() {
        let shuffled = br#" [ "mine", { "topic":"t", "partition":7, "cluster":"A" } ] "#;
        let read = SourceOffsetKey::decode(shuffled).unwrap().unwrap();
        assert_eq!((read.connector.as_str(), read.partition.partition), ("mine", 7));

        let heartbeat =
            br#"["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]"#;
        assert_eq!(SourceOffsetKey::decode(heartbeat), Ok(None));
        assert!(SourceOffsetKey::decode(b"{}").is_err());
        assert!(SourceOffsetKey::decode(b"[\"x\",").is_err());
    }

    #[test]
    fn a_value_names_the_last_replicated_offset_and_a_tombstone_names_none() {
        assert_eq!(encode_value(Offset(41)), b"{\"offset\":41}");
        assert_eq!(decode_value(Some(b"{\"offset\":41}")), Ok(Some(Offset(41))));
        assert_eq!(decode_value(None), Ok(None));
        assert_eq!(decode_value(Some(b"null")), Ok(None));

        for bad in [
            "{\"offset\":9223372036854775807}",
            "{\"offset\":-1}",
            "{\"offset\":1.5}",
            "{\"offset\":\"1\"}",
            "[]",
            "",
            "{",
        ] {
            assert!(decode_value(Some(bad.as_bytes())).is_err(), "{bad}");
        }
    }
}
