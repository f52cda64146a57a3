//! Which batches a `read_committed` reader must not see.

use std::collections::BTreeSet;

use super::control::{ControlType, control_type};
use super::header::RawBatch;
use crate::model::AbortedTransaction;

/// The aborted transactions open at the place the walk has reached.
///
/// Complete for one response only: a new one is made for each, as the broker lists every
/// transaction that overlaps the response's range. Batches must be shown in log order. A batch
/// lies wholly inside one transaction, so the answer is for the whole batch.
#[derive(Debug, Default)]
pub struct AbortedIndex {
    /// Not yet begun, last first.
    ahead: Vec<AbortedTransaction>,
    open: BTreeSet<i64>,
}

impl AbortedIndex {
    /// Takes the list of one response; its order does not matter (from tiered storage it has
    /// none).
    #[must_use]
    pub fn new(mut list: Vec<AbortedTransaction>) -> Self {
        list.sort_unstable_by(|a, b| b.cmp(a));
        Self { ahead: list, open: BTreeSet::new() }
    }

    /// Takes notice of `batch` and says whether its records were aborted.
    pub fn covers(&mut self, batch: &RawBatch) -> bool {
        let header = batch.header();
        if header.producer_id < 0 {
            return false;
        }
        while self.ahead.last().is_some_and(|next| next.first_offset < header.next_offset()) {
            self.open.extend(self.ahead.pop().map(|begun| begun.producer_id));
        }
        if header.attributes.is_control() {
            if control_type(batch) == Some(ControlType::Abort) {
                self.open.remove(&header.producer_id);
            }
            return false;
        }
        header.attributes.is_transactional() && self.open.contains(&header.producer_id)
    }
}
