//! Buffers that unpacking and packing use again.
//!
//! A batch is unpacked and written anew within one call, and the next one needs the same room.
//! Asking the allocator each time costs a page fault per 4 KiB and leaves it with memory in every
//! size there is: three times the peak, for a topic of 64 KiB batches.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Buffers that a thread keeps: the unpacked records, those written anew, and those packed.
const KEPT_MAX: usize = 3;

/// Bytes of the largest buffer that is kept. Producers seal a batch at 16 KiB (`batch.size`) and
/// seldom go beyond one MiB (`max.request.size`); what is larger goes back at once.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer of this thread's, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// Empty and without room: for bytes that stay.
    pub(super) const fn fresh() -> Self {
        Self(Vec::new())
    }

    /// The bytes, to keep.
    pub(super) fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    /// Empty; its room is that of an earlier one, if there was one.
    pub(super) fn take() -> Self {
        Self(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        if (1..=KEPT_BYTES_MAX).contains(&bytes.capacity()) {
            bytes.clear();
            // A thread that is ending has nowhere to keep it.
            let _ended = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.len() < KEPT_MAX {
                    spare.push(bytes);
                }
            });
        }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        SPARE.with_borrow(|spare| spare.iter().map(Vec::capacity).sum())
    }

    #[test]
    fn a_buffer_comes_back_empty_with_its_room() {
        let mut first = Buffer::take();
        first.extend_from_slice(&[7; 5000]);
        let place = first.as_ptr();
        drop(first);
        let again = Buffer::take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn a_thread_keeps_few_buffers_and_no_large_one() {
        let mut many: Vec<Buffer> = (0..10).map(|_| Buffer::take()).collect();
        many.iter_mut().for_each(|buffer| buffer.reserve_exact(1000));
        many[0].reserve_exact(KEPT_BYTES_MAX + 1);
        drop(many);
        assert_eq!(kept(), KEPT_MAX * 1000);
    }
}
