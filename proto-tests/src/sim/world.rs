//! What the source holds, and what became of every record: the truth that a run is judged by.

use std::collections::{BTreeMap, BTreeSet};

use super::rng::Rng;
use crate::broker::batch::{self, Origin, Packing, Record, TRANSACTIONAL};
use crate::broker::{FakeCluster, Release};

/// A source topic and a partition.
pub type Place = (String, i32);

/// The time of the first record.
const TIME: i64 = 1_700_000_000_000;

/// What is to become of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is to be on the target.
    Wanted,
    /// Its transaction is open: it must not be on the target.
    Open(i64),
    /// Its transaction was aborted: it must not be on the target.
    Aborted,
    /// Compaction took it away: it may be on the target.
    Compacted,
    /// An unclean election took it away: it may be on the target.
    Truncated,
    /// Its topic was deleted: it may be on the target.
    Orphaned,
}

/// A record as it was written to the source.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number in the whole run, which stands in its header `s`.
    pub serial: u64,
    /// Which topic of this name it was written to.
    pub generation: usize,
    /// The record.
    pub record: Record,
    /// What is to become of it.
    pub fate: Fate,
}

/// A source topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Deleted by age.
    Plain,
    /// Compacted.
    Compacted,
    /// Written by transactions.
    Transactional,
}

/// A record's number, from its header.
#[must_use]
pub fn serial(record: &Record) -> Option<u64> {
    let (_, value) = record.headers.iter().find(|(name, _)| name == b"s")?;
    Some(u64::from_be_bytes(value.as_deref()?.try_into().ok()?))
}

/// The source and its history.
#[derive(Debug)]
pub struct World {
    /// The source.
    pub source: FakeCluster,
    /// Every record ever written, by place, in order.
    pub ledger: BTreeMap<Place, Vec<Entry>>,
    /// Each topic's kind.
    pub kinds: BTreeMap<String, Kind>,
    /// The ids that each topic's name has had.
    pub ids: BTreeMap<String, Vec<[u8; 16]>>,
    /// Where a log was cut off.
    pub truncated: BTreeSet<Place>,
    /// Where a batch was damaged.
    pub damaged: BTreeSet<Place>,
    open: BTreeMap<Place, Origin>,
    sequences: BTreeMap<Place, i32>,
    rng: Rng,
    next_serial: u64,
    next_producer: i64,
    /// Largest value, bytes.
    value_bytes_max: u64,
}

impl World {
    /// An empty source.
    #[must_use]
    pub fn new(nodes: i32, release: Release, value_bytes_max: u64, rng: Rng) -> Self {
        Self {
            source: FakeCluster::new("a", nodes, release),
            ledger: BTreeMap::new(),
            kinds: BTreeMap::new(),
            ids: BTreeMap::new(),
            truncated: BTreeSet::new(),
            damaged: BTreeSet::new(),
            open: BTreeMap::new(),
            sequences: BTreeMap::new(),
            rng,
            next_serial: 0,
            next_producer: 1,
            value_bytes_max,
        }
    }

    /// Makes a topic, or makes it anew.
    pub fn make_topic(&mut self, name: &str, partitions: usize, kind: Kind) {
        let configs: &[(&str, &str)] =
            if kind == Kind::Compacted { &[("cleanup.policy", "compact")] } else { &[] };
        let id = self.source.with(|state| {
            state.delete_topic(name);
            state.make_topic(name, partitions, configs);
            state.topics[name].id
        });
        self.kinds.insert(name.to_owned(), kind);
        self.ids.entry(name.to_owned()).or_default().push(id);
        self.open.retain(|(topic, _), _| topic != name);
        for ((topic, _), entries) in &mut self.ledger {
            if topic == name {
                entries.iter_mut().for_each(|entry| entry.fate = Fate::Orphaned);
            }
        }
    }

    /// How many topics of this name there have been.
    #[must_use]
    pub fn generation(&self, topic: &str) -> usize {
        self.ids.get(topic).map_or(0, Vec::len)
    }

    /// Its partitions now.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> usize {
        self.source.with(|state| state.topics.get(topic).map_or(0, |topic| topic.partitions.len()))
    }

    fn records(&mut self, kind: Kind, count: i64) -> Vec<Record> {
        let mut records = Vec::new();
        for offset in 0..count {
            self.next_serial += 1;
            let serial = self.next_serial;
            let rng = &mut self.rng;
            let key = match kind {
                Kind::Compacted => Some(vec![b'k', u8::try_from(rng.below(7)).unwrap_or(0)]),
                _ if rng.chance(300) => None,
                _ => Some(serial.to_be_bytes()[6..].to_vec()),
            };
            let length = rng.index(usize::try_from(self.value_bytes_max).unwrap_or(64) + 1);
            let value = vec![u8::try_from(serial % 251).unwrap_or(0); length];
            let value = (!rng.chance(60)).then_some(value);
            let late = i64::try_from(rng.below(40)).unwrap_or(0);
            let time = TIME + i64::try_from(serial).unwrap_or(0) * 10 - late;
            let headers = vec![(b"s".to_vec(), Some(serial.to_be_bytes().to_vec()))];
            records.push(Record { offset, time, key, value, headers });
        }
        records
    }

    /// Writes a batch of so many records, inside the open transaction of the place if one is to
    /// be used.
    ///
    /// # Panics
    ///
    /// If there is no such partition.
    pub fn append(&mut self, place: &Place, count: i64, within: bool) {
        let kind = self.kinds[&place.0];
        let mut records = self.records(kind, count);
        let packing = *self.rng.pick(&Packing::ALL);
        let from = self.open.get(place).copied().filter(|_| within);
        let attributes = if from.is_some() { TRANSACTIONAL } else { 0 };
        let sequence = self.sequences.entry(place.clone()).or_default();
        let from = from.map(|from| Origin { sequence: *sequence, ..from });
        *sequence = sequence.wrapping_add(i32::try_from(count).unwrap_or(0)) & i32::MAX;
        let batch =
            batch::write(0, count, &records, packing, attributes, from.unwrap_or(Origin::NOBODY));
        let base = self.source.with(|state| state.append(&place.0, place.1, &batch));
        let generation = self.generation(&place.0);
        let fate = from.map_or(Fate::Wanted, |from| Fate::Open(from.producer));
        let entries = self.ledger.entry(place.clone()).or_default();
        for record in &mut records {
            record.offset += base;
        }
        entries.extend(records.into_iter().map(|record| {
            let serial = serial(&record).expect("just given");
            Entry { serial, generation, record, fate }
        }));
    }

    /// Begins a transaction in a place that has none, or ends it.
    pub fn transact(&mut self, place: &Place, commit: bool) {
        let Some(from) = self.open.remove(place) else {
            self.next_producer += 1;
            let from = Origin { producer: self.next_producer, epoch: 0, sequence: 0 };
            self.open.insert(place.clone(), from);
            return self.append(place, 2, true);
        };
        self.source.with(|state| {
            if let Some(partition) = state.partition_mut(&place.0, place.1) {
                partition.log.end_transaction(from, TIME, commit);
            }
        });
        let fate = if commit { Fate::Wanted } else { Fate::Aborted };
        for entry in self.ledger.entry(place.clone()).or_default() {
            if entry.fate == Fate::Open(from.producer) {
                entry.fate = fate;
            }
        }
    }

    /// Ends every open transaction.
    pub fn end_transactions(&mut self) {
        let open: Vec<Place> = self.open.keys().cloned().collect();
        for place in open {
            let commit = self.rng.chance(500);
            self.transact(&place, commit);
        }
    }

    /// The cleaner runs over a compacted partition.
    pub fn compact(&mut self, place: &Place) {
        if self.damaged.contains(place) {
            return;
        }
        let rng = &mut self.rng;
        let left: BTreeSet<u64> = self.source.with(|state| {
            let Some(partition) = state.partition_mut(&place.0, place.1) else {
                return BTreeSet::new();
            };
            // The active segment is never cleaned.
            let span = partition.log.end() - partition.log.start();
            let until = partition.log.end() - i64::try_from(rng.below(4)).unwrap_or(0).min(span);
            partition.log.compact(until, || rng.chance(400));
            partition.log.records().iter().filter_map(serial).collect()
        });
        let start = self.start(place);
        let generation = self.generation(&place.0);
        for entry in self.ledger.entry(place.clone()).or_default() {
            let here = entry.generation == generation && entry.record.offset >= start;
            if here && entry.fate == Fate::Wanted && !left.contains(&entry.serial) {
                entry.fate = Fate::Compacted;
            }
        }
    }

    fn start(&self, place: &Place) -> i64 {
        self.source.with(|state| {
            state.partition(&place.0, place.1).map_or(0, |partition| partition.log.start())
        })
    }

    /// Retention removes the head of a partition, up to so many thousandths of it.
    pub fn retain(&mut self, place: &Place, per_mille: u64) {
        self.source.with(|state| {
            if let Some(partition) = state.partition_mut(&place.0, place.1) {
                let log = &mut partition.log;
                let span = u64::try_from(log.stable() - log.start()).unwrap_or(0);
                let gone = i64::try_from(span * per_mille / 1000).unwrap_or(0);
                log.delete_to(log.start() + gone);
            }
        });
    }

    /// An unclean election: a partition loses so many of its last records.
    pub fn truncate(&mut self, place: &Place, records: i64) {
        let end = self.source.with(|state| {
            let node = state.partition(&place.0, place.1).map_or(1, |one| one.leader.max(1));
            let end = state.partition(&place.0, place.1).map_or(0, |one| one.log.end());
            state.truncate(&place.0, place.1, end - records, node);
            state.partition(&place.0, place.1).map_or(0, |one| one.log.end())
        });
        self.open.remove(place);
        self.truncated.insert(place.clone());
        let generation = self.generation(&place.0);
        for entry in self.ledger.entry(place.clone()).or_default() {
            let here = entry.generation == generation && entry.record.offset >= end;
            if here {
                entry.fate = Fate::Truncated;
            } else if matches!(entry.fate, Fate::Open(_)) {
                // Its marker will never come.
                entry.fate = Fate::Aborted;
            }
        }
    }

    /// A batch near the end of a partition goes bad on disk.
    pub fn damage(&mut self, place: &Place) {
        let done = self.source.with(|state| {
            let Some(partition) = state.partition_mut(&place.0, place.1) else { return false };
            let last = partition.log.end() - 1;
            last >= partition.log.start() && partition.log.damage(last)
        });
        if done {
            self.damaged.insert(place.clone());
        }
    }
}
