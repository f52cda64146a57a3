//! What one partition has done so far.

use std::collections::BTreeMap;

use super::path::Path;
use crate::model::{Gap, GapReason};

/// What one partition has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records acknowledged by the target.
    pub records: u64,
    /// Bytes of batches acknowledged by the target.
    pub bytes: u64,
    /// Batches acknowledged by the target, by how they came to be.
    pub batches: BTreeMap<Path, u64>,
    /// Source batches of which nothing was to be copied, by reason.
    pub dropped: BTreeMap<GapReason, u64>,
    /// Upstream offsets passed, by reason.
    pub passed: BTreeMap<GapReason, u64>,
    /// Gaps that are loss.
    pub gaps: u64,
}

impl Counts {
    /// Takes notice of offsets that were passed.
    pub fn pass(&mut self, gap: Gap) {
        *self.passed.entry(gap.reason).or_default() += gap.range.len().unsigned_abs();
        self.gaps += u64::from(gap.reason.is_loss());
    }

    /// Batches acknowledged by the target.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.batches.values().sum()
    }

    /// Upstream offsets that are missing on the target though they had records.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let lost = self.passed.iter().filter(|(reason, _)| reason.is_loss());
        lost.map(|(_, offsets)| offsets).sum()
    }
}
