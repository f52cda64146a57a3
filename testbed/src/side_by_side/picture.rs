//! What lies on two clusters after a mirror: names and settings as lines, internal records by their meaning.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use heliograph::mm2::{Checkpoint, Heartbeat, OffsetSync};
use heliograph::model::{Bend, TopicPartition};

use crate::admin::{GroupOffset, Record};
use crate::cluster::Cluster;

/// Syncs of a few hundred records are a few dozen.
const SYNCS_MAX: u32 = 100_000;

/// A group, and a partition on the target.
pub(super) type Place = (String, TopicPartition);

/// Everything that is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// Topics with partitions and own configs, access rules, pairs of heartbeats, what `MirrorClient` says.
    pub lines: BTreeSet<String>,
    /// The newest checkpoint of each place.
    pub checkpoints: BTreeMap<Place, Checkpoint>,
    /// What groups have committed on the target.
    pub groups: BTreeMap<Place, i64>,
    /// Offset syncs of each source partition that holds data, in the topic's order.
    pub syncs: BTreeMap<TopicPartition, Vec<Bend>>,
    /// Where the records of each source partition lie, and of which target partition they became.
    pub records: BTreeMap<TopicPartition, Copied>,
}

/// The records of a partition, before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    pub to: Option<TopicPartition>,
    pub upstream: Vec<i64>,
    pub downstream: Vec<i64>,
}

impl Copied {
    /// Where a reader goes on on the target that would next read `upstream` on the source; `None` while the copy is
    /// not whole.
    pub(super) fn place(&self, upstream: i64) -> Option<i64> {
        if self.upstream.len() != self.downstream.len() {
            return None;
        }
        let next = self.upstream.partition_point(|offset| *offset < upstream);
        match self.downstream.get(next) {
            Some(place) => Some(*place),
            None => Some(self.downstream.last().map_or(0, |last| last + 1)),
        }
    }
}

impl Picture {
    /// Looks at both clusters; `topics` are those with records, and their names on the target.
    pub(super) fn take(a: &Cluster, b: &Cluster, topics: &[(&str, String)]) -> Result<Self> {
        let mut picture = Self::default();
        for (side, cluster) in [("source", a), ("target", b)] {
            picture.look_at(side, cluster)?;
        }
        let said = b.mirror_client("A", &[])?;
        picture.lines.insert(format!("target: MirrorClient says {said:?}"));
        picture.groups_of(b)?;
        for (topic, remote) in topics {
            if b.describe_topic(remote)?.is_none() {
                continue;
            }
            let (there, here) = (a.record_offsets(topic)?, b.record_offsets(remote)?);
            for (partition, (upstream, downstream)) in there.into_iter().zip(here).enumerate() {
                let partition = i32::try_from(partition)?;
                let to = Some(TopicPartition::new(remote.as_str(), partition));
                let copied = Copied { to, upstream, downstream };
                picture.records.insert(TopicPartition::new(*topic, partition), copied);
            }
        }
        let Self { syncs, records, .. } = &mut picture;
        // Heartbeats come for ever, and so do their syncs.
        syncs.retain(|partition, _| records.contains_key(partition));
        Ok(picture)
    }

    fn look_at(&mut self, side: &str, cluster: &Cluster) -> Result<()> {
        for topic in cluster.topics()? {
            // A topic may go, or not have come to every broker yet; the next look will tell.
            let Some(described) = cluster.describe_topic(&topic)? else { continue };
            let partitions = described.partitions.len();
            let configs = cluster.own_configs(&topic)?;
            self.lines.insert(format!("{side}: topic {topic} partitions={partitions} {configs:?}"));
            // Not the user's topics that are only named so.
            if topic.ends_with("heartbeats") && topic != "team.heartbeats" {
                for record in cluster.read(&topic, 5)? {
                    let pair = decoded(&record, Heartbeat::decode)
                        .map_or_else(|why| why, |one| one.flow.to_string());
                    self.lines.insert(format!("{side}: heartbeats of {pair} in {topic}"));
                }
            }
            // With any separator: `A.checkpoints.internal`, `A_checkpoints_internal`.
            let checkpoints = topic.starts_with('A') && topic.contains("checkpoints");
            if checkpoints && side == "target" {
                for record in cluster.read(&topic, SYNCS_MAX)? {
                    match decoded(&record, Checkpoint::decode) {
                        Ok(one) => {
                            let place = (one.group.clone(), one.partition.clone());
                            self.checkpoints.insert(place, one);
                        }
                        Err(why) => {
                            self.lines.insert(format!("{side}: {topic}: {why}"));
                        }
                    }
                }
            }
            if topic.starts_with("mm2-offset-syncs") {
                for record in cluster.read(&topic, SYNCS_MAX)? {
                    match decoded(&record, OffsetSync::decode) {
                        Ok(one) => self
                            .syncs
                            .entry(one.partition)
                            .or_default()
                            .push(Bend { upstream: one.upstream, downstream: one.downstream }),
                        Err(why) => {
                            self.lines.insert(format!("{side}: {topic}: {why}"));
                        }
                    }
                }
            }
        }
        for rule in cluster.acls()? {
            self.lines.insert(format!("{side}: rule {rule:?}"));
        }
        Ok(())
    }

    fn groups_of(&mut self, cluster: &Cluster) -> Result<()> {
        for group in cluster.groups()? {
            // Connect's workers are a group that commits nothing.
            for GroupOffset { topic, partition, offset, .. } in
                cluster.group_offsets(&group.group)?
            {
                let partition = TopicPartition::new(topic.as_str(), i32::try_from(partition)?);
                self.groups.insert((group.group.clone(), partition), offset);
            }
        }
        Ok(())
    }

    /// Whether the last things that appear are there: heartbeats of the way back, copied; a rule; all records; a
    /// group's offsets and its checkpoint.
    pub(super) fn is_complete(&self) -> bool {
        let there = |part: &str| self.lines.iter().any(|line| line.contains(part));
        there("target: heartbeats of B->A")
            && there("target: rule")
            && !self.records.is_empty()
            && self.records.values().all(|one| one.place(0).is_some())
            && self.groups.keys().any(|(group, _)| group == "end")
            && self.checkpoints.keys().any(|(group, _)| group == "end")
    }
}

/// A record of an internal topic, by `decode`.
fn decoded<T, E: std::fmt::Display>(
    record: &Record,
    decode: impl Fn(&[u8], &[u8]) -> Result<T, E>,
) -> Result<T, String> {
    let bytes = |hex: &Option<String>| -> Result<Vec<u8>> {
        let hex = hex.as_deref().context("null")?;
        (0..hex.len() / 2).map(|at| Ok(u8::from_str_radix(&hex[2 * at..2 * at + 2], 16)?)).collect()
    };
    let (key, value) = (bytes(&record.key), bytes(&record.value));
    match (key, value) {
        (Ok(key), Ok(value)) => decode(&key, &value)
            .map_err(|error| format!("record {} cannot be read: {error}", record.offset)),
        _ => Err(format!("record {} has no key or no value", record.offset)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_that_of_the_next_record_that_was_copied() {
        let copied = Copied { to: None, upstream: vec![3, 4, 9], downstream: vec![0, 1, 2] };

        let places = [0, 3, 5, 9, 10, 99].map(|upstream| copied.place(upstream));
        assert_eq!(places, [0, 0, 2, 2, 3, 3].map(Some));
        let half = Copied { downstream: vec![0], ..copied };
        assert_eq!(half.place(0), None);
    }

    #[test]
    fn a_heartbeat_is_read_from_its_bytes_and_what_is_none_is_said() {
        let record = |key: &str, value: &str| Record {
            partition: 0,
            offset: 7,
            timestamp: 0,
            timestamp_type: String::new(),
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
            headers: Vec::new(),
        };
        let pair = |record: &Record| decoded(record, Heartbeat::decode).map(|one| one.flow);

        let good = record("000141000142", "00000000000000000001");
        assert_eq!(pair(&good).unwrap().to_string(), "A->B");
        assert!(pair(&record("0001", "00000000000000000001")).unwrap_err().contains("record 7"));
    }
}
