//! The 61-byte header of a version 2 batch, checked and by value.

use std::fmt;

use bytes::Bytes;

use crate::model::{LeaderEpoch, Offset, Sequence, Timestamp};

/// Bytes before the records of a version 2 batch.
pub const HEADER_BYTES: usize = 61;

/// Bytes before the length field's own count begins: base offset and length.
pub(super) const LENGTH_OVERHEAD: usize = 12;

/// Where the fields lie; the checksum covers everything from `ATTRIBUTES` on.
pub(super) mod at {
    pub(in crate::batch) const LENGTH: usize = 8;
    pub(in crate::batch) const LEADER_EPOCH: usize = 12;
    pub(in crate::batch) const MAGIC: usize = 16;
    pub(in crate::batch) const CRC: usize = 17;
    pub(in crate::batch) const ATTRIBUTES: usize = 21;
    pub(in crate::batch) const LAST_OFFSET_DELTA: usize = 23;
    pub(in crate::batch) const BASE_TIMESTAMP: usize = 27;
    pub(in crate::batch) const MAX_TIMESTAMP: usize = 35;
    pub(in crate::batch) const PRODUCER_ID: usize = 43;
    pub(in crate::batch) const PRODUCER_EPOCH: usize = 51;
    pub(in crate::batch) const BASE_SEQUENCE: usize = 53;
    pub(in crate::batch) const COUNT: usize = 57;
}

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// snappy, in Java's framing or as one raw block.
    Snappy,
    /// lz4 frames.
    Lz4,
    /// zstd (KIP-110).
    Zstd,
}

impl Codec {
    /// The codec with this number in a batch's attributes; `None` for numbers without meaning.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return None,
        })
    }

    /// The number in a batch's attributes.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }
}

/// The attribute bits of a batch (KIP-98, KIP-534).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attributes(pub u16);

impl Attributes {
    pub(super) const CODEC: u16 = 0b0000_0111;
    pub(super) const LOG_APPEND_TIME: u16 = 0b0000_1000;
    pub(super) const TRANSACTIONAL: u16 = 0b0001_0000;
    pub(super) const CONTROL: u16 = 0b0010_0000;
    pub(super) const DELETE_HORIZON: u16 = 0b0100_0000;
    /// Bits that have a meaning today; a batch with others is not understood.
    pub(super) const KNOWN: u16 = Self::CODEC
        | Self::LOG_APPEND_TIME
        | Self::TRANSACTIONAL
        | Self::CONTROL
        | Self::DELETE_HORIZON;

    /// How the records are compressed; `None` for a number without meaning.
    #[must_use]
    pub fn codec(self) -> Option<Codec> {
        Codec::from_id((self.0 & Self::CODEC) as u8)
    }

    /// Whether every record's time is the batch's maximum timestamp.
    #[must_use]
    pub fn is_log_append_time(self) -> bool {
        self.0 & Self::LOG_APPEND_TIME != 0
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the batch holds a marker instead of data.
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Bits set that no Kafka release gives a meaning.
    #[must_use]
    pub fn unknown_bits(self) -> u16 {
        self.0 & !Self::KNOWN
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#011b}", self.0)
    }
}

/// A version 2 batch's header fields.
///
/// Must hold: `0 <= count <= last_offset_delta + 1`, `base_offset >= 0`, and the last offset
/// fits `i64`. A header that breaks one of these cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Upstream offset of the first record the batch ever held.
    pub base_offset: Offset,
    /// Bytes after the length field.
    pub length: i32,
    /// Epoch of the leader that appended the batch.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C over attributes and everything after them, as stored; not verified.
    pub crc: u32,
    /// The flag bits.
    pub attributes: Attributes,
    /// Last offset the batch ever held, counted from `base_offset`.
    pub last_offset_delta: i32,
    /// What record timestamps are relative to (or a delete horizon).
    pub base_timestamp: Timestamp,
    /// Largest record timestamp, or the append time.
    pub max_timestamp: Timestamp,
    /// Producer id, -1 without one.
    pub producer_id: i64,
    /// Producer epoch, -1 without one.
    pub producer_epoch: i16,
    /// Sequence of the first record, `None` without one.
    pub base_sequence: Option<Sequence>,
    /// Records inside now.
    pub count: i32,
}

/// Why 61 bytes are no batch header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Another format version.
    #[error("batch format {0}, not 2")]
    Magic(i8),
    /// The length field is below what a header needs.
    #[error("batch length {0} is below the header's own {min}", min = HEADER_BYTES - LENGTH_OVERHEAD)]
    Length(i32),
    /// Offsets out of range.
    #[error("batch offsets {base}+{delta} are no log offsets")]
    Offsets {
        /// The base offset field.
        base: i64,
        /// The last offset delta field.
        delta: i32,
    },
    /// More records than offsets, or fewer than none.
    #[error("{count} records do not fit {offsets} offsets")]
    Count {
        /// The record count field.
        count: i32,
        /// `last_offset_delta + 1`.
        offsets: i64,
    },
}

fn array<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl BatchHeader {
    /// Reads a header.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] when a field breaks what the type promises.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        let magic = i8::from_be_bytes(array(bytes, at::MAGIC));
        if magic != 2 {
            return Err(HeaderError::Magic(magic));
        }
        let length = i32::from_be_bytes(array(bytes, at::LENGTH));
        if usize::try_from(length).is_ok_and(|n| n < HEADER_BYTES - LENGTH_OVERHEAD) || length < 0 {
            return Err(HeaderError::Length(length));
        }
        let base = i64::from_be_bytes(array(bytes, 0));
        let delta = i32::from_be_bytes(array(bytes, at::LAST_OFFSET_DELTA));
        let in_range = base >= 0 && delta >= 0 && base.checked_add(i64::from(delta) + 1).is_some();
        if !in_range {
            return Err(HeaderError::Offsets { base, delta });
        }
        let count = i32::from_be_bytes(array(bytes, at::COUNT));
        let offsets = i64::from(delta) + 1;
        if count < 0 || i64::from(count) > offsets {
            return Err(HeaderError::Count { count, offsets });
        }
        Ok(Self {
            base_offset: Offset(base),
            length,
            leader_epoch: LeaderEpoch(i32::from_be_bytes(array(bytes, at::LEADER_EPOCH))),
            crc: u32::from_be_bytes(array(bytes, at::CRC)),
            attributes: Attributes(u16::from_be_bytes(array(bytes, at::ATTRIBUTES))),
            last_offset_delta: delta,
            base_timestamp: Timestamp(i64::from_be_bytes(array(bytes, at::BASE_TIMESTAMP))),
            max_timestamp: Timestamp(i64::from_be_bytes(array(bytes, at::MAX_TIMESTAMP))),
            producer_id: i64::from_be_bytes(array(bytes, at::PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(array(bytes, at::PRODUCER_EPOCH)),
            base_sequence: Sequence::from_wire(i32::from_be_bytes(array(bytes, at::BASE_SEQUENCE))),
            count,
        })
    }

    /// Upstream offset after the last one the batch ever held: where fetching goes on.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.base_offset.advance(i64::from(self.last_offset_delta) + 1)
    }

    /// Bytes of the whole batch, header included.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        LENGTH_OVERHEAD + usize::try_from(self.length).unwrap_or(0)
    }
}

/// One whole version 2 batch as it was fetched.
///
/// `bytes` is a slice of the response frame; keeping it keeps the frame.
#[derive(Clone, Debug)]
pub struct RawBatch {
    header: BatchHeader,
    bytes: Bytes,
}

impl RawBatch {
    /// Takes exactly one batch.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] if the bytes are not one whole version 2 batch.
    pub fn new(bytes: Bytes) -> Result<Self, HeaderError> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(HeaderError::Length(i32::try_from(bytes.len()).unwrap_or(0)));
        };
        let header = BatchHeader::parse(head)?;
        if header.total_bytes() != bytes.len() {
            return Err(HeaderError::Length(header.length));
        }
        Ok(Self { header, bytes })
    }

    /// The header's fields.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The header as it was received.
    #[must_use]
    pub fn header_bytes(&self) -> &[u8; HEADER_BYTES] {
        self.bytes.first_chunk().expect("`new` saw a whole header")
    }

    /// The records as they were received, compressed or not.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.bytes.slice(HEADER_BYTES..)
    }

    /// The whole batch as it was received.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}
