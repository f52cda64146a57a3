//! Message formats 0 and 1, written anew as version 2 batches.
//!
//! Brokers keep them on disk for as long as retention allows and hand them out as they are. A
//! producer may not send them any more, so their records are opened: a compressed wrapper becomes
//! one batch in its codec, a run of plain messages one uncompressed batch. From there on they are
//! batches like any other, holes included.
//!
//! Layout: `LegacyRecord`, `AbstractLegacyRecordBatch` in Apache Kafka (KIP-31, KIP-32).

use bytes::Bytes;

use super::codec::{CodecError, UNPACKED_BYTES_MAX, unpack};
use super::header::{Codec, RawBatch, at};
use super::record::{BatchBuilder, RecordError};
use super::shallow::{Entry, Shallow, ShallowError};
use crate::model::{Offset, Timestamp};

/// Plain messages that become one batch, at most.
const RUN_RECORDS_MAX: i32 = 1000;

/// Bytes of plain messages that become one batch, at most; below every broker's limit.
const RUN_BYTES_MAX: usize = 128 * 1024;

/// Why a message of format 0 or 1 cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LegacyError {
    /// Its fields do not fit its length.
    #[error("its fields do not fit its length")]
    Framing,
    /// The stored checksum is not that of the bytes.
    #[error("its checksum is wrong")]
    Checksum,
    /// The codec's number has no meaning.
    #[error("its codec is unknown")]
    UnknownCodec,
    /// A wrapper without messages, or with a wrapper inside.
    #[error("its inner messages make no sense")]
    Inner,
    /// It cannot be unpacked.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Its records do not make a batch.
    #[error(transparent)]
    Records(#[from] RecordError),
}

/// Why the batches of a record set cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BatchesError {
    /// The walk cannot go on.
    #[error(transparent)]
    Walk(#[from] ShallowError),
    /// A message of format 0 or 1 cannot be opened.
    #[error("the message of format {magic} at offset {offset}: {cause}")]
    Legacy {
        /// Its offset.
        offset: Offset,
        /// Its format.
        magic: i8,
        /// Why not.
        cause: LegacyError,
    },
}

/// One message, its key and value still in place.
struct Message<'a> {
    offset: i64,
    magic: i8,
    attributes: u8,
    timestamp: Timestamp,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl Message<'_> {
    fn codec(&self) -> Result<Codec, LegacyError> {
        Codec::from_id(self.attributes & 0b111).ok_or(LegacyError::UnknownCodec)
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, LegacyError> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or(LegacyError::Framing)?;
    *rest = after;
    let length = i32::from_be_bytes(*length);
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| LegacyError::Framing)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(LegacyError::Framing)?;
    *rest = after;
    Ok(Some(bytes))
}

/// Reads the message that `bytes` are, offset and length included.
fn message(bytes: &[u8]) -> Result<Message<'_>, LegacyError> {
    let (head, body) = bytes.split_first_chunk::<{ at::MAGIC }>().ok_or(LegacyError::Framing)?;
    let mut crc = flate2::Crc::new();
    crc.update(body);
    let stored = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
    if crc.sum() != stored {
        return Err(LegacyError::Checksum);
    }
    let (&[magic, attributes], mut rest) = body.split_first_chunk().ok_or(LegacyError::Framing)?;
    let mut timestamp = Timestamp(-1);
    if magic == 1 {
        let (time, after) = rest.split_first_chunk().ok_or(LegacyError::Framing)?;
        (timestamp, rest) = (Timestamp(i64::from_be_bytes(*time)), after);
    }
    let (key, value) = (field(&mut rest)?, field(&mut rest)?);
    if !rest.is_empty() {
        return Err(LegacyError::Framing);
    }
    let offset = i64::from_be_bytes(*bytes.first_chunk().ok_or(LegacyError::Framing)?);
    Ok(Message { offset, magic: magic.cast_signed(), attributes, timestamp, key, value })
}

/// Takes the next of the messages that a wrapper held from the front.
fn next_inner<'a>(rest: &mut &'a [u8]) -> Result<Message<'a>, LegacyError> {
    let length = rest.get(at::LENGTH..at::LENGTH + 4).ok_or(LegacyError::Framing)?;
    let length = i32::from_be_bytes(length.try_into().map_err(|_| LegacyError::Framing)?);
    let total = usize::try_from(length).map_err(|_| LegacyError::Framing)?.saturating_add(12);
    let (bytes, after) = rest.split_at_checked(total).ok_or(LegacyError::Framing)?;
    *rest = after;
    message(bytes)
}

/// Producers of format 0 computed the checksum in an lz4 frame's header over the wrong bytes
/// (KAFKA-3160); decoders refuse it.
fn mend_lz4_header(frame: &[u8]) -> Vec<u8> {
    let mut mended = frame.to_vec();
    let Some(flags) = frame.get(4) else { return mended };
    let content_size = if flags & 0b1000 != 0 { 8 } else { 0 };
    let checksum_at = 6 + content_size;
    if let Some(descriptor) = frame.get(4..checksum_at) {
        let checksum = twox_hash::XxHash32::oneshot(0, descriptor).to_be_bytes()[2];
        if let Some(byte) = mended.get_mut(checksum_at) {
            *byte = checksum;
        }
    }
    mended
}

/// A wrapper's messages as one batch.
fn open_wrapper(wrapper: &Message<'_>) -> Result<RawBatch, LegacyError> {
    let codec = wrapper.codec()?;
    let packed = wrapper.value.ok_or(LegacyError::Inner)?;
    let unpacked = if wrapper.magic == 0 && codec == Codec::Lz4 {
        unpack(codec, &mend_lz4_header(packed), UNPACKED_BYTES_MAX)?
    } else {
        unpack(codec, packed, UNPACKED_BYTES_MAX)?
    };
    let appended = wrapper.magic == 1 && wrapper.attributes & 0b1000 != 0;
    let mut builder = BatchBuilder::new(codec);
    builder.reserve(unpacked.len());
    let mut rest = &unpacked[..];
    let mut offsets: Option<(i64, i64)> = None;
    while !rest.is_empty() {
        let one = next_inner(&mut rest)?;
        if one.codec()? != Codec::None || one.magic != wrapper.magic {
            return Err(LegacyError::Inner);
        }
        let (first, _) = *offsets.get_or_insert((one.offset, one.offset));
        let delta = one.offset.checked_sub(first).ok_or(LegacyError::Inner)?;
        let delta = i32::try_from(delta).map_err(|_| LegacyError::Inner)?;
        if delta < builder.next_delta() {
            return Err(LegacyError::Inner);
        }
        let timestamp = if appended { wrapper.timestamp } else { one.timestamp };
        builder.push_at(delta, timestamp, one.key, one.value);
        offsets = Some((first, one.offset));
    }
    let (first, last) = offsets.ok_or(LegacyError::Inner)?;
    // Format 1 counts inner offsets from 0 and gives the wrapper the last one's; format 0 has
    // them absolute.
    let base = if wrapper.magic == 1 {
        // Where the first inner message, at its own offset, ends up.
        wrapper.offset.checked_sub(last - first).ok_or(LegacyError::Inner)?
    } else {
        first
    };
    Ok(builder.finish(Offset(base))?)
}

/// The batches of a record set, whatever format they were stored in.
#[derive(Debug)]
pub struct Batches {
    entries: Shallow,
    /// The entry that ended a run of plain messages.
    ahead: Option<Result<Entry, ShallowError>>,
}

impl Batches {
    /// Walks `records` as a Fetch response carries them.
    #[must_use]
    pub fn new(records: Bytes) -> Self {
        Self { entries: Shallow::new(records), ahead: None }
    }

    fn legacy(&mut self, first: &Bytes) -> Result<RawBatch, LegacyError> {
        let opened = message(first)?;
        if opened.codec()? != Codec::None {
            return open_wrapper(&opened);
        }
        let base = opened.offset;
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push_at(0, opened.timestamp, opened.key, opened.value);
        let mut bytes = first.len();
        while builder.count() < RUN_RECORDS_MAX && bytes < RUN_BYTES_MAX {
            let next = self.entries.next();
            let Some(Ok(Entry::Legacy { bytes: next_bytes, .. })) = &next else {
                self.ahead = next;
                break;
            };
            let fits = message(next_bytes).ok().and_then(|one| {
                let delta = i32::try_from(one.offset.checked_sub(base)?).ok()?;
                let plain = one.codec().ok()? == Codec::None && delta >= builder.next_delta();
                plain.then_some((delta, one))
            });
            let Some((delta, one)) = fits else {
                self.ahead = next;
                break;
            };
            builder.push_at(delta, one.timestamp, one.key, one.value);
            bytes += next_bytes.len();
        }
        Ok(builder.finish(Offset(base))?)
    }
}

impl Iterator for Batches {
    type Item = Result<RawBatch, BatchesError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.ahead.take().or_else(|| self.entries.next())? {
            Ok(Entry::Batch(batch)) => Some(Ok(batch)),
            Ok(Entry::Legacy { magic, offset, bytes }) => {
                let batch = self.legacy(&bytes);
                Some(batch.map_err(|cause| BatchesError::Legacy { offset, magic, cause }))
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}
