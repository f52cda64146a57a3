//! Bytes of response frames alive, and their buffers.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Frames smaller than this have buffers of their own size: answers of partitions where little
/// happens, which may wait for long.
const SHARED_FROM: usize = 64 * 1024;

/// Frames larger than a shared buffer are given a multiple of this.
const BUFFER_STEP: usize = 512 * 1024;

/// A bound on the bytes of response frames that are alive at one time.
///
/// Never above the limit by more than one frame: a frame larger than the whole budget is
/// admitted when nothing else is alive. Only fetch lanes draw on it, and releasing depends on
/// produce lanes, which do not; so nobody waits in a circle.
#[derive(Clone, Debug)]
pub struct FrameBudget {
    permits: Arc<Semaphore>,
    /// Bytes that may be alive now, and what that may grow to.
    total: Arc<AtomicU32>,
    most: u32,
    /// What a shared buffer takes: an eighth of the budget, and room for what a broker gives beyond
    /// the bytes it was asked for.
    ///
    /// One size for all, so that a buffer given back always serves again: a fresh one costs a page
    /// fault and a cleared page every 4 KiB, which was half of all work where sizes varied.
    shared_bytes: usize,
    pool: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Bytes that all holders have outside of frames.
    outside: Arc<AtomicUsize>,
}

/// The bytes that one holder has outside of frames: batches that were written anew.
///
/// They may be half of the budget beside the frames, whoever holds them. A holder without any may
/// always fetch, whatever the others have, so that one whose target is away stops no other.
#[derive(Debug)]
pub struct Outside {
    budget: FrameBudget,
    bytes: usize,
}

/// The right to hold one frame, and a buffer of its size.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) buffer: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
    pool: Option<Arc<Mutex<Vec<Vec<u8>>>>>,
}

impl FrameBudget {
    /// A budget of `bytes`, at least 1 MiB: below that a single fetch would not fit.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self::growing(bytes, bytes)
    }

    /// A budget of `bytes` that may be widened to `most`.
    #[must_use]
    pub fn growing(bytes: usize, most: usize) -> Self {
        let total = u32::try_from(bytes.max(1024 * 1024)).unwrap_or(u32::MAX);
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(total);
        let permits = Arc::new(Semaphore::new(total as usize));
        let shared_bytes = total as usize / 8 + 256 * 1024;
        let total = Arc::new(AtomicU32::new(total));
        let (pool, outside) = (Arc::default(), Arc::default());
        Self { permits, total, most, shared_bytes, pool, outside }
    }

    /// A count of what one holder has outside of frames; nothing at first.
    #[must_use]
    pub fn outside(&self) -> Outside {
        Outside { budget: self.clone(), bytes: 0 }
    }

    /// Widens the budget to `bytes`, as far as it may grow; it never narrows.
    pub fn widen(&self, bytes: usize) {
        let wanted = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most);
        let before = self.total.fetch_max(wanted, Ordering::Relaxed);
        if wanted > before {
            self.permits.add_permits((wanted - before) as usize);
        }
    }

    /// What the budget may grow to, bytes.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        self.most as usize
    }

    /// The limit for now, bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.total.load(Ordering::Relaxed) as usize
    }

    /// Bytes of frames alive.
    #[must_use]
    pub fn in_use_bytes(&self) -> usize {
        self.total_bytes() - self.permits.available_permits()
    }

    /// Waits until a frame of `bytes` may be read. Cancel-safe: nothing is held until it
    /// returns.
    pub(super) async fn admit(&self, bytes: usize) -> Admission {
        // What the buffer takes counts, not what is in it.
        let room = match bytes {
            ..SHARED_FROM => bytes,
            _ if bytes <= self.shared_bytes => self.shared_bytes,
            _ => bytes.next_multiple_of(BUFFER_STEP),
        };
        let total = self.total.load(Ordering::Relaxed);
        let wanted = u32::try_from(room).unwrap_or(u32::MAX).min(total);
        // The semaphore is never closed, so the permit always comes.
        let permit = Arc::clone(&self.permits).acquire_many_owned(wanted).await.ok();
        // The last one given back is the likeliest to be in the processor's cache still.
        let pooled = if room == self.shared_bytes { self.pooled().pop() } else { None };
        let buffer = pooled.unwrap_or_else(|| Vec::with_capacity(room));
        Admission {
            buffer,
            permit,
            pool: (room == self.shared_bytes).then(|| Arc::clone(&self.pool)),
        }
    }

    /// Shared buffers that nobody uses. No more of them than the budget holds were ever made.
    fn pooled(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outside {
    /// Counts that a part of it has `after` bytes now instead of `before`.
    pub fn replace(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
        // The new ones first, or the sum of all would be below zero for a moment.
        self.budget.outside.fetch_add(after, Ordering::Relaxed);
        self.budget.outside.fetch_sub(before, Ordering::Relaxed);
    }

    /// Whether so much lies outside of frames that this holder shall wait for its own to go.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        let all = self.budget.outside.load(Ordering::Relaxed);
        self.bytes > 0 && all > self.budget.total_bytes() / 2
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.budget.outside.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Admission {
    /// A buffer outside any budget, for small answers.
    pub(super) fn free(bytes: usize) -> Self {
        Self { buffer: Vec::with_capacity(bytes), permit: None, pool: None }
    }

    /// Turns the filled buffer into shared bytes; the last slice that drops gives the permit
    /// and the buffer back.
    pub(super) fn seal(self) -> Bytes {
        if self.permit.is_none() {
            return Bytes::from(self.buffer);
        }
        Bytes::from_owner(Frame { buffer: self.buffer, _permit: self.permit, pool: self.pool })
    }
}

struct Frame {
    buffer: Vec<u8>,
    _permit: Option<OwnedSemaphorePermit>,
    pool: Option<Arc<Mutex<Vec<Vec<u8>>>>>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        pool.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn a_frame_waits_until_the_last_slice_of_another_is_gone() {
        let budget = FrameBudget::new(MIB);
        let mut admission = budget.admit(600_000).await;
        admission.buffer.extend_from_slice(&[7; 1000]);
        let frame = admission.seal();
        let slice = frame.slice(10..20);
        drop(frame);

        let waiting = timeout(Duration::from_secs(1), budget.admit(600_000)).await;
        assert!(waiting.is_err(), "the slice still holds the frame");
        drop(slice);
        budget.admit(600_000).await;
        assert_eq!(budget.in_use_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_buffer_given_back_serves_again_whatever_the_size() {
        let budget = FrameBudget::new(16 * MIB);
        for bytes in [MIB, 2 * MIB, 100_000] {
            let mut admission = budget.admit(bytes).await;
            assert_eq!(admission.buffer.capacity(), budget.shared_bytes);
            admission.buffer.push(7);
            drop(admission.seal());
            assert_eq!(budget.pooled().len(), 1);
        }
        // Small and giant ones have their own, and give them back to the system.
        for bytes in [100, 5 * MIB] {
            drop(budget.admit(bytes).await.seal());
            assert_eq!(budget.pooled().len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_is_widened_up_to_what_it_may_grow_to() {
        let budget = FrameBudget::growing(MIB, 3 * MIB);
        let first = budget.admit(MIB).await;
        budget.widen(2 * MIB);
        let second = budget.admit(MIB).await;
        budget.widen(100 * MIB);
        assert_eq!((budget.total_bytes(), budget.in_use_bytes()), (3 * MIB, 2 * MIB));
        drop((first, second));
        assert_eq!(budget.in_use_bytes(), 0);
    }

    #[test]
    fn what_lies_outside_of_frames_counts_together_and_stops_nobody_who_has_none() {
        let budget = FrameBudget::new(16 * MIB);
        let (mut first, mut second) = (budget.outside(), budget.outside());
        first.replace(0, 6 * MIB);
        assert!(!first.is_heavy());
        second.replace(0, 3 * MIB);
        assert!(first.is_heavy() && second.is_heavy());
        second.replace(3 * MIB, 0);
        first.replace(6 * MIB, 9 * MIB);
        assert!(first.is_heavy() && !second.is_heavy());
        // A holder that ends takes its bytes with it.
        drop(first);
        second.replace(0, 8 * MIB);
        assert!(!second.is_heavy());
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_larger_than_the_budget_passes_alone() {
        let budget = FrameBudget::new(MIB);
        let giant = budget.admit(5 * MIB).await;
        assert!(timeout(Duration::from_secs(1), budget.admit(1)).await.is_err());
        drop(giant);
        budget.admit(1).await;
    }
}
