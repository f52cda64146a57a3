//! The only place that asks what time it is, and what makes one process differ from another.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::model::{Moment, Timestamp};

/// Tokio's clock, which a test can pause, counted from the process's start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    seed: u64,
}

impl Clock {
    /// A clock whose zero is now.
    #[must_use]
    pub fn start() -> Self {
        Self::seeded(std::process::id().into())
    }

    /// A clock whose zero is now, and from which waits are spread by this seed: a simulation
    /// repeats itself, and two processes do not wait in step.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { start: Instant::now(), seed }
    }

    /// What to spread waits by.
    #[must_use]
    pub fn seed(self) -> u64 {
        self.seed
    }

    /// Now, on the monotonic clock.
    #[must_use]
    pub fn now(self) -> Moment {
        Moment(self.start.elapsed())
    }

    /// Now, as Kafka writes wall time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the place that may ask")]
    pub fn wall(self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }

    /// Waits until `moment`; returns at once if it has passed.
    pub async fn sleep_until(self, moment: Moment) {
        tokio::time::sleep_until(self.start + moment.0).await;
    }
}
