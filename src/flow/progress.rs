//! What is known to be on the target, in memory and durably.
//!
//! Two topics on the target hold it. Connect's offsets topic is MM2's own: `{"offset":41}` per
//! source partition, written so that MM2 can go on after us, and read so that we go on after
//! MM2. It says nothing about the target, so a crash between two writes would repeat records.
//! The positions topic is ours: an [`Anchor`] says up to which upstream offset everything is on
//! the target, which downstream offset comes next, and under which producer id and sequence.
//! Every anchor is acknowledged before the first batch under it is sent, so that after a crash
//! the target's log explains the rest, and a batch that was still on its way is recognised as
//! the duplicate that it is.
//!
//! An anchor is about one name on the target. A topic that is called otherwise there now begins as a
//! new one does. Connect's offsets are about the name that the replication policy gives, the only one
//! that MM2 can give: of topics that a rule names they are neither read nor written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::anchor::{Anchor, Told, decode, encode, key};
use super::ledger::{Found, History, Ids, KeptMaps, Ledger, LoadedMap, Unsaved};
use super::settings::FlowSettings;
use super::status::Probe;
use crate::client::{Appended, Cluster, LogError, LogRecord, NewRecord};
use crate::copy::Start;
use crate::mm2::{self, SourceOffsetKey};
use crate::model::{Bend, Offset, TopicName, TopicPartition};

/// How often anchors are written.
///
/// What is copied between two writes is compared header by header after a crash; at 1 GB/s
/// that is a second's reading.
const ANCHOR_INTERVAL: Duration = Duration::from_secs(1);

/// Anchors noted by shards and not yet written; the newest of a partition wins.
#[derive(Debug, Default)]
pub(super) struct ProgressBook {
    pages: Mutex<Pages>,
}

/// The page of a partition that notes are taken on: one for each time that it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    number: u64,
    ids: Ids,
}

#[derive(Debug, Default)]
struct Pages {
    opened: u64,
    open: BTreeMap<TopicPartition, Page>,
    to_anchor: BTreeMap<TopicPartition, Start>,
    /// What was noted last of each partition that is open.
    last: BTreeMap<TopicPartition, Start>,
    to_commit: BTreeMap<TopicPartition, Offset>,
    ledger: Ledger,
}

impl Pages {
    /// What brings the topic of offset maps up to date, and the bends of these partitions.
    fn unsaved(
        &mut self,
        settings: &FlowSettings,
        anchors: &BTreeMap<TopicPartition, Anchor>,
    ) -> (Unsaved, BTreeMap<TopicPartition, u64>) {
        let bends = |source| Some((TopicPartition::clone(source), self.ledger.bends(source)?));
        let bends = anchors.keys().filter_map(bends).collect();
        (self.ledger.unsaved(&settings.id.source), bends)
    }
}

impl ProgressBook {
    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a page for a partition that is started anew, with topics of these ids. What was
    /// noted on the page before is dropped: it would be written behind the position that the
    /// partition starts from, or under the ids of another topic.
    pub(super) fn open(
        &self,
        source: &TopicPartition,
        ids: Ids,
        start: Start,
        history: History,
    ) -> Page {
        let mut pages = self.pages();
        pages.ledger.open(source, ids, place(start), history);
        pages.opened += 1;
        let page = Page { number: pages.opened, ids };
        pages.open.insert(source.clone(), page);
        pages.last.insert(source.clone(), start);
        pages.to_anchor.remove(source);
        pages.to_commit.remove(source);
        page
    }

    /// Notes how far the target has acknowledged a source partition, and where upstream and
    /// downstream offsets began to run side by side since the last time, if `page` is still open.
    pub(super) fn note(
        &self,
        source: &TopicPartition,
        page: Page,
        start: Start,
        (bends, lag_max): (Vec<Bend>, i64),
    ) {
        let mut pages = self.pages();
        if pages.open.get(source) == Some(&page) {
            pages.to_anchor.insert(source.clone(), start);
            pages.last.insert(source.clone(), start);
            pages.ledger.note(source, place(start), bends, lag_max);
        }
    }

    /// Notes again what is known of every partition, to be written once more.
    pub(super) fn write_anew(&self) {
        let mut pages = self.pages();
        let last = pages.last.clone();
        pages.to_anchor.extend(last);
    }

    /// Takes in the maps that earlier runs left.
    pub(super) fn restore(&self, maps: BTreeMap<TopicPartition, LoadedMap>) {
        self.pages().ledger.restore(maps);
    }

    /// The downstream offset for an upstream offset, as far as it is in memory.
    pub(super) fn find(&self, source: &TopicPartition, upstream: Offset) -> Found {
        self.pages().ledger.find(source, upstream)
    }

    /// The upstream offset for a downstream offset, where that is in memory.
    pub(super) fn find_back(&self, source: &TopicPartition, downstream: Offset) -> Option<Offset> {
        self.pages().ledger.find_back(source, downstream)
    }

    /// How far a partition is copied.
    pub(super) fn copied(&self, source: &TopicPartition) -> Option<Bend> {
        self.pages().ledger.copied(source)
    }

    /// The first upstream offset that a partition's map knows of.
    pub(super) fn begins(&self, source: &TopicPartition) -> Option<Offset> {
        self.pages().ledger.begins(source)
    }

    /// Partitions whose maps are of several chunks.
    pub(super) fn long_maps(&self) -> Vec<TopicPartition> {
        self.pages().ledger.long()
    }

    /// The source's logs begin here now: nobody asks for what lies before.
    pub(super) fn forget_before(&self, starts: &BTreeMap<TopicPartition, Offset>) {
        self.pages().ledger.forget_before(starts);
    }

    /// Bytes that all offset maps take.
    pub(super) fn map_bytes(&self) -> usize {
        self.pages().ledger.bytes()
    }

    /// Offset syncs that are due; with `all`, also of partitions that came to rest.
    pub(super) fn take_syncs(&self, all: bool) -> Vec<(TopicPartition, Bend)> {
        self.pages().ledger.take_syncs(all)
    }
}

fn place(start: Start) -> Bend {
    Bend { upstream: start.upstream, downstream: start.downstream }
}

/// Progress as a flow finds it at its start.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) anchors: BTreeMap<TopicPartition, Anchor>,
    /// Last upstream offset that Connect's offsets topic says is on the target.
    pub(super) connect: BTreeMap<TopicPartition, Offset>,
    /// Offset maps up to the anchors.
    pub(super) maps: BTreeMap<TopicPartition, LoadedMap>,
    /// What was copied only under another name on the target than it has now, and under which.
    pub(super) moved: BTreeMap<TopicPartition, TopicName>,
}

impl Loaded {
    /// Reads both topics, but for those known to be `empty`.
    pub(super) async fn read(
        settings: &FlowSettings,
        (target, offsets): (&Cluster, &Cluster),
        empty: &BTreeSet<TopicName>,
    ) -> Result<Self, LogError> {
        let read = async |cluster: &Cluster, topic: &TopicName| {
            if empty.contains(topic) {
                return Ok(Vec::new());
            }
            // MM2 in exactly-once mode writes its offsets inside transactions.
            match cluster.read_to_end(topic, true).await {
                // A topic that does not exist holds no progress.
                Err(LogError::Missing(_)) => Ok(Vec::new()),
                read => read,
            }
        };
        let mut loaded = Self::default();
        let (offsets, positions, maps) = tokio::join!(
            read(offsets, &settings.offsets_topic),
            read(target, &settings.positions_topic),
            read_maps(settings, target, empty),
        );
        for record in offsets? {
            loaded.take_connect(settings, &record);
        }
        let mut bends = BTreeMap::new();
        // Whose offset in Connect's topic is about another name, too.
        let mut of_other_name = BTreeSet::new();
        for record in positions? {
            let Some((partition, told)) = decode(settings, &record) else { continue };
            match told {
                Told::Position(anchor, _) if loaded.has_passed(&partition, &anchor) => {}
                Told::Position(anchor, count) => {
                    of_other_name.remove(&partition);
                    bends.insert(partition.clone(), count);
                    loaded.anchors.insert(partition, anchor);
                }
                Told::Nothing => drop(loaded.anchors.remove(&partition)),
                Told::OtherName { name, by_policy } => {
                    if by_policy {
                        of_other_name.insert(partition.clone());
                    }
                    loaded.moved.insert(partition, name);
                }
            }
        }
        loaded.connect.retain(|partition, _| !of_other_name.contains(partition));
        let Self { anchors, connect, moved, .. } = &mut loaded;
        moved.retain(|one, _| !anchors.contains_key(one) && !connect.contains_key(one));
        loaded.take_maps(settings, maps?, &bends);
        Ok(loaded)
    }

    /// Whether anything is known about a source partition.
    pub(super) fn has(&self, source: &TopicPartition) -> bool {
        self.anchors.contains_key(source) || self.connect.contains_key(source)
    }

    /// Keeps the maps of which nothing is missing.
    fn take_maps(
        &mut self,
        settings: &FlowSettings,
        mut kept: KeptMaps,
        bends: &BTreeMap<TopicPartition, Option<u64>>,
    ) {
        let mut without = 0_usize;
        for (partition, anchor) in &self.anchors {
            let ids = (anchor.source_id, anchor.target_id);
            let count = bends.get(partition).copied().flatten();
            let map = count.and_then(|count| kept.map(partition, ids, place(anchor.start), count));
            match map {
                Some(map) => drop(self.maps.insert(partition.clone(), map)),
                None => without += 1,
            }
        }
        if without > 0 {
            tracing::warn!(flow = %settings.id, topic = %settings.map_topic, partitions = without,
                "no offset map, or not all of it, is left of the last run: group offsets of what \
                 was copied before now are translated by offset syncs, as MirrorMaker 2 does");
        }
    }

    /// Whether an anchor that comes later in the topic was written earlier: what a killed process
    /// left in a broker's socket lands when it likes. A target's log does not go back.
    fn has_passed(&self, source: &TopicPartition, anchor: &Anchor) -> bool {
        self.anchors.get(source).is_some_and(|known| {
            let (late, known_start) = (anchor.start, known.start);
            anchor.target_id == known.target_id
                && (late.downstream < known_start.downstream
                    || (late.downstream == known_start.downstream
                        && anchor.source_id == known.source_id
                        && late.upstream < known_start.upstream
                        && late.identity.id == known_start.identity.id
                        && late.identity.epoch <= known_start.identity.epoch))
        })
    }

    /// Whether a partition that is to start at `anchor` starts behind what was committed for it:
    /// with topics made anew, or with a source that was cut off. Connect's offset would send the
    /// next start ahead of it.
    pub(super) fn is_behind(&self, source: &TopicPartition, anchor: &Anchor) -> bool {
        let committed = self.connect.get(source).map(|last| last.advance(1));
        let before = self.anchors.get(source);
        committed.is_some_and(|next| next > anchor.start.upstream)
            || before.is_some_and(|before| {
                (before.source_id, before.target_id) != (anchor.source_id, anchor.target_id)
                    || before.start.upstream > anchor.start.upstream
            })
    }

    fn take_connect(&mut self, settings: &FlowSettings, record: &LogRecord) {
        let topic = &settings.offsets_topic;
        let Some(key) = &record.key else { return };
        let parsed = SourceOffsetKey::decode(key)
            .and_then(|key| Ok((key, mm2::decode_value(record.value.as_deref())?)));
        match parsed {
            Ok((Some(key), last))
                if key.connector == settings.connector_name
                    && key.cluster == settings.id.source =>
            {
                let topic = &key.partition.topic;
                if settings.names.is_by_rule(topic.as_str()) {
                    if last.is_some() {
                        let name = settings.names.policy.remote(&settings.id.source, topic);
                        self.moved.insert(key.partition, name);
                    }
                    return;
                }
                match last {
                    Some(last) => drop(self.connect.insert(key.partition, last)),
                    None => drop(self.connect.remove(&key.partition)),
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(flow = %settings.id, %topic, offset = %record.offset,
                %error, "a record of the offsets topic cannot be read and is passed over"),
        }
    }
}

async fn read_maps(
    settings: &FlowSettings,
    target: &Cluster,
    empty: &BTreeSet<TopicName>,
) -> Result<KeptMaps, LogError> {
    let mut kept = KeptMaps::default();
    if empty.contains(&settings.map_topic) {
        return Ok(kept);
    }
    let take = |record: LogRecord| kept.take(settings, &record);
    match target.read_each(&settings.map_topic, false, take).await {
        Ok(()) | Err(LogError::Missing(_)) => Ok(kept),
        Err(error) => Err(error),
    }
}

/// Writes what shards note: anchors every second, Connect's offsets at MM2's own interval.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) settings: Arc<FlowSettings>,
    pub(super) target: Cluster,
    /// Where Connect's offsets are kept.
    pub(super) offsets: Cluster,
    pub(super) book: Arc<ProgressBook>,
    /// Whom to tell what was not taken.
    pub(super) probe: Probe,
    /// Held while positions are on their way: an older one must not land behind a newer one.
    pub(super) writing: tokio::sync::Mutex<Places>,
    /// It was said that offset maps are not written.
    pub(super) maps_told: AtomicBool,
}

/// Where this process wrote in the positions topic.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Offset that its next record should have, if nobody else writes.
    next: Option<Offset>,
    /// How often it had another one.
    foreign: u64,
}

impl Places {
    /// Takes notice of where a write went, and says so if somebody else wrote in between.
    fn look(&mut self, settings: &FlowSettings, appended: &Appended) {
        for (_, base, count) in &appended.batches {
            if appended.once && self.next.is_some_and(|next| next != *base) {
                self.foreign += 1;
                // Two processes meet every second; the first times tell the story.
                if self.foreign.is_power_of_two() {
                    tracing::warn!(flow = %settings.id, topic = %settings.positions_topic,
                        times = self.foreign,
                        "somebody else writes to the positions topic: another process mirrors this \
                         flow, and should be stopped");
                }
            }
            self.next = Some(base.advance(i64::from(*count)));
        }
    }
}

impl Committer {
    /// Runs until `stop`; the last flush is the caller's.
    pub(super) async fn run(&self, stop: CancellationToken) {
        let clock = self.target.clock();
        let mut commit_at = clock.now().after(self.settings.commit_interval);
        let mut failing = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(ANCHOR_INTERVAL) => {}
            }
            let mut done = self.write_anchors().await;
            if done.is_ok() && clock.now() >= commit_at {
                commit_at = clock.now().after(self.settings.commit_interval);
                done = self.write_offsets().await;
            }
            match done {
                Ok(()) if failing => {
                    failing = false;
                    tracing::info!(flow = %self.settings.id, "positions are written again");
                }
                Ok(()) => {}
                Err(error) if !failing => {
                    failing = true;
                    tracing::warn!(flow = %self.settings.id, %error,
                        "positions are not written; a crash now would compare more on restart");
                }
                Err(error) => {
                    tracing::debug!(flow = %self.settings.id, %error, "positions not written");
                }
            }
        }
    }

    /// Writes everything that was noted.
    pub(super) async fn flush(&self) -> Result<(), LogError> {
        self.write_anchors().await?;
        self.write_offsets().await
    }

    /// Writes anchors now, for partitions that are about to be copied under them; before that,
    /// Connect's offsets of those in `reset`, which stand behind what was committed for them. A
    /// crash between the two decides anew, as the old anchor is still there.
    pub(super) async fn write_now(
        &self,
        anchors: &BTreeMap<TopicPartition, Anchor>,
        reset: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), LogError> {
        // The supervisor waits for this: it must not wait for what others have to write.
        if anchors.is_empty() && reset.is_empty() {
            return Ok(());
        }
        let mut places = self.writing.lock().await;
        if !reset.is_empty() {
            self.append_offsets(reset).await?;
        }
        let maps = self.book.pages().unsaved(&self.settings, anchors);
        let bends = self.write_maps(maps).await;
        self.append_anchors(anchors, &bends, &mut places).await
    }

    /// Brings the topic of offset maps up to date, and says how many bends each map has there;
    /// nothing if it is not up to date. What anchors cover then is known to be incomplete.
    async fn write_maps(
        &self,
        (unsaved, bends): (Unsaved, BTreeMap<TopicPartition, u64>),
    ) -> BTreeMap<TopicPartition, u64> {
        if unsaved.records.is_empty() {
            return bends;
        }
        match self.append(&self.target, &self.settings.map_topic, &unsaved.records).await {
            Ok(appended) => {
                self.book.pages().ledger.saved(unsaved, Some(&appended));
                self.maps_told.store(false, Ordering::Relaxed);
                bends
            }
            Err(error) => {
                self.book.pages().ledger.saved(unsaved, None);
                if !self.maps_told.swap(true, Ordering::Relaxed) {
                    tracing::warn!(flow = %self.settings.id, topic = %self.settings.map_topic, %error,
                        "offset maps are not written; a restart now would translate group offsets \
                         of what was copied before it by offset syncs");
                }
                BTreeMap::new()
            }
        }
    }

    /// Appends to a topic of the flow's own, and takes note of how that went. A topic that is not
    /// there is not waited for: whoever makes it tries again.
    async fn append(
        &self,
        cluster: &Cluster,
        topic: &TopicName,
        records: &[NewRecord],
    ) -> Result<Appended, LogError> {
        if !cluster.view().topics.contains_key(topic) {
            cluster.refresh(Some(std::slice::from_ref(topic))).await?;
            if !cluster.view().topics.contains_key(topic) {
                return Err(LogError::Missing(topic.clone()));
            }
        }
        let appended = cluster.append(topic, records).await;
        match &appended {
            Ok(_) => self.probe.wrote(topic, None),
            Err(LogError::Partition(error)) => self.probe.wrote(topic, Some(error.code)),
            Err(_) => {}
        }
        appended
    }

    async fn append_anchors(
        &self,
        anchors: &BTreeMap<TopicPartition, Anchor>,
        bends: &BTreeMap<TopicPartition, u64>,
        places: &mut Places,
    ) -> Result<(), LogError> {
        let record = |(source, anchor): (&TopicPartition, &Anchor)| NewRecord {
            partition: 0,
            key: key(&self.settings, source),
            value: Some(encode(
                anchor,
                self.settings.names.on_target(&source.topic).ok().as_ref(),
                bends.get(source).copied(),
            )),
        };
        let records: Vec<NewRecord> = anchors.iter().map(record).collect();
        if records.is_empty() {
            return Ok(());
        }
        match self.append(&self.target, &self.settings.positions_topic, &records).await {
            Ok(appended) => {
                places.look(&self.settings, &appended);
                Ok(())
            }
            Err(error) => {
                // It may be there all the same.
                places.next = None;
                Err(error)
            }
        }
    }

    async fn write_anchors(&self) -> Result<(), LogError> {
        let mut places = self.writing.lock().await;
        let (anchors, open, maps) = {
            let mut pages = self.book.pages();
            let noted = std::mem::take(&mut pages.to_anchor);
            let anchors = noted.into_iter().filter_map(|(source, start)| {
                let (source_id, target_id) = pages.open.get(&source)?.ids;
                Some((source, Anchor { start, source_id, target_id }))
            });
            let anchors: BTreeMap<_, _> = anchors.collect();
            // At one moment: an anchor says how many bends there are up to it.
            let maps = pages.unsaved(&self.settings, &anchors);
            (anchors, pages.open.clone(), maps)
        };
        let bends = self.write_maps(maps).await;
        let written = self.append_anchors(&anchors, &bends, &mut places).await;
        let mut pages = self.book.pages();
        for (source, anchor) in anchors {
            if pages.open.get(&source) != open.get(&source) {
                continue;
            }
            if written.is_ok() {
                pages.to_commit.insert(source, anchor.start.upstream);
            } else {
                // Noted again unless something newer was.
                pages.to_anchor.entry(source).or_insert(anchor.start);
            }
        }
        written
    }

    /// Only what an anchor covers already is committed, so that a restart finds the anchor at or
    /// ahead of it, and knows that MM2 was here if it is not.
    async fn write_offsets(&self) -> Result<(), LogError> {
        let _alone = self.writing.lock().await;
        let (pending, open) = {
            let mut pages = self.book.pages();
            let mut pending = std::mem::take(&mut pages.to_commit);
            pending.retain(|_, next| next.0 > 0);
            (pending, pages.open.clone())
        };
        if pending.is_empty() {
            return Ok(());
        }
        let written = self.append_offsets(&pending).await;
        if written.is_err() {
            let mut pages = self.book.pages();
            for (source, next) in pending {
                if pages.open.get(&source) == open.get(&source) {
                    pages.to_commit.entry(source).or_insert(next);
                }
            }
        }
        written
    }

    /// Connect's offset is the LAST offset copied, so a partition that stands at 0 has none: what
    /// may be there is taken back, as Connect does when offsets are reset (KIP-875).
    ///
    /// Nothing is said about topics that a rule names: MM2 would go on under the policy's name, where
    /// all of it would be missing.
    async fn append_offsets(
        &self,
        nexts: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), LogError> {
        let topic = &self.settings.offsets_topic;
        let by_policy = |(source, _): &(&TopicPartition, &Offset)| {
            !self.settings.names.is_by_rule(source.topic.as_str())
        };
        let nexts: Vec<_> = nexts.iter().filter(by_policy).collect();
        if nexts.is_empty() {
            return Ok(());
        }
        let count = || {
            let view = self.offsets.view();
            let count = view.topics.get(topic).map_or(0, |topic| topic.partitions.len());
            i32::try_from(count).unwrap_or(i32::MAX)
        };
        if count() == 0 {
            self.offsets.refresh(Some(std::slice::from_ref(topic))).await?;
        }
        let partitions @ 1.. = count() else { return Err(LogError::Missing(topic.clone())) };
        let record = |(source, next): (&TopicPartition, &Offset)| {
            let key = SourceOffsetKey {
                connector: self.settings.connector_name.clone(),
                cluster: self.settings.id.source.clone(),
                partition: source.clone(),
            }
            .encode();
            NewRecord {
                partition: mm2::partition_for_key(&key, partitions),
                key,
                value: (next.0 > 0).then(|| mm2::encode_value(Offset(next.0 - 1))),
            }
        };
        let records: Vec<NewRecord> = nexts.into_iter().map(record).collect();
        self.append(&self.offsets, topic, &records).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LeaderEpoch, ProducerIdentity, Sequence, TopicId};

    #[test]
    fn what_was_noted_before_a_partition_was_started_anew_is_not_written_behind_its_start() {
        let (source, start) = (TopicPartition::new("t", 0), start());
        let ids = (TopicId([1; 16]), TopicId::NONE);
        let book = ProgressBook::default();
        let known = || History::Known(Vec::new());
        let before = book.open(&source, ids, start, known());
        book.note(&source, before, start, (Vec::new(), 100));
        assert_eq!(book.pages().to_anchor.get(&source), Some(&start));

        let now = book.open(&source, ids, start, known());
        assert!(book.pages().to_anchor.is_empty());
        book.note(&source, before, start, (Vec::new(), 100));
        assert!(book.pages().to_anchor.is_empty());
        book.note(&source, now, start, (Vec::new(), 100));
        assert_eq!(book.pages().to_anchor.len(), 1);
    }

    #[test]
    fn an_anchor_that_lands_late_does_not_take_the_place_of_a_newer_one() {
        let source = TopicPartition::new("t", 0);
        let (source_id, target_id) = (TopicId([1; 16]), TopicId([2; 16]));
        let known = Anchor { start: start(), source_id, target_id };
        let anchors = BTreeMap::from([(source.clone(), known)]);
        let loaded = Loaded { anchors, ..Loaded::default() };
        let with = |start: Start| Anchor { start, ..known };
        let downstream = Offset(1100);
        assert!(loaded.has_passed(&source, &with(Start { downstream, ..start() })));
        let upstream = Offset(1233);
        assert!(loaded.has_passed(&source, &with(Start { upstream, ..start() })));

        assert!(!loaded.has_passed(&source, &known));
        // A source that was cut off is copied again from before, under the next epoch.
        let identity = start().identity.next_epoch().unwrap();
        assert!(!loaded.has_passed(&source, &with(Start { upstream, identity, ..start() })));
        let made_anew =
            Anchor { target_id: TopicId([3; 16]), ..with(Start { downstream, ..start() }) };
        assert!(!loaded.has_passed(&source, &made_anew));
    }

    fn start() -> Start {
        Start {
            upstream: Offset(1234),
            downstream: Offset(1200),
            epoch: LeaderEpoch(7),
            identity: ProducerIdentity { id: 42, epoch: 3 },
            sequence: Sequence::ZERO.advance(99),
        }
    }
}
