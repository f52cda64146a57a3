//! Opening a batch and writing its records anew.
//!
//! For batches that a broker would refuse, or store wrongly, behind a new header alone. Keys,
//! values, headers and what readers see as the time stay as they are; offsets become dense.

use super::header::RawBatch;
use super::record::{BatchBuilder, RecordError, Unread, unpacked};
use super::{Codec, HEADER_BYTES};
use crate::model::{Offset, OffsetRange, Runs};

/// One of the batches that a source batch became.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Dense, without a producer; base offset is the first record's upstream offset.
    pub batch: RawBatch,
    /// Upstream offset of its first record, up to where the next piece (or the next source
    /// batch) begins.
    pub upstream: OffsetRange,
    /// Which upstream offsets its records had.
    pub runs: Runs,
}

/// Why a batch cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// Its records cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// One record alone is larger than the target takes.
    #[error(
        "the record at upstream offset {offset} needs a batch of {bytes} bytes; the target topic \
         takes {max} (max.message.bytes)"
    )]
    RecordTooLarge {
        /// Upstream offset of the record.
        offset: Offset,
        /// Size of a batch that holds it alone.
        bytes: usize,
        /// The target's limit.
        max: usize,
    },
}

/// What the target takes.
///
/// A batch is judged by its size as it is sent. A target that packs records anew, in the codec of
/// its topic, may refuse what seems to fit: that says something about batches, which can be made
/// smaller, and nothing about what one record may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// Largest batch of several records, bytes with the header: what its topic takes
    /// (`max.message.bytes`), or less once it has refused one.
    pub batch: usize,
    /// Largest batch of one record: what its topic takes.
    pub record: usize,
    /// A record that it refused though that stood alone.
    pub refused: Option<Offset>,
}

impl From<usize> for SizeLimits {
    /// What a topic says that it takes.
    fn from(bytes: usize) -> Self {
        Self { batch: bytes, record: bytes, refused: None }
    }
}

/// What to do about a record that no batch of the target's can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// Nothing of the batch is copied.
    Refuse,
    /// It is left out, and said to be.
    Skip,
}

/// What became of a source batch.
#[derive(Clone, Debug, Default)]
pub struct Rebuilt {
    /// Its records, in order.
    pub pieces: Vec<Piece>,
    /// Upstream offsets of records that were left out, in order, each up to where the next
    /// record begins.
    pub skipped: Vec<OffsetRange>,
}

/// Writes the records of `batch` from `position` on anew, in the codec they had, as batches
/// within `limits`. No piece if no record is left.
///
/// What a record means that the target does not take, `oversize` says.
///
/// The checksum is verified first: writing anew seals whatever was there.
///
/// # Errors
///
/// [`RebuildError`]; nothing of the batch may be copied then.
pub fn rebuild(
    batch: &RawBatch,
    position: Offset,
    limits: impl Into<SizeLimits>,
    oversize: Oversize,
) -> Result<Rebuilt, RebuildError> {
    let limits = limits.into();
    let codec = batch.header().attributes.codec().ok_or(RecordError::UnknownCodec)?;
    let bytes = unpacked(batch)?;
    // All are read before one is written; a list of them would take more than they do.
    let mut unread = Unread::new(batch, &bytes);
    let next_offset = batch.header().next_offset();
    let none = Kept { unread: unread.clone(), count: 0, bytes: 0, next_offset };
    let (mut kept, mut before) = (none.clone(), None);
    let mut out = Rebuilt::default();
    loop {
        let here = unread.clone();
        let Some(record) = unread.next().transpose()? else { break };
        let offset = record.offset;
        if offset < position {
            continue;
        }
        if limits.refused == Some(offset) {
            if oversize == Oversize::Refuse {
                let bytes = HEADER_BYTES + here.bytes() - unread.bytes();
                return Err(RebuildError::RecordTooLarge { offset, bytes, max: limits.record });
            }
            let behind = unread.clone().next().transpose()?;
            let end = behind.map_or(next_offset, |record| record.offset);
            out.skipped.push(OffsetRange::new(offset, end));
            let bytes = kept.bytes.saturating_sub(here.bytes());
            before = Some(Kept { bytes, next_offset: offset, ..kept });
            kept = none.clone();
            continue;
        }
        if kept.count == 0 {
            (kept.bytes, kept.unread) = (here.bytes(), here);
        }
        kept.count += 1;
    }
    for kept in before.into_iter().chain([kept]) {
        divide(kept, codec, (limits, oversize), &mut out)?;
    }
    out.skipped.sort_by_key(|skipped| skipped.start);
    Ok(out)
}

/// Records behind one another in the unpacked batch.
#[derive(Clone)]
struct Kept<'a> {
    /// Begins with the first of them, and may go on behind the last.
    unread: Unread<'a>,
    count: usize,
    /// What they take as they lie there.
    bytes: usize,
    /// Where what follows them begins.
    next_offset: Offset,
}

impl Kept<'_> {
    /// Two halves; there must be two records.
    fn halves(self) -> Result<(Self, Self), RecordError> {
        let Self { unread, count, bytes, next_offset } = self;
        let (first, second) = (count / 2, count - count / 2);
        let mut right = unread.clone();
        right.by_ref().take(first).try_for_each(|record| record.map(drop))?;
        let middle = right.clone().next().transpose()?.map_or(next_offset, |record| record.offset);
        let before = unread.bytes() - right.bytes();
        let left = Self { unread, count: first, bytes: before, next_offset: middle };
        Ok((left, Self { unread: right, count: second, bytes: bytes - before, next_offset }))
    }
}

/// One batch if it fits, else two halves.
fn divide(
    kept: Kept<'_>,
    codec: Codec,
    (limits, oversize): (SizeLimits, Oversize),
    out: &mut Rebuilt,
) -> Result<(), RebuildError> {
    let Some(first) = kept.unread.clone().take(kept.count).next().transpose()? else {
        return Ok(());
    };
    let mut builder = BatchBuilder::new(codec);
    builder.reserve(kept.bytes);
    let mut runs = Runs::dense();
    for (record, index) in kept.unread.clone().take(kept.count).zip(0..) {
        let record = record?;
        builder.push_payload(record.timestamp, record.payload);
        runs.push(record.offset, index);
    }
    let batch = builder.finish(first.offset)?;
    let upstream = OffsetRange::new(first.offset, kept.next_offset);
    let bytes = HEADER_BYTES + batch.body().len();
    let most = if kept.count == 1 { limits.record } else { limits.batch };
    if bytes <= most {
        out.pieces.push(Piece { batch, upstream, runs });
        return Ok(());
    }
    if kept.count == 1 {
        if oversize == Oversize::Skip {
            out.skipped.push(upstream);
            return Ok(());
        }
        let (offset, max) = (first.offset, limits.record);
        return Err(RebuildError::RecordTooLarge { offset, bytes, max });
    }
    // What did not fit is not held while its halves are made.
    drop((batch, runs));
    let (left, right) = kept.halves()?;
    divide(left, codec, (limits, oversize), out)?;
    divide(right, codec, (limits, oversize), out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::for_each_record;
    use crate::model::Timestamp;

    fn batch(codec: Codec, count: i64) -> RawBatch {
        let mut builder = BatchBuilder::new(codec);
        for i in 0..count {
            let key = format!("key {i}");
            builder.push(Timestamp(1000 + i), Some(key.as_bytes()), Some(&[7; 100]));
        }
        builder.finish(Offset(50)).unwrap()
    }

    fn keys(piece: &Piece) -> Vec<(i64, String, i64)> {
        let mut out = Vec::new();
        for_each_record(&piece.batch, |record| {
            let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
            out.push((record.offset.0, key, record.timestamp.0));
        })
        .unwrap();
        out
    }

    #[test]
    fn a_batch_that_starts_before_the_position_keeps_the_records_from_there_on() {
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let batch = batch(codec, 5);
            let pieces = rebuild(&batch, Offset(53), 1 << 20, Oversize::Refuse).unwrap().pieces;

            assert_eq!(pieces.len(), 1);
            assert_eq!(pieces[0].upstream, OffsetRange::new(Offset(53), Offset(55)));
            assert_eq!(pieces[0].batch.header().attributes.codec(), Some(codec));
            let expected = [(53, "key 3".to_owned(), 1003), (54, "key 4".to_owned(), 1004)];
            assert_eq!(keys(&pieces[0]), expected);
        }
    }

    #[test]
    fn a_batch_that_is_too_large_becomes_several_and_no_record_is_lost() {
        let batch = batch(Codec::None, 100);
        let pieces = rebuild(&batch, Offset(0), 1500, Oversize::Refuse).unwrap().pieces;

        assert!(pieces.iter().all(|piece| piece.batch.bytes().len() <= 1500));
        let offsets: Vec<i64> =
            pieces.iter().flat_map(|piece| keys(piece).into_iter().map(|key| key.0)).collect();
        assert_eq!(offsets, (50..150).collect::<Vec<_>>());
        assert!(pieces.windows(2).all(|pair| pair[0].upstream.end == pair[1].upstream.start));
        assert_eq!(pieces.last().unwrap().upstream.end, Offset(150));
    }

    #[test]
    fn a_record_that_is_too_large_alone_is_named() {
        let error = rebuild(&batch(Codec::None, 3), Offset(0), 150, Oversize::Refuse).unwrap_err();
        assert!(
            matches!(error, RebuildError::RecordTooLarge { offset: Offset(50), .. }),
            "{error}"
        );
    }

    #[test]
    fn a_record_that_is_too_large_is_left_out_where_policy_says_so() {
        let mut builder = BatchBuilder::new(Codec::None);
        for size in [10, 500, 20] {
            builder.push(Timestamp(1), Some(b"key"), Some(&vec![7; size]));
        }
        let batch = builder.finish(Offset(50)).unwrap();
        let built = rebuild(&batch, Offset(0), 200, Oversize::Skip).unwrap();

        assert_eq!(built.skipped, [OffsetRange::new(Offset(51), Offset(52))]);
        let upstream: Vec<_> = built.pieces.iter().map(|piece| piece.upstream).collect();
        let range = |from, to| OffsetRange::new(Offset(from), Offset(to));
        assert_eq!(upstream, [range(50, 51), range(52, 53)]);
    }

    #[test]
    fn a_refused_batch_says_nothing_about_what_one_record_may_take() {
        let mut builder = BatchBuilder::new(Codec::None);
        for size in [10, 500, 20, 30] {
            builder.push(Timestamp(1), Some(b"key"), Some(&vec![7; size]));
        }
        let batch = builder.finish(Offset(50)).unwrap();
        for oversize in [Oversize::Refuse, Oversize::Skip] {
            let limits = SizeLimits { batch: 150, ..1000.into() };
            let built = rebuild(&batch, Offset(0), limits, oversize).unwrap();
            let counts: Vec<_> =
                built.pieces.iter().map(|piece| piece.batch.header().count).collect();
            assert_eq!((counts, built.skipped.len()), (vec![1, 1, 2], 0));
        }
    }

    #[test]
    fn a_record_that_was_refused_alone_is_left_out_alone() {
        let range = |from, to| OffsetRange::new(Offset(from), Offset(to));
        for (at, pieces) in [
            (50, vec![range(51, 55)]),
            (52, vec![range(50, 52), range(53, 55)]),
            (54, vec![range(50, 54)]),
        ] {
            let limits = SizeLimits { refused: Some(Offset(at)), ..(1 << 20).into() };
            let batch = batch(Codec::Lz4, 5);
            let built = rebuild(&batch, Offset(0), limits, Oversize::Skip).unwrap();
            assert_eq!(built.skipped, [range(at, at + 1)]);
            let upstream: Vec<_> = built.pieces.iter().map(|piece| piece.upstream).collect();
            assert_eq!(upstream, pieces);
            let error = rebuild(&batch, Offset(0), limits, Oversize::Refuse).unwrap_err();
            assert!(matches!(error, RebuildError::RecordTooLarge { offset, .. } if offset.0 == at));
            // One that lies before the position is no matter any more.
            let built = rebuild(&batch, Offset(at + 1), limits, Oversize::Refuse).unwrap();
            assert_eq!(built.skipped, []);
        }
    }

    #[test]
    fn a_batch_whose_offsets_run_backwards_is_refused() {
        // Two records of seven bytes, the second at the first one's offset.
        let mut bytes = batch(Codec::None, 2).bytes()[..HEADER_BYTES].to_vec();
        bytes[8..12].copy_from_slice(&(49_i32 + 14).to_be_bytes());
        bytes.extend([12, 0, 0, 2, 1, 1, 0, 12, 0, 0, 0, 1, 1, 0]);
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let batch = RawBatch::new(bytes.into()).unwrap();

        // Too large as one: the first half would end before it begins.
        let error = rebuild(&batch, Offset(0), 70, Oversize::Refuse).unwrap_err();
        assert!(matches!(error, RebuildError::Records(RecordError::Framing(1))), "{error}");
    }

    #[test]
    fn a_damaged_batch_is_never_written_anew() {
        let good = batch(Codec::None, 3);
        let mut bytes = good.bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let damaged = RawBatch::new(bytes.into()).unwrap();

        let error = rebuild(&damaged, Offset(0), 1 << 20, Oversize::Refuse).unwrap_err();
        assert!(matches!(error, RebuildError::Records(RecordError::Checksum)), "{error}");
    }
}
