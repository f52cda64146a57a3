//! How long the oldest record that is not copied has been waiting.
//!
//! Told by when this process saw the source's log grow, and not by the times of records, which may
//! be of 1970. So it climbs while nothing arrives, where a latency, which only records that arrive
//! have, says nothing. What was there before the process started counts from then.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::{Moment, Offset};

/// Marks kept of one partition: with half as many after each thinning, an hour's marks of every
/// half second lie two minutes apart at the end.
const MARKS_MAX: usize = 32;

/// When the source's log was first seen to reach which end.
#[derive(Clone, Debug, Default)]
pub(super) struct Age {
    marks: VecDeque<(Offset, Moment)>,
}

impl Age {
    /// Takes notice of the source's end, and of how far it is copied.
    pub(super) fn note(&mut self, end: Offset, acked: Offset, now: Moment) {
        while self.marks.front().is_some_and(|(reached, _)| *reached <= acked) {
            self.marks.pop_front();
        }
        if end <= acked || self.marks.back().is_some_and(|(reached, _)| *reached >= end) {
            return;
        }
        if self.marks.len() == MARKS_MAX {
            // Of two the later end with the earlier time: rather too old than too young.
            let pairs = self.marks.make_contiguous().chunks(2);
            self.marks = pairs.filter_map(|pair| Some((pair.last()?.0, pair.first()?.1))).collect();
        }
        self.marks.push_back((end, now));
    }

    /// How long the oldest record beyond `acked` has been there; zero if there is none.
    pub(super) fn at(&self, acked: Offset, now: Moment) -> Duration {
        let oldest = self.marks.iter().find(|(reached, _)| *reached > acked);
        oldest.map_or(Duration::ZERO, |(_, seen)| now.since(*seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn it_climbs_while_nothing_is_copied_and_falls_with_what_is() {
        let mut age = Age::default();
        assert_eq!(age.at(Offset(0), at(5)), Duration::ZERO);
        age.note(Offset(100), Offset(100), at(10));
        assert_eq!(age.at(Offset(100), at(20)), Duration::ZERO);
        for second in 20..50 {
            age.note(Offset(100 + i64::try_from(second).unwrap()), Offset(100), at(second));
        }
        assert_eq!(age.at(Offset(100), at(50)), Duration::from_secs(30));
        assert_eq!(age.at(Offset(130), at(50)), Duration::from_secs(19));
        age.note(Offset(149), Offset(149), at(51));
        assert_eq!(age.at(Offset(149), at(60)), Duration::ZERO);
    }

    #[test]
    fn few_marks_remember_a_long_time_and_never_tell_too_young_an_age() {
        let mut age = Age::default();
        for second in 0..10_000_u64 {
            age.note(Offset(i64::try_from(second).unwrap() + 1), Offset(0), at(second));
            assert!(age.marks.len() <= MARKS_MAX);
        }
        for copied in [0, 1, 5_000, 9_990] {
            let truth = Duration::from_secs(10_000 - copied);
            let told = age.at(Offset(i64::try_from(copied).unwrap()), at(10_000));
            assert!(told >= truth, "{told:?} {truth:?}");
        }
        assert_eq!(age.at(Offset(10_000), at(20_000)), Duration::ZERO);
    }
}
