//! Offset maps of a flow's partitions: grown by what shards note, kept in a topic on the target.
//!
//! The topic (`mm2-heliograph-offset-map.<source>.internal`, one partition, compacted) has one
//! record per chunk of a partition's map. A map's chunks are written before the anchor that covers
//! them, and the anchor says how many bends there are up to it: so a start knows whether it has
//! all of them, and what a crash left behind the anchor is found again in the logs
//! (`flow::align`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::settings::FlowSettings;
use super::sync_rule::SyncRule;
use crate::client::{Appended, LogRecord, NewRecord};
use crate::model::{
    Bend, Chunk, ClusterAlias, KeptChunk, Offset, OffsetMap, TopicId, TopicPartition, Translation,
};

/// First element of the keys in the topic; the number is the format's version.
const KEY_KIND: &str = "heliograph-offset-map-1";

/// Bytes of closed chunks that all maps together keep in memory once they are written. Recent ones
/// answer for groups that lag a little; others are read again when somebody asks.
const MAPS_BYTES: usize = 4 * 1024 * 1024;

/// What one map may keep however many there are: enough for a few thousand bends.
const MAP_BYTES_MIN: usize = 4 * 1024;

/// Chunks at the end of each map that are kept in memory while the topic is read: what was written
/// before a crash and is not covered by an anchor, a second of ten thousand bends, and one more.
const LAST_CHUNKS: usize = 32;

/// The source topic and the target topic that a map is about.
pub(super) type Ids = (TopicId, TopicId);

/// What is known about where upstream offsets lie on the target before a partition's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum History {
    /// There is none: of what lies before the start nothing was copied.
    None,
    /// Somebody else copied what lies before the start.
    Unknown,
    /// From the anchor on offsets ran side by side from these places on.
    Known(Vec<Bend>),
}

/// One partition's map, and what is due of its offset syncs.
#[derive(Debug)]
struct Entry {
    ids: Ids,
    /// Nothing was copied before the map begins.
    whole: bool,
    map: OffsetMap,
    rule: SyncRule,
}

/// The maps.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: BTreeMap<TopicPartition, Entry>,
    /// Chunks that are nobody's any more, to be taken out of the topic.
    orphans: Vec<(TopicPartition, Offset)>,
}

/// What a ledger says about an upstream offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The downstream offset.
    At(Offset),
    /// The answer is in the chunk in this record of the topic; none lies behind `end`.
    InRecord {
        /// Offset of the record.
        record: Offset,
        /// Downstream end of the chunk.
        end: Offset,
    },
    /// The map begins behind it, or there is none.
    Unknown,
}

impl Ledger {
    /// Takes in the maps that a flow's earlier runs left.
    pub(super) fn restore(&mut self, loaded: BTreeMap<TopicPartition, LoadedMap>) {
        let entries = loaded.into_iter().map(|(source, LoadedMap { ids, whole, map })| {
            let rule = SyncRule::default();
            (source, Entry { ids, whole, map, rule })
        });
        self.entries.extend(entries);
    }

    /// A partition starts, or starts again.
    pub(super) fn open(
        &mut self,
        source: &TopicPartition,
        ids: Ids,
        start: Bend,
        history: History,
    ) {
        let whole = history == History::None;
        if let History::Known(bends) = history
            && let Some(entry) = self.entries.get_mut(source).filter(|entry| entry.ids == ids)
        {
            entry.map.cut(start);
            if entry.map.is_open() && entry.map.start().upstream <= start.upstream {
                bends.into_iter().for_each(|bend| entry.map.push(bend));
                entry.map.advance(start);
                return;
            }
        }
        let (map, rule) = (OffsetMap::new(start), SyncRule::default());
        let before = self.entries.insert(source.clone(), Entry { ids, whole, map, rule });
        let Some(mut before) = before else { return };
        before.map.cut(before.map.start());
        let mut orphans = before.map.take_dropped();
        orphans.push(before.map.start().upstream);
        orphans.retain(|first| *first != start.upstream);
        self.orphans.extend(orphans.into_iter().map(|first| (source.clone(), first)));
    }

    /// Takes notice of what a partition's target has acknowledged.
    pub(super) fn note(
        &mut self,
        source: &TopicPartition,
        end: Bend,
        bends: Vec<Bend>,
        lag_max: i64,
    ) {
        let Some(entry) = self.entries.get_mut(source) else { return };
        let from = entry.map.end();
        bends.iter().for_each(|bend| entry.map.push(*bend));
        entry.map.advance(end);
        entry.rule.note(&entry.map, from, &bends, lag_max);
    }

    /// How many bends a partition's map has.
    pub(super) fn bends(&self, source: &TopicPartition) -> Option<u64> {
        self.entries.get(source).map(|entry| entry.map.bends())
    }

    /// Offset syncs that are due; with `all`, also those of partitions that came to rest.
    pub(super) fn take_syncs(&mut self, all: bool) -> Vec<(TopicPartition, Bend)> {
        let mut due = Vec::new();
        for (source, entry) in &mut self.entries {
            if all {
                entry.rule.flush(&entry.map);
            }
            due.extend(entry.rule.take().into_iter().map(|sync| (source.clone(), sync)));
        }
        due
    }

    /// Records that bring the topic up to date, and what to tell [`Ledger::saved`] about them.
    pub(super) fn unsaved(&mut self, source: &ClusterAlias) -> Unsaved {
        let mut unsaved = Unsaved::default();
        for (partition, first) in std::mem::take(&mut self.orphans) {
            unsaved.push(source, &partition, first, None);
        }
        for (partition, entry) in &mut self.entries {
            for first in entry.map.take_dropped() {
                unsaved.push(source, partition, first, None);
            }
            for chunk in entry.map.unsaved() {
                let value = encode(entry.ids, entry.whole, chunk);
                unsaved.push(source, partition, chunk.first.upstream, Some((chunk.more, value)));
            }
        }
        unsaved
    }

    /// They were written, there; or were not.
    pub(super) fn saved(&mut self, unsaved: Unsaved, appended: Option<&Appended>) {
        let placed = appended.map(|appended| {
            appended.batches.iter().flat_map(|(_, base, count)| {
                (0..i64::from(*count)).map(|record| base.advance(record))
            })
        });
        match placed {
            None => {
                let gone = unsaved.keys.into_iter().filter(|(_, _, more)| more.is_none());
                self.orphans.extend(gone.map(|(partition, first, _)| (partition, first)));
            }
            Some(placed) => {
                for ((partition, first, more), at) in unsaved.keys.into_iter().zip(placed) {
                    if let (Some(entry), Some(more)) = (self.entries.get_mut(&partition), more) {
                        entry.map.saved(first, more, at);
                    }
                }
            }
        }
        let each = (MAPS_BYTES / self.entries.len().max(1)).max(MAP_BYTES_MIN);
        self.entries.values_mut().for_each(|entry| entry.map.evict(each));
    }

    /// The downstream offset for an upstream offset.
    pub(super) fn find(&self, source: &TopicPartition, upstream: Offset) -> Found {
        let Some(entry) = self.entries.get(source) else { return Found::Unknown };
        match entry.map.translate(upstream) {
            Translation::Exact(downstream) => Found::At(downstream),
            Translation::Away { at, end } => Found::InRecord { record: at, end },
            // What lies before was not copied, or is gone from the source.
            Translation::Before if entry.whole => Found::At(entry.map.start().downstream),
            Translation::Before => Found::Unknown,
        }
    }

    /// The upstream offset for a downstream offset, where that is in memory.
    pub(super) fn find_back(&self, source: &TopicPartition, downstream: Offset) -> Option<Offset> {
        self.entries.get(source)?.map.reverse(downstream)
    }

    /// How far a partition is copied.
    pub(super) fn copied(&self, source: &TopicPartition) -> Option<Bend> {
        self.entries.get(source).map(|entry| entry.map.end())
    }

    /// The first upstream offset that a partition's map knows of.
    pub(super) fn begins(&self, source: &TopicPartition) -> Option<Offset> {
        self.entries.get(source).map(|entry| entry.map.start().upstream)
    }

    /// Partitions whose maps are of several chunks.
    pub(super) fn long(&self) -> Vec<TopicPartition> {
        let long = self.entries.iter().filter(|(_, entry)| entry.map.is_long());
        long.map(|(source, _)| source.clone()).collect()
    }

    /// The source's logs begin here now.
    pub(super) fn forget_before(&mut self, starts: &BTreeMap<TopicPartition, Offset>) {
        for (source, start) in starts {
            if let Some(entry) = self.entries.get_mut(source) {
                entry.map.forget_before(*start);
            }
        }
    }

    /// Bytes that all maps take.
    pub(super) fn bytes(&self) -> usize {
        self.entries.values().map(|entry| entry.map.bytes_in_all()).sum()
    }
}

/// Records on their way to the topic.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    pub(super) records: Vec<NewRecord>,
    /// Partition, first upstream offset and number of further bends of the chunk in each; no
    /// number for one that is taken out.
    keys: Vec<(TopicPartition, Offset, Option<u32>)>,
}

impl Unsaved {
    fn push(
        &mut self,
        source: &ClusterAlias,
        partition: &TopicPartition,
        first: Offset,
        chunk: Option<(u32, Vec<u8>)>,
    ) {
        let (more, value) = chunk.unzip();
        self.records.push(NewRecord { partition: 0, key: key(source, partition, first), value });
        self.keys.push((partition.clone(), first, more));
    }
}

fn key(source: &ClusterAlias, partition: &TopicPartition, first: Offset) -> Vec<u8> {
    let place = json!({
        "cluster": source.as_str(),
        "first": first.0,
        "partition": partition.partition,
        "topic": partition.topic.as_str(),
    });
    json!([KEY_KIND, place]).to_string().into_bytes()
}

/// Whether a record with this key is about the map of `source`.
pub(super) fn is_about(key: &[u8], source: &TopicPartition) -> bool {
    let about = |key: Value| {
        let place = key.get(1)?;
        let topic = place.get("topic")?.as_str()? == source.topic.as_str();
        let partition = place.get("partition")?.as_i64()? == i64::from(source.partition);
        Some(key.get(0)?.as_str()? == KEY_KIND && topic && partition)
    };
    serde_json::from_slice(key).ok().and_then(about).unwrap_or(false)
}

/// Ids of both topics (16 bytes each), whether the map is whole (1 byte), index, upstream and downstream offset of the first bend
/// (8 bytes each), number of further bends (4 bytes), and their deltas. Big-endian.
pub(super) fn encode(ids: Ids, whole: bool, chunk: &Chunk) -> Vec<u8> {
    let mut value = Vec::with_capacity(61 + chunk.deltas.len());
    value.extend_from_slice(&ids.0.0);
    value.extend_from_slice(&ids.1.0);
    value.push(u8::from(whole));
    value.extend_from_slice(&chunk.index.to_be_bytes());
    value.extend_from_slice(&chunk.first.upstream.0.to_be_bytes());
    value.extend_from_slice(&chunk.first.downstream.0.to_be_bytes());
    value.extend_from_slice(&chunk.more.to_be_bytes());
    value.extend_from_slice(&chunk.deltas);
    value
}

/// The chunk in a record's value; `None` if it is not one.
pub(super) fn decode(value: &[u8]) -> Option<(Ids, bool, Chunk)> {
    let (source_id, rest) = value.split_first_chunk::<16>()?;
    let (target_id, rest) = rest.split_first_chunk::<16>()?;
    let (whole, rest) = rest.split_first()?;
    let (index, rest) = rest.split_first_chunk::<8>()?;
    let (upstream, rest) = rest.split_first_chunk::<8>()?;
    let (downstream, rest) = rest.split_first_chunk::<8>()?;
    let (more, deltas) = rest.split_first_chunk::<4>()?;
    let chunk = Chunk {
        index: u64::from_be_bytes(*index),
        first: Bend {
            upstream: Offset(i64::from_be_bytes(*upstream)),
            downstream: Offset(i64::from_be_bytes(*downstream)),
        },
        more: u32::from_be_bytes(*more),
        deltas: deltas.to_vec(),
    };
    let ids = (TopicId(*source_id), TopicId(*target_id));
    chunk.is_sound().then_some((ids, *whole != 0, chunk))
}

/// A map as the topic has it.
#[derive(Debug)]
pub(super) struct LoadedMap {
    ids: Ids,
    whole: bool,
    map: OffsetMap,
}

/// Chunks of the topic, as they are read in order.
#[derive(Debug, Default)]
pub(super) struct KeptMaps {
    partitions: BTreeMap<TopicPartition, BTreeMap<Offset, (Ids, bool, KeptChunk)>>,
}

impl KeptMaps {
    /// Takes a record of the topic. Chunks that cannot be read are passed over: the count of bends
    /// will say that one is missing.
    pub(super) fn take(&mut self, settings: &FlowSettings, record: &LogRecord) {
        let Some((partition, first)) = place(settings, record) else { return };
        let chunks = self.partitions.entry(partition).or_default();
        let Some((ids, whole, chunk)) = record.value.as_deref().and_then(decode) else {
            chunks.remove(&first);
            return;
        };
        let kept = KeptChunk {
            index: chunk.index,
            first: chunk.first,
            more: chunk.more,
            at: record.offset,
            chunk: Some(chunk),
        };
        chunks.insert(first, (ids, whole, kept));
        // Older ones are read again when they are asked for.
        if let Some((.., older)) = chunks.values_mut().rev().nth(LAST_CHUNKS) {
            older.chunk = None;
        }
    }

    /// The map of a partition whose copy came to `end` after so many `bends`, if all of it is
    /// there.
    pub(super) fn map(
        &mut self,
        source: &TopicPartition,
        ids: Ids,
        end: Bend,
        bends: u64,
    ) -> Option<LoadedMap> {
        let chunks = self.partitions.remove(source)?;
        let mut whole = false;
        let of_these = chunks.into_values().filter(|(of, ..)| *of == ids).map(|(_, is, kept)| {
            whole = is;
            kept
        });
        let map = OffsetMap::restore(of_these, end, bends)?;
        Some(LoadedMap { ids, whole, map })
    }
}

fn place(settings: &FlowSettings, record: &LogRecord) -> Option<(TopicPartition, Offset)> {
    let key: Value = serde_json::from_slice(record.key.as_ref()?).ok()?;
    let place = key.get(1)?;
    if key.get(0)?.as_str()? != KEY_KIND
        || place.get("cluster")?.as_str()? != settings.id.source.as_str()
    {
        return None;
    }
    let partition = i32::try_from(place.get("partition")?.as_i64()?).ok()?;
    let partition = TopicPartition::new(place.get("topic")?.as_str()?, partition);
    Some((partition, Offset(place.get("first")?.as_i64()?)))
}
