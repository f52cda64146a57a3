//! What a scripted cluster holds: nodes, topics, producer ids, sessions, what was asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::batch::Header;
use super::faults::Faults;
use super::fetch::Session;
use super::log::PartitionLog;
use super::release::Release;

/// `max.message.bytes` where a topic does not set it: Kafka's default.
pub const BATCH_BYTES_MAX: usize = 1_048_588;

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Whether it takes connections.
    pub up: bool,
    /// Its port; its host is the cluster's name.
    pub port: u16,
}

/// One partition.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Who leads it; -1 while nobody does.
    pub leader: i32,
    /// The leader's epoch.
    pub epoch: i32,
    /// Its log, which every node has.
    pub log: PartitionLog,
}

/// One topic.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its id; zero in releases without.
    pub id: [u8; 16],
    /// Configs set on it.
    pub configs: BTreeMap<String, String>,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

impl Topic {
    /// Largest batch that it takes.
    #[must_use]
    pub fn batch_bytes_max(&self) -> usize {
        let set = self.configs.get("max.message.bytes");
        set.and_then(|value| value.parse().ok()).unwrap_or(BATCH_BYTES_MAX)
    }

    /// Whether it is compacted, so that every record needs a key.
    #[must_use]
    pub fn is_compacted(&self) -> bool {
        self.configs.get("cleanup.policy").is_some_and(|value| value.contains("compact"))
    }
}

/// A request as it was seen, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// When it was worked on, since the cluster was made.
    pub at: Duration,
    /// By which node.
    pub node: i32,
    /// On which connection.
    pub connection: u64,
    /// Which API, in which version.
    pub api: (i16, i16),
    /// Bytes of the request, and of the answer (0 if there was none).
    pub bytes: (usize, usize),
    /// What was done to it, in a word; empty if nothing.
    pub fault: String,
    /// What it was about.
    pub note: String,
}

/// An append to a topic of Heliograph's or MirrorMaker's own, and how far every log reached then.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Which topic.
    pub topic: String,
    /// The bytes of the batch.
    pub batch: Bytes,
    /// End of every other partition's log.
    pub ends: BTreeMap<(String, usize), i64>,
}

/// What a broker does that no broker does: each breaks one promise, for a negative control.
#[derive(Clone, Debug, Default)]
pub struct Quirks {
    /// It takes every sequence.
    pub forgets_sequences: bool,
    /// It acknowledges every so many-th batch of data and does not store it.
    pub loses_every: Option<u64>,
    /// It stores every so many-th batch of data in front of the one before it.
    pub swaps_every: Option<u64>,
    /// It stores every batch of data only when the next one of its partition comes, or never.
    pub acknowledges_early: bool,
    /// It flips a bit in the last byte of every so many-th batch of data, and seals it again.
    pub spoils_every: Option<u64>,
    /// It never answers requests that write to topics with this ending.
    pub mute_for: Option<String>,
}

/// One connection's requests that were read and not yet answered.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) node: i32,
    pub(super) waiting: VecDeque<Bytes>,
    /// Nobody reads its answers any more.
    pub(super) orphaned: bool,
}

/// A scripted cluster's state.
#[derive(Debug)]
pub struct State {
    /// Its name: the host of every node.
    pub name: String,
    /// What it claims to be.
    pub release: Release,
    /// Its nodes.
    pub nodes: BTreeMap<i32, Node>,
    /// Its topics.
    pub topics: BTreeMap<String, Topic>,
    /// What is done to requests.
    pub faults: Box<dyn Faults>,
    /// What it does wrong.
    pub quirks: Quirks,
    /// What was asked.
    pub seen: Vec<Seen>,
    /// What was appended to internal topics.
    pub marks: Vec<Mark>,
    /// Bytes of fetch answers that clients have read.
    pub fetched_bytes: u64,
    /// Largest fetch answer.
    pub fetch_answer_max: usize,
    /// Fetch sessions that a node keeps.
    pub sessions_max: usize,
    /// Requests beyond which nothing is answered any more: a client that asks without end must
    /// not keep a test running without end.
    pub requests_max: usize,
    pub(super) sessions: BTreeMap<(i32, i32), Session>,
    pub(super) next_session: i32,
    pub(super) next_producer: i64,
    pub(super) next_topic: u64,
    pub(super) next_connection: u64,
    pub(super) data_batches: u64,
    pub(super) held: BTreeMap<(String, usize), Bytes>,
    pub(super) lines: BTreeMap<u64, Line>,
}

impl State {
    /// The topic's name for an id.
    #[must_use]
    pub fn name_of(&self, id: [u8; 16]) -> Option<&str> {
        self.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.as_str())
    }

    /// A partition.
    #[must_use]
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    /// A partition, to change it.
    pub fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(usize::try_from(partition).ok()?)
    }

    /// The leader's view of a partition, or the code that another node answers with.
    ///
    /// # Errors
    ///
    /// 3 or 6.
    pub(super) fn led_by(&self, node: i32, topic: &str, partition: i32) -> Result<&Partition, i16> {
        let found = self.partition(topic, partition).ok_or(3_i16)?;
        if found.leader == node { Ok(found) } else { Err(6) }
    }

    /// Checks the leader epoch that a client believes in: 74 if it is behind, 75 if we are.
    pub(super) fn epoch_code(partition: &Partition, believed: i32) -> Result<(), i16> {
        match believed {
            -1 => Ok(()),
            old if old < partition.epoch => Err(74),
            new if new > partition.epoch => Err(75),
            _ => Ok(()),
        }
    }

    /// Makes a topic. Its partitions are led by the nodes in turn.
    ///
    /// # Panics
    ///
    /// If no node is up.
    pub fn make_topic(&mut self, name: &str, partitions: usize, configs: &[(&str, &str)]) {
        self.next_topic += 1;
        let mut id = [0; 16];
        if self.release.has_topic_ids() {
            id[0] = 0xb1;
            id[8..].copy_from_slice(&self.next_topic.to_be_bytes());
        }
        let configs =
            configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let topic = Topic { id, configs, partitions: Vec::new() };
        self.topics.insert(name.to_owned(), topic);
        self.grow_topic(name, partitions);
    }

    /// Gives a topic more partitions.
    ///
    /// # Panics
    ///
    /// If no node is up.
    pub fn grow_topic(&mut self, name: &str, partitions: usize) {
        let up: Vec<i32> =
            self.nodes.iter().filter(|(_, node)| node.up).map(|(id, _)| *id).collect();
        let Some(topic) = self.topics.get_mut(name) else { return };
        while topic.partitions.len() < partitions {
            let leader = up[(topic.partitions.len() + name.len()) % up.len()];
            let mut log = PartitionLog::default();
            log.begin_epoch(0);
            topic.partitions.push(Partition { leader, epoch: 0, log });
        }
    }

    /// Deletes a topic.
    pub fn delete_topic(&mut self, name: &str) {
        self.topics.remove(name);
        self.held.retain(|(topic, _), _| topic != name);
    }

    /// Makes `leader` lead a partition, under the next epoch.
    pub fn move_leader(&mut self, topic: &str, partition: i32, leader: i32) {
        if let Some(found) = self.partition_mut(topic, partition) {
            found.leader = leader;
            found.epoch += 1;
            let epoch = found.epoch;
            found.log.begin_epoch(epoch);
        }
    }

    /// Takes a node down: its partitions are led by others, if one is up.
    pub fn stop_node(&mut self, id: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.up = false;
        }
        let other = self.nodes.iter().find(|(_, node)| node.up).map(|(id, _)| *id);
        for topic in self.topics.values_mut() {
            for partition in topic.partitions.iter_mut().filter(|one| one.leader == id) {
                partition.epoch += 1;
                partition.leader = other.unwrap_or(-1);
                if other.is_some() {
                    partition.log.begin_epoch(partition.epoch);
                }
            }
        }
        self.sessions.retain(|(node, _), _| *node != id);
    }

    /// Brings a node up; it leads what nobody leads.
    pub fn start_node(&mut self, id: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.up = true;
        }
        for topic in self.topics.values_mut() {
            for partition in topic.partitions.iter_mut().filter(|one| one.leader < 0) {
                partition.leader = id;
                partition.epoch += 1;
                partition.log.begin_epoch(partition.epoch);
            }
        }
    }

    /// The leader of a partition loses what lies from `offset` on.
    pub fn truncate(&mut self, topic: &str, partition: i32, offset: i64, leader: i32) {
        if let Some(found) = self.partition_mut(topic, partition) {
            found.log.truncate(offset);
        }
        self.move_leader(topic, partition, leader);
    }

    /// A batch that a test puts into a partition, as its leader would.
    ///
    /// # Panics
    ///
    /// If there is no such partition.
    pub fn append(&mut self, topic: &str, partition: i32, batch: &[u8]) -> i64 {
        let found = self.partition_mut(topic, partition).expect("a partition of the test's own");
        found.log.append(batch)
    }

    /// Stores a batch that was checked, with whatever is wrong with this broker.
    pub(super) fn store(&mut self, topic: &str, index: usize, batch: &Bytes) -> i64 {
        let internal = topic.starts_with("mm2-");
        if internal {
            let mark = Mark { topic: topic.to_owned(), batch: batch.clone(), ends: self.ends() };
            self.marks.push(mark);
        } else {
            self.data_batches += 1;
        }
        let nth = |every: Option<u64>, count: u64| every.is_some_and(|n| count % n == 0);
        let count = self.data_batches;
        let quirks = self.quirks.clone();
        let held = self.held.remove(&(topic.to_owned(), index));
        let place = (topic.to_owned(), index);
        let partition = self.topics.get_mut(topic).map(|topic| &mut topic.partitions[index]);
        let Some(partition) = partition else { return -1 };
        if internal {
            return partition.log.append(batch);
        }
        if let Some(held) = held {
            partition.log.append(&held);
        }
        if nth(quirks.loses_every, count) {
            return partition.log.end();
        }
        if quirks.acknowledges_early {
            let base = partition.log.end();
            self.held.insert(place, batch.clone());
            return base;
        }
        if nth(quirks.spoils_every, count)
            && Header::read(batch).is_some_and(|header| header.attributes & 7 == 0)
        {
            let mut spoilt = batch.to_vec();
            // The last byte but one belongs to the last header's value or name.
            let at = spoilt.len() - 2;
            spoilt[at] ^= 1;
            super::batch::seal(&mut spoilt);
            return partition.log.append(&spoilt);
        }
        let base = partition.log.append(batch);
        if nth(quirks.swaps_every, count) {
            partition.log.swap_last();
        }
        base
    }

    /// Where every log ends.
    #[must_use]
    pub fn ends(&self) -> BTreeMap<(String, usize), i64> {
        let mut ends = BTreeMap::new();
        for (name, topic) in &self.topics {
            for (index, partition) in topic.partitions.iter().enumerate() {
                ends.insert((name.clone(), index), partition.log.end());
            }
        }
        ends
    }
}
