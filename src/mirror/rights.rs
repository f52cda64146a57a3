//! Rights that are missing, and the commands that grant them.
//!
//! Which rights there are, and what needs them, is [`policy::RIGHTS`](crate::policy::RIGHTS)'
//! business; here they get a cluster, a name and a principal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::client::{Cluster, LogError, RequestCause, RequestError};
use crate::model::{AclOperation, ClusterAlias};
use crate::policy::{Feature, FlowTopics, Thing, find_right};
use crate::wire::ErrorCode;

/// What a right is held on, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// The cluster itself.
    Cluster,
    /// One topic.
    Topic(String),
    /// Every topic whose name begins so.
    Prefix(String),
    /// One group.
    Group(String),
}

impl Resource {
    /// The replicas of a flow: all of them by their prefix where the policy or a rename rule gives
    /// one, else this one.
    pub(super) fn replica(topics: &FlowTopics, name: &str) -> Self {
        match topics.names.prefix_of(name) {
            Some(prefix) => Self::Prefix(prefix),
            None => Self::Topic(name.to_owned()),
        }
    }

    /// The options of `kafka-acls` that name it.
    fn options(&self) -> String {
        match self {
            Self::Cluster => "--cluster".into(),
            Self::Topic(name) => format!("--topic '{name}'"),
            Self::Prefix(name) => format!("--topic '{name}' --resource-pattern-type prefixed"),
            Self::Group(name) => format!("--group '{name}'"),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("the cluster"),
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::Prefix(name) => write!(f, "topics {name}*"),
            Self::Group(name) => write!(f, "group {name}"),
        }
    }
}

/// A right that our principal lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// On which cluster.
    pub cluster: ClusterAlias,
    /// On what.
    pub resource: Resource,
    /// On what sort of thing.
    pub thing: Thing,
    /// To do what.
    pub operation: AclOperation,
    /// The command that grants it, for people to copy.
    pub grant: String,
}

impl Missing {
    /// The lack of a right that [`RIGHTS`](crate::policy::RIGHTS) has.
    pub(super) fn new(
        cluster: &Cluster,
        thing: Thing,
        operation: AclOperation,
        resource: Resource,
    ) -> Self {
        debug_assert!(find_right(thing, operation).is_some(), "{thing:?} {operation}");
        let grant = grant(cluster, &[operation], std::slice::from_ref(&resource));
        Self { cluster: cluster.alias().clone(), resource, thing, operation, grant }
    }

    /// That of a right on a topic.
    pub(super) fn on_topic(
        cluster: &Cluster,
        thing: Thing,
        operation: AclOperation,
        topic: &str,
    ) -> Self {
        Self::new(cluster, thing, operation, Resource::Topic(topic.to_owned()))
    }

    /// What rests without it.
    #[must_use]
    pub fn features(&self) -> &'static [Feature] {
        find_right(self.thing, self.operation).map_or(&[], |right| right.features)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} of {}", self.operation, self.resource, self.cluster)
    }
}

/// The command that grants rights, for people to copy.
pub(super) fn grant(
    cluster: &Cluster,
    operations: &[AclOperation],
    resources: &[Resource],
) -> String {
    let settings = cluster.settings();
    let server = settings.bootstrap.first().map_or_else(String::new, ToString::to_string);
    let mut command = format!(
        "kafka-acls --bootstrap-server {server} --add --allow-principal '{}'",
        cluster.principal()
    );
    for operation in operations {
        command += &format!(" --operation {}", operation.command_name());
    }
    for resource in resources {
        command += &format!(" {}", resource.options());
    }
    command
}

/// Rights that are missing, by whom met it. Each replaces what it said before.
#[derive(Debug, Default)]
pub(super) struct Lacks(BTreeMap<&'static str, BTreeSet<Missing>>);

impl Lacks {
    /// Takes what `of` lacks now; gives what is new in that, and what is not missing any more.
    pub(super) fn renew(
        &mut self,
        of: &'static str,
        now: BTreeSet<Missing>,
    ) -> (Vec<Missing>, Vec<Missing>) {
        let known = self.all();
        self.0.insert(of, now);
        let left = self.all();
        (left.difference(&known).cloned().collect(), known.difference(&left).cloned().collect())
    }

    /// All of them, each once.
    pub(super) fn all(&self) -> BTreeSet<Missing> {
        self.0.values().flatten().cloned().collect()
    }
}

/// Whether a code says that a right is missing.
pub(super) fn is_denied(code: ErrorCode) -> bool {
    matches!(code.0, 29..=31)
}

/// The code that a broker answered as a whole with.
pub(super) fn refusal(error: &RequestError) -> Option<ErrorCode> {
    match error.cause {
        RequestCause::Refused(code) => Some(code),
        _ => None,
    }
}

/// Whether a topic could not be read or written because a right is missing.
pub(super) fn log_denied(error: &LogError) -> bool {
    matches!(error, LogError::Partition(error) if is_denied(error.code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(topic: &str) -> Missing {
        Missing {
            cluster: ClusterAlias::new("a"),
            resource: Resource::Topic(topic.into()),
            thing: Thing::Topics,
            operation: AclOperation::READ,
            grant: String::new(),
        }
    }

    #[test]
    fn what_two_lack_is_told_once_and_is_back_when_neither_lacks_it() {
        let mut lacks = Lacks::default();
        let (x, y) = (missing("x"), missing("y"));
        let both = || [x.clone(), y.clone()].into();

        assert_eq!(lacks.renew("topics", both()).0.len(), 2);
        assert_eq!(lacks.renew("configs", both()), (Vec::new(), Vec::new()));
        assert_eq!(lacks.renew("topics", [x.clone()].into()), (Vec::new(), Vec::new()));
        assert_eq!(lacks.renew("configs", [x.clone()].into()), (Vec::new(), vec![y]));
        assert_eq!(lacks.all(), [x].into());
    }
}
