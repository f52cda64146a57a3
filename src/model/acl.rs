//! Access rules on topics and groups.

use std::fmt;

/// What a rule is about (`org.apache.kafka.common.acl.AclOperation`). Numbers, because a newer
/// broker's operations are copied as they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclOperation(pub i8);

impl AclOperation {
    /// Every operation.
    pub const ALL: Self = Self(2);
    /// Reading records; implies [`Self::DESCRIBE`].
    pub const READ: Self = Self(3);
    /// Writing records.
    pub const WRITE: Self = Self(4);
    /// Making topics.
    pub const CREATE: Self = Self(5);
    /// Adding partitions; on the cluster, changing access rules.
    pub const ALTER: Self = Self(7);
    /// Seeing that something exists.
    pub const DESCRIBE: Self = Self(8);
    /// Reading configs.
    pub const DESCRIBE_CONFIGS: Self = Self(10);
    /// Changing configs; implies [`Self::DESCRIBE_CONFIGS`].
    pub const ALTER_CONFIGS: Self = Self(11);

    /// The operation that is written so by [`Display`](fmt::Display).
    #[must_use]
    pub fn from_words(words: &str) -> Option<Self> {
        if let Some(number) = words.strip_prefix("operation ") {
            return number.parse().ok().map(Self);
        }
        let number = NAMES.iter().position(|name| *name == words)?;
        i8::try_from(number).ok().map(Self)
    }

    /// Its name as `kafka-acls --operation` takes it: `DescribeConfigs`.
    #[must_use]
    pub fn command_name(self) -> String {
        let words = self.to_string();
        let word = |word: &str| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_owned() + &rest.to_ascii_lowercase()
        };
        words.split('_').map(word).collect()
    }
}

/// What a principal may do with something, as a broker tells it (KIP-430).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations(pub i32);

impl Operations {
    /// What brokers answer that were not asked, or do not know.
    pub const UNKNOWN: Self = Self(i32::MIN);

    /// Whether `operation` is among them; `None` if the broker did not tell.
    #[must_use]
    pub fn allow(self, operation: AclOperation) -> Option<bool> {
        (self != Self::UNKNOWN).then(|| self.0 >> operation.0.clamp(0, 31) & 1 == 1)
    }
}

/// Operations by number (`AclOperation.code`).
const NAMES: [&str; 16] = [
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
];

impl fmt::Display for AclOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match usize::try_from(self.0).ok().and_then(|number| NAMES.get(number)) {
            Some(name) => f.write_str(name),
            None => write!(f, "operation {}", self.0),
        }
    }
}

impl fmt::Debug for AclOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether a rule grants or forbids (`org.apache.kafka.common.acl.AclPermissionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclPermission {
    /// It forbids, and wins.
    Deny,
    /// It grants.
    Allow,
}

/// What an access rule is on (`org.apache.kafka.common.resource.ResourceType`): the two sorts that
/// are mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclResource {
    /// Topics.
    Topic,
    /// Consumer groups.
    Group,
}

impl AclResource {
    /// Its word, in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Group => "group",
        }
    }
}

/// How a rule's name is meant (`org.apache.kafka.common.resource.PatternType`, KIP-290).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclPattern {
    /// The one of this name; `*` is every one.
    Literal,
    /// Each whose name begins so.
    Prefixed,
}

impl AclPattern {
    /// Its word, in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Literal => "literal",
            Self::Prefixed => "prefixed",
        }
    }
}

/// One access rule on topics or groups (`org.apache.kafka.common.acl.AclBinding`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclBinding {
    /// Topics or groups.
    pub resource: AclResource,
    /// How `name` is meant.
    pub pattern: AclPattern,
    /// Which of them.
    pub name: String,
    /// Whom it concerns: `User:alice`, `User:*`.
    pub principal: String,
    /// From where: an address, or `*`.
    pub host: String,
    /// What.
    pub operation: AclOperation,
    /// Whether it may.
    pub permission: AclPermission,
}

impl AclPermission {
    /// Its name in Kafka.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Deny => "DENY",
        }
    }
}

impl fmt::Display for AclBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, pattern, name, principal, host, operation, permission } = self;
        let (resource, permission) = (resource.word(), permission.word());
        match pattern {
            AclPattern::Literal => write!(f, "{permission} {operation} on {resource} {name}")?,
            AclPattern::Prefixed => write!(f, "{permission} {operation} on {resource}s {name}*")?,
        }
        write!(f, " for {principal} from {host}")
    }
}
