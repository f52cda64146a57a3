//! Bytes of response frames alive, and their buffers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of buffers kept for the next frames.
///
/// A few hot buffers stay in the processor's cache; more would only hold memory, which the budget
/// does not count.
const POOLED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Buffers come in multiples of this, so that frames of about one size share them. A fresh buffer
/// costs a page fault and a cleared page every 4 KiB: a tenth of all work, when measured.
const BUFFER_STEP: usize = 512 * 1024;

/// Frames smaller than this have buffers of their own size: answers of partitions where little
/// happens, which may wait for long.
const POOLED_FROM: usize = 64 * 1024;

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
    pool: Arc<Mutex<Vec<Vec<u8>>>>,
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
        Self { permits, total: Arc::new(AtomicU32::new(total)), most, pool: Arc::default() }
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
        let room = buffer_bytes(bytes);
        let total = self.total.load(Ordering::Relaxed);
        let wanted = u32::try_from(room).unwrap_or(u32::MAX).min(total);
        // The semaphore is never closed, so the permit always comes.
        let permit = Arc::clone(&self.permits).acquire_many_owned(wanted).await.ok();
        let buffer = self.buffer(room);
        Admission { buffer, permit, pool: Some(Arc::clone(&self.pool)) }
    }

    /// A buffer of `room` bytes: the last one given back that has as many, as it is the likeliest to
    /// be in the processor's cache still, or else a new one in place of one of another size.
    fn buffer(&self, room: usize) -> Vec<u8> {
        if room < POOLED_FROM {
            return Vec::with_capacity(room);
        }
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = pool.iter().rposition(|buffer| buffer.capacity() == room) {
            return pool.remove(i);
        }
        if !pool.is_empty() {
            pool.remove(0);
        }
        drop(pool);
        Vec::with_capacity(room)
    }
}

/// How much room a frame of `bytes` is given.
fn buffer_bytes(bytes: usize) -> usize {
    if bytes < POOLED_FROM { bytes } else { bytes.next_multiple_of(BUFFER_STEP) }
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
        if self.buffer.capacity() < POOLED_FROM {
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        let pooled: usize = pool.iter().map(Vec::capacity).sum();
        if pooled + buffer.capacity() <= POOLED_BYTES_MAX {
            pool.push(buffer);
        }
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

    #[tokio::test(start_paused = true)]
    async fn a_frame_larger_than_the_budget_passes_alone() {
        let budget = FrameBudget::new(MIB);
        let giant = budget.admit(5 * MIB).await;
        assert!(timeout(Duration::from_secs(1), budget.admit(1)).await.is_err());
        drop(giant);
        budget.admit(1).await;
    }
}
