//! Checkpoints and group offsets: what groups have committed on the source, said in offsets of the
//! target.
//!
//! A round asks the source which groups there are and what they have committed, translates that by
//! the flow's offset maps, writes checkpoints as MM2 does, and commits for groups in which nobody
//! is on the target (`commits`). Decisions are `policy`'s; where history before this program is only
//! known from offset syncs, MM2's own translation is used.

mod commits;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::refusals::{Deed, Refusals};

use super::homecoming::{Homecoming, Place, Placed, WayThere};
use super::internal_topics::{InternalTopic, ensure};
use super::rights::{Missing, Resource, is_denied, log_denied};
use super::rounds::{Notes, Round, Trouble};
use crate::client::{Cluster, Committed, LogError, NewRecord, RequestError};
use crate::flow::{Offsets, Translated};
use crate::mm2::{Checkpoint, OffsetSync};
use crate::model::{AclOperation, Bend, Moment, Offset, TopicName, TopicPartition};
use crate::policy::{self, BySync, FlowTopics, GroupFilter, Rewind, Selection, SyncStore, Thing};
use crate::wire::ErrorCode;

/// The first round waits until partitions have been decided about.
pub(super) const FIRST_AFTER: Duration = Duration::from_secs(2);

/// When it is looked again, after the first round, whether groups that read further than what was
/// copied then can go on: a start with many partitions takes that long, and an interval is a minute.
pub(super) const SOON_AFTER: [Duration; 6] = [
    Duration::from_secs(3),
    Duration::from_secs(4),
    Duration::from_secs(5),
    Duration::from_secs(7),
    Duration::from_secs(10),
    Duration::from_secs(15),
];

/// Which groups are mirrored, and how.
#[derive(Clone, Debug)]
pub struct GroupRules {
    /// Which topics the flow copies, and their names on the target.
    pub topics: FlowTopics,
    /// Which groups.
    pub groups: GroupFilter,
    /// How often groups are looked for; `None` for only once.
    pub refresh: Option<Duration>,
    /// How often checkpoints are written; `None` for never.
    pub checkpoints: Option<Duration>,
    /// How often offsets are committed on the target; `None` for never.
    pub offsets: Option<Duration>,
    /// What becomes of a group that went back on the source.
    pub rewind: Rewind,
    /// Where checkpoints go.
    pub topic: InternalTopic,
    /// Where MM2's offset syncs are, for what was copied before.
    pub syncs_topic: TopicName,
}

/// One flow's rounds for groups, and what they remember.
#[derive(Debug)]
pub(super) struct GroupRounds {
    rules: GroupRules,
    source: Cluster,
    target: Cluster,
    /// The cluster with the offset syncs.
    syncs: Cluster,
    offsets: Offsets,
    /// What it has put on the target.
    placed: Placed,
    /// The flow the other way, which made the copies that groups may have used.
    reverse: Option<WayThere>,
    home: Homecoming,
    groups: Vec<String>,
    /// Newest checkpoint of each group and target partition, once read.
    known: Option<BTreeMap<Place, Checkpoint>>,
    /// Checkpoints may not be read, so that nothing was known at first.
    unread: bool,
    /// What MM2's syncs say, read when first needed.
    store: Option<SyncStore>,
    /// What was put on the target, where rewinds are followed: it may be taken back.
    put: BTreeMap<Place, Offset>,
    /// What was said last, by subject, so that it is said once.
    told: BTreeMap<&'static str, String>,
    /// Groups without a place on the target yet, and groups that are left as they are there.
    unplaced: Vec<String>,
    left: Vec<String>,
    /// A group reads further than what is copied.
    behind: bool,
    /// Rights that each part of a round lacked when it was last done.
    lacks: BTreeMap<&'static str, BTreeSet<Missing>>,
    /// When groups are looked for; `None` if they were, and are to be only once.
    find_at: Option<Moment>,
    /// When checkpoints are written, and offsets committed.
    emit_at: Moment,
    commit_at: Moment,
}

impl Round for GroupRounds {
    /// Looks for groups, translates what they have committed, writes checkpoints and commits, each
    /// at its own interval.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if a cluster does not answer, or a topic that is needed cannot be had.
    async fn run(&mut self) -> Result<Notes, Trouble> {
        self.look_after().await.map_err(Trouble::failed)?;
        let mut notes = Notes::default();
        notes.undone.extend(self.told.values().filter(|what| !what.is_empty()).cloned());
        notes.left.extend(self.unplaced.iter().chain(&self.left).cloned());
        notes.missing = self.lacks.values().flatten().cloned().collect();
        Ok(notes)
    }
}

/// Parts of a round that may lack rights.
const LOADING: &str = "loading";
const READING: &str = "reading";
const LEARNING: &str = "learning";
const EMITTING: &str = "emitting";
const COMMITTING: &str = "committing";

fn group_denied(code: &ErrorCode) -> bool {
    is_denied(*code)
}

/// A group's place on the target, and the source partition behind it.
#[derive(Debug)]
struct Mirrored {
    checkpoint: Checkpoint,
    source: TopicPartition,
    /// It was used on a copy of the target's topic, and goes home.
    home: bool,
}

/// Why a round did not come to its end.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl GroupRounds {
    pub(super) fn new(
        rules: GroupRules,
        (source, target, syncs): (&Cluster, &Cluster, &Cluster),
        offsets: &Offsets,
        (placed, reverse): (Placed, Option<WayThere>),
    ) -> Self {
        let now = source.clock().now();
        Self {
            rules,
            source: source.clone(),
            target: target.clone(),
            syncs: syncs.clone(),
            offsets: offsets.clone(),
            placed,
            reverse,
            home: Homecoming::default(),
            groups: Vec::new(),
            known: None,
            unread: false,
            store: None,
            put: BTreeMap::new(),
            told: BTreeMap::new(),
            unplaced: Vec::new(),
            left: Vec::new(),
            behind: false,
            lacks: BTreeMap::new(),
            find_at: Some(now),
            emit_at: now,
            commit_at: now,
        }
    }

    /// How often there is something to do; `None` for never.
    pub(super) fn interval(&self) -> Option<Duration> {
        match (self.rules.checkpoints, self.rules.offsets) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Says something once until something else is to be said about the subject.
    fn tell(&mut self, subject: &'static str, what: &str) {
        let flow = &self.rules.topics.flow;
        let before = self.told.get(subject).map_or("", String::as_str);
        if before == what {
            return;
        }
        if what.is_empty() {
            tracing::info!(%flow, subject, "group offsets: what was in the way has passed");
        } else {
            tracing::warn!(%flow, "{what}");
        }
        self.told.insert(subject, what.to_owned());
    }

    /// Takes note that `part` of a round lacks a right.
    fn lack(&mut self, part: &'static str, missing: Missing) {
        self.lacks.entry(part).or_default().insert(missing);
    }

    fn lack_checkpoints(&mut self, part: &'static str, operation: AclOperation) {
        let topic = self.rules.topic.name.as_str();
        let missing = Missing::on_topic(&self.target, Thing::Checkpoints, operation, topic);
        self.lack(part, missing);
    }

    /// The right that a group's coordinator refused for want of.
    fn lack_group(&mut self, part: &'static str, thing: Thing, group: &str) {
        let (cluster, operation) = match thing {
            Thing::SourceGroups => (&self.source, AclOperation::DESCRIBE),
            _ => (&self.target, AclOperation::READ),
        };
        let group = Resource::Group(group.to_owned());
        let missing = Missing::new(cluster, thing, operation, group);
        self.lack(part, missing);
    }

    /// Does what is due.
    async fn look_after(&mut self) -> Result<(), RoundError> {
        let now = self.source.clock().now();
        let find = self.find_at.is_some_and(|at| now >= at);
        if find {
            self.find_groups().await?;
            self.find_at = self.rules.refresh.map(|interval| now.after(interval));
        }
        // Rounds come early the first time, so that flows do not keep step: what is due soon is due.
        let due = |interval: &Duration, at: Moment| now.after(*interval / 4) >= at;
        let emits = self.rules.checkpoints.filter(|one| due(one, self.emit_at));
        let commits = self.rules.offsets.filter(|one| due(one, self.commit_at));
        if emits.is_none() && commits.is_none() {
            return Ok(());
        }
        if self.rules.checkpoints.is_some() {
            self.load(find).await?;
        }
        let mirrored = self.look().await?;
        // Where groups wait for what is not copied yet, the next round that comes is for them.
        let next = |interval| if self.behind { now } else { now.after(interval) };
        let (emit_at, commit_at) = (emits.map(next), commits.map(next));
        if let Some(at) = emit_at {
            self.emit(&mirrored).await?;
            self.emit_at = at;
        }
        if let Some(at) = commit_at {
            self.commit(&mirrored).await?;
            self.commit_at = at;
        }
        Ok(())
    }

    /// Which groups of the source are mirrored.
    async fn find_groups(&mut self) -> Result<(), RoundError> {
        let (listed, failed) = self.source.list_groups().await?;
        let words = failed.first().map(|error| format!("not all groups are known: {error}"));
        self.tell("listing", &words.unwrap_or_default());
        let mut groups = BTreeSet::new();
        for group in listed {
            if group.consumes() && self.rules.groups.accepts(&group.id).unwrap_or(false) {
                groups.insert(group.id);
            }
        }
        let unlisted = self.unlisted(&groups).await?;
        groups.extend(unlisted);
        self.groups = groups.into_iter().collect();
        Ok(())
    }

    /// Groups that are not listed for want of a right, among those that the file names and those
    /// that were there.
    async fn unlisted(&self, listed: &BTreeSet<String>) -> Result<Vec<String>, RequestError> {
        let filter = &self.rules.groups;
        let named = filter.include.literals().filter(|group| filter.accepts(group) == Ok(true));
        let mut unseen: BTreeSet<String> = named.map(ToOwned::to_owned).collect();
        unseen.extend(self.groups.iter().cloned());
        let unseen: Vec<String> = unseen.difference(listed).cloned().collect();
        if unseen.is_empty() {
            return Ok(unseen);
        }
        let asked = self.source.committed_offsets(&unseen).await?;
        let denied = asked.into_iter().filter(|(_, told)| told.as_ref().is_err_and(group_denied));
        Ok(denied.map(|(group, _)| group).collect())
    }

    /// The checkpoints topic, made if it is missing, and what is in it. `again`: also if it could
    /// not be read the last time.
    async fn load(&mut self, again: bool) -> Result<(), RoundError> {
        if self.known.is_some() && !(again && self.unread) {
            return Ok(());
        }
        let topics = std::slice::from_ref(&self.rules.topic);
        let ensured = ensure(&self.rules.topics.flow, &self.target, topics).await?;
        self.lacks.remove(LOADING);
        if let Some(refused) = ensured.refused.first() {
            self.tell("checkpoints topic", refused);
            if let Some(operation) = ensured.lacks(&self.rules.topic.name) {
                self.lack_checkpoints(LOADING, operation);
            }
            return Ok(());
        }
        let mut known = BTreeMap::new();
        let mut damaged = 0_usize;
        let topic = self.rules.topic.name.clone();
        let read = self.target.read_each(&topic, true, |record| {
            let (Some(key), Some(value)) = (&record.key, &record.value) else { return };
            match Checkpoint::decode(key, value) {
                Ok(one) => {
                    let place = (one.group.clone(), one.partition.clone());
                    known.insert(place, one);
                }
                Err(_) => damaged += 1,
            }
        });
        let (mut words, mut denied) = (String::new(), false);
        match read.await {
            Ok(()) if damaged > 0 => {
                words = format!("{damaged} records of {topic} cannot be read");
            }
            Ok(()) => {}
            // As MM2: what was written before is not looked at, all else goes on.
            Err(error) if log_denied(&error) => {
                words = format!(
                    "{topic} on {} may not be read: each group's checkpoint is written anew",
                    self.target.alias()
                );
                (denied, known) = (true, BTreeMap::new());
                self.lack_checkpoints(LOADING, AclOperation::READ);
            }
            Err(error) => return Err(error.into()),
        }
        self.unread = denied;
        if !denied {
            let last = || known.iter().map(|(place, one)| (place.clone(), one));
            if self.placed.know(last().map(|(place, one)| (place, one.downstream))) {
                last().for_each(|(place, one)| self.home.done(place, one.upstream));
            }
        }
        if self.rules.rewind == Rewind::Follow {
            let last = known.iter().map(|(place, one)| (place.clone(), one.downstream));
            self.put.extend(last);
        }
        self.tell("checkpoints topic", "");
        self.tell("checkpoints", &words);
        if !denied || self.known.is_none() {
            self.known = Some(known);
        }
        Ok(())
    }

    /// Where each group would go on on the target.
    async fn look(&mut self) -> Result<Vec<Mirrored>, RoundError> {
        let committed = self.source.committed_offsets(&self.groups).await?;
        self.lacks.remove(READING);
        let (mut wanted, mut refused) = (Vec::new(), Refusals::default());
        let mut mirrored = Vec::new();
        for (group, offsets) in committed {
            match offsets {
                Ok(offsets) => {
                    for (source, committed) in offsets {
                        if let Some(topic) = self.name(&source.topic) {
                            wanted.push((group.clone(), source, topic, committed));
                        } else if let Some(back) = self.back(&group, &source, &committed) {
                            mirrored.push(back);
                        }
                    }
                }
                Err(code) => {
                    if is_denied(code) {
                        self.lack_group(READING, Thing::SourceGroups, &group);
                    }
                    refused.add(code, group);
                }
            }
        }
        self.home.looked(refused.is_empty());
        self.tell("reading", &refused.words(Deed::Read, self.source.alias()));
        // By place, so that parts of maps that must be read again are read once.
        wanted.sort_by(|one, other| {
            (&one.1, one.3.offset, &one.0).cmp(&(&other.1, other.3.offset, &other.0))
        });
        let places: Vec<_> =
            wanted.iter().map(|(_, source, _, one)| (source.clone(), one.offset)).collect();
        let translated = self.offsets.translate(&places).await?;
        self.behind = wanted.iter().any(|(_, source, _, committed)| {
            let copied = self.offsets.copied(source);
            copied.is_none_or(|end| committed.offset > end.upstream)
        });
        let mut unknown = BTreeSet::new();
        for ((_, source, ..), found) in wanted.iter().zip(&translated) {
            // Syncs are about the name that the policy gives, never about one that a rule gives.
            let by_rule = self.rules.topics.names.is_by_rule(source.topic.as_str());
            if *found == Translated::Unknown && self.offsets.copied(source).is_some() && !by_rule {
                unknown.insert(source.clone());
            }
        }
        self.learn_syncs(&unknown).await?;
        self.unplaced.clear();
        for ((group, source, topic, committed), found) in wanted.into_iter().zip(translated) {
            let downstream = match found {
                Translated::Exact(downstream) => Some(downstream),
                Translated::Unknown => self.by_sync(&source, committed.offset).await?,
            };
            let Some(downstream) = downstream else {
                let why = match self.offsets.copied(&source) {
                    None => "is not copied yet",
                    Some(_) => "was copied before any offset is known of in this copy",
                };
                self.unplaced.push(format!("{group}: {source} at {} {why}", committed.offset));
                continue;
            };
            let partition = TopicPartition { topic, partition: source.partition };
            let Committed { offset: upstream, metadata, .. } = committed;
            let checkpoint = Checkpoint { group, partition, upstream, downstream, metadata };
            mirrored.push(Mirrored { checkpoint, source, home: false });
        }
        Ok(mirrored)
    }

    /// Where a group that used what came from the target goes on there: by the map of the flow that
    /// brought it.
    fn back(
        &mut self,
        group: &str,
        source: &TopicPartition,
        committed: &Committed,
    ) -> Option<Mirrored> {
        let topic = self.rules.topics.on_its_way_back(&source.topic)?;
        let partition = TopicPartition { topic, partition: source.partition };
        let way = self.reverse.as_ref()?;
        let there = (group.to_owned(), source.clone());
        let home = (group.to_owned(), partition.clone());
        if !self.home.is_used(&way.placed, &there, committed)
            || self.home.is_done(&home, committed.offset)
        {
            return None;
        }
        let reverse = way.offsets.borrow().clone()?;
        let downstream = reverse.translate_back(&partition, committed.offset)?;
        let checkpoint = Checkpoint {
            group: group.to_owned(),
            partition,
            upstream: committed.offset,
            downstream,
            metadata: committed.metadata.clone(),
        };
        Some(Mirrored { checkpoint, source: source.clone(), home: true })
    }

    /// The name on the target of a topic that is copied.
    fn name(&self, topic: &TopicName) -> Option<TopicName> {
        match self.rules.topics.select(topic) {
            Ok(Selection::Copied { as_topic }) => Some(as_topic),
            Ok(_) | Err(_) => None,
        }
    }

    /// Reads MM2's syncs, the first time that a partition's map begins too late.
    async fn learn_syncs(&mut self, unknown: &BTreeSet<TopicPartition>) -> Result<(), RoundError> {
        if unknown.is_empty() || self.store.is_some() {
            return Ok(());
        }
        let mut store = SyncStore::default();
        let read = self.syncs.read_each(&self.rules.syncs_topic, true, |record| {
            let (Some(key), Some(value)) = (&record.key, &record.value) else { return };
            if let Ok(sync) = OffsetSync::decode(key, value) {
                let bend = Bend { upstream: sync.upstream, downstream: sync.downstream };
                store.take(&sync.partition, bend);
            }
        });
        let read = read.await;
        self.lacks.remove(LEARNING);
        match read {
            Ok(()) | Err(LogError::Missing(_)) => {}
            Err(error) if log_denied(&error) => {
                let (cluster, topic) = (&self.syncs, self.rules.syncs_topic.as_str());
                let (thing, read) = (Thing::OffsetSyncs, AclOperation::READ);
                let missing = Missing::on_topic(cluster, thing, read, topic);
                let words = format!(
                    "{topic} on {} may not be read: groups are left alone where records were copied \
                     before this program",
                    self.syncs.alias()
                );
                self.lack(LEARNING, missing);
                self.tell("offset syncs", &words);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.tell("offset syncs", "");
        tracing::info!(flow = %self.rules.topics.flow, partitions = unknown.len(),
            topic = %self.rules.syncs_topic,
            "group offsets of what was copied before this program are translated by offset syncs");
        self.store = Some(store);
        Ok(())
    }

    /// MM2's translation; nothing for topics that a rule names, of which there are no syncs.
    ///
    /// Nothing either if it leads beyond what lies before the first record that the map knows. A
    /// sync does not say under which name its copy stood: the topic had another one for a while,
    /// and was copied behind other records there. A group would be sent past what it has not read.
    async fn by_sync(
        &self,
        source: &TopicPartition,
        upstream: Offset,
    ) -> Result<Option<Offset>, RoundError> {
        if self.rules.topics.names.is_by_rule(source.topic.as_str()) {
            return Ok(None);
        }
        let (Some(copied), Some(store)) = (self.offsets.copied(source), &self.store) else {
            return Ok(None);
        };
        let BySync::At(downstream) = store.translate(source, upstream) else { return Ok(None) };
        let mut known_from = copied.downstream;
        if let Some(first) = self.offsets.begins(source) {
            let found = self.offsets.translate(&[(source.clone(), first)]).await?;
            if let [Translated::Exact(first)] = found[..] {
                known_from = first;
            }
        }
        Ok((downstream <= known_from).then_some(downstream))
    }

    /// Writes the checkpoints that are due.
    async fn emit(&mut self, mirrored: &[Mirrored]) -> Result<(), RoundError> {
        let Some(known) = &mut self.known else { return Ok(()) };
        let (mut records, mut written) = (Vec::new(), Vec::new());
        for Mirrored { checkpoint, source, .. } in mirrored {
            let place = (checkpoint.group.clone(), checkpoint.partition.clone());
            let copied = self.offsets.copied(source).map(|end| end.downstream);
            if !policy::is_due(known.get(&place), checkpoint, copied) {
                continue;
            }
            // Kafka's own limits are below those of the format, but for metadata.
            if let (Ok(key), Ok(value)) = (checkpoint.encode_key(), checkpoint.encode_value()) {
                records.push(NewRecord { partition: 0, key, value: Some(value) });
                written.push((place, checkpoint.clone()));
            }
        }
        if records.is_empty() {
            return Ok(());
        }
        let appended = self.target.append(&self.rules.topic.name, &records).await;
        self.lacks.remove(EMITTING);
        match appended {
            Ok(_) => {
                known.extend(written);
                self.tell("writing checkpoints", "");
                Ok(())
            }
            Err(error) if log_denied(&error) => {
                self.tell("writing checkpoints", &error.to_string());
                self.lack_checkpoints(EMITTING, AclOperation::WRITE);
                Ok(())
            }
            Err(error) => {
                // It may have been deleted: looked at, and read, again.
                self.known = None;
                Err(error.into())
            }
        }
    }
}
