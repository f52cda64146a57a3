//! Unpacking and packing the records of a batch; used on the rebuild path only.
//!
//! Every codec stops at a cap on what comes out, so a small batch cannot ask for much memory.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use super::header::Codec;
use super::spare::Buffer;

/// Most bytes that the records of one batch may unpack to.
///
/// Brokers limit the packed size only (`max.message.bytes`, 1 MiB by default, 100 MiB at
/// most), and producers fill batches by that size from at most 32 MiB of records
/// (`buffer.memory`); a batch that unpacks to more than this is damaged or hostile.
pub const UNPACKED_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Most bytes that one byte of snappy data stands for: its longest copy makes 64 of three.
const SNAPPY_GROWTH_MAX: usize = 22;

/// First bytes of the framing that Java's snappy streams write: magic, version 1, compatible
/// with version 1.
const SNAPPY_JAVA_HEADER: [u8; 16] =
    [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];

/// Bytes of records in one block of Java's snappy framing, as `SnappyOutputStream` writes it.
const SNAPPY_BLOCK_BYTES: usize = 32 * 1024;

/// Why the records of a batch cannot be unpacked or packed.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The bytes are not what the codec writes.
    #[error("the {codec:?} data is damaged: {cause}")]
    Damaged {
        /// Which codec.
        codec: Codec,
        /// What it says.
        cause: io::Error,
    },
    /// More comes out than any batch holds.
    #[error("the {codec:?} data unpacks to more than {max} bytes")]
    TooLarge {
        /// Which codec.
        codec: Codec,
        /// The cap.
        max: usize,
    },
}

/// Bytes of the largest zstd context that is kept. The window of a batch decides: 2 MiB at level
/// 3, 8 MiB at the highest levels; a frame may name one of 128 MiB.
const ZSTD_KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

thread_local! {
    // A context is a megabyte and more, and making one costs as much as packing a small batch.
    static ZSTD: RefCell<Option<Zstd>> = const { RefCell::new(None) };
}

/// What zstd keeps from one batch to the next.
struct Zstd {
    packing: zstd::bulk::Compressor<'static>,
    unpacking: zstd::zstd_safe::DCtx<'static>,
}

fn with_zstd<T>(work: impl FnOnce(&mut Zstd) -> io::Result<T>) -> io::Result<T> {
    ZSTD.with_borrow_mut(|kept| {
        let zstd = match kept {
            Some(zstd) => zstd,
            None => kept.insert(Zstd {
                packing: zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?,
                unpacking: zstd::zstd_safe::DCtx::create(),
            }),
        };
        let done = work(zstd);
        if zstd.unpacking.sizeof() > ZSTD_KEPT_BYTES_MAX {
            *kept = None;
        }
        done
    })
}

/// The records of a batch as they were before compression.
///
/// # Errors
///
/// [`CodecError`] if the bytes are damaged or unpack to more than `max`.
pub(super) fn unpack(codec: Codec, packed: &[u8], max: usize) -> Result<Buffer, CodecError> {
    let mut out = Buffer::take();
    let read = match codec {
        Codec::None => {
            out.extend_from_slice(packed);
            Ok(())
        }
        Codec::Gzip => read_capped(flate2::read::MultiGzDecoder::new(packed), max, &mut out),
        Codec::Lz4 => read_capped(lz4_flex::frame::FrameDecoder::new(packed), max, &mut out),
        Codec::Zstd => with_zstd(|zstd| {
            let context = &mut zstd.unpacking;
            // What a damaged batch has left behind.
            context.reset(zstd::zstd_safe::ResetDirective::SessionOnly).map_err(zstd_error)?;
            read_capped(zstd::stream::read::Decoder::with_context(packed, context), max, &mut out)
        }),
        Codec::Snappy => return unpack_snappy(packed, max, &mut out).map(|()| out),
    };
    read.map_err(|cause| CodecError::Damaged { codec, cause })?;
    if out.len() > max {
        return Err(CodecError::TooLarge { codec, max });
    }
    Ok(out)
}

fn zstd_error(code: usize) -> io::Error {
    io::Error::other(zstd::zstd_safe::get_error_name(code))
}

/// At most one byte more than `max`.
fn read_capped(reader: impl Read, max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    reader.take(max as u64 + 1).read_to_end(out).map(drop)
}

/// Java writes blocks with lengths behind a header; librdkafka writes one raw block.
fn unpack_snappy(packed: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    if packed.get(..8) != Some(&SNAPPY_JAVA_HEADER[..8]) {
        return append_snappy_block(packed, max, out);
    }
    let cut = || CodecError::Damaged {
        codec: Codec::Snappy,
        cause: io::Error::new(io::ErrorKind::UnexpectedEof, "block is cut short"),
    };
    let mut rest = packed.get(SNAPPY_JAVA_HEADER.len()..).ok_or_else(cut)?;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        append_snappy_block(after.get(..length).ok_or_else(cut)?, max, out)?;
        rest = &after[length..];
    }
    if rest.is_empty() { Ok(()) } else { Err(cut()) }
}

fn append_snappy_block(block: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let codec = Codec::Snappy;
    let damaged = |error: snap::Error| CodecError::Damaged { codec, cause: error.into() };
    let start = out.len();
    let length = snap::raw::decompress_len(block).map_err(damaged)?;
    if length > block.len().saturating_mul(SNAPPY_GROWTH_MAX) {
        let cause = io::Error::new(io::ErrorKind::InvalidData, "block claims too many bytes");
        return Err(CodecError::Damaged { codec, cause });
    }
    let end = start.saturating_add(length);
    if end > max {
        return Err(CodecError::TooLarge { codec, max });
    }
    if out.capacity() < end {
        // By what is there and not by the room that an earlier batch left, or a block that claims
        // a little more than that would double it.
        out.reserve_exact(end.max(start.saturating_mul(2)) - start);
    }
    out.resize(end, 0);
    snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(damaged)?;
    Ok(())
}

/// Appends records to `out`, compressed as a Kafka producer does.
///
/// # Errors
///
/// [`CodecError::Damaged`] with the codec's words, which writing into memory does not give in
/// practice.
pub(super) fn pack(codec: Codec, records: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    pack_io(codec, records, out).map_err(|cause| CodecError::Damaged { codec, cause })
}

fn pack_io(codec: Codec, records: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    match codec {
        Codec::None => out.extend_from_slice(records),
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            encoder.write_all(records)?;
            encoder.finish()?;
        }
        Codec::Lz4 => {
            // Java refuses blocks that depend on one another (`Lz4BlockInputStream`).
            let info = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent)
                .block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
            encoder.write_all(records)?;
            encoder.finish().map_err(io::Error::other)?;
        }
        Codec::Zstd => with_zstd(|zstd| {
            let start = out.len();
            out.resize(start + zstd::zstd_safe::compress_bound(records.len()), 0);
            let packed = zstd.packing.compress_to_buffer(records, &mut out[start..])?;
            out.truncate(start + packed);
            Ok(())
        })?,
        Codec::Snappy => {
            out.extend_from_slice(&SNAPPY_JAVA_HEADER);
            let mut encoder = snap::raw::Encoder::new();
            for block in records.chunks(SNAPPY_BLOCK_BYTES) {
                let start = out.len() + 4;
                out.resize(start + snap::raw::max_compress_len(block.len()), 0);
                let packed = encoder.compress(block, &mut out[start..]).map_err(io::Error::from)?;
                out.truncate(start + packed);
                let length = u32::try_from(packed).map_err(io::Error::other)?;
                out[start - 4..start].copy_from_slice(&length.to_be_bytes());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(codec: Codec, records: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        super::pack(codec, records, &mut out).unwrap();
        out
    }

    #[test]
    fn what_is_packed_unpacks_to_the_same_bytes_with_every_codec() {
        let records: Vec<u8> = (0..200_000_u32).flat_map(|i| (i / 7).to_be_bytes()).collect();
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = pack(codec, &records);
            let unpacked = unpack(codec, &packed, UNPACKED_BYTES_MAX).unwrap();
            assert_eq!(**unpacked, records, "{codec:?}");
            assert_eq!(**unpack(codec, &pack(codec, b""), 0).unwrap(), *b"", "{codec:?}");
        }
    }

    #[test]
    fn unpacking_stops_at_the_cap_with_every_codec() {
        let records = vec![7; 1_000_000];
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = pack(codec, &records);
            assert_eq!(**unpack(codec, &packed, 1_000_000).unwrap(), records, "{codec:?}");
            let error = unpack(codec, &packed, 999_999).unwrap_err();
            assert!(matches!(error, CodecError::TooLarge { max: 999_999, .. }), "{error}");
        }
    }

    #[test]
    fn a_snappy_block_reserves_no_more_than_its_bytes_can_stand_for() {
        // A length of 100 MiB and nothing behind it.
        let error =
            unpack(Codec::Snappy, &[0x80, 0x80, 0x80, 0x32, 0], UNPACKED_BYTES_MAX).unwrap_err();
        assert!(matches!(error, CodecError::Damaged { .. }), "{error}");

        let zeros = vec![0; 60_000];
        let packed = snap::raw::Encoder::new().compress_vec(&zeros).unwrap();
        assert_eq!(**unpack(Codec::Snappy, &packed, 60_000).unwrap(), zeros);
    }

    #[test]
    fn a_snappy_block_that_claims_a_little_more_than_a_kept_buffer_does_not_double_it() {
        let mut out = Vec::with_capacity(1_000_000);
        // A length of 1,000,001 in front of bytes that could stand for it and do not.
        let block = [&[0xc1, 0x84, 0x3d][..], &[0xff; 60_000]].concat();
        append_snappy_block(&block, UNPACKED_BYTES_MAX, &mut out).unwrap_err();
        assert_eq!(out.capacity(), 1_000_001);
    }

    #[test]
    fn damaged_data_is_an_error_with_every_codec() {
        let records = vec![7; 100_000];
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let mut packed = pack(codec, &records);
            packed.truncate(packed.len() / 2);
            assert!(unpack(codec, &packed, 100_000).is_err(), "{codec:?}");
            assert!(unpack(codec, b"no such thing at all", 100_000).is_err(), "{codec:?}");
        }
    }
}
