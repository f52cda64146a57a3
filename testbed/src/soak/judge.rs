//! The judge of the soak: is every record that the source acknowledged on the target once, in order, or inside a gap
//! that was reported?
//!
//! Values in, findings out; where they come from is [`super::journal`]'s matter. The judge is judged below: it must find
//! each fault that is put into a right view, and none in the right one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

/// Incarnation of the topic, number of the producer, number of the record.
pub(super) type Id = u64;

/// The incarnation that wrote a record.
pub(super) const fn incarnation(id: Id) -> u64 {
    id >> 56
}

/// What producers know of one partition, over all incarnations of its topic.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    /// Acknowledged and committed: by incarnation and offset.
    pub(super) acknowledged: BTreeMap<(u64, i64), Id>,
    /// Nobody knows.
    pub(super) maybe: HashSet<Id>,
    /// Must never be seen.
    pub(super) aborted: HashSet<Id>,
}

/// Upstream offsets that the mirror said it passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) incarnation: u64,
    pub(super) first: i64,
    /// Exclusive; the largest number if the topic went away with all that followed.
    pub(super) end: i64,
}

impl Reported {
    fn holds(&self, incarnation: u64, offset: i64) -> bool {
        self.incarnation == incarnation && (self.first..self.end).contains(&offset)
    }
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Acknowledged by the source, not on the target, in no reported gap.
    Missing,
    /// On the target more than once.
    Repeated,
    /// Before a record that precedes it on the source.
    OutOfOrder,
    /// Of a transaction that was aborted.
    Aborted,
    /// Nobody wrote it.
    Foreign,
}

/// A fault and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) fault: Fault,
    pub(super) partition: String,
    pub(super) id: Id,
    /// Upstream if known, else downstream.
    pub(super) offset: i64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: {} incarnation {} producer {} record {} (offset {})",
            self.fault,
            self.partition,
            incarnation(self.id),
            self.id >> 48 & 0xff,
            self.id & 0xffff_ffff_ffff,
            self.offset
        )
    }
}

/// What was counted on the way; a soak that moved nothing proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) acknowledged: u64,
    pub(super) maybe: u64,
    pub(super) aborted: u64,
    pub(super) on_target: u64,
    /// Acknowledged, not on the target, and in a reported gap.
    pub(super) in_gaps: u64,
    /// In a reported gap, though on the target: said to be lost, and is not.
    pub(super) overstated: u64,
}

/// Judges one partition. `target` are the ids on the target in its order.
pub(super) fn judge(
    partition: &str,
    written: &Written,
    target: &[Id],
    reported: &[Reported],
    counts: &mut Counts,
) -> Vec<Finding> {
    let offsets: HashMap<Id, (u64, i64)> =
        written.acknowledged.iter().map(|(place, id)| (*id, *place)).collect();
    let mut findings = Vec::new();
    let mut find = |fault, id, offset| {
        findings.push(Finding { fault, partition: partition.to_owned(), id, offset });
    };

    let mut seen = BTreeSet::new();
    let mut last = None;
    for (id, downstream) in target.iter().zip(0..) {
        let place = offsets.get(id).copied();
        let offset = place.map_or(downstream, |(_, offset)| offset);
        if written.aborted.contains(id) {
            find(Fault::Aborted, *id, offset);
        } else if place.is_none() && !written.maybe.contains(id) {
            find(Fault::Foreign, *id, offset);
        }
        if !seen.insert(*id) {
            find(Fault::Repeated, *id, offset);
            continue;
        }
        if let Some(place) = place {
            if last.is_some_and(|last| place < last) {
                find(Fault::OutOfOrder, *id, offset);
            }
            last = last.max(Some(place));
        }
    }

    for ((incarnation, offset), id) in &written.acknowledged {
        let gap = reported.iter().find(|gap| gap.holds(*incarnation, *offset));
        match (seen.contains(id), gap) {
            // Where a topic went away, the mirror names the last position it had written down: it may have been ahead.
            (true, Some(gap)) if gap.end == i64::MAX => {}
            (true, Some(_)) => counts.overstated += 1,
            (false, None) => find(Fault::Missing, *id, *offset),
            (false, Some(_)) => counts.in_gaps += 1,
            (true, None) => {}
        }
    }
    counts.acknowledged += as_count(written.acknowledged.len());
    counts.maybe += as_count(written.maybe.len());
    counts.aborted += as_count(written.aborted.len());
    counts.on_target += as_count(target.len());
    findings
}

fn as_count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(incarnation: u64, n: u64) -> Id {
        incarnation << 56 | 1 << 48 | n
    }

    /// Two incarnations; offsets 3 of the first one is a marker, 5 to 7 were deleted ahead of the mirror, and the
    /// second one begins anew.
    fn written() -> Written {
        let mut written = Written::default();
        for (offset, n) in [(0, 0), (1, 1), (2, 2), (4, 3), (5, 4), (6, 5), (7, 6), (8, 7)] {
            written.acknowledged.insert((1, offset), id(1, n));
        }
        for n in 0..3 {
            written.acknowledged.insert((2, i64::try_from(n).unwrap()), id(2, n));
        }
        written.maybe.insert(id(1, 90));
        written.aborted.insert(id(1, 91));
        written
    }

    fn target() -> Vec<Id> {
        let mut all: Vec<Id> = [0, 1, 2, 3, 90, 7].map(|n| id(1, n)).to_vec();
        all.extend([0, 1, 2].map(|n| id(2, n)));
        all
    }

    const GAP: Reported = Reported { incarnation: 1, first: 5, end: 8 };

    fn faults(target: &[Id], reported: &[Reported]) -> Vec<(Fault, i64)> {
        let found = judge("t-0", &written(), target, reported, &mut Counts::default());
        found.into_iter().map(|finding| (finding.fault, finding.offset)).collect()
    }

    #[test]
    fn a_right_view_is_right_and_counted() {
        let mut counts = Counts::default();
        assert_eq!(judge("t-0", &written(), &target(), &[GAP], &mut counts), []);
        let right = Counts {
            acknowledged: 11,
            maybe: 1,
            aborted: 1,
            on_target: 9,
            in_gaps: 3,
            overstated: 0,
        };
        assert_eq!(counts, right);
    }

    #[test]
    fn a_record_that_was_taken_away_is_missing() {
        let mut target = target();
        target.remove(2);
        assert_eq!(faults(&target, &[GAP]), [(Fault::Missing, 2)]);
    }

    #[test]
    fn a_record_of_a_doubtful_producer_may_be_away() {
        let mut target = target();
        target.remove(4);
        assert_eq!(faults(&target, &[GAP]), []);
    }

    #[test]
    fn a_record_that_is_there_twice_is_repeated_at_once_and_later() {
        for at in [3, 9] {
            let mut target = target();
            target.insert(at, id(1, 2));
            assert_eq!(faults(&target, &[GAP]), [(Fault::Repeated, 2)]);
        }
    }

    #[test]
    fn records_that_changed_places_are_out_of_order_and_so_are_incarnations() {
        let mut target = target();
        target.swap(0, 1);
        assert_eq!(faults(&target, &[GAP]), [(Fault::OutOfOrder, 0)]);
        let mut target = self::target();
        target.rotate_left(6);
        assert_eq!(faults(&target, &[GAP]).len(), 5);
    }

    #[test]
    fn a_gap_that_nobody_reported_is_missing_record_by_record() {
        let missing = [5, 6, 7].map(|offset| (Fault::Missing, offset));
        assert_eq!(faults(&target(), &[]), missing);
        assert_eq!(faults(&target(), &[Reported { end: 7, ..GAP }]), missing[2..]);
        // Of another incarnation it is another gap.
        let other = Reported { incarnation: 2, ..GAP };
        assert_eq!(faults(&target(), &[other]), missing);
    }

    #[test]
    fn what_is_reported_and_there_all_the_same_is_counted() {
        let wide = Reported { first: 4, ..GAP };
        let mut counts = Counts::default();
        assert_eq!(judge("t-0", &written(), &target(), &[wide], &mut counts), []);
        assert_eq!((counts.in_gaps, counts.overstated), (3, 1));
    }

    #[test]
    fn aborted_and_foreign_records_are_found() {
        for (n, fault) in [(91, Fault::Aborted), (55, Fault::Foreign)] {
            let mut target = target();
            target.insert(1, id(1, n));
            assert_eq!(faults(&target, &[GAP]), [(fault, 1)]);
        }
    }

    #[test]
    fn what_went_away_with_its_topic_is_excused_by_the_report_only() {
        let mut target = target();
        target.remove(5); // the last one of the first incarnation
        assert_eq!(faults(&target, &[GAP]), [(Fault::Missing, 8)]);
        let tail = Reported { incarnation: 1, first: 8, end: i64::MAX };
        assert_eq!(faults(&target, &[GAP, tail]), []);
    }
}
