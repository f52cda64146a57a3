//! Walking the batches of a record set without opening them.

use bytes::Bytes;

use super::header::{HEADER_BYTES, HeaderError, LENGTH_OVERHEAD, RawBatch, at};
use crate::model::Offset;

/// Smallest size of a message of format 0, behind offset and length: checksum, magic,
/// attributes and two lengths (`LegacyRecord.RECORD_OVERHEAD_V0`).
const LEGACY_BYTES_MIN: usize = 14;

/// One thing found in a record set.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A version 2 batch.
    Batch(RawBatch),
    /// A message of format 0 or 1, plain or a compressed wrapper; `offset` is its own (for a
    /// wrapper: that of its last inner message).
    Legacy {
        /// Format version, 0 or 1.
        magic: i8,
        /// The message's offset field.
        offset: Offset,
        /// The whole message, offset and length included.
        bytes: Bytes,
    },
}

/// Why the walk cannot go on. `at` counts bytes from the start of the record set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShallowError {
    /// A length that no entry can have.
    #[error("entry at byte {at} says it is {length} bytes long")]
    Length {
        /// Where the entry starts.
        at: usize,
        /// Its length field.
        length: i32,
    },
    /// A format version that no Kafka release has written.
    #[error("entry at byte {at} has format {magic}")]
    Magic {
        /// Where the entry starts.
        at: usize,
        /// Its format version.
        magic: i8,
    },
    /// A version 2 batch with impossible fields.
    #[error("batch at byte {at}: {cause}")]
    Header {
        /// Where the batch starts.
        at: usize,
        /// What is impossible.
        cause: HeaderError,
    },
}

/// An iterator over the whole entries of a record set as a Fetch response carries it.
///
/// A broker cuts the set at a byte limit, so the last entry may be incomplete; the walk then
/// ends before it, and [`Shallow::cut_off`] says how large that entry wants to be. After an
/// error the walk ends.
#[derive(Clone, Debug)]
pub struct Shallow {
    rest: Bytes,
    at: usize,
    done: bool,
}

impl Shallow {
    /// Walks `records`.
    #[must_use]
    pub fn new(records: Bytes) -> Self {
        Self { rest: records, at: 0, done: false }
    }

    /// Once the walk is over: bytes of the incomplete entry at the end, as far as its own
    /// length field arrived.
    #[must_use]
    pub fn cut_off(&self) -> Option<usize> {
        let field = self.rest.get(at::LENGTH..LENGTH_OVERHEAD)?.try_into().ok()?;
        let length = usize::try_from(i32::from_be_bytes(field)).ok()?;
        let total = LENGTH_OVERHEAD + length;
        // A length that has arrived already is none: its entry was too short to have a format.
        (total > self.rest.len()).then_some(total)
    }

    fn fail(&mut self, error: ShallowError) -> Option<Result<Entry, ShallowError>> {
        self.done = true;
        Some(Err(error))
    }
}

impl Iterator for Shallow {
    type Item = Result<Entry, ShallowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // 17 bytes reach the magic in every format; less is a cut-off tail.
        if self.done || self.rest.len() <= at::MAGIC {
            return None;
        }
        let start = self.at;
        let field = self.rest[at::LENGTH..LENGTH_OVERHEAD].try_into().expect("four bytes");
        let length = i32::from_be_bytes(field);
        let magic = i8::from_be_bytes([self.rest[at::MAGIC]]);
        let smallest = match magic {
            0 | 1 => LEGACY_BYTES_MIN,
            2 => HEADER_BYTES - LENGTH_OVERHEAD,
            _ => return self.fail(ShallowError::Magic { at: start, magic }),
        };
        let Some(total) =
            usize::try_from(length).ok().filter(|n| *n >= smallest).map(|n| n + LENGTH_OVERHEAD)
        else {
            return self.fail(ShallowError::Length { at: start, length });
        };
        if total > self.rest.len() {
            self.done = true;
            return None;
        }
        let bytes = self.rest.split_to(total);
        self.at += total;
        if magic < 2 {
            let offset = i64::from_be_bytes(*bytes.first_chunk().expect("eight bytes"));
            return Some(Ok(Entry::Legacy { magic, offset: Offset(offset), bytes }));
        }
        match RawBatch::new(bytes) {
            Ok(batch) => Some(Ok(Entry::Batch(batch))),
            Err(cause) => self.fail(ShallowError::Header { at: start, cause }),
        }
    }
}
