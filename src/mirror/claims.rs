//! Which access rules of a target flows claim, kept in a compacted topic of each flow there.
//!
//! `mm2-heliograph-owned-acls.<source>.internal`: a record per rule that the flow added, or found
//! added by another flow and wants too. Key and value are JSON, so that Kafka's own console
//! consumer shows them:
//!
//! ```text
//! ["acl-0",{"source":"a","resource":"topic","pattern":"literal","name":"a.orders",
//!   "principal":"User:alice","host":"*","operation":"READ","permission":"ALLOW"}]
//! {"of":"orders","via":["<cluster id of a>"]}
//! ```
//!
//! A claim is written before the rule is added and taken back after it was taken away. Flows into
//! one target read each other's claims: a rule goes when the last of them lets go of it. A flow
//! that leads on from there, or back, reads them too, to see which rules mirrors have made.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::internal_topics::InternalTopic;
use super::ledger::Ledger;
use super::rights::{Missing, is_denied, log_denied};
use super::rounds::Trouble;
use crate::client::{Cluster, LATEST, LogError, LogRecord, NewRecord};
use crate::model::{
    AclBinding, AclOperation, AclPattern, AclPermission, AclResource, ClusterAlias, FlowId, Offset,
    TopicId, TopicName, TopicPartition,
};
use crate::policy::{AclClaim, AclClaims, Thing};

/// First element of keys; the number is the format's version.
const KEY_KIND: &str = "acl-0";

/// What the names of these topics have before and behind the source's alias.
const NAME: (&str, &str) = ("mm2-heliograph-owned-acls.", ".internal");

/// The topic in which flows from `source` keep their claims, on the target.
#[must_use]
pub fn claims_topic(source: &ClusterAlias) -> TopicName {
    TopicName::new(format!("{}{source}{}", NAME.0, NAME.1))
}

fn is_claims_topic(name: &TopicName) -> bool {
    let name = name.as_str();
    name.starts_with(NAME.0) && name.ends_with(NAME.1)
}

/// The claims of one flow, as they stand in its topic.
#[derive(Debug)]
pub(super) struct OwnClaims {
    source: ClusterAlias,
    ledger: Ledger,
    claims: AclClaims,
}

impl OwnClaims {
    /// Reads what was written before.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if the target does not answer, or does not let us.
    pub(super) async fn load(
        flow: &FlowId,
        target: &Cluster,
        topic: &InternalTopic,
    ) -> Result<Self, Trouble> {
        let (ledger, records) = Ledger::open((flow, target), topic, Thing::OwnedAcls).await?;
        let claims = claims(&records);
        Ok(Self { source: flow.source.clone(), ledger, claims })
    }

    /// The claims.
    pub(super) fn all(&self) -> &AclClaims {
        &self.claims
    }

    /// Writes down new claims and takes others back. The topic is made when there is something to
    /// write for the first time.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if that cannot be written; nothing may be changed on the target then.
    pub(super) async fn write(
        &mut self,
        claimed: AclClaims,
        let_go: BTreeSet<AclBinding>,
    ) -> Result<(), Trouble> {
        let mut changed: BTreeMap<AclBinding, Option<AclClaim>> =
            let_go.into_iter().map(|acl| (acl, None)).collect();
        changed.extend(claimed.into_iter().map(|(acl, claim)| (acl, Some(claim))));
        changed.retain(|acl, claim| self.claims.get(acl) != claim.as_ref());
        if self.ledger.is_lost() {
            for (acl, claim) in &self.claims {
                changed.entry(acl.clone()).or_insert_with(|| Some(claim.clone()));
            }
        }
        let record = |(acl, claim): (&AclBinding, &Option<AclClaim>)| NewRecord {
            partition: 0,
            key: encode_key(&self.source, acl),
            value: claim.as_ref().map(encode_value),
        };
        let records: Vec<NewRecord> = changed.iter().map(record).collect();
        self.ledger.write(&records).await?;
        for (acl, claim) in changed {
            match claim {
                Some(claim) => drop(self.claims.insert(acl, claim)),
                None => drop(self.claims.remove(&acl)),
            }
        }
        Ok(())
    }
}

/// The claims of other flows that keep them on one cluster, as far as they can be seen.
#[derive(Debug)]
pub(super) struct SeenClaims {
    cluster: Cluster,
    /// What reading them is called in the table of rights.
    thing: Thing,
    /// Our own topic there, which is none of theirs.
    own: Option<TopicName>,
    /// One that must be seen if it exists.
    needed: Option<TopicName>,
    topics: BTreeMap<TopicName, Seen>,
}

/// One topic, read up to an end.
#[derive(Debug)]
struct Seen {
    id: TopicId,
    end: Offset,
    claims: AclClaims,
}

impl SeenClaims {
    /// Those of other flows into a flow's target.
    pub(super) fn beside(target: &Cluster, own: &TopicName) -> Self {
        let (own, needed) = (Some(own.clone()), None);
        let cluster = target.clone();
        Self { cluster, thing: Thing::OwnedAcls, own, needed, topics: BTreeMap::new() }
    }

    /// Those of flows into a flow's source, the one from its target before all.
    pub(super) fn upstream(source: &Cluster, target: &ClusterAlias) -> Self {
        let (own, needed) = (None, Some(claims_topic(target)));
        let cluster = source.clone();
        Self { cluster, thing: Thing::OwnedAclsBack, own, needed, topics: BTreeMap::new() }
    }

    /// Reads what has been written since; a topic whose end has not moved is not read.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if the cluster does not answer, or does not let us.
    pub(super) async fn refresh(&mut self) -> Result<(), Trouble> {
        self.cluster.refresh(None).await?;
        let view = self.cluster.view();
        let names = view.topics.iter().filter(|(name, _)| is_claims_topic(name));
        let mut there: BTreeMap<TopicName, TopicId> =
            names.map(|(name, topic)| (name.clone(), topic.id)).collect();
        if let Some(own) = &self.own {
            there.remove(own);
        }
        if let Some(needed) = self.needed.clone().filter(|name| !there.contains_key(name)) {
            // What may not be described looks like what does not exist.
            let told = self.cluster.topic_operations(std::slice::from_ref(&needed)).await?;
            if told.get(&needed).is_some_and(|told| told.is_err_and(is_denied)) {
                let what = format!(
                    "topic {needed} of {} may not be described; it says which of that cluster's \
                     rules came from the target",
                    self.cluster.alias()
                );
                return Err(self.denied(&needed, what));
            }
        }
        self.topics.retain(|name, seen| there.get(name) == Some(&seen.id));
        let partition = |topic: &TopicName| TopicPartition { topic: topic.clone(), partition: 0 };
        let partitions: Vec<TopicPartition> = there.keys().map(partition).collect();
        if partitions.is_empty() {
            return Ok(());
        }
        for (partition, listed) in self.cluster.list_offsets(&partitions, LATEST, false).await {
            let (name, end) = (partition.topic, listed.map_err(Trouble::failed)?.offset);
            if self.topics.get(&name).is_some_and(|seen| seen.end == end) {
                continue;
            }
            let Some(id) = there.get(&name).copied() else { continue };
            let claims = match self.cluster.read_to_end(&name, false).await {
                Ok(records) => claims(&records),
                // Deleted just now.
                Err(LogError::Missing(_)) => continue,
                Err(error) if log_denied(&error) => {
                    return Err(self.denied(&name, error.to_string()));
                }
                Err(error) => return Err(error.into()),
            };
            self.topics.insert(name, Seen { id, end, claims });
        }
        Ok(())
    }

    fn denied(&self, topic: &TopicName, what: String) -> Trouble {
        let right = AclOperation::READ;
        let missing = Missing::on_topic(&self.cluster, self.thing, right, topic.as_str());
        Trouble::Denied { what, missing }
    }

    /// Rules that somebody claims who is not about to let go of them.
    pub(super) fn kept(&self) -> BTreeSet<AclBinding> {
        let all = self.topics.values().flat_map(|seen| &seen.claims);
        all.filter(|(_, claim)| !claim.leaves).map(|(acl, _)| acl.clone()).collect()
    }

    /// The ways that claimed rules came.
    pub(super) fn ways(&self) -> BTreeMap<AclBinding, Vec<Vec<String>>> {
        let mut ways: BTreeMap<AclBinding, Vec<Vec<String>>> = BTreeMap::new();
        for (acl, claim) in self.topics.values().flat_map(|seen| &seen.claims) {
            ways.entry(acl.clone()).or_default().push(claim.via.clone());
        }
        ways
    }
}

/// What is claimed at the end of a topic.
fn claims(records: &[LogRecord]) -> AclClaims {
    let mut claims = AclClaims::new();
    for record in records {
        let Some(acl) = record.key.as_deref().and_then(decode_key) else { continue };
        match record.value.as_deref().and_then(decode_value) {
            Some(claim) => drop(claims.insert(acl, claim)),
            None => drop(claims.remove(&acl)),
        }
    }
    claims
}

fn encode_key(source: &ClusterAlias, acl: &AclBinding) -> Vec<u8> {
    let about = json!({
        "source": source.as_str(),
        "resource": acl.resource.word(),
        "pattern": acl.pattern.word(),
        "name": acl.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.to_string(),
        "permission": acl.permission.word(),
    });
    json!([KEY_KIND, about]).to_string().into_bytes()
}

fn decode_key(key: &[u8]) -> Option<AclBinding> {
    let key: Value = serde_json::from_slice(key).ok()?;
    if key.get(0)?.as_str()? != KEY_KIND {
        return None;
    }
    let about = key.get(1)?;
    let text = |field: &str| Some(about.get(field)?.as_str()?.to_owned());
    let word = |field: &str| about.get(field)?.as_str();
    Some(AclBinding {
        resource: [AclResource::Topic, AclResource::Group]
            .into_iter()
            .find(|one| Some(one.word()) == word("resource"))?,
        pattern: [AclPattern::Literal, AclPattern::Prefixed]
            .into_iter()
            .find(|one| Some(one.word()) == word("pattern"))?,
        name: text("name")?,
        principal: text("principal")?,
        host: text("host")?,
        operation: AclOperation::from_words(word("operation")?)?,
        permission: [AclPermission::Allow, AclPermission::Deny]
            .into_iter()
            .find(|one| Some(one.word()) == word("permission"))?,
    })
}

fn encode_value(claim: &AclClaim) -> Vec<u8> {
    let mut value = json!({ "of": claim.of, "via": claim.via });
    if claim.leaves {
        value["leaves"] = json!(true);
    }
    value.to_string().into_bytes()
}

/// `None` for what is not such a value: nothing is claimed then, and so nothing taken away.
fn decode_value(value: &[u8]) -> Option<AclClaim> {
    let value: Value = serde_json::from_slice(value).ok()?;
    let via = value.get("via")?.as_array()?.iter();
    Some(AclClaim {
        of: value.get("of")?.as_str()?.to_owned(),
        via: via.map(|id| id.as_str().map(str::to_owned)).collect::<Option<_>>()?,
        leaves: value.get("leaves").is_some_and(|leaves| leaves == true),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::Timestamp;

    fn acl(number: i8) -> AclBinding {
        AclBinding {
            resource: AclResource::Topic,
            pattern: AclPattern::Prefixed,
            name: "a.\"team\"-".into(),
            principal: "User:CN=älice, O=\"x\"".into(),
            host: "10.0.0.1".into(),
            operation: AclOperation(number),
            permission: AclPermission::Deny,
        }
    }

    fn claim(leaves: bool) -> AclClaim {
        AclClaim { of: "team-".into(), via: vec!["id1".into(), "id2".into()], leaves }
    }

    fn record(key: Vec<u8>, value: Option<Vec<u8>>) -> LogRecord {
        LogRecord {
            partition: 0,
            offset: Offset::ZERO,
            timestamp: Timestamp(0),
            key: Some(Bytes::from(key)),
            value: value.map(Bytes::from),
        }
    }

    #[test]
    fn a_claim_is_read_back_with_operations_of_every_release_until_it_is_taken_back() {
        let source = ClusterAlias::new("a");
        for number in [2, 3, 15, 16, 99] {
            let written =
                record(encode_key(&source, &acl(number)), Some(encode_value(&claim(true))));
            let all = claims(std::slice::from_ref(&written));
            assert_eq!(all, AclClaims::from([(acl(number), claim(true))]));
            let back = LogRecord { value: None, ..written.clone() };
            assert!(claims(&[written, back]).is_empty());
        }
        let simple = AclBinding { name: "a.t".into(), pattern: AclPattern::Literal, ..acl(3) };
        assert_eq!(
            String::from_utf8_lossy(&encode_key(&source, &simple)),
            concat!(
                r#"["acl-0",{"source":"a","resource":"topic","pattern":"literal","name":"a.t","#,
                r#""principal":"User:CN=älice, O=\"x\"","host":"10.0.0.1","#,
                r#""operation":"READ","permission":"DENY"}]"#
            )
        );
        assert_eq!(
            String::from_utf8_lossy(&encode_value(&claim(false))),
            r#"{"of":"team-","via":["id1","id2"]}"#
        );
    }

    #[test]
    fn nothing_is_claimed_by_bytes_that_make_no_sense() {
        let key = encode_key(&ClusterAlias::new("a"), &acl(3));
        for value in
            ["", "[]", "7", r#"{"of":"t"}"#, r#"{"of":1,"via":[]}"#, r#"{"of":"t","via":[1]}"#]
        {
            let record = record(key.clone(), Some(value.as_bytes().to_vec()));
            assert!(claims(&[record]).is_empty(), "{value}");
        }
        let text = String::from_utf8(key).unwrap();
        for key in [
            text.replace("acl-0", "acl-1"),
            text.replace("READ", "SING"),
            text.replace("prefixed", "fuzzy"),
            text.replace("DENY", "MAYBE"),
            text.replace("\"host\"", "\"most\""),
            String::new(),
        ] {
            let record = record(key.clone().into_bytes(), Some(encode_value(&claim(false))));
            assert!(claims(&[record]).is_empty(), "{key}");
        }
    }

    #[test]
    fn only_topics_of_claims_are_read() {
        assert!(is_claims_topic(&claims_topic(&ClusterAlias::new("a"))));
        for other in ["mm2-heliograph-owned.a.internal", "a.orders", "mm2-heliograph-owned-acls.x"]
        {
            assert!(!is_claims_topic(&other.into()), "{other}");
        }
    }
}
