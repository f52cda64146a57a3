//! Record batches as the scripted broker sees them: its own reader and writer.
//!
//! Nothing here uses the code under test: a broker that judged batches by Heliograph's own rules
//! would agree with its mistakes. Layout: KIP-98, `DefaultRecordBatch`, `DefaultRecord`.

use std::io::{self, Write};

use bytes::Bytes;

/// Bytes of a batch's header.
pub const HEADER: usize = 61;
/// Bytes in front of what the length field counts.
pub const LENGTH_OVERHEAD: usize = 12;
/// First byte that the checksum covers.
const CRC_FROM: usize = 21;

/// Attribute bits.
pub const TRANSACTIONAL: i16 = 0b0001_0000;
/// The batch is a transaction marker.
pub const CONTROL: i16 = 0b0010_0000;
/// Times are the broker's.
pub const APPEND_TIME: i16 = 0b0000_1000;

/// First bytes of Java's snappy framing.
const SNAPPY_JAVA: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// How records are compressed; the number is the attribute's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None = 0,
    /// gzip.
    Gzip = 1,
    /// snappy in Java's framing.
    Snappy = 2,
    /// lz4 frames.
    Lz4 = 3,
    /// zstd.
    Zstd = 4,
}

impl Packing {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec that attributes name.
    #[must_use]
    pub fn of(attributes: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|packing| *packing as i16 == attributes & 7)
    }
}

/// A header's fields, as they lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// First offset.
    pub base: i64,
    /// Bytes behind the length field.
    pub length: i32,
    /// Epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// Format.
    pub magic: i8,
    /// Checksum as stored.
    pub crc: u32,
    /// Bits.
    pub attributes: i16,
    /// Last offset, from the first.
    pub last_delta: i32,
    /// Time that deltas refer to.
    pub base_time: i64,
    /// Largest time.
    pub max_time: i64,
    /// Producer id, -1 for none.
    pub producer: i64,
    /// Producer epoch.
    pub epoch: i16,
    /// Sequence of the first record.
    pub sequence: i32,
    /// Records inside.
    pub count: i32,
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl Header {
    /// Reads a header; `None` if the bytes are too few.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            base: i64::from_be_bytes(field(bytes, 0)?),
            length: i32::from_be_bytes(field(bytes, 8)?),
            leader_epoch: i32::from_be_bytes(field(bytes, 12)?),
            magic: i8::from_be_bytes(field(bytes, 16)?),
            crc: u32::from_be_bytes(field(bytes, 17)?),
            attributes: i16::from_be_bytes(field(bytes, 21)?),
            last_delta: i32::from_be_bytes(field(bytes, 23)?),
            base_time: i64::from_be_bytes(field(bytes, 27)?),
            max_time: i64::from_be_bytes(field(bytes, 35)?),
            producer: i64::from_be_bytes(field(bytes, 43)?),
            epoch: i16::from_be_bytes(field(bytes, 51)?),
            sequence: i32::from_be_bytes(field(bytes, 53)?),
            count: i32::from_be_bytes(field(bytes, 57)?),
        })
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub fn total(&self) -> Option<usize> {
        usize::try_from(self.length).ok().map(|length| length + LENGTH_OVERHEAD)
    }

    /// Offset behind the last.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.base + i64::from(self.last_delta) + 1
    }

    /// Whether an attribute bit is set.
    #[must_use]
    pub fn has(&self, bit: i16) -> bool {
        self.attributes & bit != 0
    }
}

/// Whether the stored checksum is that of the bytes.
#[must_use]
pub fn intact(batch: &[u8]) -> bool {
    batch.len() >= HEADER
        && Header::read(batch)
            .is_some_and(|header| header.crc == crc32c::crc32c(&batch[CRC_FROM..]))
}

/// Writes the checksum of the bytes into them.
pub fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// One record, read or to be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Its offset.
    pub offset: i64,
    /// Its time, as a reader sees it.
    pub time: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value; none is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    loop {
        let byte = u8::try_from(rest & 0x7f).expect("seven bits");
        rest >>= 7;
        if rest == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, i64::try_from(bytes.len()).expect("small"));
            out.extend_from_slice(bytes);
        }
    }
}

fn get_varint(rest: &mut &[u8]) -> Option<i64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
        shift += 7;
    }
}

fn get_bytes(rest: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    let length = get_varint(rest)?;
    if length < 0 {
        return Some(None);
    }
    let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(Some(bytes.to_vec()))
}

/// The records of a batch, or why they cannot be read.
///
/// # Errors
///
/// In words.
pub fn records(batch: &[u8]) -> Result<Vec<Record>, String> {
    let header = Header::read(batch).ok_or("cut header")?;
    if !intact(batch) {
        return Err(format!("the batch at {} has a wrong checksum", header.base));
    }
    let packing = Packing::of(header.attributes).ok_or("unknown codec")?;
    let unpacked = unpack(packing, &batch[HEADER..])?;
    let mut rest = unpacked.as_slice();
    let mut out = Vec::new();
    for _ in 0..header.count {
        out.push(record(&mut rest, &header).ok_or("a record's framing is damaged")?);
    }
    if rest.is_empty() { Ok(out) } else { Err(format!("{} bytes are left over", rest.len())) }
}

fn record(rest: &mut &[u8], header: &Header) -> Option<Record> {
    let length = usize::try_from(get_varint(rest)?).ok()?;
    let (mut inside, after) = rest.split_at_checked(length)?;
    *rest = after;
    inside = inside.split_first()?.1;
    let (time_delta, offset_delta) = (get_varint(&mut inside)?, get_varint(&mut inside)?);
    let (key, value) = (get_bytes(&mut inside)?, get_bytes(&mut inside)?);
    let mut headers = Vec::new();
    for _ in 0..get_varint(&mut inside)? {
        headers.push((get_bytes(&mut inside)??, get_bytes(&mut inside)?));
    }
    let time = if header.has(APPEND_TIME) {
        header.max_time
    } else {
        header.base_time.wrapping_add(time_delta)
    };
    inside.is_empty().then_some(Record {
        offset: header.base.checked_add(offset_delta)?,
        time,
        key,
        value,
        headers,
    })
}

/// Who a batch says it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Producer id, -1 for none.
    pub producer: i64,
    /// Producer epoch.
    pub epoch: i16,
    /// Sequence of the first record.
    pub sequence: i32,
}

impl Origin {
    /// Nobody: a producer without an id.
    pub const NOBODY: Self = Self { producer: -1, epoch: -1, sequence: -1 };
}

/// Writes a batch. `span` is its offsets: at least up to the last record, more after compaction.
/// The offsets of `records` are as they will be; those of the batch begin at `base`.
///
/// # Panics
///
/// If it does not fit a batch.
#[must_use]
pub fn write(
    base: i64,
    span: i64,
    records: &[Record],
    packing: Packing,
    attributes: i16,
    from: Origin,
) -> Vec<u8> {
    let base_time = records.first().map_or(-1, |record| record.time);
    let max_time = records.iter().map(|record| record.time).max().unwrap_or(-1);
    let mut plain = Vec::new();
    for record in records {
        let mut inside = vec![0];
        put_varint(&mut inside, record.time - base_time);
        put_varint(&mut inside, record.offset - base);
        put_bytes(&mut inside, record.key.as_deref());
        put_bytes(&mut inside, record.value.as_deref());
        put_varint(&mut inside, i64::try_from(record.headers.len()).expect("few"));
        for (name, value) in &record.headers {
            put_bytes(&mut inside, Some(name));
            put_bytes(&mut inside, value.as_deref());
        }
        put_varint(&mut plain, i64::try_from(inside.len()).expect("small"));
        plain.extend_from_slice(&inside);
    }
    let packed = pack(packing, &plain);
    let length = i32::try_from(HEADER - LENGTH_OVERHEAD + packed.len()).expect("small");
    let mut out = Vec::with_capacity(HEADER + packed.len());
    out.extend_from_slice(&base.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    out.push(2);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(attributes | packing as i16).to_be_bytes());
    out.extend_from_slice(&i32::try_from(span - 1).expect("small").to_be_bytes());
    out.extend_from_slice(&base_time.to_be_bytes());
    out.extend_from_slice(&max_time.to_be_bytes());
    out.extend_from_slice(&from.producer.to_be_bytes());
    out.extend_from_slice(&from.epoch.to_be_bytes());
    out.extend_from_slice(&from.sequence.to_be_bytes());
    out.extend_from_slice(&i32::try_from(records.len()).expect("few").to_be_bytes());
    out.extend_from_slice(&packed);
    seal(&mut out);
    out
}

/// A transaction marker at `base`.
#[must_use]
pub fn marker(base: i64, time: i64, from: Origin, commit: bool) -> Vec<u8> {
    let record = Record {
        offset: base,
        time,
        key: Some(vec![0, 0, 0, u8::from(commit)]),
        value: Some(vec![0; 6]),
        headers: Vec::new(),
    };
    let from = Origin { sequence: -1, ..from };
    write(base, 1, &[record], Packing::None, TRANSACTIONAL | CONTROL, from)
}

/// Whether a control batch's record says commit.
#[must_use]
pub fn is_commit(batch: &[u8]) -> bool {
    let read = records(batch).unwrap_or_default();
    read.first().and_then(|record| record.key.as_deref()) == Some(&[0, 0, 0, 1])
}

/// Records as a producer compresses them.
///
/// # Panics
///
/// If the codec fails, which writing into memory does not make it.
#[must_use]
pub fn pack(packing: Packing, plain: &[u8]) -> Vec<u8> {
    let packed = match packing {
        Packing::None => Ok(plain.to_vec()),
        Packing::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            out.write_all(plain).and_then(|()| out.finish())
        }
        Packing::Snappy => snap::raw::Encoder::new()
            .compress_vec(plain)
            .map(|block| {
                let length = u32::try_from(block.len()).expect("small");
                [&SNAPPY_JAVA[..], &length.to_be_bytes(), &block].concat()
            })
            .map_err(Into::into),
        Packing::Lz4 => {
            let info = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent);
            let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
            out.write_all(plain).and_then(|()| out.finish().map_err(Into::into))
        }
        Packing::Zstd => zstd::stream::encode_all(plain, 1),
    };
    packed.expect("writing into memory")
}

/// Records as they were before compression.
///
/// # Errors
///
/// In words; also if they are more than [`UNPACKED_MAX`] bytes.
pub fn unpack(packing: Packing, packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    unpack_into(packing, packed, UNPACKED_MAX, |bytes| out.extend_from_slice(bytes)).1?;
    Ok(out)
}

/// Bytes that a batch unpacks to at most.
pub const UNPACKED_MAX: usize = 128 << 20;

/// Shows what compressed bytes stand for, piece by piece, and never more than one byte beyond `max`:
/// how many there were, and whether they were all.
pub fn unpack_into(
    packing: Packing,
    packed: &[u8],
    max: usize,
    mut see: impl FnMut(&[u8]),
) -> (usize, Result<(), String>) {
    let mut sink = Sink { see: &mut see, taken: 0, left: max };
    let ended = match packing {
        Packing::None => sink.write_all(packed),
        Packing::Gzip => {
            io::copy(&mut flate2::read::MultiGzDecoder::new(packed), &mut sink).map(drop)
        }
        Packing::Lz4 => {
            io::copy(&mut lz4_flex::frame::FrameDecoder::new(packed), &mut sink).map(drop)
        }
        Packing::Zstd => zstd::stream::copy_decode(packed, &mut sink),
        Packing::Snappy => unpack_snappy(packed, &mut sink),
    };
    (sink.taken, ended.map_err(|error| error.to_string()))
}

/// Passes on what is written to it, up to a number of bytes.
struct Sink<'s> {
    see: &'s mut dyn FnMut(&[u8]),
    taken: usize,
    left: usize,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = &bytes[..bytes.len().min(self.left)];
        (self.see)(fits);
        self.taken += fits.len();
        self.left -= fits.len();
        if fits.len() < bytes.len() {
            self.taken += 1;
            return Err(io::Error::other("more than a batch unpacks to"));
        }
        Ok(fits.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unpack_snappy(packed: &[u8], sink: &mut Sink<'_>) -> io::Result<()> {
    let mut block = |bytes: &[u8]| {
        // The length that it claims is reserved, so it must be one that the bytes can stand for.
        if snap::raw::decompress_len(bytes)? > 64 * bytes.len() {
            return Err(io::Error::other("a block claims too much"));
        }
        sink.write_all(&snap::raw::Decoder::new().decompress_vec(bytes)?)
    };
    let cut = || io::Error::other("cut snappy block");
    if !packed.starts_with(&SNAPPY_JAVA[..8]) {
        return block(packed);
    }
    let mut rest = packed.get(SNAPPY_JAVA.len()..).ok_or_else(cut)?;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        block(after.get(..length).ok_or_else(cut)?)?;
        rest = &after[length..];
    }
    if rest.is_empty() { Ok(()) } else { Err(cut()) }
}

/// Splits a record set into its whole batches.
#[must_use]
pub fn split(set: &Bytes) -> Vec<Bytes> {
    let mut rest = set.clone();
    let mut out = Vec::new();
    while let Some(total) = Header::read(&rest).and_then(|header| header.total()) {
        if total < HEADER || rest.len() < total {
            break;
        }
        out.push(rest.split_to(total));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_in_every_codec() {
        let record = |offset: i64, key: Option<&[u8]>, value: Option<&[u8]>| Record {
            offset,
            time: 1_000 + offset,
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: vec![(b"h".to_vec(), None), (b"h".to_vec(), Some(vec![7]))],
        };
        let all = [
            record(5, Some(b"k"), Some(&[9; 300])),
            record(6, None, Some(b"")),
            record(8, Some(b""), None),
        ];
        for packing in Packing::ALL {
            let batch = write(5, 6, &all, packing, 0, Origin::NOBODY);
            assert_eq!(records(&batch).unwrap(), all, "{packing:?}");
            let header = Header::read(&batch).unwrap();
            assert_eq!((header.next(), header.count), (11, 3));
            assert_eq!(header.total(), Some(batch.len()));

            let mut damaged = batch.clone();
            damaged[30] ^= 1;
            assert!(records(&damaged).is_err());
        }
    }
}
