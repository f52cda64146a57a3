//! Upstream offsets that have no record on the target, and why.

use std::fmt;

use super::OffsetRange;

/// A range of upstream offsets that was passed without copying.
///
/// Every upstream offset is either copied or inside a gap; none just disappears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The offsets passed.
    pub range: OffsetRange,
    /// Why no record stands for them on the target.
    pub reason: GapReason,
}

/// Why upstream offsets have no record on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GapReason {
    /// Transaction markers: they are no records.
    Control,
    /// Data of aborted transactions, under `read_committed`.
    Aborted,
    /// A batch that compaction emptied but kept for its producer's state.
    Emptied,
    /// Offsets between two batches: compaction took whole batches away.
    Compacted,
    /// The source removed records before they were copied: this is loss.
    Lost,
    /// Records that the target takes in no batch, skipped by policy: this is loss.
    Oversize,
}

impl GapReason {
    /// The word in logs and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Aborted => "aborted",
            Self::Emptied => "emptied",
            Self::Compacted => "compacted",
            Self::Lost => "lost",
            Self::Oversize => "oversize",
        }
    }

    /// Whether records are missing on the target that a reader of the source could have seen.
    #[must_use]
    pub fn is_loss(self) -> bool {
        match self {
            Self::Lost | Self::Oversize => true,
            Self::Control | Self::Aborted | Self::Emptied | Self::Compacted => false,
        }
    }
}

impl fmt::Display for GapReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
