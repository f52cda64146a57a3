//! A new header over an old body.

use bytes::Bytes;

use super::crc::amend;
use super::header::{Attributes, BatchHeader, Codec, HEADER_BYTES, RawBatch, at};
use crate::model::{ProducerIdentity, Sequence, Timestamp};

/// A batch ready to be produced: header by value, body shared with the frame it came in.
#[derive(Clone, Debug)]
pub struct OutBatch {
    /// The header as it goes out.
    pub header: [u8; HEADER_BYTES],
    /// The records; for a forwarded batch a slice of the source's frame.
    pub body: Bytes,
}

impl OutBatch {
    /// Bytes on the wire, header included.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// The largest time of its records, as their producer or broker wrote it.
    #[must_use]
    pub fn max_timestamp(&self) -> Timestamp {
        let bytes = self.header[at::MAX_TIMESTAMP..at::PRODUCER_ID].try_into();
        Timestamp(i64::from_be_bytes(bytes.expect("eight bytes")))
    }
}

/// Writes a new header for `batch` so that a target broker accepts it from our producer.
///
/// Sets producer id, epoch and base sequence, clears the append-time, transactional and
/// delete-horizon bits, sets base offset to 0 and leader epoch to -1, and amends the checksum.
/// The body is shared with the source frame, byte for byte. The base timestamp stays, also
/// where it is a delete horizon: record timestamps are relative to it.
///
/// `sequence` is the sequence of the first record; the batch covers `count` of them with
/// Kafka's wrap-around at `i32::MAX`.
///
/// The checksum is amended, not recomputed: a body damaged before this call stays detectable
/// after it. Cost does not depend on the body's length.
///
/// # Panics
///
/// If the batch has holes; such a batch must be rebuilt, since uncompressed ones would be
/// accepted and stored wrongly.
///
/// KIP-98 (fields), KIP-534 (delete horizon). Broker side: `LogValidator.validateBatch`.
#[must_use]
pub fn restamp(batch: &RawBatch, identity: ProducerIdentity, sequence: Sequence) -> OutBatch {
    let old = batch.header();
    assert_eq!(
        i64::from(old.count),
        i64::from(old.last_offset_delta) + 1,
        "a batch with holes is not restamped"
    );
    let attributes = old.attributes.0 & Attributes::CODEC;

    let mut header = *batch.header_bytes();
    header[..at::LENGTH].fill(0);
    header[at::LEADER_EPOCH..at::MAGIC].copy_from_slice(&(-1_i32).to_be_bytes());
    header[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].copy_from_slice(&attributes.to_be_bytes());
    header[at::PRODUCER_ID..at::PRODUCER_EPOCH].copy_from_slice(&identity.id.to_be_bytes());
    header[at::PRODUCER_EPOCH..at::BASE_SEQUENCE].copy_from_slice(&identity.epoch.to_be_bytes());
    header[at::BASE_SEQUENCE..at::COUNT].copy_from_slice(&sequence.to_wire().to_be_bytes());

    let body = batch.body();
    let crc = amend(old.crc, batch.header_bytes(), &header, body.len());
    header[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    OutBatch { header, body }
}

/// Whether the stored checksum of `batch` is that of its bytes. Reads the whole body.
///
/// For a forwarded batch this tells whether the source's own bytes were whole, as amending
/// keeps the difference.
#[must_use]
pub fn is_whole(batch: &OutBatch) -> bool {
    let crc = crc32c::crc32c(&batch.header[at::ATTRIBUTES..]);
    let stored = batch.header[at::CRC..at::ATTRIBUTES].try_into().expect("four bytes");
    crc32c::crc32c_append(crc, &batch.body) == u32::from_be_bytes(stored)
}

/// What is left of a batch when its body is not kept: enough to recognise its records.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The header's fields.
    pub header: BatchHeader,
    bytes: [u8; HEADER_BYTES],
}

impl Stamp {
    /// The stamp of a batch.
    #[must_use]
    pub fn of(batch: &RawBatch) -> Self {
        Self { header: *batch.header(), bytes: *batch.header_bytes() }
    }

    fn alike(&self) -> (i32, i32, Timestamp, Option<Codec>) {
        let header = &self.header;
        (header.length, header.count, header.base_timestamp, header.attributes.codec())
    }

    /// Whether `target`, read back from the target's log, holds exactly the records of `self`.
    ///
    /// Compares codec, counts, lengths, base timestamp, and the checksums through the
    /// difference of the headers, so bodies that differ are told apart as well as a CRC-32C
    /// can. What a target broker may rewrite in place (offsets, append time, our producer's
    /// numbers) does not matter.
    #[must_use]
    pub fn same_records(&self, target: &Self) -> bool {
        let body_bytes = self.header.total_bytes() - HEADER_BYTES;
        self.alike() == target.alike()
            && amend(self.header.crc, &self.bytes, &target.bytes, body_bytes) == target.header.crc
    }
}
