//! A limit on the bytes of a flow: a token bucket that all of its shards draw on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::model::Moment;

/// How much may go out at once after a pause: more would be a burst that the limit should prevent.
const BURST: Duration = Duration::from_millis(100);

const MILLION: i128 = 1_000_000;

/// Bytes per second, shared by the shards of a flow.
///
/// Sending is allowed while the bucket is not in debt, and takes what was sent: one request may
/// overdraw it, and the next waits until that is paid. So a batch of any size passes.
#[derive(Clone, Debug)]
pub(super) struct RateLimit(Option<Arc<Mutex<Bucket>>>);

#[derive(Debug)]
struct Bucket {
    bytes_per_second: u64,
    /// Bytes that may go out, in millionths, so that short looks add up; negative is debt.
    level: i128,
    filled: Moment,
}

impl RateLimit {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        let bucket = |bytes_per_second| Bucket {
            bytes_per_second,
            level: 0,
            filled: Moment(Duration::ZERO),
        };
        Self(bytes_per_second.map(|limit| Arc::new(Mutex::new(bucket(limit)))))
    }

    /// When something may be sent: `None` for now.
    pub(super) fn wait_until(&self, now: Moment) -> Option<Moment> {
        let bucket = self.0.as_ref()?;
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.fill(now);
        if bucket.level >= 0 {
            return None;
        }
        let us = bucket.level.unsigned_abs().div_ceil(u128::from(bucket.bytes_per_second));
        let us = u64::try_from(us).unwrap_or(u64::MAX);
        // Timers count milliseconds.
        Some(now.after(Duration::from_micros(us).max(Duration::from_millis(1))))
    }

    /// Takes notice of bytes that were sent.
    pub(super) fn take(&self, bytes: usize) {
        if let Some(bucket) = &self.0 {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.level -= i128::try_from(bytes).unwrap_or(i128::MAX).saturating_mul(MILLION);
        }
    }
}

impl Bucket {
    fn fill(&mut self, now: Moment) {
        let per = |time: Duration| {
            let us = i128::try_from(time.as_micros()).unwrap_or(i128::MAX);
            us.saturating_mul(i128::from(self.bytes_per_second))
        };
        let most = per(BURST);
        self.level = self.level.saturating_add(per(now.since(self.filled))).min(most);
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    #[test]
    fn over_a_second_no_more_goes_out_than_the_limit_and_one_request() {
        let limit = RateLimit::new(Some(1_000_000));
        let (mut now, mut sent) = (at(5_000), 0_u64);
        let end = at(15_000);
        while now < end {
            match limit.wait_until(now) {
                Some(until) => {
                    assert!(until > now);
                    now = until;
                }
                None => {
                    limit.take(300_000);
                    sent += 300_000;
                }
            }
        }
        assert!((9_700_000..=10_500_000).contains(&sent), "{sent} bytes in ten seconds");
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let limit = RateLimit::new(None);
        limit.take(1 << 40);
        assert_eq!(limit.wait_until(at(0)), None);
    }
}
