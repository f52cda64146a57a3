//! Offsets that are committed on the target: for which groups, which, and what was answered.

use std::collections::{BTreeMap, BTreeSet};

use super::super::homecoming::{Place, Returning, Staying, staying};
use super::super::rights::{Missing, Resource};
use super::refusals::{Deed, Refusals};
use super::{COMMITTING, GroupRounds, Mirrored, RoundError};
use crate::client::{Committed, EARLIEST, GroupOffsets, LATEST};
use crate::flow::Translated;
use crate::mm2::Checkpoint;
use crate::model::{AclOperation, LeaderEpoch, Offset, TopicName, TopicPartition};
use crate::policy::{self, Commit, Rewind, There, Thing};
use crate::wire::ErrorCode;

/// What a commit for a group with members is answered with.
const UNKNOWN_MEMBER_ID: ErrorCode = ErrorCode(25);

/// What a refused commit needs READ on.
enum Lacking {
    Group(String),
    Topic(TopicName),
}

/// What a code of a commit, or of a question about a group, says about rights.
fn lacked(group: &str, code: ErrorCode, partition: Option<&TopicPartition>) -> Option<Lacking> {
    match (code.0, partition) {
        (30, _) => Some(Lacking::Group(group.to_owned())),
        (29, Some(partition)) => Some(Lacking::Topic(partition.topic.clone())),
        _ => None,
    }
}

/// What was mirrored, by group.
type ByGroup<'a> = BTreeMap<&'a str, Vec<&'a Mirrored>>;

/// Offsets to commit, by group.
type Wanted = BTreeMap<String, BTreeMap<TopicPartition, Committed>>;

/// What a round could not commit, and why.
#[derive(Default)]
struct Undone {
    refused: Refusals,
    lacking: Vec<Lacking>,
}

impl Undone {
    fn add(&mut self, group: &str, code: ErrorCode) {
        self.lacking.extend(lacked(group, code, None));
        self.refused.add(code, group.to_owned());
    }
}

impl GroupRounds {
    /// Commits for groups in which nobody is on the target.
    pub(super) async fn commit(&mut self, mirrored: &[Mirrored]) -> Result<(), RoundError> {
        self.left.clear();
        let mut by_group: ByGroup<'_> = BTreeMap::new();
        for one in mirrored {
            by_group.entry(&one.checkpoint.group).or_default().push(one);
        }
        let known = self.retain_idle(&mut by_group).await?;
        let mut undone = Undone::default();
        let wanted = self.wanted(&by_group, &known, &mut undone).await?;
        self.carry_out(&wanted, mirrored, &mut undone).await?;
        self.lacks.remove(COMMITTING);
        for lacking in undone.lacking {
            match lacking {
                Lacking::Group(group) => self.lack_group(COMMITTING, Thing::TargetGroups, &group),
                Lacking::Topic(topic) => {
                    let replica = Resource::replica(&self.rules.topics, topic.as_str());
                    let (thing, read) = (Thing::Replicas, AclOperation::READ);
                    self.lack(COMMITTING, Missing::new(&self.target, thing, read, replica));
                }
            }
        }
        self.tell("committing", &undone.refused.words(Deed::Commit, self.target.alias()));
        Ok(())
    }

    /// Takes out groups that have members on the target; which of the others are there already.
    async fn retain_idle(&mut self, by_group: &mut ByGroup<'_>) -> Result<Vec<String>, RoundError> {
        let (listed, failed) = self.target.list_groups().await?;
        // A group that is not listed for that may have members: then its coordinator refuses.
        let words = failed.first().map(|error| format!("not all groups are known: {error}"));
        self.tell("listing on the target", &words.unwrap_or_default());
        let busy: BTreeSet<&str> =
            listed.iter().filter(|group| !group.is_idle()).map(|group| group.id.as_str()).collect();
        let there: BTreeSet<&str> = listed.iter().map(|group| group.id.as_str()).collect();
        by_group.retain(|group, _| {
            let idle = !busy.contains(group);
            if !idle {
                self.left.push(format!("{group}: has members on the target, and is theirs"));
            }
            idle
        });
        let known = by_group.keys().filter(|group| there.contains(*group));
        Ok(known.map(|group| (*group).to_owned()).collect())
    }

    /// What is to be committed; `known` are the groups that are on the target.
    async fn wanted(
        &mut self,
        by_group: &ByGroup<'_>,
        known: &[String],
        undone: &mut Undone,
    ) -> Result<Wanted, RoundError> {
        let committed = self.target.committed_offsets(known).await?;
        let staying = self.staying(by_group, &committed).await?;
        let partitions: BTreeSet<TopicPartition> =
            by_group.values().flatten().map(|one| one.checkpoint.partition.clone()).collect();
        let partitions: Vec<TopicPartition> = partitions.into_iter().collect();
        let ends = self.target.list_offsets(&partitions, LATEST, false).await;
        let mut wanted = Wanted::new();
        for (&group, all) in by_group {
            let has = match committed.get(group) {
                Some(Ok(has)) => Some(has),
                None => None,
                Some(Err(code)) => {
                    undone.add(group, *code);
                    continue;
                }
            };
            for Mirrored { checkpoint, source, home } in all {
                let Some(Ok(end)) = ends.get(&checkpoint.partition) else { continue };
                let place = (group.to_owned(), checkpoint.partition.clone());
                if let Some(why) = staying.get(&place) {
                    self.left.extend(why.clone());
                    continue;
                }
                let there = has.and_then(|has| has.get(&checkpoint.partition));
                let there = there.map(|one| self.there(checkpoint, one));
                let rewind = self.rules.rewind;
                match policy::commit(checkpoint.downstream, there, end.offset, rewind) {
                    Commit::Yes => {
                        let committed = Committed {
                            offset: checkpoint.downstream,
                            epoch: LeaderEpoch::UNKNOWN,
                            metadata: checkpoint.metadata.clone(),
                        };
                        let of = wanted.entry(group.to_owned()).or_default();
                        of.insert(checkpoint.partition.clone(), committed);
                    }
                    Commit::Ahead => {
                        let Checkpoint { partition, downstream, .. } = checkpoint;
                        let there = there.map_or(Offset::ZERO, |there| there.offset);
                        self.left.push(format!(
                            "{group}: the source is behind: at {} of {source}, which is {downstream} \
                             of {partition}, where the target is at {there}",
                            checkpoint.upstream
                        ));
                    }
                    Commit::Same if *home => self.home.done(place, checkpoint.upstream),
                    Commit::Same | Commit::BehindEnd => {}
                }
            }
        }
        Ok(wanted)
    }

    /// Commits, and takes note of what was answered.
    async fn carry_out(
        &mut self,
        wanted: &Wanted,
        mirrored: &[Mirrored],
        undone: &mut Undone,
    ) -> Result<(), RoundError> {
        let going_home: BTreeMap<Place, Offset> = mirrored
            .iter()
            .filter(|one| one.home)
            .map(|Mirrored { checkpoint, .. }| {
                ((checkpoint.group.clone(), checkpoint.partition.clone()), checkpoint.upstream)
            })
            .collect();
        self.placed.putting(wanted.iter().flat_map(|(group, partitions)| {
            let place = |partition: &TopicPartition| (group.clone(), partition.clone());
            partitions.iter().map(move |(partition, one)| (place(partition), one.offset))
        }));
        for (group, outcome) in self.target.commit_offsets(wanted).await? {
            let codes = match outcome {
                Ok(codes) => codes,
                Err(code) => {
                    for partition in wanted.get(&group).into_iter().flat_map(BTreeMap::keys) {
                        self.placed.answered((group.clone(), partition.clone()), false);
                    }
                    undone.add(&group, code);
                    continue;
                }
            };
            for (partition, code) in &codes {
                let (place, done) = ((group.clone(), partition.clone()), !code.is_error());
                self.placed.answered(place.clone(), done);
                if let Some(there) = going_home.get(&place).filter(|_| done) {
                    self.home.done(place, *there);
                }
            }
            // Somebody joined since: the group is its members' again.
            let bad = codes.values().find(|code| code.is_error() && **code != UNKNOWN_MEMBER_ID);
            for (partition, code) in &codes {
                undone.lacking.extend(lacked(&group, *code, Some(partition)));
            }
            if let Some(code) = bad {
                undone.refused.add(*code, group.clone());
            }
            if self.rules.rewind == Rewind::Follow {
                let done = codes.into_iter().filter(|(_, code)| !code.is_error());
                let put = done.filter_map(|(partition, _)| {
                    let offset = wanted.get(&group)?.get(&partition)?.offset;
                    Some(((group.clone(), partition), offset))
                });
                self.put.extend(put.collect::<Vec<_>>());
            }
        }
        Ok(())
    }

    /// Which groups stay where they are at home, though they used the copy.
    async fn staying(
        &self,
        by_group: &ByGroup<'_>,
        committed: &GroupOffsets,
    ) -> Result<Staying, RoundError> {
        let mut returning = Vec::new();
        for (group, all) in by_group {
            let Some(Ok(has)) = committed.get(*group) else { continue };
            for one in all.iter().filter(|one| one.home) {
                let Checkpoint { partition, upstream, .. } = &one.checkpoint;
                if let Some(at) = has.get(partition).map(|one| one.offset) {
                    let place = ((*group).to_owned(), partition.clone());
                    returning.push(Returning { place, at, there: *upstream, unread_at: None });
                }
            }
        }
        let there = self.reverse.as_ref().and_then(|way| way.offsets.borrow().clone());
        let (Some(there), false) = (there, returning.is_empty()) else {
            return Ok(staying(returning));
        };
        returning.sort_by(|one, other| (&one.place.1, one.at).cmp(&(&other.place.1, other.at)));
        // What is gone from the log at home is no loss to anybody who has not read it.
        let partitions: BTreeSet<_> = returning.iter().map(|one| one.place.1.clone()).collect();
        let partitions: Vec<_> = partitions.into_iter().collect();
        let starts = self.target.list_offsets(&partitions, EARLIEST, false).await;
        let (mut reached, mut places) = (Vec::new(), Vec::new());
        for (index, Returning { place: (_, partition), at, .. }) in returning.iter().enumerate() {
            let Some(Ok(start)) = starts.get(partition) else { continue };
            let from = start.offset.max(*at);
            if there.begins(partition).is_some_and(|begins| begins <= from) {
                reached.push(index);
                places.push((partition.clone(), from));
            }
        }
        let translated = there.translate(&places).await?;
        for (index, found) in reached.into_iter().zip(translated) {
            if let Translated::Exact(offset) = found {
                returning[index].unread_at = Some(offset);
            }
        }
        Ok(staying(returning))
    }

    /// Where a group stands on the target, and whether that is still our doing. What a member
    /// commits knows the leader epoch of the record before it; what we commit does not.
    fn there(&self, checkpoint: &Checkpoint, committed: &Committed) -> There {
        let place = (checkpoint.group.clone(), checkpoint.partition.clone());
        let ours = self.put.get(&place) == Some(&committed.offset) && !committed.epoch.is_known();
        There { offset: committed.offset, ours }
    }
}
