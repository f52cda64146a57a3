//! Several small batches in one, when the way to the target is what limits the copy.

use super::codec::CodecError;
use super::header::RawBatch;
use super::record::{BatchBuilder, RecordError, read_moved, unpacked_at_most};
use super::{BatchHeader, Codec};

/// Bytes that the records of a merged batch may take unpacked.
///
/// Eight times what one takes packed at most (`copy::Merging`), so it is rarely met. Without it,
/// thousands of batches that are small because they repeat one thing would be laid open together:
/// with zstd, 128 KiB of them can be gigabytes.
pub const MERGED_UNPACKED_MAX: usize = 4 * 1024 * 1024;

/// Whether `next` may follow `first` in one batch: what a batch says for all of its records must
/// be the same.
#[must_use]
pub fn mergeable(first: &BatchHeader, next: &BatchHeader) -> bool {
    let (one, other) = (first.attributes, next.attributes);
    one.codec() == other.codec() && !one.is_log_append_time() && !other.is_log_append_time()
}

/// One batch with the records of `batches`, in their order, in the codec of the first; and how many
/// of them it holds: as many as take no more than 4 MiB unpacked, the others are left.
///
/// Keys, values, headers and times stay as they are; offsets become dense. The checksum of each
/// is verified first: writing anew seals whatever was there. The result has no producer, and
/// the first one's base offset.
///
/// # Errors
///
/// [`RecordError`] if one of them is damaged or cannot be read, if the first alone is too large, or if
/// there is no record in any.
///
/// # Panics
///
/// Without batches, and if they are not [`mergeable`].
pub fn merge<'a>(
    batches: impl IntoIterator<Item = &'a RawBatch>,
) -> Result<(RawBatch, usize), RecordError> {
    let mut batches = batches.into_iter().peekable();
    let first = *batches.peek().expect("something to merge");
    let codec = first.header().attributes.codec().ok_or(RecordError::UnknownCodec)?;
    let mut builder = BatchBuilder::new(codec);
    let (mut merged, mut left) = (0, MERGED_UNPACKED_MAX);
    for batch in batches {
        assert!(mergeable(first.header(), batch.header()), "batches of one kind");
        let bytes = match unpacked_at_most(batch, left) {
            Err(RecordError::Codec(CodecError::TooLarge { .. })) if merged > 0 => break,
            bytes => bytes?,
        };
        if codec == Codec::None {
            builder.reserve(bytes.len());
        }
        let mut rest = &bytes[..];
        for i in 0..batch.header().count {
            let (timestamp, payload) =
                read_moved(&mut rest, batch).ok_or(RecordError::Framing(i))?;
            builder.push_payload(timestamp, payload);
        }
        if !rest.is_empty() {
            return Err(RecordError::Trailing(rest.len()));
        }
        merged += 1;
        // Without a codec their own size is what limits them.
        left = left.saturating_sub(bytes.len());
    }
    if builder.count() == 0 {
        return Err(RecordError::Empty);
    }
    Ok((builder.finish(first.header().base_offset)?, merged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::for_each_record;
    use crate::model::{Offset, Timestamp};

    fn batch(codec: Codec, base: i64, times: &[i64]) -> RawBatch {
        let mut builder = BatchBuilder::new(codec);
        for time in times {
            let key = format!("key {time}");
            builder.push(Timestamp(*time), Some(key.as_bytes()), None);
        }
        builder.finish(Offset(base)).unwrap()
    }

    fn seen(batch: &RawBatch) -> Vec<(i64, i64, Vec<u8>)> {
        let mut seen = Vec::new();
        for_each_record(batch, |record| {
            seen.push((record.offset.0, record.timestamp.0, record.payload.to_vec()));
        })
        .unwrap();
        seen
    }

    #[test]
    fn records_keep_their_order_and_times_and_get_dense_offsets() {
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let parts =
                [batch(codec, 7, &[1000, 900]), batch(codec, 9, &[5]), batch(codec, 20, &[-1])];
            let (merged, count) = merge(&parts).unwrap();

            assert_eq!(count, parts.len());
            assert_eq!(merged.header().attributes.codec(), Some(codec));
            assert_eq!((merged.header().count, merged.header().last_offset_delta), (4, 3));
            assert_eq!(merged.header().max_timestamp, Timestamp(1000));
            let expected: Vec<_> = parts.iter().flat_map(seen).zip(7..).collect();
            for ((offset, time, payload), ((_, time_before, payload_before), dense)) in
                seen(&merged).into_iter().zip(expected)
            {
                assert_eq!((offset, time, payload), (dense, time_before, payload_before));
            }
        }
    }

    #[test]
    fn batches_of_two_codecs_or_with_append_times_are_not_merged() {
        let (plain, packed) = (batch(Codec::None, 0, &[1]), batch(Codec::Lz4, 1, &[1]));
        assert!(mergeable(plain.header(), plain.header()));
        assert!(!mergeable(plain.header(), packed.header()));

        let mut appended = *plain.header();
        appended.attributes.0 |= super::super::Attributes::LOG_APPEND_TIME;
        assert!(!mergeable(plain.header(), &appended) && !mergeable(&appended, plain.header()));
    }

    #[test]
    fn what_is_small_only_because_it_is_packed_is_merged_up_to_a_bound() {
        let large = |base| {
            let mut builder = BatchBuilder::new(Codec::Zstd);
            builder.push(Timestamp(1), None, Some(&vec![7; 1_500_000]));
            builder.finish(Offset(base)).unwrap()
        };
        let parts = [large(0), large(1), large(2), large(3)];
        assert!(parts[0].bytes().len() < 1000);

        let (merged, count) = merge(&parts).unwrap();
        assert_eq!((merged.header().count, count), (2, 2));
        let (rest, count) = merge(&parts[2..]).unwrap();
        assert_eq!((rest.header().base_offset, count), (Offset(2), 2));

        let mut builder = BatchBuilder::new(Codec::Zstd);
        builder.push(Timestamp(1), None, Some(&vec![7; MERGED_UNPACKED_MAX]));
        let alone = builder.finish(Offset(0)).unwrap();
        let error = merge([&alone, &parts[1]]).unwrap_err();
        assert!(matches!(error, RecordError::Codec(CodecError::TooLarge { .. })), "{error}");
    }

    #[test]
    fn batches_without_a_record_make_none() {
        let mut bytes = batch(Codec::None, 7, &[1]).bytes()[..61].to_vec();
        bytes[8..12].copy_from_slice(&49_i32.to_be_bytes());
        bytes[57..61].copy_from_slice(&0_i32.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let emptied = RawBatch::new(bytes.into()).unwrap();

        let error = merge([&emptied, &emptied]).unwrap_err();
        assert!(matches!(error, RecordError::Empty), "{error}");
    }

    #[test]
    fn a_damaged_batch_is_never_sealed_by_merging() {
        let good = batch(Codec::None, 0, &[1, 2]);
        let mut bytes = good.bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let damaged = RawBatch::new(bytes.into()).unwrap();

        let error = merge([&good, &damaged]).unwrap_err();
        assert!(matches!(error, RecordError::Checksum), "{error}");
    }
}
