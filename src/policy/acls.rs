//! Access rules: which are mirrored, and how they are narrowed.
//!
//! MM2's rules (`MirrorSourceConnector.syncTopicAcls`): only rules on literal topic names; whoever
//! may write to a topic may not write to its replica; whoever may do everything may read. What
//! forbids is kept as it is. Nothing is ever taken away on the target.

use std::collections::BTreeSet;

use super::pattern::StepLimit;
use super::selection::{FlowTopics, Selection};
use crate::model::{AclOperation, AclPermission, TopicAcl};

/// The rule on the target that `acl` of the source becomes; `None` if it is not mirrored.
///
/// The wildcard `*` is taken for a name, as MM2 takes it: under the default policy it becomes
/// the rule of a topic named `a.*`, under the identity policy it stays a wildcard.
///
/// # Errors
///
/// [`StepLimit`] if a topic pattern does not come to an end on the name.
pub fn mirrored_acl(acl: &TopicAcl, topics: &FlowTopics) -> Result<Option<TopicAcl>, StepLimit> {
    let operation = match (acl.permission, acl.operation) {
        (AclPermission::Allow, AclOperation::WRITE) => return Ok(None),
        (AclPermission::Allow, AclOperation::ALL) => AclOperation::READ,
        (AclPermission::Allow | AclPermission::Deny, operation) => operation,
    };
    Ok(match topics.select(&acl.topic)? {
        Selection::Copied { as_topic } => {
            Some(TopicAcl { topic: as_topic, operation, ..acl.clone() })
        }
        Selection::Filtered | Selection::Internal | Selection::Cycle | Selection::Nameless(_) => {
            None
        }
    })
}

/// What the target lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingAcls {
    /// The rules to add, in order and each once.
    pub acls: BTreeSet<TopicAcl>,
    /// Rules of the source that are not decided about, because a topic pattern does not come to
    /// an end on the name.
    pub unclear: Vec<String>,
}

/// Compares what both clusters have.
#[must_use]
pub fn missing_acls(source: &[TopicAcl], target: &[TopicAcl], topics: &FlowTopics) -> MissingAcls {
    let there: BTreeSet<&TopicAcl> = target.iter().collect();
    let mut missing = MissingAcls::default();
    for acl in source {
        match mirrored_acl(acl, topics) {
            Ok(Some(wanted)) if !there.contains(&wanted) => drop(missing.acls.insert(wanted)),
            Ok(_) => {}
            Err(limit) => missing.unclear.push(format!("{acl}: {limit}")),
        }
    }
    missing
}
