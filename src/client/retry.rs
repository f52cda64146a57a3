//! How long to wait before trying again.

use std::time::Duration;

/// A small generator for spreading waits; seeded, so that a simulation repeats itself.
///
/// SplitMix64: one multiplication per number is all that jitter needs.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `wait`, shortened by up to a fifth, so that many who failed together do not return
    /// together.
    pub fn spread(&mut self, wait: Duration) -> Duration {
        let part = u32::try_from(self.next() % 1000).unwrap_or(0);
        wait - wait / 5 * part / 1000
    }
}

/// Waits that double from `first` to `most`.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
    failures: u32,
    jitter: Jitter,
}

impl Backoff {
    /// Kafka's own bounds: `reconnect.backoff.ms` 50, `retry.backoff.max.ms` 1000.
    pub const FIRST: Duration = Duration::from_millis(50);
    /// Longest wait. A broker that comes back is found within this time.
    pub const MOST: Duration = Duration::from_secs(1);

    /// Starts with Kafka's bounds.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::between(Self::FIRST, Self::MOST, seed)
    }

    /// Starts with other bounds.
    #[must_use]
    pub fn between(first: Duration, most: Duration, seed: u64) -> Self {
        Self { first, most, next: first, failures: 0, jitter: Jitter::new(seed) }
    }

    /// The next wait; each is twice the one before, up to the longest, less jitter.
    pub fn fail(&mut self) -> Duration {
        let wait = self.next;
        self.next = (self.next * 2).min(self.most);
        self.failures = self.failures.saturating_add(1);
        self.jitter.spread(wait)
    }

    /// How often it failed in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// It worked: the next failure waits the shortest time again.
    pub fn succeed(&mut self) {
        self.next = self.first;
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waits_grow_stay_within_bounds_and_start_over_after_success(seed in any::<u64>()) {
            let mut backoff = Backoff::new(seed);
            let waits: Vec<_> = (0..20).map(|_| backoff.fail()).collect();

            prop_assert!(waits.iter().all(|wait| *wait <= Backoff::MOST));
            prop_assert!(waits.iter().all(|wait| *wait >= Backoff::FIRST * 4 / 5));
            prop_assert!(waits[10] >= Backoff::MOST * 4 / 5);
            prop_assert_eq!(backoff.failures(), 20);
            backoff.succeed();
            prop_assert!(backoff.fail() <= Backoff::FIRST);
        }
    }
}
