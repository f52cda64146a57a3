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
        let between = ((span - 1) / lag_max.saturating_add(1)).clamp(0, BETWEEN_MAX);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition whose records are noted one by one, as MM2 sees them.
    struct Noted {
        map: OffsetMap,
        rule: SyncRule,
    }

    impl Noted {
        fn at(upstream: i64, downstream: i64) -> Self {
            let map = OffsetMap::new(Bend::new(upstream, downstream));
            Self { map, rule: SyncRule::default() }
        }

        fn note(&mut self, upstream: i64, downstream: i64, lag_max: i64) -> Vec<Bend> {
            let bends = self.map.bends();
            self.map.push(Bend::new(upstream, downstream));
            let bent = self.map.bends() > bends;
            self.map.advance(Bend::new(upstream + 1, downstream + 1));
            self.rule.note(&self.map, bent, lag_max);
            self.rule.take()
        }
    }

    #[test]
    fn no_record_is_further_behind_a_sync_than_mm2_allows() {
        // Upstream and downstream offsets of MM2's own test, in which MM2 writes syncs so that
        // none is more than `offset.lag.max` behind one, and one behind each hole. Where an offset
        // goes back, the partition was started anew.
        let runs: [&[(i64, i64)]; 3] = [
            &[(0, 100), (2, 102), (3, 152), (4, 153), (5, 154), (6, 203), (7, 204)],
            &[(2, 206), (3, 207)],
            &[(4, 3), (5, 4), (7, 6)],
        ];
        for run in runs {
            let mut noted = Noted::at(run[0].0, run[0].1);
            let mut newest = None;
            for (upstream, downstream) in run {
                newest = noted.note(*upstream, *downstream, 50).last().copied().or(newest);
                let behind = downstream - newest.unwrap().downstream.0;
                assert!((0..=50).contains(&behind), "{upstream} {downstream}: {newest:?}");
            }
        }
    }

    #[test]
    fn a_hole_is_followed_by_a_sync() {
        let mut noted = Noted::at(0, 0);
        assert_eq!(noted.note(0, 0, 100), [Bend::new(0, 0)]);
        assert_eq!(noted.note(1, 1, 100), []);
        assert_eq!(noted.note(3, 2, 100), [Bend::new(3, 2)]);
        assert_eq!(noted.note(4, 3, 100), []);
    }

    #[test]
    fn records_that_run_on_get_one_sync_for_each_lag_and_quiet_ones_their_last() {
        let mut noted = Noted::at(0, 0);
        let syncs: Vec<i64> =
            (0..1_000).flat_map(|i| noted.note(i, i, 100)).map(|sync| sync.upstream.0).collect();
        assert_eq!(syncs, (0..10).map(|i| 101 * i).collect::<Vec<_>>());
        noted.rule.flush(&noted.map);
        assert_eq!(noted.rule.take(), [Bend::new(999, 999)]);
        noted.rule.flush(&noted.map);
        assert_eq!(noted.rule.take(), []);
    }

    #[test]
    fn a_bulk_copy_between_two_notes_leaves_syncs_in_its_middle() {
        let mut noted = Noted::at(0, 0);
        noted.map.push(Bend::new(0, 0));
        noted.map.advance(Bend::new(80_000, 80_000));
        noted.rule.note(&noted.map, true, 100);
        let syncs: Vec<i64> = noted.rule.take().iter().map(|sync| sync.upstream.0).collect();
        assert_eq!(syncs.len(), 8);
        assert!(syncs.windows(2).all(|pair| pair[1] - pair[0] < 11_000), "{syncs:?}");
        assert_eq!(syncs.last(), Some(&79_999));
    }
}
