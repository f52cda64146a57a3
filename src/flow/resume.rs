//! Where a partition starts: progress reconciled with both logs.
//!
//! An anchor says "everything before upstream `S` is on the target, and the next record goes to
//! downstream `T`". If the target's log ends at `T`, nothing more was stored. If it goes on, the
//! batches behind `T` are read by header and found again, in order, in the source's log from
//! `S` on; the place behind the last one found is where copying goes on. Batches of somebody
//! else in between are told apart by their producer id, and named.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::progress::{Anchor, Loaded};
use super::settings::{ExistingRecords, FlowSettings, GapPolicy, Reset};
use super::supervisor::Pair;
use crate::batch::{self, Disposition, RawBatch, Stamp, disposition, rebuild};
use crate::client::{Cluster, EARLIEST, EndOffsets, LATEST, PartitionError, ScannedBatch};
use crate::copy::{HaltReason, Start};
use crate::model::{LeaderEpoch, Offset, OffsetRange, ProducerIdentity, Sequence, TopicPartition};

/// What was decided about a partition.
#[derive(Debug)]
pub(super) enum Decision {
    /// It can be copied from here.
    Start(Start),
    /// It must not be copied.
    Halt(HaltReason),
    /// It cannot be decided now.
    Later(String),
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
    },
}

/// The ends of both logs.
#[derive(Clone, Copy, Debug)]
struct Ends {
    source: EndOffsets,
    target: EndOffsets,
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
    /// Decides about each of `pairs`, whose target topics take batches of the given size.
    pub(super) async fn decide(
        &self,
        pairs: &[(Pair, usize)],
        progress: &Loaded,
        occasion: Occasion,
    ) -> Vec<(Pair, Decision)> {
        let sources: Vec<_> = pairs.iter().map(|(pair, _)| pair.source.clone()).collect();
        let targets: Vec<_> = pairs.iter().map(|(pair, _)| pair.target.clone()).collect();
        let (source_starts, source_ends, target_starts, target_ends) = tokio::join!(
            self.source.list_offsets(&sources, EARLIEST, false),
            self.source.list_offsets(&sources, LATEST, false),
            self.target.list_offsets(&targets, EARLIEST, false),
            self.target.list_offsets(&targets, LATEST, false),
        );
        let mut decisions = Vec::with_capacity(pairs.len());
        for (pair, batch_bytes_max) in pairs {
            let ends = ends(&source_starts, &source_ends, &pair.source).and_then(|source| {
                let target = ends(&target_starts, &target_ends, &pair.target)?;
                Ok(Ends { source, target })
            });
            let decision = match ends {
                Ok(ends) => self.decide_one(pair, *batch_bytes_max, ends, progress, occasion).await,
                Err(error) => Decision::Later(error.to_string()),
            };
            decisions.push((pair.clone(), decision));
        }
        decisions
    }

    async fn decide_one(
        &self,
        pair: &Pair,
        batch_bytes_max: usize,
        ends: Ends,
        progress: &Loaded,
        occasion: Occasion,
    ) -> Decision {
        let flow = &self.settings.id;
        let connect = progress.connect.get(&pair.source).map(|last| last.advance(1));
        let anchor = progress.anchors.get(&pair.source);
        let fresh = |upstream| Start {
            upstream,
            downstream: ends.target.end,
            epoch: LeaderEpoch::UNKNOWN,
            identity: self.identity,
            sequence: Sequence::ZERO,
        };
        let start = match (anchor, connect) {
            (Some(anchor), _) if anchor.source_id != pair.source_id => {
                tracing::warn!(%flow, partition = %pair.source, copied = %anchor.start.upstream,
                    from = %ends.source.start,
                    "source topic was made anew under its name; copying the new one from its start");
                // The target partition is the same, and knows our producer by its sequences.
                let Start { identity, sequence, .. } = anchor.start;
                Start { identity, sequence, ..fresh(ends.source.start) }
            }
            (Some(anchor), _) if anchor.target_id != pair.target_id => {
                tracing::warn!(%flow, partition = %pair.target, acknowledged = %anchor.start.downstream,
                    from = %ends.source.start,
                    "target topic was made anew under its name; copying again from the source's start");
                fresh(ends.source.start)
            }
            (Some(anchor), Some(next)) if next > anchor.start.upstream => {
                tracing::info!(%flow, partition = %pair.source, from = %next,
                    ours = %anchor.start.upstream, "going on where MirrorMaker 2 stopped");
                fresh(next)
            }
            (Some(anchor), _) => match self.reconcile(pair, batch_bytes_max, ends, anchor).await {
                Ok(start) => start,
                Err(decision) => return decision,
            },
            (None, Some(next)) if ends.target.end == Offset::ZERO && next > Offset::ZERO => {
                tracing::warn!(%flow, partition = %pair.target, progress = %next,
                    from = %ends.source.start,
                    "target partition is empty though progress says otherwise; copying again from \
                     the source's start");
                fresh(ends.source.start)
            }
            (None, Some(next)) => {
                tracing::info!(%flow, partition = %pair.source, from = %next,
                    "going on where MirrorMaker 2 stopped");
                fresh(next)
            }
            (None, None) => {
                let records = ends.target.end.since(ends.target.start);
                if records > 0 && self.settings.existing_records == ExistingRecords::Halt {
                    return Decision::Halt(HaltReason::ExistingRecords { records });
                }
                match self.settings.reset {
                    Reset::Earliest => fresh(ends.source.start),
                    Reset::Latest => fresh(ends.source.end),
                    Reset::None => return Decision::Halt(HaltReason::NoProgress),
                }
            }
        };
        self.within_source(pair, start, ends, occasion)
    }

    /// Makes sure that the start lies in the source's log.
    fn within_source(
        &self,
        pair: &Pair,
        mut start: Start,
        ends: Ends,
        occasion: Occasion,
    ) -> Decision {
        if start.upstream < ends.source.start {
            let missing = OffsetRange::new(start.upstream, ends.source.start);
            if self.settings.gap_policy == GapPolicy::Halt {
                return Decision::Halt(HaltReason::Gap(missing));
            }
            tracing::warn!(flow = %self.settings.id, partition = %pair.source, %missing,
                count = missing.len(), "source records are gone before they were copied");
            start.upstream = ends.source.start;
        }
        if let Occasion::Doubt { out_of_range: true, .. } = occasion
            && start.upstream > ends.source.end
        {
            return Decision::Halt(HaltReason::Diverged {
                epoch: start.epoch,
                end: ends.source.end,
                copied: start.upstream,
            });
        }
        if let Occasion::Doubt { new_identity: true, .. } = occasion {
            start.identity = self.identity;
            start.sequence = Sequence::ZERO;
        }
        Decision::Start(start)
    }

    async fn reconcile(
        &self,
        pair: &Pair,
        batch_bytes_max: usize,
        ends: Ends,
        anchor: &Anchor,
    ) -> Result<Start, Decision> {
        let mut start = anchor.start;
        if ends.target.end < start.downstream {
            let (found, expected) = (ends.target.end, start.downstream);
            return Err(Decision::Halt(HaltReason::TargetCut { found, expected }));
        }
        if ends.target.end == start.downstream {
            return Ok(start);
        }
        let later = |error: crate::client::LogError| Decision::Later(error.to_string());
        let mut stored = Vec::new();
        self.target
            .scan(&pair.target, start.downstream, ends.target.end, false, |scanned| {
                let header = scanned.batch.header();
                if !header.attributes.is_control() && header.base_offset >= start.downstream {
                    stored.push(Stamp::of(&scanned.batch));
                }
                ControlFlow::Continue(())
            })
            .await
            .map_err(later)?;
        let mut alignment = Alignment {
            trimmed: ends.source.start > start.upstream,
            identity: start.identity,
            stored: &stored,
            at: 0,
            upstream: start.upstream.max(ends.source.start),
            epoch: start.epoch,
            sequence: start.sequence,
            found: 0,
            foreign: 0,
        };
        let mut verdict = Ok(());
        if !stored.is_empty() && ends.source.end > alignment.upstream {
            let from = alignment.upstream;
            let read_committed = self.settings.read_committed;
            self.source
                .scan(
                    &pair.source,
                    from,
                    ends.source.end,
                    read_committed,
                    |scanned| match alignment.show(&scanned, batch_bytes_max) {
                        Ok(true) => ControlFlow::Continue(()),
                        Ok(false) => ControlFlow::Break(()),
                        Err(reason) => {
                            verdict = Err(Decision::Halt(reason));
                            ControlFlow::Break(())
                        }
                    },
                )
                .await
                .map_err(later)?;
        }
        verdict?;
        alignment.finish().map_err(Decision::Halt)?;
        if alignment.foreign > 0 {
            tracing::warn!(flow = %self.settings.id, partition = %pair.target,
                batches = alignment.foreign, "somebody else writes to the target partition");
        }
        tracing::info!(flow = %self.settings.id, partition = %pair.source,
            from = %alignment.upstream, batches = alignment.found,
            "target's log says how far the last run came");
        start.sequence = alignment.sequence;
        start.upstream = alignment.upstream;
        start.epoch = alignment.epoch;
        start.downstream = ends.target.end;
        Ok(start)
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

/// Finding the target's batches again in the source's log.
struct Alignment<'a> {
    /// The source has lost records behind the anchor, so the first stored batches need not be
    /// found.
    trimmed: bool,
    identity: ProducerIdentity,
    stored: &'a [Stamp],
    /// First stored batch not explained yet.
    at: usize,
    /// Upstream offset up to which the source is explained.
    upstream: Offset,
    epoch: LeaderEpoch,
    /// Sequence behind the last batch found again.
    sequence: Sequence,
    /// Batches found again.
    found: usize,
    /// Stored batches that are not ours.
    foreign: usize,
}

impl Alignment<'_> {
    /// Looks for one source batch among the stored ones; `false` when there is no more to look
    /// for.
    fn show(&mut self, scanned: &ScannedBatch, batch_bytes_max: usize) -> Result<bool, HaltReason> {
        if self.at == self.stored.len() {
            return Ok(false);
        }
        let batch = &scanned.batch;
        let header = batch.header();
        let terms =
            batch::Terms { position: self.upstream, aborted: scanned.aborted, batch_bytes_max };
        let exact = |batch: &RawBatch, end| (Stamp::of(batch), end, true);
        let pieces = match disposition(header, terms) {
            Disposition::Forward => vec![exact(batch, header.next_offset())],
            Disposition::Drop(_) => Vec::new(),
            Disposition::Rebuild(_) => rebuild(batch, self.upstream, batch_bytes_max)
                .map_err(|cause| HaltReason::Rebuild { offset: header.base_offset, cause })?
                .iter()
                .map(|piece| (Stamp::of(&piece.batch), piece.upstream.end, false))
                .collect(),
            Disposition::Refuse(cause) => {
                return Err(HaltReason::NotUnderstood { offset: header.base_offset, cause });
            }
        };
        for (piece, end, raw) in pieces {
            let matches = |stored: &Stamp| {
                let as_is =
                    raw && stored.header.attributes.codec() == piece.header.attributes.codec();
                if as_is { piece.same_records(stored) } else { piece.resembles(stored) }
            };
            let Some(ahead) = self.stored[self.at..].iter().position(matches) else {
                return Ok(false);
            };
            self.pass(ahead)?;
            self.at += 1;
            self.trimmed = false;
            self.found += 1;
            self.sequence = self.sequence.advance(piece.header.count);
            self.upstream = end;
        }
        // Dropped batches behind the last one found would be looked at again: harmless.
        if scanned.batch.header().leader_epoch.is_known() {
            self.epoch = header.leader_epoch;
        }
        if self.at < self.stored.len() {
            self.upstream = header.next_offset();
        }
        Ok(self.at < self.stored.len())
    }

    /// Passes stored batches that the source does not explain: they must be somebody else's.
    fn pass(&mut self, batches: usize) -> Result<(), HaltReason> {
        for stored in &self.stored[self.at..self.at + batches] {
            let ours = stored.header.producer_id == self.identity.id;
            if ours && !self.trimmed {
                return Err(HaltReason::Unexplained {
                    downstream: stored.header.base_offset,
                    upstream: self.upstream,
                });
            }
            self.foreign += usize::from(!ours);
            if ours {
                self.sequence = self.sequence.advance(stored.header.count);
            }
        }
        self.at += batches;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), HaltReason> {
        self.pass(self.stored.len() - self.at)
    }
}
