//! How much to ask for at once: little on a short way, more on a long one.

use std::time::Duration;

/// A round trip from which on it, and not the work, limits what one partition can move.
///
/// Brokers in one place answer within a millisecond or two; with 10 ms, five batches of 16 KiB in
/// flight are 8 MB/s.
const FAR: Duration = Duration::from_millis(10);

/// Round trips remembered. The least of them is the way itself; the others also waited for data,
/// or for a processor.
const REMEMBERED: usize = 16;

/// The least round trip of late.
///
/// A busy broker makes every answer late, and a way is not long for that: it is only if the first
/// words of the connection, when nothing was under way, took as long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    recent: [Option<Duration>; REMEMBERED],
    next: usize,
}

impl RoundTrips {
    /// Takes notice of an answer that `depth` requests, itself included, were waiting for.
    pub(super) fn note(&mut self, elapsed: Duration, depth: usize) {
        let depth = u32::try_from(depth.max(1)).unwrap_or(u32::MAX);
        self.recent[self.next] = Some(elapsed / depth);
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// Whether even the shortest of them was long. Not by one alone: the first answer of a
    /// connection comes late. If two of a busy broker mislead, the next short one corrects it.
    pub(super) fn are_long(&self, first_words: Duration) -> bool {
        if first_words < FAR {
            return false;
        }
        let known = self.recent.iter().flatten();
        known.clone().count() >= 2 && known.min().is_some_and(|least| *least >= FAR)
    }
}

/// The sizes of one lane's fetches, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizing {
    round_trips: RoundTrips,
    /// As configured: one partition's part where there are many.
    least: (usize, usize),
    /// On a short way.
    base: (usize, usize),
    /// Of one partition in one answer.
    pub(super) partition: usize,
    /// Of one answer.
    pub(super) answer: usize,
}

impl Sizing {
    /// Sizes for a short way.
    pub(super) fn new(partition: usize, answer: usize) -> Self {
        let base = (partition, answer);
        Self { round_trips: RoundTrips::default(), least: base, base, partition, answer }
    }

    /// Shares an answer among `partitions`: where they are few, each brings more at a time, since
    /// every request costs a wake-up here and one at the broker. Says whether sizes changed.
    pub(super) fn share(&mut self, partitions: usize) -> bool {
        let share = self.least.1 / partitions.max(1);
        let before = self.base.0;
        // Half an answer at most: the next one is fetched while this one is sent.
        self.base.0 = share.min(self.least.1 / 2).max(self.least.0);
        if self.partition <= before.max(self.base.0) {
            self.partition = self.base.0;
        }
        self.base.0 != before
    }

    /// Takes notice of an answer: how long it took, its bytes, and those of its largest
    /// partition. Sizes double, up to `most`, as long as the way is long and answers fill them.
    /// Says whether they changed.
    pub(super) fn on_answer(
        &mut self,
        (first_words, elapsed): (Duration, Duration),
        (largest, bytes): (usize, usize),
        most: usize,
    ) -> bool {
        let before = (self.partition, self.answer);
        self.round_trips.note(elapsed, 1);
        if !self.round_trips.are_long(first_words) {
            (self.partition, self.answer) = self.base;
            return before != self.base;
        }
        if largest >= self.partition / 2 {
            self.partition = (self.partition * 2).min(most).max(self.base.0);
        }
        if bytes >= self.answer / 2 {
            self.answer = (self.answer * 2).min(most).max(self.base.1);
        }
        self.answer = self.answer.max(self.partition);
        before != (self.partition, self.answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn on_a_long_way_full_answers_double_the_size_up_to_the_most() {
        let mut sizing = Sizing::new(MIB / 4, 2 * MIB);
        for _ in 0..20 {
            let filled = (sizing.partition, sizing.partition);
            sizing.on_answer((ms(100), ms(100)), filled, 4 * MIB);
        }
        assert_eq!((sizing.partition, sizing.answer), (4 * MIB, 4 * MIB));
    }

    #[test]
    fn answers_that_waited_for_data_or_for_a_processor_do_not_make_the_way_long() {
        let mut sizing = Sizing::new(MIB / 4, 2 * MIB);
        for round in 0..100 {
            let elapsed = if round % 8 == 0 { ms(1) } else { ms(80) };
            sizing.on_answer((ms(80), elapsed), (MIB, 2 * MIB), 4 * MIB);
        }
        assert_eq!((sizing.partition, sizing.answer), (MIB / 4, 2 * MIB));
    }

    #[test]
    fn a_busy_broker_does_not_make_a_short_way_long() {
        let mut sizing = Sizing::new(MIB / 4, 2 * MIB);
        for _ in 0..20 {
            assert!(!sizing.on_answer((ms(1), ms(50)), (4 * MIB, 4 * MIB), 4 * MIB));
        }
    }

    #[test]
    fn on_a_long_way_answers_that_are_not_full_leave_the_size_alone() {
        let mut sizing = Sizing::new(MIB / 4, 2 * MIB);
        for _ in 0..20 {
            assert!(!sizing.on_answer((ms(100), ms(100)), (1000, 1000), 4 * MIB));
        }
    }

    #[test]
    fn few_partitions_share_an_answer_and_many_have_the_least() {
        let mut sizing = Sizing::new(MIB / 4, 2 * MIB);
        for (partitions, share) in [(1, MIB), (2, MIB), (4, MIB / 2), (8, MIB / 4), (900, MIB / 4)]
        {
            sizing.share(partitions);
            assert_eq!(sizing.partition, share, "{partitions} partitions");
        }
        // What has grown for a long way stays.
        for _ in 0..20 {
            let filled = (sizing.partition, sizing.partition);
            sizing.on_answer((ms(100), ms(100)), filled, 4 * MIB);
        }
        assert!(sizing.share(1));
        assert_eq!(sizing.partition, 4 * MIB);
    }

    #[test]
    fn a_way_that_became_short_goes_back_to_small_fetches() {
        let mut sizing = Sizing::new(MIB / 4, 2 * MIB);
        for _ in 0..10 {
            sizing.on_answer((ms(100), ms(100)), (4 * MIB, 4 * MIB), 4 * MIB);
        }
        assert!(sizing.on_answer((ms(100), ms(1)), (0, 0), 4 * MIB));
        assert_eq!((sizing.partition, sizing.answer), (MIB / 4, 2 * MIB));
    }
}
