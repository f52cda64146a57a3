//! The registry of keys: every key of MM2's own definitions, and ours.
//!
//! What is looked up, warned about, refused or documented comes from these rows; no other place
//! lists keys. The rows follow the definitions of Kafka 4.3.1, and `default` is MM2's; where
//! ours differs the status says so.
//!
//! Proof that no key is missing: `proto-tests/tests/every_mm2_key_is_known.rs`.

mod client;
mod mirror;
mod own;
mod worker;

/// One key in one role.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name without any prefix; a `*` at the end stands for any rest.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// MM2's default; empty if there is none or it is empty.
    pub default: &'static str,
    /// Where it may be written.
    pub scope: Scope,
    /// What it means, in one sentence.
    pub doc: &'static str,
    /// The class that defines it, or "Heliograph".
    pub source: &'static str,
    /// What we make of it.
    pub status: Status,
}

/// The types of Kafka's `ConfigDef`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false` in any letter case.
    Boolean,
    /// A 16-bit number.
    Short,
    /// A 32-bit number.
    Int,
    /// A 64-bit number.
    Long,
    /// A number with a fraction.
    Double,
    /// Text.
    String,
    /// Texts separated by commas.
    List,
    /// The full name of a Java class.
    Class,
    /// Text that is never shown.
    Password,
}

/// Where a key may be written so that it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// `key`: the whole process.
    Process,
    /// `a.key` or `key`: how to reach a cluster (MM2's client key set).
    Cluster,
    /// `b.key`: the Connect worker of all flows into `b`.
    Worker,
    /// `key`, or `b.key` which it beats: the same, for names that MM2 copies from the top.
    WorkerFromTop,
    /// `a->b.key` or `key`: a flow.
    Flow,
    /// `a->b.key` only: MM2 does not see it at the top.
    FlowOnly,
    /// `a.consumer.key`, `a->b.source.consumer.key` and others.
    Consumer,
    /// `b.producer.key`, `a->b.producer.override.key` and others.
    Producer,
    /// `a.admin.key`, `a->b.source.admin.key` and others.
    Admin,
}

/// What becomes of a key here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As in MM2.
    Same,
    /// As in MM2 but for the default.
    DefaultDiffers {
        /// Our default, in words or as a value.
        ours: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Taken without effect.
    Accepted {
        /// Why there is nothing to do.
        why: &'static str,
    },
    /// Not in this version yet; a warning says so.
    Later {
        /// What is missing.
        what: &'static str,
    },
    /// Any value but MM2's default is an error.
    Refused {
        /// Why it cannot be honoured.
        why: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
}

impl Key {
    /// The unit of its values, as the name tells.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        let name = self.name;
        if matches!(self.kind, Kind::Boolean | Kind::String | Kind::List | Kind::Class) {
            None
        } else if name.ends_with(".ms") || name == "errors.retry.timeout" {
            Some("ms")
        } else if name.ends_with(".seconds") {
            Some("s")
        } else if name.ends_with(".bytes") || matches!(name, "buffer.memory" | "batch.size") {
            Some("bytes")
        } else {
            None
        }
    }

    /// Whether this row speaks of `name`.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => self.name == name,
        }
    }
}

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Key> {
    [own::KEYS, mirror::KEYS, worker::KEYS, client::KEYS].into_iter().flatten().copied().flatten()
}

/// The row of `name` in `scope`; a full name goes before a pattern.
#[must_use]
pub fn find(scope: Scope, name: &str) -> Option<&'static Key> {
    let mut rows = all().filter(|key| key.scope == scope && key.is(name));
    let first = rows.next()?;
    Some(rows.find(|key| key.name == name).unwrap_or(first))
}

/// Whether `name` is in MM2's client key set: copied from cluster and top level to all clients.
#[must_use]
pub fn in_client_key_set(name: &str) -> bool {
    find(Scope::Cluster, name).is_some()
}

/// Whether MM2 copies `name` from the top level to its connectors.
#[must_use]
pub fn is_connector_key(name: &str) -> bool {
    // Full names only: `transforms` is copied, `transforms.x.type` is not.
    find(Scope::Flow, name).is_some_and(|row| row.name == name)
        || (in_client_key_set(name) && name != "bootstrap.servers")
}

/// Whether values under `key`, prefixes included, must never be shown.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    const MARKS: [&str; 8] = [
        "password",
        "passphrase",
        "secret",
        "token",
        "jaas",
        "keystore.key",
        "certificate",
        "credential",
    ];
    let key = key.to_ascii_lowercase();
    MARKS.iter().any(|mark| key.contains(mark))
}

/// Whether `key`, prefixes included, is one whose value is a secret by its kind.
#[must_use]
pub fn is_password(key: &str) -> bool {
    all().filter(|row| row.kind == Kind::Password).any(|row| {
        key.strip_suffix(row.name).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    })
}

/// Whether a value looks like one that holds credentials, whatever its key says: a JAAS line
/// under a misspelt key must not be shown either.
#[must_use]
pub fn holds_secret(value: &str) -> bool {
    let value: String = value.to_ascii_lowercase().split_whitespace().collect();
    ["password=", "secret=", "token=", "privatekey"].iter().any(|mark| value.contains(mark))
}

/// Rows of one scope and one defining class.
macro_rules! keys {
    ($scope:ident, $source:literal;
     $($name:literal: $kind:ident = $default:literal, $status:expr, $doc:literal;)*) => {
        &[$($crate::config::keys::Key {
            name: $name,
            kind: $crate::config::keys::Kind::$kind,
            default: $default,
            scope: $crate::config::keys::Scope::$scope,
            doc: $doc,
            source: $source,
            status: $status,
        },)*]
    };
}
use keys;

const fn accepted(why: &'static str) -> Status {
    Status::Accepted { why }
}

const fn later(what: &'static str) -> Status {
    Status::Later { what }
}

const fn refused(why: &'static str, instead: &'static str) -> Status {
    Status::Refused { why, instead }
}

const fn differs(ours: &'static str, why: &'static str) -> Status {
    Status::DefaultDiffers { ours, why }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_key_has_two_rows_in_one_scope() {
        let mut seen = BTreeSet::new();
        for key in all() {
            assert!(seen.insert((key.scope, key.name)), "{} in {:?}", key.name, key.scope);
        }
    }

    #[test]
    fn every_row_says_what_the_key_means_in_one_sentence() {
        for key in all() {
            assert!(key.doc.len() > 8 && key.doc.ends_with('.'), "{}: {:?}", key.name, key.doc);
            assert!(!key.source.is_empty(), "{}", key.name);
        }
    }

    #[test]
    fn passwords_are_secret_by_name() {
        for key in all().filter(|key| key.kind == Kind::Password) {
            assert!(is_secret(key.name), "{}", key.name);
        }
        assert!(is_secret("b.producer.sasl.jaas.config"));
        assert!(!is_secret("a->b.topics"));
    }

    #[test]
    fn a_pattern_stands_for_keys_with_a_name_in_them() {
        let row = find(Scope::WorkerFromTop, "offset.storage.segment.bytes").unwrap();
        assert_eq!(row.name, "offset.storage.*");
        assert_eq!(find(Scope::WorkerFromTop, "offset.storage.topic").unwrap().default, "");
        assert!(find(Scope::Flow, "no.such.key").is_none());
    }
}
