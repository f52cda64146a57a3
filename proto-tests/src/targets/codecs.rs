//! What has to be unpacked: bombs, merged batches, and messages of formats 0 and 1.

use bytes::Bytes;
use heliograph::batch::{
    Batches, MERGED_UNPACKED_MAX, Oversize, RawBatch, RebuildError, RecordError,
    UNPACKED_BYTES_MAX, for_each_record, merge, mergeable, rebuild, verify,
};
use heliograph::model::Offset;
use peak_alloc::PeakAlloc;

use super::{Feed, KIB, with};
use crate::broker::batch::{self, Header, Origin, Packing, Record, TRANSACTIONAL};
use crate::golden;
use crate::legacy::{self, Message};

/// Most bytes of one batch that are made here; a broker's `max.message.bytes` unless told otherwise.
const PACKED_MAX: usize = KIB * KIB;

/// Bombs up to this size are written anew as well; larger ones only have to be survived.
const WRITTEN_MAX: usize = 4 * KIB * KIB;

/// Heap that a codec takes for any input: its windows and blocks. An lz4 frame may ask for blocks of
/// 8 MiB, one packed and one not; what zstd takes is C's, and counted by libFuzzer.
fn state_of(packing: Packing) -> usize {
    match packing {
        Packing::None => 4 * KIB,
        Packing::Snappy => 256 * KIB,
        Packing::Gzip | Packing::Zstd => KIB * KIB,
        Packing::Lz4 => 17 * KIB * KIB,
    }
}

/// Most heap that `work` holds at a time, and what it gives.
fn heap_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let given = work();
    (PeakAlloc.peak_usage().saturating_sub(before), given)
}

fn codec_error<T>(result: &Result<T, RecordError>) -> bool {
    matches!(result, Err(RecordError::Codec(_)))
}

/// A batch of these packed bytes, dense and sealed.
fn batch_of(packing: Packing, count: u16, packed: &[u8]) -> Option<RawBatch> {
    let mut bytes = batch::write(7, 1, &[], packing, 0, Origin::NOBODY);
    bytes.truncate(batch::HEADER);
    bytes.extend_from_slice(packed);
    let length = i32::try_from(bytes.len() - batch::LENGTH_OVERHEAD).expect("small");
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[23..27].copy_from_slice(&i32::from(count.max(1) - 1).to_be_bytes());
    bytes[57..61].copy_from_slice(&i32::from(count).to_be_bytes());
    batch::seal(&mut bytes);
    RawBatch::new(Bytes::from(bytes)).ok()
}

/// Packed bytes that claim, or unpack to, far more than they are: unpacking stops at its bound, and
/// what is held at any moment is explained by the bytes and by what really came out of them.
///
/// The input: codec, records, how often a part is repeated, the lengths of what stands before it
/// and of it, and what follows. So an input of a few bytes is a bomb of a megabyte.
///
/// # Panics
///
/// If more is held, or if our reader and a plain one differ on whether the bytes unpack.
pub(super) fn codec_bomb(data: &[u8]) {
    let mut feed = Feed(data);
    let packing = Packing::ALL[1 + usize::from(feed.byte() % 4)];
    let count = u16::from_be_bytes([feed.byte(), feed.byte()]);
    let repeats = usize::from(u16::from_be_bytes([feed.byte(), feed.byte()]) % 2048);
    let (head, unit) = (usize::from(feed.byte()), usize::from(feed.byte()));
    let (head, unit) = (feed.take(head), feed.take(unit));
    let mut packed = [head, &unit.repeat(repeats), feed.0].concat();
    packed.truncate(PACKED_MAX);
    let Some(bomb) = batch_of(packing, count, &packed) else { return };

    let (produced, ended) = batch::unpack_into(packing, &packed, UNPACKED_BYTES_MAX, |_| ());
    let unpacks = ended.is_ok();
    // A snappy block's length is reserved before it is read, but no more than its bytes can hold.
    let claimed = if packing == Packing::Snappy { 22 * packed.len() } else { 0 };
    // A vector that grows holds the old and the new half as large again.
    let explained = state_of(packing) + claimed + 3 * produced;

    let (held, read) = heap_of(|| for_each_record(&bomb, |_| ()));
    assert_eq!(codec_error(&read), !unpacks, "{packing:?}: {ended:?}, and we: {read:?}");
    assert!(held <= explained, "{packing:?}: reading {produced} bytes held {held}");

    // Merging lays open a bounded number of bytes, whatever the batches are.
    let (held, merged) = heap_of(|| merge([&bomb, &bomb, &bomb]).map(|(_, merged)| merged));
    let open = explained.min(state_of(packing) + claimed + 3 * MERGED_UNPACKED_MAX);
    let written = 9 * (3 * produced + KIB).min(MERGED_UNPACKED_MAX);
    assert!(held <= open + written, "{packing:?}: merging {produced} bytes held {held}");
    if produced > MERGED_UNPACKED_MAX {
        assert!(codec_error(&merged), "{packing:?}: {produced} bytes were merged");
    }

    if produced <= WRITTEN_MAX {
        // Written anew, a record of seven bytes can take eleven; halves are made while the whole is
        // held, and so are runs of offsets.
        let (held, built) =
            heap_of(|| rebuild(&bomb, Offset(0), PACKED_MAX, Oversize::Skip).map(drop));
        let same = match (&read, &built) {
            (Ok(()), Ok(())) => true,
            (Err(one), Err(RebuildError::Records(two))) => one.to_string() == two.to_string(),
            _ => false,
        };
        assert!(same, "{read:?} {built:?}");
        let written = 16 * produced + 4 * state_of(packing);
        assert!(held <= explained + written, "{packing:?}: writing {produced} bytes held {held}");
    }
}

/// Small batches that become one: its records are theirs, in their order, and nothing else changes
/// but their offsets.
///
/// # Panics
///
/// If a record is lost, changed or out of order, or if a damaged batch is merged.
pub(super) fn merge_equivalence(data: &[u8]) {
    let mut feed = Feed(data);
    let packing = Packing::ALL[usize::from(feed.byte() % 5)];
    let damage = feed.byte();
    let count = 1 + usize::from(feed.byte() % 6);
    let mut base = i64::from(feed.byte());
    let mut parts = Vec::new();
    for _ in 0..count {
        let part = part(&mut feed, packing, base);
        let Ok(part) = RawBatch::new(Bytes::from(part)) else { return };
        base = part.header().next_offset().0;
        parts.push(part);
    }
    let headers = parts.iter().map(RawBatch::header);
    if !headers.clone().all(|header| mergeable(parts[0].header(), header)) {
        return;
    }
    if damage % 4 == 1 {
        let which = usize::from(damage / 4) % count;
        let mut bytes = parts[which].bytes().to_vec();
        let last = bytes.len() - 1;
        if last >= batch::HEADER {
            bytes[last] ^= 1;
            parts[which] = RawBatch::new(Bytes::from(bytes)).expect("the header is as it was");
            let sealed = merge(&parts).is_ok_and(|(_, taken)| taken > which);
            assert!(!sealed, "a damaged batch was sealed");
        }
        return;
    }
    let read = |batch: &RawBatch| batch::records(batch.bytes());
    let Ok(source) = parts.iter().map(read).collect::<Result<Vec<_>, _>>() else {
        // Nothing is promised but to come back.
        let _ = merge(&parts);
        return;
    };
    let (merged, taken) = match merge(&parts) {
        Ok(merged) => merged,
        Err(error) => {
            // The builder makes no batch without records, and none over the bound.
            let first = batch::unpack_into(packing, &parts[0].body(), usize::MAX, |_| ()).0;
            assert!(first > MERGED_UNPACKED_MAX, "readable batches: {error}");
            return;
        }
    };
    let unpacked =
        |part: &RawBatch| batch::unpack_into(packing, &part.body(), usize::MAX, |_| ()).0;
    let all: usize = parts.iter().map(unpacked).sum();
    assert!(taken == count || all > MERGED_UNPACKED_MAX, "{taken} of {count} were merged");

    let first = parts[0].header();
    let dense = (first.base_offset.0..).zip(source.iter().take(taken).flatten());
    let wanted: Vec<Record> =
        dense.map(|(offset, record)| Record { offset, ..record.clone() }).collect();
    assert!(verify(&merged));
    assert_eq!(read(&merged).expect("what was merged is readable"), wanted);
    let header = Header::read(merged.bytes()).expect("a header");
    assert_eq!(header.count, header.last_delta + 1);
    assert_eq!((header.producer, header.epoch, header.sequence), (-1, -1, -1));
    assert_eq!(header.attributes, packing as i16);
    assert_eq!(header.base, first.base_offset.0);
    let latest = wanted.iter().map(|record| record.time).max();
    assert_eq!(Some(header.max_time), latest.map(|time| time.max(-1)));
}

/// A batch to be merged: written by a plain writer, or made-up bytes behind a header that is whole.
fn part(feed: &mut Feed<'_>, packing: Packing, base: i64) -> Vec<u8> {
    let kind = feed.byte();
    if kind >= 240 {
        let length = usize::from(feed.byte());
        let mut bytes = batch::write(base, 1, &[], packing, 0, Origin::NOBODY);
        bytes.truncate(batch::HEADER);
        bytes.extend_from_slice(feed.take(length));
        let length = i32::try_from(bytes.len() - batch::LENGTH_OVERHEAD).expect("small");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[23..27].copy_from_slice(&i32::from(kind - 240).to_be_bytes());
        bytes[57..61].copy_from_slice(&i32::from(kind - 239).to_be_bytes());
        batch::seal(&mut bytes);
        return bytes;
    }
    let mut records = Vec::new();
    let mut offset = base;
    for _ in 0..=kind % 4 {
        offset += i64::from(feed.byte() & 1);
        records.push(record(feed, offset));
        offset += 1;
    }
    let attributes = if kind & 4 != 0 { TRANSACTIONAL } else { 0 };
    let from = Origin { producer: i64::from(kind), epoch: 3, sequence: 9 };
    batch::write(base, offset - base, &records, packing, attributes, from)
}

fn record(feed: &mut Feed<'_>, offset: i64) -> Record {
    let shape = feed.byte();
    let mut field = |bit: u8| {
        let length = usize::from(feed.byte() % 32);
        (shape & bit != 0).then(|| feed.take(length).to_vec())
    };
    let (key, value) = (field(1), field(2));
    let headers = (0..shape >> 6).map(|_| (field(255).unwrap_or_default(), field(4))).collect();
    let time = i64::from(shape) * 1000 - 9000;
    Record { offset, time, key, value, headers }
}

/// Messages of formats 0 and 1, plain and wrapped, become batches of version 2 with the same
/// records; a damaged one becomes none.
///
/// # Panics
///
/// If our reading and that of a plain reader differ.
pub(super) fn legacy_conversion(data: &[u8]) {
    let mut feed = Feed(data);
    let (damage, at) = (feed.byte(), u16::from_be_bytes([feed.byte(), feed.byte()]));
    let mut offset = i64::from(feed.byte());
    let (mut set, mut starts, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
    while !feed.is_empty() && starts.len() < 16 {
        for one in entry(&mut feed, &mut offset, &mut wanted) {
            starts.push(set.len());
            set.extend(one);
        }
    }
    if damage & 1 == 1 && !set.is_empty() {
        let at = usize::from(at) % set.len();
        set[at] ^= damage.max(2);
        // Sealed again, what is inside is reached; or else the checksum is what is wrong.
        let start = *starts.iter().rev().find(|start| **start <= at).expect("the first is 0");
        let end = starts.iter().find(|start| **start > at).copied().unwrap_or(set.len());
        if damage & 2 == 2 && end - start > 17 && set[start + 16] < 2 {
            legacy::seal(&mut set[start..end]);
        }
    }
    let set = Bytes::from(set);
    let (theirs, sound) = read_plainly(&set);
    if damage & 1 == 0 {
        assert!(sound && theirs == wanted, "what was written is read");
    }

    let mut ours = Vec::new();
    let mut refused = None;
    for converted in Batches::new(set) {
        let read = converted.map_err(|error| error.to_string()).and_then(|batch| {
            assert_eq!(batch.bytes()[16], 2);
            batch::records(batch.bytes())
        });
        match read {
            Ok(records) => ours.extend(records),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert!(theirs.starts_with(&ours), "ours: {ours:?}\ntheirs: {theirs:?}");
    // A batch has growing offsets from 0 on, not too far apart.
    let is_log = theirs.is_sorted_by(|one, next| {
        next.offset > one.offset && next.offset - one.offset < i64::from(u16::MAX)
    }) && theirs.first().is_none_or(|record| record.offset >= 0)
        && theirs.last().is_none_or(|record| record.offset < i64::MAX);
    if sound && is_log {
        assert!(refused.is_none() && ours.len() == theirs.len(), "{refused:?}");
    }
}

/// The next entries of a set; `records` gets what a reader sees in them.
fn entry(feed: &mut Feed<'_>, offset: &mut i64, records: &mut Vec<Record>) -> Vec<Vec<u8>> {
    let kind = feed.byte();
    let (count, format) = (usize::from(kind >> 6) + 1, kind & 1);
    let packing = Packing::ALL[usize::from(kind >> 1 & 3)];
    let mut inside: Vec<Record> = Vec::new();
    for _ in 0..count {
        *offset += i64::from(feed.byte() & 3);
        inside.push(Record { headers: Vec::new(), ..record(feed, *offset) });
        *offset += 1;
    }
    if kind & 0b11_1000 == 0b11_1000 {
        let (first, last) = (inside[0].offset, inside[inside.len() - 1].offset);
        let bytes = batch::write(first, last - first + 1, &inside, packing, 0, Origin::NOBODY);
        records.extend(inside);
        return vec![bytes];
    }
    let append_time = (format == 1 && packing != Packing::None && kind & 8 == 8).then_some(1234);
    let bytes = if packing == Packing::None {
        inside.iter().map(|record| Message::plain(format, record).to_bytes()).collect()
    } else {
        vec![Message::wrapper(format, packing, append_time, &inside).to_bytes()]
    };
    for record in &mut inside {
        record.time = if format == 0 { -1 } else { append_time.unwrap_or(record.time) };
    }
    records.extend(inside);
    bytes
}

/// The records of a set up to the first that cannot be read, and whether that came.
fn read_plainly(set: &[u8]) -> (Vec<Record>, bool) {
    let (mut rest, mut out) = (set, Vec::new());
    while rest.len() > 16 {
        let length = i32::from_be_bytes(*rest[8..].first_chunk().expect("four bytes"));
        let Ok(length) = usize::try_from(length) else { return (out, false) };
        let Some(one) = rest.get(..batch::LENGTH_OVERHEAD + length) else { break };
        let read = match one.get(16) {
            Some(2) => batch::records(one),
            _ => Message::take(&mut &one[..]).and_then(Message::records),
        };
        match read {
            Ok(records) => out.extend(records),
            Err(_) => return (out, false),
        }
        rest = &rest[batch::LENGTH_OVERHEAD + length..];
    }
    (out, true)
}

/// A record whose value fills what is left, as its bytes begin in a batch.
fn large_record(value: usize) -> Vec<u8> {
    let value = vec![0; value];
    let record = Record { offset: 0, time: 0, key: None, value: Some(value), headers: Vec::new() };
    batch::write(0, 1, &[record], Packing::None, 0, Origin::NOBODY)[batch::HEADER..].to_vec()
}

/// A bomb's input: so many records in these packed bytes, of which a part is repeated.
fn bomb(
    packing: Packing,
    count: u8,
    (head, unit, repeats): (&[u8], &[u8], u16),
    tail: &[u8],
) -> Vec<u8> {
    let sized = |part: &[u8]| u8::try_from(part.len()).expect("short");
    let codec = packing as u8 - 1;
    let [high, low] = repeats.to_be_bytes();
    [&[codec, 0, count, high, low, sized(head), sized(unit)], head, unit, tail].concat()
}

pub(super) fn codec_bomb_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for packing in &Packing::ALL[1..] {
        // One record that is honest, one of a few megabytes of zeros, and one that is cut.
        for value in [100, 60_000, 3 << 20] {
            let packed = batch::pack(*packing, &large_record(value));
            if packed.len() > 20_000 {
                continue;
            }
            seeds.push(bomb(*packing, 1, (&[], &[], 0), &packed));
            seeds.push(bomb(*packing, 1, (&[], &[], 0), &packed[..packed.len() / 2]));
        }
        // Many small records.
        let record =
            |offset| Record { offset, time: 0, key: None, value: None, headers: Vec::new() };
        let many: Vec<Record> = (0..255).map(record).collect();
        let many = batch::write(0, 255, &many, *packing, 0, Origin::NOBODY);
        seeds.push(bomb(*packing, 255, (&[], &[], 0), &many[batch::HEADER..]));
    }
    // zstd: a frame that says nothing about its size, and blocks of four bytes for 128 KiB each.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    let block = [0x02, 0x00, 0x10, 0x00];
    seeds.push(bomb(Packing::Zstd, 1, (&frame, &block, 1100), &[0x03, 0x00, 0x10, 0x00]));
    seeds.push(bomb(Packing::Zstd, 1, (&frame, &block, 9), &[0x03, 0x00, 0x10, 0x00]));
    // A window of 128 MiB that is claimed, and content of 2^60 bytes.
    seeds.push(bomb(Packing::Zstd, 1, (&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88], &[], 0), &block));
    let content = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10];
    seeds.push(bomb(Packing::Zstd, 1, (&content, &[], 0), &block));
    // gzip: members behind one another; lz4: a frame that asks for blocks of 4 MiB, and frames behind
    // one another; snappy: blocks that claim 4 GiB, and many that hold what they claim.
    for packing in [Packing::Gzip, Packing::Lz4] {
        let unit = batch::pack(packing, &[0; 20_000]);
        seeds.push(bomb(packing, 1, (&[], &unit, 2000), &[]));
    }
    seeds.push(bomb(Packing::Lz4, 1, (&[4, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73], &[], 0), &[9; 9]));
    seeds.push(bomb(Packing::Snappy, 1, (&[255, 255, 255, 255, 15], &[], 0), &[0; 30]));
    let java = batch::pack(Packing::Snappy, &[0; 3000]);
    seeds.push(bomb(Packing::Snappy, 1, (&java[..16], &java[16..], 2000), &[]));
    seeds
}

pub(super) fn merge_equivalence_seeds() -> Vec<Vec<u8>> {
    let tail: Vec<u8> = (0..200_u8).map(|at| at.wrapping_mul(73)).collect();
    let made = (0..5).map(|packing| with(&[packing, 0, 4, 1], &tail));
    let damaged = (0..5).map(|packing| with(&[packing, 5, 3, 1, 2], &tail));
    made.chain(damaged).collect()
}

pub(super) fn legacy_conversion_seeds() -> Vec<Vec<u8>> {
    let kinds = (0..=255_u8).step_by(23);
    let entries: Vec<u8> =
        kinds.flat_map(|kind| [kind, 1, 199, 3, 7, 7, 7, 5, 9, 9, 9, 9]).collect();
    let damaged = [0_u8, 1, 3, 13, 35, 131]
        .map(|damage| [&[damage, 0, damage / 2, 4], &entries[..]].concat());
    // Recorded sets are read as such by other targets; here their order of bytes is a beginning.
    let recorded = golden::record_sets().into_iter().filter(|set| !set.name.starts_with("v2"));
    damaged.into_iter().chain(recorded.map(|set| with(&[0, 0, 0, 0], &set.bytes))).collect()
}
