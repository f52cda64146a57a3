//! Offsets, ranges of them, and leader epochs.

use std::fmt;

/// A record's place in one partition's log, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offset(pub i64);

impl Offset {
    /// The first offset of a log that never lost its head.
    pub const ZERO: Self = Self(0);

    /// The offset `count` records further on, within `i64`.
    ///
    /// No log reaches the end of `i64`. A peer or a damaged record may say that one does; that must
    /// not end the process.
    #[must_use]
    pub fn advance(self, count: i64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// How many offsets lie between `earlier` and here; negative when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Offsets from `start` up to but not including `end`; shown as `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetRange {
    /// First offset inside.
    pub start: Offset,
    /// First offset no longer inside; never below `start`.
    pub end: Offset,
}

impl OffsetRange {
    /// # Panics
    ///
    /// If `end` lies below `start`.
    #[must_use]
    pub fn new(start: Offset, end: Offset) -> Self {
        assert!(start <= end, "range {start}..{end} runs backwards");
        Self { start, end }
    }

    /// Number of offsets inside.
    #[must_use]
    pub fn len(self) -> i64 {
        self.end.since(self.start)
    }

    /// Whether nothing is inside.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// The count of a partition's leader elections (KIP-320). Never goes back while a log lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// "Not known", as brokers and batches write it. Never to be taken for an old epoch.
    pub const UNKNOWN: Self = Self(-1);

    /// Whether the epoch is known.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.0 >= 0
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
