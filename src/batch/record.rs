//! Records inside a version 2 batch: a view, and a builder. The raw path uses neither.

use std::ops::Deref;

use bytes::Bytes;

use super::codec::{CodecError, UNPACKED_BYTES_MAX, pack, unpack};
use super::header::{Attributes, HEADER_BYTES, LENGTH_OVERHEAD, RawBatch, at};
use super::restamp::OutBatch;
use super::spare::Buffer;
use super::{Codec, HeaderError};
use crate::model::{Offset, Timestamp};

/// Why the records of a batch cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The stored checksum is not that of the bytes.
    #[error("the batch's checksum is wrong")]
    Checksum,
    /// The codec's number has no meaning.
    #[error("the batch's codec is unknown")]
    UnknownCodec,
    /// The records cannot be unpacked.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// There is no record where one is needed.
    #[error("there is no record in it")]
    Empty,
    /// A record's framing makes no sense; counted from 0.
    #[error("record {0} of the batch is damaged")]
    Framing(i32),
    /// Its offsets, which come from outside, make no batch.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Bytes are left behind the last record.
    #[error("{0} bytes follow the last record")]
    Trailing(usize),
}

/// One record, as it lies in the unpacked batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// The record's offset.
    pub offset: Offset,
    /// What a reader sees as its time.
    pub timestamp: Timestamp,
    /// The key; null and empty differ.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Header count and headers, as written.
    pub headers: &'a [u8],
    /// Key, value and headers with their lengths: what stays when the record moves.
    pub payload: &'a [u8],
}

/// One zig-zag number of at most ten bytes.
pub(super) fn read_varint(rest: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
        }
    }
    None
}

fn write_varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while zigzag > 0x7f {
        out.push((zigzag & 0x7f) as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push((zigzag & 0x7f) as u8);
}

fn read_nullable<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = read_varint(rest)?;
    if length == -1 {
        return Some(None);
    }
    let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(Some(bytes))
}

fn read_record<'a>(rest: &mut &'a [u8], batch: &RawBatch) -> Option<RecordView<'a>> {
    let header = batch.header();
    let length = usize::try_from(read_varint(rest)?).ok()?;
    let (mut record, after) = rest.split_at_checked(length)?;
    *rest = after;
    record = record.split_first()?.1; // attributes: unused in every version
    let timestamp_delta = read_varint(&mut record)?;
    let offset_delta = read_varint(&mut record)?;
    if !(0..=i64::from(header.last_offset_delta)).contains(&offset_delta) {
        return None;
    }
    let payload = record;
    let key = read_nullable(&mut record)?;
    let value = read_nullable(&mut record)?;
    let headers = record;
    let count = read_varint(&mut record)?;
    for _ in 0..usize::try_from(count).ok()? {
        read_nullable(&mut record)??;
        read_nullable(&mut record)?;
    }
    let timestamp = if header.attributes.is_log_append_time() {
        header.max_timestamp
    } else {
        Timestamp(header.base_timestamp.0.wrapping_add(timestamp_delta))
    };
    let offset = header.base_offset.advance(offset_delta);
    record.is_empty().then_some(RecordView { offset, timestamp, key, value, headers, payload })
}

/// Time and payload of the next record, for one that only moves: what is inside is not looked at.
pub(super) fn read_moved<'a>(
    rest: &mut &'a [u8],
    batch: &RawBatch,
) -> Option<(Timestamp, &'a [u8])> {
    let length = usize::try_from(read_varint(rest)?).ok()?;
    let (mut record, after) = rest.split_at_checked(length)?;
    *rest = after;
    record = record.split_first()?.1; // attributes: unused in every version
    let timestamp_delta = read_varint(&mut record)?;
    let _offset_delta = read_varint(&mut record)?;
    let timestamp = batch.header().base_timestamp.0.wrapping_add(timestamp_delta);
    Some((Timestamp(timestamp), record))
}

/// Shows every record of `batch` in order, after verifying its checksum.
///
/// # Errors
///
/// [`RecordError`]; `visit` may have seen records before a damaged one.
pub fn for_each_record(
    batch: &RawBatch,
    mut visit: impl FnMut(RecordView<'_>),
) -> Result<(), RecordError> {
    let bytes = unpacked(batch)?;
    Unread::new(batch, &bytes).try_for_each(|record| record.map(&mut visit))
}

/// The records of a batch behind one another.
#[derive(Debug)]
pub(super) enum Unpacked {
    /// Without a codec they stay where they are.
    Inside(Bytes),
    Apart(Buffer),
}

impl Deref for Unpacked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inside(bytes) => bytes,
            Self::Apart(buffer) => buffer,
        }
    }
}

/// The records of `batch`, after verifying its checksum.
pub(super) fn unpacked(batch: &RawBatch) -> Result<Unpacked, RecordError> {
    unpacked_at_most(batch, UNPACKED_BYTES_MAX)
}

/// The same, for records that may take `max` bytes: an error beyond that.
pub(super) fn unpacked_at_most(batch: &RawBatch, max: usize) -> Result<Unpacked, RecordError> {
    if !super::verify(batch) {
        return Err(RecordError::Checksum);
    }
    match batch.header().attributes.codec().ok_or(RecordError::UnknownCodec)? {
        Codec::None => Ok(Unpacked::Inside(batch.body())),
        codec => Ok(Unpacked::Apart(unpack(codec, &batch.body(), max)?)),
    }
}

/// Bytes of a batch once it is unpacked, with the header; `None` if it cannot be.
#[must_use]
pub fn unpacked_bytes(batch: &OutBatch) -> Option<usize> {
    let attributes = batch.header[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].try_into().ok()?;
    let records = match Attributes(u16::from_be_bytes(attributes)).codec()? {
        Codec::None => batch.body.len(),
        codec => unpack(codec, &batch.body, UNPACKED_BYTES_MAX).ok()?.len(),
    };
    Some(HEADER_BYTES + records)
}

/// The records of an unpacked batch that are not read yet; ends with the first error.
#[derive(Clone)]
pub(super) struct Unread<'a> {
    batch: &'a RawBatch,
    rest: &'a [u8],
    index: i32,
    /// Smallest offset that the next record may have: a log's offsets grow.
    least: Offset,
}

impl<'a> Unread<'a> {
    /// All records in `bytes`, the [`unpacked`] ones of `batch`.
    pub(super) fn new(batch: &'a RawBatch, bytes: &'a [u8]) -> Self {
        Self { batch, rest: bytes, index: 0, least: batch.header().base_offset }
    }

    /// Bytes that the records take as they lie there.
    pub(super) fn bytes(&self) -> usize {
        self.rest.len()
    }

    fn end(&mut self, error: RecordError) -> RecordError {
        (self.index, self.rest) = (self.batch.header().count, &[]);
        error
    }
}

impl<'a> Iterator for Unread<'a> {
    type Item = Result<RecordView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.batch.header().count {
            let left = self.rest.len();
            return (left > 0).then(|| Err(self.end(RecordError::Trailing(left))));
        }
        match read_record(&mut self.rest, self.batch) {
            Some(record) if record.offset >= self.least => {
                self.index += 1;
                self.least = record.offset.advance(1);
                Some(Ok(record))
            }
            _ => {
                let framing = RecordError::Framing(self.index);
                Some(Err(self.end(framing)))
            }
        }
    }
}

/// Writes a batch record by record: dense offsets unless told otherwise, times relative to the
/// first record's.
///
/// The result has no producer; restamping gives it one.
#[derive(Debug)]
pub struct BatchBuilder {
    codec: Codec,
    /// Room for the header, then the records.
    bytes: Buffer,
    count: i32,
    next_delta: i32,
    first: Timestamp,
    max: Timestamp,
    scratch: Vec<u8>,
}

impl BatchBuilder {
    /// An empty batch.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        let mut bytes = if codec == Codec::None { Buffer::fresh() } else { Buffer::take() };
        bytes.resize(HEADER_BYTES, 0);
        Self {
            codec,
            bytes,
            count: 0,
            next_delta: 0,
            first: Timestamp(-1),
            max: Timestamp(-1),
            scratch: Vec::new(),
        }
    }

    /// Appends a record without headers.
    pub fn push(&mut self, timestamp: Timestamp, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.push_at(self.next_delta(), timestamp, key, value);
    }

    /// Appends a record without headers at an offset counted from the batch's first.
    ///
    /// # Panics
    ///
    /// If the offset lies before [`BatchBuilder::next_delta`].
    pub(super) fn push_at(
        &mut self,
        delta: i32,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        let mut payload = Vec::new();
        for part in [key, value] {
            match part {
                None => write_varint(&mut payload, -1),
                Some(bytes) => {
                    write_varint(&mut payload, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
                    payload.extend_from_slice(bytes);
                }
            }
        }
        write_varint(&mut payload, 0);
        self.push_payload_at(delta, timestamp, &payload);
    }

    /// Appends a record whose key, value and headers are already written.
    pub fn push_payload(&mut self, timestamp: Timestamp, payload: &[u8]) {
        self.push_payload_at(self.next_delta(), timestamp, payload);
    }

    fn push_payload_at(&mut self, delta: i32, timestamp: Timestamp, payload: &[u8]) {
        assert!(delta >= self.next_delta(), "offsets grow");
        if self.count == 0 {
            self.first = timestamp;
        }
        self.max = self.max.max(timestamp);
        self.scratch.clear();
        self.scratch.push(0);
        write_varint(&mut self.scratch, timestamp.0.wrapping_sub(self.first.0));
        write_varint(&mut self.scratch, i64::from(delta));
        let length = self.scratch.len() + payload.len();
        write_varint(&mut self.bytes, i64::try_from(length).unwrap_or(i64::MAX));
        self.bytes.extend_from_slice(&self.scratch);
        self.bytes.extend_from_slice(payload);
        self.count += 1;
        self.next_delta = delta.saturating_add(1);
    }

    /// First offset, counted from the batch's first, that the next record may have.
    pub(super) fn next_delta(&self) -> i32 {
        self.next_delta
    }

    /// Makes room for so many bytes of records to come.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Records so far.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// The batch, with `base_offset` as its first offset.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if the codec fails or the batch leaves what a length can say.
    ///
    /// # Panics
    ///
    /// If there is no record.
    pub fn finish(self, base_offset: Offset) -> Result<RawBatch, RecordError> {
        assert!(self.count > 0, "a batch has records");
        let mut bytes = if self.codec == Codec::None {
            self.bytes.into_vec()
        } else {
            // The batch lives on by itself, in just the room that it needs.
            let mut packed = Buffer::take();
            pack(self.codec, &self.bytes[HEADER_BYTES..], &mut packed)?;
            let mut bytes = Vec::with_capacity(HEADER_BYTES + packed.len());
            bytes.extend_from_slice(&[0; HEADER_BYTES]);
            bytes.extend_from_slice(&packed);
            bytes
        };
        let body_bytes = bytes.len() - HEADER_BYTES;
        let length = HEADER_BYTES - LENGTH_OVERHEAD + body_bytes;
        let length = i32::try_from(length).map_err(|_| RecordError::Trailing(body_bytes))?;
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &base_offset.0.to_be_bytes());
        put(at::LENGTH, &length.to_be_bytes());
        put(at::LEADER_EPOCH, &(-1_i32).to_be_bytes());
        put(at::MAGIC, &[2]);
        put(at::ATTRIBUTES, &u16::from(self.codec.id()).to_be_bytes());
        put(at::LAST_OFFSET_DELTA, &(self.next_delta - 1).to_be_bytes());
        put(at::BASE_TIMESTAMP, &self.first.0.to_be_bytes());
        put(at::MAX_TIMESTAMP, &self.max.0.to_be_bytes());
        put(at::PRODUCER_ID, &(-1_i64).to_be_bytes());
        put(at::PRODUCER_EPOCH, &(-1_i16).to_be_bytes());
        put(at::BASE_SEQUENCE, &(-1_i32).to_be_bytes());
        put(at::COUNT, &self.count.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[at::ATTRIBUTES..]);
        bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
        Ok(RawBatch::new(Bytes::from(bytes))?)
    }
}
