//! When an offset sync is due, by MM2's rule (`OffsetSyncWriter`), and which.
//!
//! MM2 sees records one by one: the first one, each that follows a hole, and each that is more than
//! `offset.lag.max` behind the last sync has one. Here a shard notes twice a second how far a
//! partition came, and the same syncs are found in what lies between two notes. In a bulk copy
//! these would be too many; then there are some over all of it, the denser the nearer to its end,
//! as MM2's own store keeps them: who translates by syncs alone (MM2 after a hand-over) has places
//! to go by, wherever a group stands.

use crate::model::{Bend, Offset, OffsetMap};

/// Syncs of one note by MM2's rule, at most: small transactions have as many. The topic is
/// compacted: more would only be read by who starts within the hour.
const NOTE_MAX: usize = 64;

/// Syncs at even distances in a bulk copy, besides those near its end.
const EVENLY: i64 = 8;

/// One partition's syncs.
#[derive(Debug, Default)]
pub(super) struct SyncRule {
    /// Downstream offset of the last sync by the rule.
    last: Option<Offset>,
    /// That of the newest record, when a sync was last written because it had come to rest.
    rested: Option<Offset>,
    due: Vec<Bend>,
}

impl SyncRule {
    /// Takes notice of a map that has grown from `from` on, with these `bends` in what is new.
    pub(super) fn note(&mut self, map: &OffsetMap, from: Bend, bends: &[Bend], lag_max: i64) {
        let (begin, end) = (from.downstream, map.end().downstream);
        if end <= begin {
            return;
        }
        if self.last.is_some_and(|last| last >= begin) {
            // The target's log went back.
            self.last = None;
        }
        let newest = Offset(end.0 - 1);
        let mut points = Vec::new();
        let mut bends = bends.iter().map(|bend| bend.downstream).peekable();
        while points.len() <= NOTE_MAX {
            let stale = match self.last {
                None => begin,
                Some(last) => Offset(last.0.saturating_add(1).saturating_add(lag_max)).max(begin),
            };
            while bends.next_if(|bend| *bend < begin || Some(*bend) <= self.last).is_some() {}
            let next = bends.peek().map_or(stale, |bend| stale.min(*bend));
            if next > newest {
                break;
            }
            self.last = Some(next);
            points.push(next);
        }
        if points.len() > NOTE_MAX {
            points = spread(points[0], newest);
            self.last = Some(newest);
        }
        let bend = |downstream| Some(Bend { upstream: map.reverse(downstream)?, downstream });
        self.due.extend(points.into_iter().filter_map(bend));
    }

    /// The newest record has a sync in any case: MM2 gives quiet partitions one at each commit.
    pub(super) fn flush(&mut self, map: &OffsetMap) {
        if let Some(newest) = newest(map)
            && self.last != Some(newest.downstream)
            && self.rested != Some(newest.downstream)
        {
            self.rested = Some(newest.downstream);
            self.due.push(newest);
        }
    }

    /// The syncs that are due, in order.
    pub(super) fn take(&mut self) -> Vec<Bend> {
        std::mem::take(&mut self.due)
    }
}

/// Places between two, both included: at even distances, and at 1, 2, 4, 8 and so on before the last
/// one.
fn spread(first: Offset, last: Offset) -> Vec<Offset> {
    let span = last.since(first);
    let evenly = (0..EVENLY).map(|i| first.advance(span / EVENLY * i));
    let near = (0..i64::BITS - 1).map(|i| last.0.saturating_sub(1 << i)).map(Offset);
    let mut all: Vec<Offset> = evenly.chain(near.take_while(|at| *at > first)).collect();
    all.push(last);
    all.sort_unstable();
    all.dedup();
    all
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
            let (bends, from) = (self.map.bends(), self.map.end());
            let bend = Bend::new(upstream, downstream);
            self.map.push(bend);
            let bent = self.map.bends() > bends;
            self.map.advance(Bend::new(upstream + 1, downstream + 1));
            let bends: Vec<Bend> = bent.then_some(bend).into_iter().collect();
            self.rule.note(&self.map, from, &bends, lag_max);
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

    /// What MM2 would write for records that it sees one by one lies in one note.
    #[test]
    fn one_note_has_the_syncs_that_mm2_writes_record_by_record() {
        // Ten records, a marker, and so on; and at last a long run.
        let records: Vec<i64> =
            (0..40).map(|at| at + at / 10).chain((0..400).map(|at| 100 + at)).collect();
        let mut one_by_one = Noted::at(0, 0);
        let singly: Vec<Bend> = records
            .iter()
            .zip(0..)
            .flat_map(|(upstream, downstream)| one_by_one.note(*upstream, downstream, 50))
            .collect();
        let mut at_once = Noted::at(0, 0);
        let bends: Vec<Bend> = [(11, 10), (22, 20), (33, 30), (100, 40)]
            .map(|(upstream, downstream)| Bend::new(upstream, downstream))
            .into();
        bends.iter().for_each(|bend| at_once.map.push(*bend));
        at_once.map.advance(Bend::new(500, 440));
        at_once.rule.note(&at_once.map, Bend::new(0, 0), &bends, 50);
        assert_eq!(at_once.rule.take(), singly);
        assert_eq!(singly.len(), 5 + 7);
    }

    /// After a restart the first record that is copied has one, not the first of the map.
    #[test]
    fn the_first_note_begins_where_this_process_began() {
        let mut noted = Noted::at(0, 0);
        noted.map.advance(Bend::new(900, 900));
        assert_eq!(noted.note(900, 900, 100), [Bend::new(900, 900)]);
    }

    #[test]
    fn a_bulk_copy_between_two_notes_leaves_syncs_all_over_it() {
        let mut noted = Noted::at(0, 0);
        noted.map.advance(Bend::new(80_000, 80_000));
        noted.rule.note(&noted.map, Bend::new(0, 0), &[], 100);
        let syncs: Vec<i64> = noted.rule.take().iter().map(|sync| sync.upstream.0).collect();
        assert!(syncs.len() <= NOTE_MAX, "{syncs:?}");
        assert!(syncs.windows(2).all(|pair| pair[1] - pair[0] <= 10_000), "{syncs:?}");
        assert_eq!((syncs[0], syncs.last()), (0, Some(&79_999)));
        // Wherever a group stands, a sync is not much further behind than the group lags.
        for at in 0..80_000 {
            let sync = syncs[syncs.partition_point(|sync| *sync <= at) - 1];
            assert!(at - sync <= 79_999 - at + 1, "{at}: {sync}");
        }
    }
}
