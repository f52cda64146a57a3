//! Why a partition stopped, and the way out.

use crate::batch::{BatchesError, RebuildError, RefuseReason};
use crate::model::{FlowId, LeaderEpoch, Offset, OffsetRange};
use crate::wire::ErrorCode;

/// Why a partition does not go on by itself. Other partitions do.
#[derive(Debug, thiserror::Error)]
pub enum HaltReason {
    /// The source's bytes are damaged.
    #[error(
        "the source's batch at upstream offset {0} does not match its own checksum; it was \
         damaged on the source broker's disk or on the way from it"
    )]
    SourceDamaged(Offset),
    /// The source's record set makes no sense.
    #[error("the source's records behind upstream offset {position} cannot be walked: {cause}")]
    SourceMalformed {
        /// Where fetching was.
        position: Offset,
        /// What makes no sense.
        cause: BatchesError,
    },
    /// A batch with bits that no release gives a meaning.
    #[error("the batch at upstream offset {offset} is not understood: {cause}")]
    NotUnderstood {
        /// Where.
        offset: Offset,
        /// Which bits.
        cause: RefuseReason,
    },
    /// A batch that had to be written anew could not be.
    #[error("the batch at upstream offset {offset} cannot be written anew: {cause}")]
    Rebuild {
        /// Where.
        offset: Offset,
        /// Why not.
        cause: RebuildError,
    },
    /// The target's broker refuses the records.
    #[error(
        "the target refuses {}: {code}{}{}", refused(*.upstream), told(.message), remedy(*.code)
    )]
    Refused {
        /// Which records.
        upstream: OffsetRange,
        /// Its code.
        code: ErrorCode,
        /// Its words.
        message: Option<String>,
    },
    /// The source's log took another way than what we copied.
    #[error(
        "the source's log was cut off at offset {end} (leader epoch {epoch}) after records up to \
         {copied} had been copied; the target holds upstream offsets {end}..{copied} that the source \
         has lost (truncation.policy=record goes on behind them)"
    )]
    Diverged {
        /// Epoch that both histories share.
        epoch: LeaderEpoch,
        /// Where that epoch ends in the source's log now.
        end: Offset,
        /// How far we had copied.
        copied: Offset,
    },
    /// The source topic is another one than what was copied.
    #[error(
        "the source topic was deleted and made again under its name after {copied} offsets of the \
         old one had been copied (recreate.policy=halt; restart copies the new one from its start)"
    )]
    Recreated {
        /// How far the old one was copied.
        copied: Offset,
    },
    /// The target's log holds records that no progress explains.
    #[error(
        "the target partition already holds {records} records and no progress says where they \
         come from; copying would append to them (existing.records.policy=append does)"
    )]
    ExistingRecords {
        /// How many offsets the target's log spans.
        records: i64,
    },
    /// Another flow of this process writes to the target partition.
    #[error(
        "flow {by} copies into the same target topic; merged there, records could not be told apart. \
         Name the topic otherwise, or declare the merge (existing.records.policy=append)"
    )]
    Claimed {
        /// Which flow.
        by: FlowId,
    },
    /// The records would come back to where they came from.
    #[error(
        "flow {by} brings these records from where this flow would take them: they would go round \
         without end. Select the topic in one direction only, or let names tell where records come \
         from (DefaultReplicationPolicy)"
    )]
    Loop {
        /// The flow that closes the ring.
        by: FlowId,
    },
    /// The target's log is shorter than what was acknowledged.
    #[error(
        "the target's log ends at {found} though {expected} offsets had been acknowledged: it has lost \
         what lay behind (an unclean election, a disk). Delete the target topic to have it made and \
         copied anew from what the source has"
    )]
    TargetCut {
        /// Its end now.
        found: Offset,
        /// Its end as acknowledged.
        expected: Offset,
    },
    /// Batches that look like ours, but that the source does not have any more.
    #[error(
        "the target holds a batch of this mirror at downstream offset {downstream} that does not \
         match the source from upstream offset {upstream} on; the source changed in between"
    )]
    Unexplained {
        /// The batch on the target.
        downstream: Offset,
        /// Where the source was compared.
        upstream: Offset,
    },
    /// There is no progress, and the file says not to begin without.
    #[error("there is no progress to go on from (auto.offset.reset=none)")]
    NoProgress,
    /// A record that no batch of the target's can hold, and policy says stop.
    #[error(
        "the record at upstream offset {offset} needs a batch of {bytes} bytes, and the target topic \
         takes {max}; raise its max.message.bytes, or set oversize.policy=skip to leave such records \
         out"
    )]
    Oversize {
        /// Where.
        offset: Offset,
        /// What it needs.
        bytes: usize,
        /// What the target takes.
        max: usize,
    },
    /// A record that the target refuses as too large by itself, and policy says stop.
    #[error(
        "the target refuses the record at upstream offset {offset} as too large, alone in a batch of \
         {bytes} bytes{}; raise max.message.bytes of its topic, or set oversize.policy=skip to leave \
         such records out. A target that packs records anew (compression.type of the topic or the \
         broker) needs room for what it makes of them",
        of_unpacked(*unpacked)
    )]
    TooLargeAlone {
        /// Where.
        offset: Offset,
        /// The batch as it was sent.
        bytes: usize,
        /// What it takes unpacked, if it can be.
        unpacked: Option<usize>,
    },
    /// The source removed records before they were copied, and policy says stop.
    #[error(
        "the source no longer has upstream offsets {0}: they were removed before they were \
         copied (gap.policy=halt)"
    )]
    Gap(OffsetRange),
}

impl HaltReason {
    /// What tells one halt from another: what a broker says about the same one may change from try
    /// to try.
    #[must_use]
    pub fn gist(&self) -> String {
        match self {
            Self::Refused { upstream, code, .. } => format!("{code} at {}", upstream.start),
            other => other.to_string(),
        }
    }

    /// Whether a change of settings, on the target or of its topic, lets it go on: then it is tried
    /// again now and then.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Oversize { .. } | Self::TooLargeAlone { .. } => true,
            Self::SourceDamaged(_)
            | Self::SourceMalformed { .. }
            | Self::NotUnderstood { .. }
            | Self::Rebuild { .. }
            | Self::Diverged { .. }
            | Self::Recreated { .. }
            | Self::ExistingRecords { .. }
            | Self::Claimed { .. }
            | Self::Loop { .. }
            | Self::TargetCut { .. }
            | Self::Unexplained { .. }
            | Self::NoProgress
            | Self::Gap(_) => false,
        }
    }
}

/// Which records; the broker counts those of a batch from 0.
fn refused(upstream: OffsetRange) -> String {
    let first = upstream.start;
    if upstream.len() == 1 {
        return format!("the record at upstream offset {first}");
    }
    format!("the batch of upstream offsets {upstream}, record 0 of which is at offset {first}")
}

/// What to look at for some refusals.
fn remedy(code: ErrorCode) -> &'static str {
    match code.0 {
        32 => {
            "; see message.timestamp.before.max.ms and message.timestamp.after.max.ms of the target \
             topic"
        }
        87 => {
            "; where its topic is compacted, every record needs a key: without, set \
             cleanup.policy=delete on it"
        }
        _ => "",
    }
}

fn of_unpacked(bytes: Option<usize>) -> String {
    bytes.map(|bytes| format!(" ({bytes} unpacked)")).unwrap_or_default()
}

fn told(message: &Option<String>) -> String {
    message.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
}

/// Why a partition has to look at both logs again before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The target's leader does not know our sequences where it should.
    Identity(ErrorCode),
    /// The position lies outside the source's log.
    OutOfRange,
    /// The target takes smaller batches than it said; at most this many bytes.
    BatchTooLarge(usize),
    /// The target does not take this record, though it is smaller than what it said.
    RecordTooLarge(Offset),
    /// The source's log was cut off: what was copied behind this offset is not in it any more.
    Diverged(Offset),
}
