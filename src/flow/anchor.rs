//! Records of the positions topic.
//!
//! An anchor is about a source partition and one name on the target. A topic that gets another name
//! there has no position under it; one that gets a former name again goes on where that copy stopped.

use serde_json::{Value, json};

use super::settings::FlowSettings;
use crate::client::LogRecord;
use crate::copy::Start;
use crate::model::{
    LeaderEpoch, Offset, ProducerIdentity, Sequence, TopicId, TopicName, TopicPartition,
};

/// First element of the keys in the positions topic; the number is the format's version.
const KEY_KIND: &str = "heliograph-position-1";

/// Where a partition stands, together with the topics it is true for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    /// Upstream and downstream place, and the producer's numbers there.
    pub(super) start: Start,
    /// The source topic that the upstream offset belongs to.
    pub(super) source_id: TopicId,
    /// The target topic that the downstream offset belongs to.
    pub(super) target_id: TopicId,
}

/// A name that a rule gives is part of it. One that the policy gives is not: the value says it.
pub(super) fn key(settings: &FlowSettings, source: &TopicPartition) -> Vec<u8> {
    let mut place = json!({
        "cluster": settings.id.source.as_str(),
        "partition": source.partition,
        "topic": source.topic.as_str(),
    });
    if let Some(target) = name_by_rule(settings, &source.topic) {
        place["target"] = json!(target.as_str());
    }
    json!([KEY_KIND, place]).to_string().into_bytes()
}

/// What a topic is called on the target, if a rule says so.
fn name_by_rule(settings: &FlowSettings, topic: &TopicName) -> Option<TopicName> {
    let by_rule = settings.names.is_by_rule(topic.as_str());
    by_rule.then(|| settings.names.on_target(topic).ok()).flatten()
}

/// What is written for an anchor that is about this name on the target.
pub(super) fn encode(anchor: &Anchor, target: Option<&TopicName>, bends: Option<u64>) -> Vec<u8> {
    let Anchor { start, source_id, target_id } = anchor;
    json!({
        "targetTopic": target.map(TopicName::as_str),
        "upstream": start.upstream.0,
        "downstream": start.downstream.0,
        "epoch": start.epoch.0,
        "producerId": start.identity.id,
        "producerEpoch": start.identity.epoch,
        "sequence": start.sequence.to_wire(),
        "sourceTopicId": format!("{source_id:?}"),
        "targetTopicId": format!("{target_id:?}"),
        "bends": bends,
    })
    .to_string()
    .into_bytes()
}

/// An anchor, and how many bends the offset map has up to it, if that was written before it.
type Position = (Anchor, Option<u64>);

/// What a record of the positions topic says about a partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Position(Anchor, Option<u64>),
    /// It takes back what was said, or cannot be read.
    Nothing,
    /// It is about another name on the target than the topic has now.
    OtherName {
        name: TopicName,
        /// The policy gave that name, and would give another one now.
        by_policy: bool,
    },
}

/// What a record says about which partition, `None` if it is not one of this flow's.
pub(super) fn decode(
    settings: &FlowSettings,
    record: &LogRecord,
) -> Option<(TopicPartition, Told)> {
    let key: Value = serde_json::from_slice(record.key.as_ref()?).ok()?;
    if key.get(0)?.as_str()? != KEY_KIND
        || key.get(1)?.get("cluster")?.as_str()? != settings.id.source.as_str()
    {
        return None;
    }
    let partition = i32::try_from(key.get(1)?.get("partition")?.as_i64()?).ok()?;
    let source = TopicPartition::new(key.get(1)?.get("topic")?.as_str()?, partition);
    let by_rule = key.get(1)?.get("target").and_then(Value::as_str).map(TopicName::new);
    let Some(value) = &record.value else { return Some((source, Told::Nothing)) };
    if by_rule != name_by_rule(settings, &source.topic) {
        let by_policy = || settings.names.policy.remote(&settings.id.source, &source.topic);
        let name = by_rule.unwrap_or_else(by_policy);
        return Some((source, Told::OtherName { name, by_policy: false }));
    }
    let Some(((anchor, bends), name)) = decode_anchor(value) else {
        tracing::warn!(flow = %settings.id, partition = %source, offset = %record.offset,
            "a position cannot be read and is passed over");
        return Some((source, Told::Nothing));
    };
    // Another policy, or another separator, than when it was written.
    match name {
        Some(name) if settings.names.on_target(&source.topic).as_ref() != Ok(&name) => {
            Some((source, Told::OtherName { name, by_policy: true }))
        }
        _ => Some((source, Told::Position(anchor, bends))),
    }
}

/// A position, and the name on the target that it is about, if it says that.
pub(super) fn decode_anchor(value: &[u8]) -> Option<(Position, Option<TopicName>)> {
    let value: Value = serde_json::from_slice(value).ok()?;
    let number = |name: &str| value.get(name).and_then(Value::as_i64);
    let id = |name: &str| {
        let hex = value.get(name)?.as_str()?;
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(TopicId(bytes))
    };
    let start = Start {
        upstream: Offset(number("upstream")?),
        downstream: Offset(number("downstream")?),
        epoch: LeaderEpoch(i32::try_from(number("epoch")?).ok()?),
        identity: ProducerIdentity {
            id: number("producerId")?,
            epoch: i16::try_from(number("producerEpoch")?).ok()?,
        },
        sequence: Sequence::from_wire(i32::try_from(number("sequence")?).ok()?)?,
    };
    let is_place = |offset: Offset| (0..i64::MAX).contains(&offset.0);
    if !is_place(start.upstream) || !is_place(start.downstream) {
        return None;
    }
    let anchor = Anchor { start, source_id: id("sourceTopicId")?, target_id: id("targetTopicId")? };
    let name = value.get("targetTopic").and_then(Value::as_str).map(TopicName::new);
    Some(((anchor, value.get("bends").and_then(Value::as_u64)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_read_back_as_it_was_written() {
        let start = Start {
            upstream: Offset(1234),
            downstream: Offset(1200),
            epoch: LeaderEpoch(7),
            identity: ProducerIdentity { id: 42, epoch: 3 },
            sequence: Sequence::ZERO.advance(99),
        };
        let anchor = Anchor { start, source_id: TopicId([0xab; 16]), target_id: TopicId::NONE };
        for (name, bends) in [(Some("a.t".into()), Some(3)), (None, None)] {
            let read = decode_anchor(&encode(&anchor, name.as_ref(), bends));
            assert_eq!(read, Some(((anchor, bends), name)));
        }
        assert_eq!(decode_anchor(b"{}"), None);
        assert_eq!(decode_anchor(b"no json"), None);
    }
}
