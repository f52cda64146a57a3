//! MM2's own way to translate offsets: by a few offset syncs per partition (`OffsetSyncStore`).
//!
//! Of all syncs of a partition 64 places keep some, the denser the nearer to the newest: slot `i`
//! holds one that is at least about half of `2^i` offsets behind the newest. An upstream offset is
//! translated to one behind the nearest sync before it; records may be read again then, but none
//! is missed. Here it is used only for what MM2 copied before this program took over.

use std::collections::BTreeMap;

use crate::model::{Bend, Offset, TopicPartition};

const SLOTS: usize = 64;

/// A sync as it was received. Two with the same numbers are two syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Received {
    number: u64,
    upstream: i64,
    downstream: i64,
}

/// What the syncs say about an upstream offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BySync {
    /// The place on the target from which on no record is missed.
    At(Offset),
    /// All syncs that are left lie behind it.
    TooOld,
    /// There is no sync.
    Nothing,
}

/// The syncs of many partitions.
#[derive(Clone, Debug, Default)]
pub struct SyncStore {
    received: u64,
    slots: BTreeMap<TopicPartition, Box<[Received; SLOTS]>>,
}

impl SyncStore {
    /// Takes the next sync of the topic.
    pub fn take(&mut self, partition: &TopicPartition, sync: Bend) {
        self.received += 1;
        let new = Received {
            number: self.received,
            upstream: sync.upstream.0,
            downstream: sync.downstream.0,
        };
        match self.slots.get_mut(partition) {
            Some(slots) if new.upstream >= slots[0].upstream => **slots = placed(slots, new),
            Some(slots) => **slots = [new; SLOTS],
            None => drop(self.slots.insert(partition.clone(), Box::new([new; SLOTS]))),
        }
    }

    /// Translates an upstream offset.
    #[must_use]
    pub fn translate(&self, partition: &TopicPartition, upstream: Offset) -> BySync {
        let Some(slots) = self.slots.get(partition) else { return BySync::Nothing };
        let near = slots.iter().find(|sync| sync.upstream <= upstream.0);
        match near {
            None => BySync::TooOld,
            Some(sync) if sync.upstream == upstream.0 => BySync::At(Offset(sync.downstream)),
            Some(sync) => BySync::At(Offset(sync.downstream.wrapping_add(1))),
        }
    }

    /// The slots of a partition that hold another sync than the one before: number, upstream,
    /// downstream.
    #[must_use]
    pub fn shown(&self, partition: &TopicPartition) -> Vec<(usize, i64, i64)> {
        let Some(slots) = self.slots.get(partition) else { return Vec::new() };
        let mut shown: Vec<(usize, i64, i64)> = Vec::new();
        let mut last = None;
        for (i, sync) in slots.iter().enumerate() {
            if last.replace(sync.number) != Some(sync.number) {
                shown.push((i, sync.upstream, sync.downstream));
            }
        }
        shown
    }
}

/// `2^exponent` as 64 bits hold it.
fn power(exponent: usize) -> i64 {
    1_u64.checked_shl(u32::try_from(exponent).unwrap_or(u32::MAX)).unwrap_or(0).cast_signed()
}

/// Whether `one` in slot `i` is not too far ahead of `other` in slot `j`. Sums wrap, as Java's.
fn near_enough(one: Received, i: usize, other: Received, j: usize) -> bool {
    if one.number == other.number {
        return true;
    }
    let bound = other.upstream.wrapping_add(power(j)).wrapping_sub(power(i));
    bound < 0 || one.upstream <= bound
}

/// Whether `one` in slot `i` is far enough ahead of `other`, so that both are worth a slot.
fn far_enough(one: Received, i: usize, other: Received) -> bool {
    if one.number == other.number {
        return true;
    }
    let bound = other.upstream.wrapping_add(power(i.saturating_sub(2)));
    bound >= 0 && one.upstream >= bound
}

/// The slots once `sync` is the newest.
fn placed(old: &[Received; SLOTS], sync: Received) -> [Received; SLOTS] {
    let mut new = *old;
    new[0] = sync;
    let mut candidate = sync;
    let mut from = 0;
    for to in 1..SLOTS {
        let before = to - 1;
        loop {
            let seen = old[from];
            let recent = near_enough(new[before], before, seen, to);
            let apart_before = far_enough(new[before], before, seen);
            let apart_after = to == SLOTS - 1 || far_enough(seen, to, new[to + 1]);
            let twin = from + 1 < SLOTS && old[from + 1].number == seen.number;
            let pass_over = twin || !apart_before;
            if recent && apart_before && apart_after {
                candidate = seen;
                from += 1;
            } else if pass_over {
                from += 1;
            }
            if !(pass_over && from < to) {
                break;
            }
        }
        if near_enough(new[before], before, new[to], to) {
            break;
        }
        new[to] = candidate;
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: i64 = i64::MAX;

    fn store(syncs: impl IntoIterator<Item = (i64, i64)>) -> (SyncStore, TopicPartition) {
        let (mut store, partition) = (SyncStore::default(), TopicPartition::new("t", 0));
        for (upstream, downstream) in syncs {
            store.take(&partition, Bend::new(upstream, downstream));
        }
        (store, partition)
    }

    fn slots(upstream: impl IntoIterator<Item = i64>) -> Vec<(usize, i64)> {
        let (store, partition) = store(upstream.into_iter().map(|u| (u, u)));
        store.shown(&partition).into_iter().map(|(i, upstream, _)| (i, upstream)).collect()
    }

    #[test]
    fn slots_are_those_of_mm2() {
        let far = 1 << 40;
        type Row<'a> = (Vec<i64>, &'a [(usize, i64)]);
        let table: [Row<'_>; 9] = [
            ((0..10).collect(), &[(0, 9), (1, 8), (2, 6), (3, 4), (4, 0)]),
            ((0..20).collect(), &[(0, 19), (1, 18), (2, 16), (3, 12), (4, 8), (5, 0)]),
            (
                (0..100).collect(),
                &[(0, 99), (1, 98), (2, 96), (3, 92), (4, 88), (5, 80), (6, 64), (7, 0)],
            ),
            (
                (0..10).map(|i| 100 * i).collect(),
                &[(0, 900), (8, 800), (9, 600), (10, 400), (11, 0)],
            ),
            (
                (0..1000).map(|i| 100 * i).collect(),
                &[
                    (0, 99_900),
                    (8, 99_800),
                    (9, 99_600),
                    (10, 99_200),
                    (11, 98_400),
                    (12, 97_600),
                    (13, 96_000),
                    (14, 89_600),
                    (15, 76_800),
                    (16, 51_200),
                    (17, 0),
                ],
            ),
            (
                vec![0, 3, 10, 11, 12, 50, 51, 200, 1000, 1001, 1002, 1003, 5000],
                &[(0, 5000), (14, 0)],
            ),
            (vec![0, far, far + 5], &[(0, far + 5), (4, far), (41, 0)]),
            (
                vec![0, far, far + 5, 1 << 62, (1 << 62) + 1],
                &[(0, (1 << 62) + 1), (1, 1 << 62), (63, 0)],
            ),
            (
                vec![0, far, far + 5, 1 << 62, (1 << 62) + 1, LAST],
                &[(0, LAST), (63, (1 << 62) + 1)],
            ),
        ];
        for (syncs, expected) in table {
            assert_eq!(slots(syncs.clone()), expected, "{syncs:?}");
        }
    }

    #[test]
    fn a_translation_is_one_behind_the_nearest_sync_before() {
        let (mut syncs, partition) = store([(100, 200)]);
        let at = |offset: i64| BySync::At(Offset(offset));
        assert_eq!(syncs.translate(&partition, Offset(150)), at(201));
        syncs.take(&partition, Bend::new(150, 251));
        assert_eq!(syncs.translate(&partition, Offset(150)), at(251));
        assert_eq!(syncs.translate(&partition, Offset(5)), BySync::TooOld);
        syncs.take(&partition, Bend::new(200, 10));
        assert_eq!(syncs.translate(&partition, Offset(200)), at(10));
        syncs.take(&partition, Bend::new(20, 20));
        assert_eq!(syncs.translate(&partition, Offset(20)), at(20));
        assert_eq!(syncs.translate(&TopicPartition::new("u", 0), Offset(20)), BySync::Nothing);
    }

    #[test]
    fn precision_is_lost_as_in_mm2() {
        let sequence = [(11, 4), (12, 5), (13, 6), (14, 7), (15, 8), (16, 9), (17, 10)];
        let (two, partition) = store(sequence[..2].iter().copied());
        assert_eq!(two.translate(&partition, Offset(13)), BySync::At(Offset(6)));
        let (all, partition) = store(sequence);
        assert_eq!(all.translate(&partition, Offset(13)), BySync::At(Offset(5)));
        let places: Vec<usize> = all.shown(&partition).iter().map(|slot| slot.0).collect();
        assert_eq!(places, [0, 1, 2, 3]);
    }
}
