//! Where a partition starts: progress reconciled with both logs.
//!
//! An anchor says "everything before upstream `S` is on the target, and the next record goes to
//! downstream `T`". If the target's log ends at `T`, nothing more was stored. If it goes on, what
//! lies behind `T` under our producer id is found again in the source's log from `S` on
//! ([`super::align`]), and copying goes on behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::align::{CountWalk, RecordWalk, Step, Stored, held_back};
use super::anchor::Anchor;
use super::ledger::History;
use super::progress::Loaded;
use super::settings::{ExistingRecords, FlowSettings, GapPolicy, Recreate, Reset, Truncation};
use super::supervisor::Pair;
use crate::batch::RawBatch;
use crate::client::{
    Cluster, EARLIEST, EndOffsets, LATEST, LogError, PartitionError, ScannedBatch,
};
use crate::copy::{HaltReason, Start};
use crate::model::{
    Bend, Gap, GapReason, LeaderEpoch, Offset, OffsetRange, ProducerIdentity, Sequence, Side,
    TopicName, TopicPartition,
};
use crate::wire::{Api, Verdict, verdict};

/// How often, and how long apart, it is looked whether followers have what a leader has: they do
/// within milliseconds, unless one of them is gone. Then it is tried again later.
const UNSEEN_LOOKS: u32 = 10;
const UNSEEN_PAUSE: Duration = Duration::from_millis(100);

/// What was decided about a partition.
#[derive(Debug)]
pub(super) enum Decision {
    /// It can be copied from here; records before it are missing on the source.
    Start(Start, Option<Gap>, History, Origin),
    /// It must not be copied.
    Halt(HaltReason),
    /// It cannot be decided now.
    Later(Later),
}

/// Why a partition cannot be decided about now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Later {
    /// For people.
    pub(super) why: String,
    /// The cluster whose topic must not be read, if that is why.
    pub(super) denied: Option<Side>,
}

impl From<String> for Later {
    fn from(why: String) -> Self {
        Self { why, denied: None }
    }
}

impl Later {
    fn unread(error: &LogError, side: Side) -> Self {
        let denied = match error {
            LogError::Partition(error) => verdict(Api::Fetch, error.code) == Verdict::Denied,
            _ => false,
        };
        Self { why: error.to_string(), denied: denied.then_some(side) }
    }
}

/// Where the place comes from at which a partition starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Our own position, where the target's log ends.
    Position,
    /// Our own position, and this many records that the target has behind it and the source too.
    Aligned {
        /// How many.
        records: u32,
    },
    /// The offset that MM2 committed in Connect's offsets topic.
    ConnectOffset,
    /// The start of the source's log, as there is no progress.
    LogStart,
    /// The end of the source's log, as there is no progress (`auto.offset.reset = latest`).
    LogEnd,
    /// The first record of the time that the file names, as there is no progress
    /// (`auto.offset.reset = by_duration:...` or a time).
    Time,
    /// The start of the source's log, as it was copied under another name on the target before.
    Renamed,
    /// The start of a source topic that was made anew under its name.
    SourceMadeAnew,
    /// The start of the source's log, as the target's topic was made anew, or is to be made.
    TargetMadeAnew,
    /// The start of the source's log, as the target's partition is empty in spite of progress.
    TargetEmpty,
}

/// Why a partition is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// It is new to this process.
    First,
    /// Its copier is in doubt.
    Doubt {
        /// The source said that the position is outside its log.
        out_of_range: bool,
        /// The target does not take our producer id any more.
        new_identity: bool,
        /// The source's log parted from what was copied here.
        diverged: Option<Offset>,
    },
}

/// The ends of both logs.
#[derive(Clone, Copy, Debug)]
struct Ends {
    source: EndOffsets,
    target: EndOffsets,
    /// Where the source's log leaves the epoch of the anchor's last batch, if it knows.
    epoch: Option<Offset>,
    /// Where the records begin that the file wants, if it names a time.
    wanted: Option<Offset>,
}

/// Where to go on behind what the target holds.
struct Reconciled {
    start: Start,
    /// Where the source's log parts from what the target holds, if it does.
    parted: Option<Offset>,
    /// Where upstream and downstream offsets began to run side by side behind the anchor.
    bends: Vec<Bend>,
    /// Records that were found behind the anchor.
    records: u32,
}

/// Decides about partitions of one flow.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) settings: Arc<FlowSettings>,
    pub(super) source: Cluster,
    pub(super) target: Cluster,
    /// Given to partitions that have no anchor.
    pub(super) identity: ProducerIdentity,
}

type Listed = BTreeMap<TopicPartition, Result<crate::client::ListedOffset, PartitionError>>;

impl Planner {
    /// Decides about each of `pairs`.
    pub(super) async fn decide(
        &self,
        pairs: &[Pair],
        progress: &Loaded,
        occasion: Occasion,
    ) -> Vec<(Pair, Decision)> {
        let decided = self.weigh(pairs, progress, occasion, &BTreeSet::new()).await;
        decided.into_iter().map(|(pair, decision, _)| (pair, decision)).collect()
    }

    /// Decides about each of `pairs`, and says where both logs end. Target topics that are `absent`
    /// would be made first, and be empty.
    pub(super) async fn weigh(
        &self,
        pairs: &[Pair],
        progress: &Loaded,
        occasion: Occasion,
        absent: &BTreeSet<TopicName>,
    ) -> Vec<(Pair, Decision, Option<EndOffsets>)> {
        let sources: Vec<_> = pairs.iter().map(|pair| pair.source.clone()).collect();
        let targets: Vec<_> = pairs
            .iter()
            .filter(|pair| !absent.contains(&pair.target.topic))
            .map(|pair| pair.target.clone())
            .collect();
        let unseen = match occasion {
            Occasion::First => BTreeMap::new(),
            Occasion::Doubt { .. } => self.unseen(&targets).await,
        };
        // The target first: whatever it holds by then, the source listed after it explains, also
        // while a second process copies by mistake.
        let (target_starts, target_ends) = tokio::join!(
            self.target.list_offsets(&targets, EARLIEST, false),
            self.target.list_offsets(&targets, LATEST, false),
        );
        let (source_starts, source_ends) = tokio::join!(
            self.source.list_offsets(&sources, EARLIEST, false),
            self.source.list_offsets(&sources, LATEST, false),
        );
        let epochs = pairs.iter().filter_map(|pair| {
            let anchor = progress.anchors.get(&pair.source)?;
            (anchor.source_id == pair.source_id).then(|| (pair.source.clone(), anchor.start.epoch))
        });
        let epoch_ends = self.source.epoch_ends(&epochs.collect()).await;
        let timed = self.timed(pairs, progress).await;
        let mut decisions = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let ends = ends(&source_starts, &source_ends, &pair.source).and_then(|source| {
                let target = if absent.contains(&pair.target.topic) {
                    EndOffsets { start: Offset::ZERO, end: Offset::ZERO }
                } else {
                    ends(&target_starts, &target_ends, &pair.target)?
                };
                let epoch = epoch_ends.get(&pair.source).copied();
                let wanted = match timed.get(&pair.source) {
                    Some(Ok(first)) if first.offset < Offset::ZERO => Some(source.end),
                    Some(Ok(first)) => Some(first.offset),
                    Some(Err(error)) => return Err(error.clone()),
                    None => None,
                };
                Ok(Ends { source, target, epoch, wanted })
            });
            let (decision, source) = match ends {
                Ok(Ends { target, .. }) if unseen.get(&pair.target) > Some(&target.end) => {
                    let why = format!(
                        "the log of {} is not replicated yet: what lies behind {} cannot be seen",
                        pair.target, target.end
                    );
                    (Decision::Later(why.into()), None)
                }
                Ok(ends) => {
                    let decision = self.decide_one(pair, ends, progress, occasion).await;
                    (decision, Some(ends.source))
                }
                Err(error) => (Decision::Later(error.to_string().into()), None),
            };
            decisions.push((pair.clone(), decision, source));
        }
        decisions
    }

    /// Where the logs of these target partitions end, where followers do not have all of them
    /// after a short wait.
    ///
    /// What a killed process, or a broken connection, has left behind is in the leader's log before
    /// it can be seen, and the leader refuses what follows on what can be seen. To go on there
    /// under another identity would store those records twice.
    async fn unseen(&self, targets: &[TopicPartition]) -> BTreeMap<TopicPartition, Offset> {
        let mut unseen = self.target.log_ends(targets).await;
        for _ in 0..UNSEEN_LOOKS {
            let partitions: Vec<_> = unseen.keys().cloned().collect();
            let seen = self.target.list_offsets(&partitions, LATEST, false).await;
            unseen.retain(|partition, end| {
                !seen
                    .get(partition)
                    .is_some_and(|seen| seen.as_ref().is_ok_and(|seen| seen.offset >= *end))
            });
            if unseen.is_empty() {
                break;
            }
            let clock = self.target.clock();
            clock.sleep_until(clock.now().after(UNSEEN_PAUSE)).await;
        }
        unseen
    }

    /// Where the records begin that the file wants, of partitions without progress.
    async fn timed(&self, pairs: &[Pair], progress: &Loaded) -> Listed {
        let at = match self.settings.reset {
            Reset::At(at) => at.0,
            Reset::Ago(age) => {
                let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                self.source.clock().wall().0.saturating_sub(age).max(0)
            }
            Reset::Earliest | Reset::Latest | Reset::None => return Listed::new(),
        };
        let new = |pair: &&Pair| !progress.has(&pair.source);
        let new: Vec<_> = pairs.iter().filter(new).map(|pair| pair.source.clone()).collect();
        self.source.list_offsets(&new, at, false).await
    }

    /// Where a partition starts that nothing is known about.
    fn first_start(&self, pair: &Pair, ends: Ends) -> Result<(Offset, Origin), HaltReason> {
        let flow = &self.settings.id;
        if self.settings.existing_records == ExistingRecords::Halt {
            // First: who must not begin must not claim either.
            let records = ends.target.end.since(ends.target.start);
            if records > 0 {
                return Err(HaltReason::ExistingRecords { records });
            }
            let (source, target) = (&pair.source.topic, &pair.target.topic);
            if let Err(by) = self.settings.claims.take(flow, source, target) {
                return Err(HaltReason::Claimed { by });
            }
        }
        let (start, origin) = match self.settings.reset {
            Reset::Earliest => (ends.source.start, Origin::LogStart),
            Reset::Latest => (ends.source.end, Origin::LogEnd),
            Reset::At(_) | Reset::Ago(_) => (ends.wanted.unwrap_or(ends.source.end), Origin::Time),
            Reset::None => return Err(HaltReason::NoProgress),
        };
        let left_out = start.since(ends.source.start);
        if left_out > 0 {
            tracing::debug!(%flow, partition = %pair.source, from = %start, left_out,
                "starting behind what the file says to leave out");
        }
        Ok((start, origin))
    }

    async fn decide_one(
        &self,
        pair: &Pair,
        ends: Ends,
        progress: &Loaded,
        occasion: Occasion,
    ) -> Decision {
        let flow = &self.settings.id;
        let connect = progress.connect.get(&pair.source).map(|last| last.advance(1));
        let anchor = progress.anchors.get(&pair.source);
        let (claims, topics) = (&self.settings.claims, (&pair.source.topic, &pair.target.topic));
        if let Some(by) = claims.loops(flow, topics.0, topics.1) {
            return Decision::Halt(HaltReason::Loop { by });
        }
        if progress.has(&pair.source) {
            claims.take_over(flow, topics.0, topics.1);
        }
        let fresh = |upstream| Start {
            upstream,
            downstream: ends.target.end,
            epoch: LeaderEpoch::UNKNOWN,
            identity: self.identity,
            sequence: Sequence::ZERO,
        };
        let mut cut = None;
        let mut history = History::None;
        let (start, origin) = match (anchor, connect) {
            (Some(anchor), _) if anchor.source_id != pair.source_id => {
                if self.settings.recreate == Recreate::Halt {
                    let copied = anchor.start.upstream;
                    return Decision::Halt(HaltReason::Recreated { copied });
                }
                tracing::warn!(%flow, partition = %pair.source, copied = %anchor.start.upstream,
                    from = %ends.source.start,
                    "source topic was made anew under its name; copying the new one from its start");
                // From 0, so that what the new one has lost already is a gap like any other.
                let start = self.shutting_out(anchor.start.identity, fresh(Offset::ZERO));
                (start, Origin::SourceMadeAnew)
            }
            (Some(anchor), _) if anchor.target_id != pair.target_id => {
                tracing::warn!(%flow, partition = %pair.target, acknowledged = %anchor.start.downstream,
                    from = %ends.source.start,
                    "target topic was made anew under its name; copying again from the source's start");
                (fresh(ends.source.start), Origin::TargetMadeAnew)
            }
            (Some(anchor), Some(next)) if next > anchor.start.upstream => {
                tracing::info!(%flow, partition = %pair.source, from = %next,
                    ours = %anchor.start.upstream, "going on where MirrorMaker 2 stopped");
                history = History::Unknown;
                (fresh(next), Origin::ConnectOffset)
            }
            (Some(anchor), _) => match self.reconcile(pair, ends, anchor).await {
                Ok(Reconciled { start, parted, bends, records }) => {
                    cut = parted;
                    history = History::Known(bends);
                    let aligned = Origin::Aligned { records };
                    (start, if records > 0 { aligned } else { Origin::Position })
                }
                Err(decision) => return decision,
            },
            (None, Some(next)) if ends.target.end == Offset::ZERO && next > Offset::ZERO => {
                tracing::warn!(%flow, partition = %pair.target, progress = %next,
                    from = %ends.source.start,
                    "target partition is empty though progress says otherwise; copying again from \
                     the source's start");
                (fresh(ends.source.start), Origin::TargetEmpty)
            }
            (None, Some(next)) => {
                tracing::info!(%flow, partition = %pair.source, from = %next,
                    "going on where MirrorMaker 2 stopped");
                history = History::Unknown;
                (fresh(next), Origin::ConnectOffset)
            }
            (None, None) => match self.first_start(pair, ends) {
                Ok((start, Origin::LogStart)) if progress.moved.contains_key(&pair.source) => {
                    (fresh(start), Origin::Renamed)
                }
                Ok((start, origin)) => (fresh(start), origin),
                Err(reason) => return Decision::Halt(reason),
            },
        };
        self.within_source(pair, (start, cut, history, origin), ends, occasion)
    }

    /// `start`, where what comes next is not what was to come next under `before`.
    ///
    /// A request that was given up, or left behind by a killed process, may still land. As long
    /// as the same records are sent again, the leader knows them by their sequences; other records
    /// under the same sequences it would take for those, and acknowledge them unseen. The next
    /// epoch shuts the old one out instead.
    fn shutting_out(&self, before: ProducerIdentity, start: Start) -> Start {
        let identity = before.next_epoch().unwrap_or(self.identity);
        Start { identity, sequence: Sequence::ZERO, ..start }
    }

    /// Makes sure that the start lies in the source's log.
    fn within_source(
        &self,
        pair: &Pair,
        (mut start, parted, history, origin): (Start, Option<Offset>, History, Origin),
        ends: Ends,
        occasion: Occasion,
    ) -> Decision {
        let cut = match occasion {
            _ if parted.is_some() => parted,
            Occasion::Doubt { diverged: Some(end), .. } => Some(end),
            // Only its leader can say so: the end as listed may trail behind for a moment.
            Occasion::Doubt { out_of_range: true, .. } => Some(ends.source.end),
            Occasion::First | Occasion::Doubt { .. } => None,
        };
        if let Some(end) = cut.filter(|end| *end < start.upstream) {
            let (epoch, copied) = (start.epoch, start.upstream);
            if self.settings.truncation == Truncation::Halt {
                return Decision::Halt(HaltReason::Diverged { epoch, end, copied });
            }
            let only_on_target = OffsetRange::new(end, copied);
            tracing::warn!(flow = %self.settings.id, partition = %pair.source, %only_on_target,
                count = only_on_target.len(), %epoch,
                "source was cut off below what was copied; copying what it has now");
            start.upstream = end;
            start = self.shutting_out(start.identity, start);
        }
        if cut.is_some() {
            // The epoch that led here is not the log's: asked with it again, it would say so again.
            start.epoch = LeaderEpoch::UNKNOWN;
        }
        let mut gap = None;
        if start.upstream < ends.source.start {
            let missing = OffsetRange::new(start.upstream, ends.source.start);
            if self.settings.gap_policy == GapPolicy::Halt {
                return Decision::Halt(HaltReason::Gap(missing));
            }
            gap = Some(Gap { range: missing, reason: GapReason::Lost });
            start.upstream = ends.source.start;
            start = self.shutting_out(start.identity, start);
        }
        if let Occasion::Doubt { new_identity: true, .. } = occasion {
            start.identity = self.identity;
            start.sequence = Sequence::ZERO;
        }
        Decision::Start(start, gap, history, origin)
    }

    /// Where to go on behind what the target holds, and where the source's log parts from that, if
    /// it does.
    async fn reconcile(
        &self,
        pair: &Pair,
        ends: Ends,
        anchor: &Anchor,
    ) -> Result<Reconciled, Decision> {
        let mut start = anchor.start;
        let parted = ends.epoch.filter(|end| *end < start.upstream);
        if ends.target.end < start.downstream {
            let (found, expected) = (ends.target.end, start.downstream);
            return Err(Decision::Halt(HaltReason::TargetCut { found, expected }));
        }
        if ends.target.end == start.downstream {
            return Ok(Reconciled { start, parted, bends: Vec::new(), records: 0 });
        }
        let log_start = ends.target.start;
        let mut stored = Stored::new(start.identity, start.sequence, start.downstream, log_start);
        self.scan_target(pair, start, ends, |batch| {
            stored.show(batch);
            Ok(())
        })
        .await?;
        if stored.foreign > 0 {
            tracing::warn!(flow = %self.settings.id, partition = %pair.target,
                batches = stored.foreign, "somebody else writes to the target partition");
        }
        if let Some(downstream) = stored.torn_at() {
            let upstream = start.upstream;
            return Err(Decision::Halt(HaltReason::Unexplained { downstream, upstream }));
        }
        if parted.is_some() {
            // Nothing behind the anchor is in the source's log any more.
            start.sequence = stored.next_sequence();
            start.downstream = ends.target.end;
            start.upstream = start.upstream.advance(i64::from(stored.records()));
            let records = stored.records();
            return Ok(Reconciled { start, parted, bends: Vec::new(), records });
        }
        let trimmed = ends.source.start > start.upstream;
        // After a change of leaders the log may have gone another way behind the anchor.
        let other_leader = ends.epoch.is_some_and(|end| end < ends.source.end);
        let mut walk = CountWalk::new(&stored, start.upstream, start.epoch);
        let compare = (trimmed || other_leader) && !walk.is_done();
        let mut step = if compare { Step::Compare } else { Step::GoOn };
        if step == Step::GoOn && !walk.is_done() {
            step = self.scan_source(pair, start.upstream, ends, |one| walk.show(one)).await?;
        }
        if step == Step::GoOn
            && !walk.is_done()
            && walk.upstream < self.shown_to(pair, ends).await?
        {
            // The last batches of the log are missing, as after compaction.
            step = Step::Compare;
        }
        start.sequence = stored.next_sequence();
        let (upstream, epoch, bends) = match step {
            // Neither side has it all any more. Counted as if the source had no holes there: too
            // near, if it has some, and then a record is copied again of those that the target has
            // let go of; never too far.
            Step::Compare if stored.has_lost() => {
                let copied = start.upstream.advance(i64::from(stored.records()));
                tracing::warn!(flow = %self.settings.id, partition = %pair.source, from = %copied,
                    lost_before = %ends.target.start,
                    "target has let go of what was copied last, and the source of some of it: going \
                     on by count");
                let anchor = Bend { upstream: start.upstream, downstream: start.downstream };
                (copied, LeaderEpoch::UNKNOWN, held_back(anchor, copied))
            }
            Step::Compare => {
                let walk = self.compare(pair, start, ends, &stored).await?;
                if let Some((parted, copied)) = walk.parted() {
                    start.downstream = ends.target.end;
                    start.upstream = copied;
                    let end = Bend { upstream: copied, downstream: start.downstream };
                    let bends = walk.into_bends(end);
                    let records = stored.records();
                    return Ok(Reconciled { start, parted: Some(parted), bends, records });
                }
                // What the source has lost behind the last record stored was not copied. Holes that
                // it had before are counted in, as nobody can tell them apart now. Whether anything
                // stored was met again says so, and not where the walk stopped: a marker or an
                // aborted batch at the log's start is passed by, too.
                let copied = start.upstream.advance(i64::from(stored.records()));
                let lost = trimmed && !walk.has_found() && copied < ends.source.start;
                let upstream = if lost { copied } else { walk.upstream };
                let epoch = walk.epoch;
                // What was not found may have stood anywhere before what the source has now.
                let shown = upstream.max(ends.source.start);
                let end = Bend { upstream: shown, downstream: ends.target.end };
                (upstream, epoch, walk.into_bends(end))
            }
            Step::GoOn if !walk.is_done() => {
                // The source ends before all that the target holds of ours is explained.
                return Err(Decision::Halt(HaltReason::Unexplained {
                    downstream: start.downstream,
                    upstream: start.upstream,
                }));
            }
            Step::GoOn | Step::Done => (walk.upstream, walk.epoch, walk.into_bends()),
        };
        tracing::info!(flow = %self.settings.id, partition = %pair.source, from = %upstream,
            records = stored.records(), "target's log says how far the last run came");
        start.upstream = upstream;
        start.epoch = epoch;
        start.downstream = ends.target.end;
        Ok(Reconciled { start, parted: None, bends, records: stored.records() })
    }

    /// Up to where a scan shows all that the source has: what lies behind its last batch was there
    /// once, but for what an open transaction hides.
    async fn shown_to(&self, pair: &Pair, ends: Ends) -> Result<Offset, Decision> {
        let one = std::slice::from_ref(&pair.source);
        let listed = self.source.list_offsets(one, LATEST, self.settings.read_committed).await;
        match listed.get(&pair.source) {
            Some(Ok(stable)) => Ok(stable.offset.min(ends.source.end)),
            Some(Err(error)) => Err(Decision::Later(error.to_string().into())),
            None => {
                let why = format!("{}: no answer about its end", pair.source);
                Err(Decision::Later(why.into()))
            }
        }
    }

    /// Record by record, where the source has holes or may have gone another way.
    async fn compare(
        &self,
        pair: &Pair,
        start: Start,
        ends: Ends,
        stored: &Stored,
    ) -> Result<RecordWalk, Decision> {
        let anchor = Bend { upstream: start.upstream, downstream: start.downstream };
        let mut walk = RecordWalk::new(anchor, ends.source.start, start.epoch);
        let from = walk.upstream;
        self.scan_target(pair, start, ends, |batch| {
            if !stored.is_ours(batch) || batch.header().attributes.is_control() {
                return Ok(());
            }
            let offset = batch.header().base_offset;
            walk.store(batch).map_err(|cause| HaltReason::Rebuild { offset, cause: cause.into() })
        })
        .await?;
        let step = self.scan_source(pair, from, ends, |one| walk.show(one)).await?;
        if step == Step::GoOn {
            walk.reach(self.shown_to(pair, ends).await?);
        }
        Ok(walk)
    }

    /// Shows the target's batches behind the anchor.
    async fn scan_target(
        &self,
        pair: &Pair,
        start: Start,
        ends: Ends,
        mut show: impl FnMut(&RawBatch) -> Result<(), HaltReason>,
    ) -> Result<(), Decision> {
        let mut failed = Ok(());
        // Retention, or somebody, may have taken what lies right behind the anchor.
        let from = start.downstream.max(ends.target.start);
        self.target
            .scan(&pair.target, from, ends.target.end, false, |scanned| {
                if scanned.batch.header().base_offset < start.downstream {
                    return ControlFlow::Continue(());
                }
                failed = show(&scanned.batch);
                if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .await
            .map_err(|error| Decision::Later(Later::unread(&error, Side::Target)))?;
        failed.map_err(Decision::Halt)
    }

    /// Shows the source's batches until the walk has found its place.
    async fn scan_source(
        &self,
        pair: &Pair,
        from: Offset,
        ends: Ends,
        mut show: impl FnMut(&ScannedBatch) -> Result<Step, HaltReason>,
    ) -> Result<Step, Decision> {
        let mut last = Ok(Step::GoOn);
        if from >= ends.source.end {
            return Ok(Step::GoOn);
        }
        let read_committed = self.settings.read_committed;
        self.source
            .scan(&pair.source, from, ends.source.end, read_committed, |scanned| {
                last = show(&scanned);
                match last {
                    Ok(Step::GoOn) => ControlFlow::Continue(()),
                    Ok(Step::Done | Step::Compare) | Err(_) => ControlFlow::Break(()),
                }
            })
            .await
            .map_err(|error| Decision::Later(Later::unread(&error, Side::Source)))?;
        last.map_err(Decision::Halt)
    }
}

fn ends(
    starts: &Listed,
    ends: &Listed,
    partition: &TopicPartition,
) -> Result<EndOffsets, PartitionError> {
    let find = |listed: &Listed| match listed.get(partition) {
        Some(Ok(found)) => Ok(found.offset),
        Some(Err(error)) => Err(error.clone()),
        None => {
            Err(PartitionError { partition: partition.clone(), code: crate::wire::ErrorCode(-1) })
        }
    };
    Ok(EndOffsets { start: find(starts)?, end: find(ends)? })
}
