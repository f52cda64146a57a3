//! Which of several lines counts: MM2's prefixes and precedence.
//!
//! MM2 builds maps from the file: one per cluster, from these the worker's and the connectors'
//! of each flow, and from those each client's. This does the same, step by step, so that what
//! wins here is what wins there. Each value keeps what it won over.
//!
//! ```text
//!   file ──▶ cluster(x) ──▶ worker(flow)
//!     │          │
//!     └──────────┴────────▶ connector(flow) ──▶ client(flow, side, role)
//! ```
//!
//! Proof: the worked example of MM2's rules at the bottom, map by map.

use std::collections::BTreeMap;

use super::keys::{self, Scope};
use super::properties::{Document, Entry};
use crate::model::{ClusterAlias, FlowId, Side};

/// The kinds of Kafka client that MM2 configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads records.
    Consumer,
    /// Writes records.
    Producer,
    /// Asks about and changes topics.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Consumer, Self::Producer, Self::Admin];

    /// The word in keys.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Producer => "producer",
            Self::Admin => "admin",
        }
    }

    /// Where its keys are listed.
    #[must_use]
    pub fn scope(self) -> Scope {
        match self {
            Self::Consumer => Scope::Consumer,
            Self::Producer => Scope::Producer,
            Self::Admin => Scope::Admin,
        }
    }
}

/// One value of a map: the line that won, and those it won over, strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layered<'a> {
    /// The line that counts.
    pub chosen: &'a Entry,
    /// The lines that do not.
    pub shadowed: Vec<&'a Entry>,
}

impl<'a> Layered<'a> {
    /// The text that counts.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.chosen.value.as_str()
    }
}

/// A map as MM2 would build it, with only what comes from the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map<'a>(BTreeMap<String, Layered<'a>>);

impl<'a> Map<'a> {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Layered<'a>> {
        self.0.get(key)
    }

    /// All values by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Layered<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Puts `value` over what is there.
    fn put(&mut self, key: impl Into<String>, mut value: Layered<'a>) {
        let key = key.into();
        if let Some(below) = self.0.remove(&key) {
            value.below(below);
        }
        self.0.insert(key, value);
    }

    /// Puts `value` under what is there.
    fn put_if_absent(&mut self, key: impl Into<String>, value: Layered<'a>) {
        let key = key.into();
        match self.0.get_mut(&key) {
            Some(above) => above.below(value),
            None => {
                self.0.insert(key, value);
            }
        }
    }
}

impl<'a> Layered<'a> {
    fn below(&mut self, other: Self) {
        for entry in std::iter::once(other.chosen).chain(other.shadowed) {
            let known = std::ptr::eq(self.chosen, entry)
                || self.shadowed.iter().any(|shadowed| std::ptr::eq(*shadowed, entry));
            if !known {
                self.shadowed.push(entry);
            }
        }
    }
}

/// A file's entries by key, and the maps made from them.
#[derive(Clone, Debug)]
pub struct Layers<'a> {
    file: Map<'a>,
}

impl<'a> Layers<'a> {
    /// Takes a file's entries; a later line wins over an earlier one with the same key.
    #[must_use]
    pub fn new(document: &'a Document) -> Self {
        let mut file = Map::default();
        for entry in &document.entries {
            let layered = Layered { chosen: entry, shadowed: Vec::new() };
            file.put(entry.key.as_str(), layered);
        }
        Self { file }
    }

    /// The value of an unprefixed key.
    #[must_use]
    pub fn top(&self, key: &str) -> Option<&Layered<'a>> {
        self.file.get(key)
    }

    /// All lines by their whole key.
    #[must_use]
    pub fn file(&self) -> &Map<'a> {
        &self.file
    }

    /// MM2's properties of one cluster: what begins with its alias, and the client key set
    /// copied down to each role and up from the top level.
    #[must_use]
    pub fn cluster(&self, alias: &ClusterAlias) -> Map<'a> {
        let mut map = Map::default();
        for (key, value) in self.with_prefix(&format!("{alias}.")) {
            map.put(key, value.clone());
        }
        let own: Vec<_> = map.0.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let top = self.file.iter().map(|(key, value)| (key.to_owned(), value.clone()));
        for (from_top, (key, value)) in
            own.into_iter().map(|own| (false, own)).chain(top.map(|top| (true, top)))
        {
            if !keys::in_client_key_set(&key) {
                continue;
            }
            for role in Role::ALL {
                map.put_if_absent(format!("{}.{key}", role.word()), value.clone());
            }
            if from_top {
                map.put_if_absent(key, value);
            }
        }
        map
    }

    /// MM2's configuration of the flow's Connect worker. Lines of the flow are not seen.
    #[must_use]
    pub fn worker(&self, flow: &FlowId) -> Map<'a> {
        const FROM_TOP: [&str; 10] = [
            "offset.storage",
            "config.storage",
            "status.storage",
            "key.converter",
            "value.converter",
            "header.converter",
            "task",
            "worker",
            "replication.policy",
            "config.providers",
        ];
        let mut map = self.cluster(&flow.target);
        for (key, value) in self.file.iter() {
            if FROM_TOP.iter().any(|start| key.starts_with(start)) {
                map.put(key, value.clone());
            }
        }
        map
    }

    /// MM2's configuration of the flow's connectors.
    #[must_use]
    pub fn connector(&self, flow: &FlowId) -> Map<'a> {
        let mut map = Map::default();
        for (key, value) in self.file.iter() {
            let copied = keys::is_connector_key(key)
                || key.starts_with("config.providers")
                || key.starts_with("replication.policy");
            if copied {
                map.put(key, value.clone());
            }
        }
        for (side, alias) in [(Side::Source, &flow.source), (Side::Target, &flow.target)] {
            for (key, value) in self.cluster(alias).0 {
                // MM2 asks only how the key begins, so `a.admin.timeout.ms` counts as a client's.
                let client = Role::ALL.iter().any(|role| key.starts_with(role.word()));
                let prefix = if client { "" } else { "cluster." };
                map.put(format!("{side}.{prefix}{key}"), value);
            }
        }
        for (key, value) in self.with_prefix(&format!("{flow}.")) {
            map.put(key, value.clone());
        }
        map
    }

    /// MM2's configuration of one client of the flow's connectors.
    ///
    /// From strongest: `a->b.source.consumer.x`, `a.consumer.x`, and for the client key set
    /// `a.x` and `x`; only then `a->b.consumer.x`, and last `a->b.source.cluster.x`.
    #[must_use]
    pub fn client(&self, flow: &FlowId, side: Side, role: Role) -> Map<'a> {
        let connector = self.connector(flow);
        let mut map = Map::default();
        let part = |prefix: String| {
            let under = connector.0.iter().filter_map(move |(key, value)| {
                key.strip_prefix(&prefix).map(|key| (key.to_owned(), value.clone()))
            });
            under.collect::<Vec<_>>()
        };
        for (key, value) in part(format!("{side}.cluster.")) {
            if keys::in_client_key_set(&key) {
                map.put(key, value);
            }
        }
        for (key, value) in part(format!("{}.", role.word())) {
            map.put(key, value);
        }
        for (key, value) in part(format!("{side}.{}.", role.word())) {
            map.put(key, value);
        }
        map
    }

    fn with_prefix<'m>(
        &'m self,
        prefix: &'m str,
    ) -> impl Iterator<Item = (&'m str, &'m Layered<'a>)> {
        self.file.iter().filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
        clusters = A, B\n\
        A.bootstrap.servers = a:9092\n\
        B.bootstrap.servers = b:9092\n\
        security.protocol = SSL\n\
        A.security.protocol = PLAINTEXT\n\
        A.consumer.isolation.level = read_committed\n\
        B.producer.compression.type = lz4\n\
        B.offset.flush.interval.ms = 5000\n\
        offset.flush.interval.ms = 7000\n\
        offset.storage.replication.factor = 1\n\
        B.offset.storage.replication.factor = 2\n\
        tasks.max = 4\n\
        topics = foo.*\n\
        A->B.enabled = true\n\
        A->B.topics = bar.*\n\
        A->B.consumer.isolation.level = read_uncommitted\n\
        A->B.consumer.max.poll.records = 1000\n\
        A->B.producer.acks = 1\n\
        A->B.producer.override.linger.ms = 50\n\
        use.defaults.from = source\n";

    fn flow() -> FlowId {
        FlowId { source: ClusterAlias::new("A"), target: ClusterAlias::new("B") }
    }

    /// A map as lines `key=value`.
    fn lines(map: &Map<'_>) -> Vec<String> {
        map.iter().map(|(key, value)| format!("{key}={}", value.text())).collect()
    }

    #[test]
    fn the_worker_of_the_example_has_the_values_that_mm2_gives_it() {
        let document = Document::parse(EXAMPLE.as_bytes());
        let worker = lines(&Layers::new(&document).worker(&flow()));

        assert_eq!(
            worker,
            [
                "admin.bootstrap.servers=b:9092",
                "admin.security.protocol=SSL",
                "bootstrap.servers=b:9092",
                "consumer.bootstrap.servers=b:9092",
                "consumer.security.protocol=SSL",
                "offset.flush.interval.ms=5000",
                "offset.storage.replication.factor=1",
                "producer.bootstrap.servers=b:9092",
                "producer.compression.type=lz4",
                "producer.security.protocol=SSL",
                "security.protocol=SSL",
                "tasks.max=4",
            ]
        );
    }

    #[test]
    fn the_connector_of_the_example_has_the_values_that_mm2_gives_it() {
        let document = Document::parse(EXAMPLE.as_bytes());
        let connector = lines(&Layers::new(&document).connector(&flow()));

        assert_eq!(
            connector,
            [
                "consumer.isolation.level=read_uncommitted",
                "consumer.max.poll.records=1000",
                "enabled=true",
                "producer.acks=1",
                "producer.override.linger.ms=50",
                "security.protocol=SSL",
                "source.admin.bootstrap.servers=a:9092",
                "source.admin.security.protocol=PLAINTEXT",
                "source.cluster.bootstrap.servers=a:9092",
                "source.cluster.security.protocol=PLAINTEXT",
                "source.consumer.bootstrap.servers=a:9092",
                "source.consumer.isolation.level=read_committed",
                "source.consumer.security.protocol=PLAINTEXT",
                "source.producer.bootstrap.servers=a:9092",
                "source.producer.security.protocol=PLAINTEXT",
                "target.admin.bootstrap.servers=b:9092",
                "target.admin.security.protocol=SSL",
                "target.cluster.bootstrap.servers=b:9092",
                "target.cluster.offset.flush.interval.ms=5000",
                "target.cluster.offset.storage.replication.factor=2",
                "target.cluster.security.protocol=SSL",
                "target.consumer.bootstrap.servers=b:9092",
                "target.consumer.security.protocol=SSL",
                "target.producer.bootstrap.servers=b:9092",
                "target.producer.compression.type=lz4",
                "target.producer.security.protocol=SSL",
                "tasks.max=4",
                "topics=bar.*",
            ]
        );
    }

    #[test]
    fn a_cluster_s_consumer_setting_beats_the_flow_s_consumer_setting() {
        let document = Document::parse(EXAMPLE.as_bytes());
        let consumer = Layers::new(&document).client(&flow(), Side::Source, Role::Consumer);

        let isolation = consumer.get("isolation.level").unwrap();
        assert_eq!(isolation.text(), "read_committed");
        assert_eq!(isolation.shadowed.len(), 1);
        assert_eq!(isolation.shadowed[0].key.as_str(), "A->B.consumer.isolation.level");
        assert_eq!(consumer.get("max.poll.records").unwrap().text(), "1000");
        assert_eq!(consumer.get("bootstrap.servers").unwrap().text(), "a:9092");
    }

    #[test]
    fn the_six_ranks_of_a_client_s_setting_win_in_mm2_s_order() {
        let ranks = [
            "A->B.source.consumer.security.protocol",
            "A.consumer.security.protocol",
            "A.security.protocol",
            "security.protocol",
            "A->B.consumer.security.protocol",
            "A->B.source.cluster.security.protocol",
        ];

        for strongest in 0..ranks.len() {
            let lines: Vec<String> =
                ranks[strongest..].iter().map(|key| format!("{key} = {key}")).rev().collect();
            let document = Document::parse(lines.join("\n").as_bytes());
            let consumer = Layers::new(&document).client(&flow(), Side::Source, Role::Consumer);
            let value = consumer.get("security.protocol").unwrap();
            assert_eq!(value.text(), ranks[strongest]);
        }
    }

    #[test]
    fn the_last_of_several_equal_keys_wins_and_remembers_the_others() {
        let document = Document::parse(b"topics = a\ntopics = b\nA->B.topics = c\n");
        let connector = Layers::new(&document).connector(&flow());

        let topics = connector.get("topics").unwrap();
        assert_eq!(topics.text(), "c");
        let shadowed: Vec<&str> =
            topics.shadowed.iter().map(|entry| entry.value.as_str()).collect();
        assert_eq!(shadowed, ["b", "a"]);
    }
}
