//! What the sync of topic configs owns, kept in a compacted topic of ours on the target.
//!
//! `mm2-heliograph-owned.<source>.internal`: a record per target topic. Key and value are JSON,
//! so that Kafka's own console consumer shows them:
//!
//! ```text
//! ["topic-configs-0",{"source":"a","topic":"a.orders"}]
//! {"retention.ms":["86400000"],"cleanup.policy":["compact","delete"]}
//! ```
//!
//! A value is written before the change it speaks of is sent, with the value before it behind
//! it: a process that dies in between leaves one of the two on the target, and both are ours.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::internal_topics::InternalTopic;
use super::ledger::Ledger;
use super::rounds::Trouble;
use crate::client::{Cluster, LogRecord, NewRecord};
use crate::model::{ClusterAlias, FlowId, TopicName};
use crate::policy::{Owned, Thing};

/// First element of keys; the number is the format's version.
const KEY_KIND: &str = "topic-configs-0";

/// What is owned on each target topic, as it stands in our topic.
#[derive(Debug)]
pub(super) struct OwnedConfigs {
    source: ClusterAlias,
    ledger: Ledger,
    by_topic: BTreeMap<TopicName, Owned>,
}

impl OwnedConfigs {
    /// Reads what was written before.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if the target does not answer.
    pub(super) async fn load(
        flow: &FlowId,
        target: &Cluster,
        topic: &InternalTopic,
    ) -> Result<Self, Trouble> {
        let (ledger, records) = Ledger::open((flow, target), topic, Thing::Owned).await?;
        let mut by_topic = BTreeMap::new();
        for record in records {
            let Some(key) = decode_key(&record, &flow.source) else { continue };
            match record.value.as_deref().and_then(decode_value) {
                Some(owned) => drop(by_topic.insert(key, owned)),
                None => drop(by_topic.remove(&key)),
            }
        }
        Ok(Self { source: flow.source.clone(), ledger, by_topic })
    }

    /// What is owned on `topic`.
    pub(super) fn of(&self, topic: &TopicName) -> Owned {
        self.by_topic.get(topic).cloned().unwrap_or_default()
    }

    /// Topics of which something is owned.
    pub(super) fn topics(&self) -> impl Iterator<Item = &TopicName> {
        self.by_topic.keys()
    }

    /// Writes down what differs from what stands there. The topic is made when there is
    /// something to write for the first time.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if it cannot be written; nothing may be changed on the target then.
    pub(super) async fn write(&mut self, owned: BTreeMap<TopicName, Owned>) -> Result<(), Trouble> {
        let mut changed: BTreeMap<TopicName, Owned> =
            owned.into_iter().filter(|(topic, owned)| self.of(topic) != *owned).collect();
        if self.ledger.is_lost() {
            for (topic, owned) in &self.by_topic {
                changed.entry(topic.clone()).or_insert_with(|| owned.clone());
            }
        }
        let record = |(topic, owned): (&TopicName, &Owned)| NewRecord {
            partition: 0,
            key: encode_key(&self.source, topic),
            value: (!owned.is_empty()).then(|| encode_value(owned)),
        };
        let records: Vec<NewRecord> = changed.iter().map(record).collect();
        self.ledger.write(&records).await?;
        for (topic, owned) in changed {
            if owned.is_empty() {
                self.by_topic.remove(&topic);
            } else {
                self.by_topic.insert(topic, owned);
            }
        }
        Ok(())
    }
}

fn encode_key(source: &ClusterAlias, topic: &TopicName) -> Vec<u8> {
    json!([KEY_KIND, { "source": source.as_str(), "topic": topic.as_str() }])
        .to_string()
        .into_bytes()
}

fn decode_key(record: &LogRecord, source: &ClusterAlias) -> Option<TopicName> {
    let key: Value = serde_json::from_slice(record.key.as_ref()?).ok()?;
    let about = key.get(1)?;
    let ours =
        key.get(0)?.as_str()? == KEY_KIND && about.get("source")?.as_str()? == source.as_str();
    ours.then_some(TopicName::new(about.get("topic")?.as_str()?))
}

fn encode_value(owned: &Owned) -> Vec<u8> {
    let values = owned.iter().map(|(name, values)| (name.clone(), json!(values)));
    Value::Object(values.collect::<Map<_, _>>()).to_string().into_bytes()
}

/// `None` for what is not such a value: nothing is owned then, and so nothing taken away.
fn decode_value(value: &[u8]) -> Option<Owned> {
    let value: Value = serde_json::from_slice(value).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let one = |(name, values): (&String, &Value)| {
        let values = values.as_array()?.iter().map(text).collect::<Option<Vec<_>>>()?;
        Some((name.clone(), values))
    };
    value.as_object()?.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{Offset, Timestamp};

    fn record(key: Vec<u8>) -> LogRecord {
        LogRecord {
            partition: 0,
            offset: Offset::ZERO,
            timestamp: Timestamp(0),
            key: Some(Bytes::from(key)),
            value: None,
        }
    }

    #[test]
    fn what_is_owned_is_read_back_and_that_of_another_source_is_not_ours() {
        let (a, b) = (ClusterAlias::new("a"), ClusterAlias::new("b"));
        let key = encode_key(&a, &"a.orders".into());
        assert_eq!(
            String::from_utf8_lossy(&key),
            r#"["topic-configs-0",{"source":"a","topic":"a.orders"}]"#
        );
        assert_eq!(decode_key(&record(key.clone()), &a), Some("a.orders".into()));
        assert_eq!(decode_key(&record(key), &b), None);

        let owned = Owned::from([("retention.ms".into(), vec!["2".into(), "1".into()])]);
        assert_eq!(decode_value(&encode_value(&owned)), Some(owned));
    }

    #[test]
    fn nothing_is_owned_by_bytes_that_make_no_sense() {
        for value in ["", "[]", "7", r#"{"a":"b"}"#, r#"{"a":[1]}"#, "{\"a\":[\"b\"]"] {
            assert_eq!(decode_value(value.as_bytes()), None, "{value}");
        }
        for key in ["", "{}", r#"["source-position-0",{"source":"a","topic":"t"}]"#, "[1]"] {
            let key = record(key.as_bytes().to_vec());
            assert_eq!(decode_key(&key, &ClusterAlias::new("a")), None);
        }
    }
}
