//! Unpacking and packing the records of a batch; used on the rebuild path only.
//!
//! Every codec stops at a cap on what comes out, so a small batch cannot ask for much memory.

use std::io::{self, Read, Write};

use super::header::Codec;

/// Most bytes that the records of one batch may unpack to.
///
/// Brokers limit the packed size only (`max.message.bytes`, 1 MiB by default, 100 MiB at
/// most), and producers fill batches by that size from at most 32 MiB of records
/// (`buffer.memory`); a batch that unpacks to more than this is damaged or hostile.
const UNPACKED_BYTES_MAX: usize = 128 * 1024 * 1024;

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

/// The records of a batch as they were before compression.
///
/// # Errors
///
/// [`CodecError`] if the bytes are damaged or unpack to more than the cap.
pub(super) fn unpack(codec: Codec, packed: &[u8]) -> Result<Vec<u8>, CodecError> {
    unpack_at_most(codec, packed, UNPACKED_BYTES_MAX)
}

fn unpack_at_most(codec: Codec, packed: &[u8], max: usize) -> Result<Vec<u8>, CodecError> {
    let damaged = |cause| CodecError::Damaged { codec, cause };
    match codec {
        Codec::None => Ok(packed.to_vec()),
        Codec::Gzip => read_capped(codec, flate2::read::MultiGzDecoder::new(packed), max),
        Codec::Lz4 => read_capped(codec, lz4_flex::frame::FrameDecoder::new(packed), max),
        Codec::Zstd => {
            read_capped(codec, zstd::stream::read::Decoder::new(packed).map_err(damaged)?, max)
        }
        Codec::Snappy => unpack_snappy(packed, max),
    }
}

fn read_capped(codec: Codec, reader: impl Read, max: usize) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    reader
        .take(max as u64 + 1)
        .read_to_end(&mut out)
        .map_err(|cause| CodecError::Damaged { codec, cause })?;
    if out.len() > max {
        return Err(CodecError::TooLarge { codec, max });
    }
    Ok(out)
}

/// Java writes blocks with lengths behind a header; librdkafka writes one raw block.
fn unpack_snappy(packed: &[u8], max: usize) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    if packed.get(..8) != Some(&SNAPPY_JAVA_HEADER[..8]) {
        append_snappy_block(packed, max, &mut out)?;
        return Ok(out);
    }
    let cut = || CodecError::Damaged {
        codec: Codec::Snappy,
        cause: io::Error::new(io::ErrorKind::UnexpectedEof, "block is cut short"),
    };
    let mut rest = packed.get(SNAPPY_JAVA_HEADER.len()..).ok_or_else(cut)?;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        append_snappy_block(after.get(..length).ok_or_else(cut)?, max, &mut out)?;
        rest = &after[length..];
    }
    if rest.is_empty() { Ok(out) } else { Err(cut()) }
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
    out.resize(end, 0);
    snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(damaged)?;
    Ok(())
}

/// Compresses records as a Kafka producer does.
///
/// # Errors
///
/// [`CodecError::Damaged`] with the codec's words, which writing into memory does not give in
/// practice.
pub(super) fn pack(codec: Codec, records: &[u8]) -> Result<Vec<u8>, CodecError> {
    pack_io(codec, records).map_err(|cause| CodecError::Damaged { codec, cause })
}

fn pack_io(codec: Codec, records: &[u8]) -> io::Result<Vec<u8>> {
    match codec {
        Codec::None => Ok(records.to_vec()),
        Codec::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(records)?;
            encoder.finish()
        }
        Codec::Lz4 => {
            // Java refuses blocks that depend on one another (`Lz4BlockInputStream`).
            let info = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent)
                .block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(records)?;
            encoder.finish().map_err(io::Error::other)
        }
        Codec::Zstd => zstd::stream::encode_all(records, zstd::DEFAULT_COMPRESSION_LEVEL),
        Codec::Snappy => {
            let mut out = SNAPPY_JAVA_HEADER.to_vec();
            let mut encoder = snap::raw::Encoder::new();
            for block in records.chunks(SNAPPY_BLOCK_BYTES) {
                let packed = encoder.compress_vec(block).map_err(io::Error::from)?;
                let length = u32::try_from(packed.len()).map_err(io::Error::other)?;
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&packed);
            }
            Ok(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks_to_the_same_bytes_with_every_codec() {
        let records: Vec<u8> = (0..200_000_u32).flat_map(|i| (i / 7).to_be_bytes()).collect();
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = pack(codec, &records).unwrap();
            assert_eq!(unpack(codec, &packed).unwrap(), records, "{codec:?}");
            assert_eq!(unpack(codec, &pack(codec, b"").unwrap()).unwrap(), b"", "{codec:?}");
        }
    }

    #[test]
    fn unpacking_stops_at_the_cap_with_every_codec() {
        let records = vec![7; 1_000_000];
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = pack(codec, &records).unwrap();
            assert_eq!(unpack_at_most(codec, &packed, 1_000_000).unwrap(), records, "{codec:?}");
            let error = unpack_at_most(codec, &packed, 999_999).unwrap_err();
            assert!(matches!(error, CodecError::TooLarge { max: 999_999, .. }), "{error}");
        }
    }

    #[test]
    fn a_snappy_block_reserves_no_more_than_its_bytes_can_stand_for() {
        // A length of 100 MiB and nothing behind it.
        let error = unpack(Codec::Snappy, &[0x80, 0x80, 0x80, 0x32, 0]).unwrap_err();
        assert!(matches!(error, CodecError::Damaged { .. }), "{error}");

        let zeros = vec![0; 60_000];
        let packed = snap::raw::Encoder::new().compress_vec(&zeros).unwrap();
        assert_eq!(unpack(Codec::Snappy, &packed).unwrap(), zeros);
    }

    #[test]
    fn damaged_data_is_an_error_with_every_codec() {
        let records = vec![7; 100_000];
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let mut packed = pack(codec, &records).unwrap();
            packed.truncate(packed.len() / 2);
            assert!(unpack(codec, &packed).is_err(), "{codec:?}");
            assert!(unpack(codec, b"no such thing at all").is_err(), "{codec:?}");
        }
    }
}
