//! When an offset sync is due, by MM2's rule (`OffsetSyncWriter`), and which.
//!
//! MM2 sees records one by one and writes as many syncs as it finds time for. Here a shard notes
//! twice a second how far a partition came; of what lies between two notes a few more syncs are
//! taken from the map, so that who translates by syncs alone (MM2 after a hand-over) has places
//! to go by in the middle of a bulk copy.

use crate::model::{Bend, Offset, OffsetMap};

/// Syncs between two notes, at most. The topic is compacted: more would only be read by who starts
/// within the hour.
const BETWEEN_MAX: i64 = 7;

/// One partition's syncs.
#[derive(Debug, Default)]
pub(super) struct SyncRule {
    /// Downstream offset of the newest sync.
    last: Option<Offset>,
    due: Vec<Bend>,
}

impl SyncRule {
    /// Takes notice of a map that has grown; `bent` if upstream and downstream offsets did not run
    /// side by side all the way.
    pub(super) fn note(&mut self, map: &OffsetMap, bent: bool, lag_max: i64) {
        let Some(newest) = newest(map) else { return };
        let since = self.last.map(|last| newest.downstream.since(last));
        let due = match since {
            None => true,
            Some(since) => since < 0 || (since > 0 && bent) || since.saturating_sub(1) >= lag_max,
        };
        if !due {
            return;
        }
        let last = self.last.unwrap_or_else(|| map.start().downstream);
        let span = newest.downstream.since(last);
        let between = (span / lag_max.max(1)).clamp(0, BETWEEN_MAX);
        let step = span / (between + 1);
        for i in 1..=between {
            let downstream = last.advance(step * i);
            if step > 0
                && let Some(upstream) = map.reverse(downstream)
            {
                self.due.push(Bend { upstream, downstream });
            }
        }
        self.last = Some(newest.downstream);
        self.due.push(newest);
    }

    /// The newest record has a sync in any case: MM2 gives quiet partitions one at each commit.
    pub(super) fn flush(&mut self, map: &OffsetMap) {
        if let Some(newest) = newest(map)
            && self.last != Some(newest.downstream)
        {
            self.last = Some(newest.downstream);
            self.due.push(newest);
        }
    }

    /// The syncs that are due, in order.
    pub(super) fn take(&mut self) -> Vec<Bend> {
        std::mem::take(&mut self.due)
    }
}

/// Upstream and downstream offset of the last record copied.
fn newest(map: &OffsetMap) -> Option<Bend> {
    let end = map.end().downstream;
    if end <= map.start().downstream {
        return None;
    }
    let downstream = Offset(end.0 - 1);
    Some(Bend { upstream: map.reverse(downstream)?, downstream })
}
