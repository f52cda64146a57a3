//! Record batches as bytes: walked, restamped, rebuilt, merged, and a copier that sends them.

use bytes::Bytes;
use heliograph::batch::{
    AbortedIndex, BatchHeader, Entry, HEADER_BYTES, Oversize, RawBatch, RebuildError, Shallow,
    Terms, control_type, disposition, is_whole, rebuild, restamp, verify,
};
use heliograph::copy::{self, Copier, Merging, Outcome, Start};
use heliograph::model::{AbortedTransaction, LeaderEpoch, Offset, ProducerIdentity, Sequence};
use heliograph::wire::ErrorCode;
use heliograph::wire::fetch::{FetchedPartition, TopicRef};

use super::{Feed, with};
use crate::broker::batch::{self, Origin};
use crate::copy_run::{self, Piece, Step, seal};
use crate::golden::{self, Record, records};

/// Makes bytes a batch that gets past header and checksum, so that what lies behind is reached.
/// The record count stays as it is, if it can.
fn as_batch(data: &[u8], dense: bool) -> Option<RawBatch> {
    let mut bytes = data.to_vec();
    let length = i32::try_from(bytes.len()).ok()?.checked_sub(12)?;
    if bytes.len() < HEADER_BYTES {
        return None;
    }
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[0] &= 0x3f;
    bytes[16] = 2;
    bytes[23] &= 0x7f;
    if dense {
        let delta = i32::from_be_bytes(*bytes[23..].first_chunk()?);
        bytes[57..61].copy_from_slice(&delta.checked_add(1)?.to_be_bytes());
    }
    seal(&mut bytes);
    RawBatch::new(Bytes::from(bytes)).ok()
}

/// A walk covers what it says it covers, and nothing in a batch makes a reader panic.
///
/// # Panics
///
/// If entries overlap, run past the end, or are not contiguous.
pub(super) fn shallow_walk(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let mut walk = Shallow::new(bytes.clone());
    let list = vec![AbortedTransaction { first_offset: Offset(3), producer_id: 0 }];
    let mut aborted = AbortedIndex::new(list);
    let mut at = 0;
    let mut failed = false;
    for entry in walk.by_ref() {
        assert!(!failed, "an error ends the walk");
        match entry {
            Ok(Entry::Batch(batch)) => {
                assert_eq!(batch.bytes()[..], bytes[at..at + batch.bytes().len()]);
                at += batch.bytes().len();
                let position = Offset(batch.header().base_offset.0 / 2);
                let terms =
                    Terms { position, aborted: aborted.covers(&batch), batch_bytes_max: 1 << 20 };
                let _ = disposition(batch.header(), terms);
                let _ = control_type(&batch);
                let _ = verify(&batch);
                let _ = records(&batch);
            }
            Ok(Entry::Legacy { bytes: message, .. }) => at += message.len(),
            Err(_) => failed = true,
        }
        assert!(at <= bytes.len());
    }
    if !failed && let Some(whole) = walk.cut_off() {
        assert!(whole > bytes.len() - at, "what is whole is not cut off");
    }
}

/// A restamped batch has the right checksum if, and only if, the source's was right.
///
/// # Panics
///
/// If amending and recomputing differ.
pub(super) fn restamp_differential(data: &[u8]) {
    let mut feed = Feed(data);
    let wrong = u32::from(feed.byte());
    let sequence = i32::from(feed.byte()).wrapping_mul(0x0101_0101) & i32::MAX;
    let id = i64::from_be_bytes([0, feed.byte(), 0, 0, feed.byte(), 0, 0, 1]);
    let identity = ProducerIdentity { id, epoch: i16::from(feed.byte()) };
    let Some(good) = as_batch(feed.0, true) else { return };
    let mut bytes = good.bytes().to_vec();
    let crc = good.header().crc ^ wrong;
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    let Ok(batch) = RawBatch::new(Bytes::from(bytes)) else { return };

    let sequence = Sequence::from_wire(sequence).unwrap_or_default();
    let out = restamp(&batch, identity, sequence);
    let stored = u32::from_be_bytes(*out.header[17..].first_chunk().expect("four bytes"));
    let full = crc32c::crc32c_append(crc32c::crc32c(&out.header[21..]), &out.body);
    assert_eq!(stored ^ full, wrong, "what was wrong is wrong in the same bits");
    assert_eq!(is_whole(&out), wrong == 0);
    assert!(std::ptr::eq(out.body.as_ptr(), batch.body().as_ptr()) || out.body.is_empty());

    let header = BatchHeader::parse(&out.header).expect("a header");
    let old = batch.header();
    assert_eq!((header.producer_id, header.producer_epoch), (identity.id, identity.epoch));
    assert_eq!(header.base_sequence, Some(sequence));
    assert_eq!((header.base_offset, header.count), (Offset(0), old.count));
    assert_eq!(header.base_timestamp, old.base_timestamp);
    assert_eq!(header.max_timestamp, old.max_timestamp);
    assert_eq!(header.attributes.0, old.attributes.0 & 0b111);
}

/// A batch whose records can be read is rebuilt to the same records, or one is too large.
///
/// # Panics
///
/// If a record is lost, changed or out of order.
pub(super) fn rebuild_equivalence(data: &[u8]) {
    let mut feed = Feed(data);
    let limit = 100 + usize::from(feed.byte()) * 64;
    let skip = i64::from(feed.byte());
    let Some(batch) = as_batch(feed.0, false) else { return };
    let position = Offset(batch.header().base_offset.0.saturating_add(skip));
    let source = records(&batch);
    let built = rebuild(&batch, position, limit, Oversize::Refuse);
    let Ok(source) = source else {
        assert!(matches!(built, Err(RebuildError::Records(_))), "unreadable records are refused");
        return;
    };
    let wanted: Vec<Record> =
        source.iter().filter(|record| record.offset >= position.0).map(Record::content).collect();
    let pieces = match built {
        Ok(built) => built.pieces,
        Err(RebuildError::RecordTooLarge { bytes, max, .. }) => {
            assert!(bytes > max && max == limit);
            return;
        }
        Err(RebuildError::Records(error)) => panic!("readable records: {error}"),
    };
    let mut found = Vec::new();
    for piece in &pieces {
        assert!(piece.batch.bytes().len() <= limit && verify(&piece.batch));
        let inside = records(&piece.batch).expect("what was built is readable");
        let dense = (piece.upstream.start.0..).take(inside.len());
        assert!(inside.iter().map(|record| record.offset).eq(dense));
        found.extend(inside.iter().map(Record::content));
    }
    assert_eq!(found, wanted);
}

fn piece(feed: &mut Feed<'_>) -> Piece {
    let (kind, count) = (feed.byte(), feed.byte());
    match kind % 16 {
        0..=5 => Piece::Data(count, kind / 16),
        6 | 7 => Piece::Holes(count),
        8 => Piece::Emptied(count),
        9 => Piece::Missing(count),
        10 => Piece::AppendTime(count),
        11 | 12 => Piece::Transaction(count, kind & 16 == 0),
        13 | 14 => Piece::Interleaved(count),
        _ => Piece::Damaged(count),
    }
}

fn step(feed: &mut Feed<'_>) -> Step {
    let byte = feed.byte();
    let lane = byte >> 7;
    match byte % 32 {
        0..=4 => Step::Fetch(feed.byte(), byte),
        5 => Step::StaleFetch,
        6 => Step::FetchFails(byte / 32),
        7..=14 => Step::Take,
        15..=19 => Step::Serve(lane),
        20 => Step::Refuse(lane, byte / 32),
        21 => Step::StoreAndRefuse(lane, byte / 32),
        22..=26 => Step::Answer(lane),
        27 => Step::AnswerTwice,
        28 => Step::Lose(lane),
        29 => Step::Ghost,
        30 => Step::MoveLeader,
        _ => Step::Release,
    }
}

/// Whatever happens between a copier and its target, every record arrives once and in order.
///
/// # Panics
///
/// If it does not, with the first promise that was broken.
pub(super) fn copier_ops(data: &[u8]) {
    let mut feed = Feed(data);
    let near_the_end = feed.byte() & 1 == 1;
    let count = feed.byte() % 12;
    let pieces: Vec<Piece> = (0..count).map(|_| piece(&mut feed)).collect();
    let mut steps = Vec::new();
    while !feed.is_empty() && steps.len() < 400 {
        steps.push(step(&mut feed));
    }
    let first_sequence = if near_the_end { i32::MAX - 3 } else { 0 };
    if let Err(what) = copy_run::run(&pieces, &steps, first_sequence) {
        panic!("{what}\npieces: {pieces:?}\nsteps: {steps:?}");
    }
}

const NOBODY: Origin = Origin::NOBODY;

/// What a peer may say: small numbers, and those at the ends of `i64`.
fn number(feed: &mut Feed<'_>) -> i64 {
    match feed.byte() {
        255 => i64::MAX - i64::from(feed.byte()),
        254 => i64::MIN + i64::from(feed.byte()),
        253 => -1,
        small => i64::from(small),
    }
}

/// A Fetch answer of a broker that may be anything: batches with right checksums, as they came or
/// with other first offsets, and whatever numbers.
fn answer(feed: &mut Feed<'_>, position: Offset) -> FetchedPartition {
    let code = if feed.byte() & 7 == 7 { i16::from(feed.byte()) - 1 } else { 0 };
    let mut records = Vec::new();
    for _ in 0..feed.byte() % 4 {
        let (kind, length) = (feed.byte(), usize::from(feed.byte()));
        let bytes = match kind % 4 {
            0 => feed.take(length).to_vec(),
            // Made-up records in a batch that is whole.
            1 => {
                let body = feed.take(length);
                let mut bytes = batch::write(0, 1, &[], batch::Packing::None, 0, NOBODY);
                bytes.extend_from_slice(body);
                bytes[23..27].copy_from_slice(&i32::from(feed.byte()).to_be_bytes());
                bytes[57..61].copy_from_slice(&i32::from(feed.byte()).to_be_bytes());
                bytes
            }
            _ => {
                let count = i64::try_from(length % 5).expect("small");
                let record = |at| batch::Record {
                    offset: at * i64::from(kind >> 6),
                    time: 5,
                    key: None,
                    value: Some(vec![kind; length]),
                    headers: Vec::new(),
                };
                let all: Vec<_> = (0..=count).map(record).collect();
                let packing = batch::Packing::ALL[usize::from(kind >> 2) % 5];
                batch::write(0, 4 * count + 1, &all, packing, 0, NOBODY)
            }
        };
        records.extend(placed(feed, bytes, position));
    }
    let aborted = (0..feed.byte() % 3).map(|_| AbortedTransaction {
        first_offset: Offset(number(feed)),
        producer_id: number(feed),
    });
    let aborted = aborted.collect();
    FetchedPartition {
        topic: TopicRef::Name("source".into()),
        partition: 0,
        code: ErrorCode(code),
        high_watermark: Offset(number(feed)),
        last_stable_offset: Offset(number(feed)),
        log_start: Offset(number(feed)),
        diverging: (feed.byte() == 200).then(|| (LeaderEpoch(1), Offset(number(feed)))),
        leader: None,
        preferred_replica: None,
        aborted,
        records: Bytes::from(records),
    }
}

/// Gives a batch a first offset, attributes and a producer, and makes it whole again.
fn placed(feed: &mut Feed<'_>, mut bytes: Vec<u8>, position: Offset) -> Vec<u8> {
    if bytes.len() < HEADER_BYTES {
        return bytes;
    }
    let first = match feed.byte() {
        255 => number(feed),
        near => position.0.saturating_add(i64::from(near % 8) - 1),
    };
    bytes[..8].copy_from_slice(&first.to_be_bytes());
    let length = i32::try_from(bytes.len() - batch::LENGTH_OVERHEAD).expect("small");
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[16] = 2;
    let attributes = feed.byte();
    if attributes >= 128 {
        bytes[22] ^= attributes & 0b0111_1000;
        bytes[43..51].copy_from_slice(&number(feed).to_be_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// A source and a target that say anything: the copier stands still, doubts or goes on, but what it
/// gives to send is whole, under its own name and in the order of sequences, and what it takes for
/// copied never goes back.
///
/// # Panics
///
/// If not.
pub(super) fn copier_peers(data: &[u8]) {
    let mut feed = Feed(data);
    let flags = feed.byte();
    let oversize = if flags & 4 == 0 { Oversize::Refuse } else { Oversize::Skip };
    let terms = copy::Terms {
        read_committed: flags & 1 == 0,
        limits: (if flags & 2 == 0 { 1 << 20 } else { 150 }).into(),
        verify: flags & 8 != 0,
        oversize,
    };
    let identity = ProducerIdentity { id: 4001, epoch: 2 };
    let start = Start {
        upstream: Offset(number(&mut feed).max(0)),
        downstream: Offset(number(&mut feed).max(0)),
        epoch: LeaderEpoch::UNKNOWN,
        identity,
        sequence: Sequence::ZERO,
    };
    let mut copier = Copier::new(start, terms);
    let (mut effects, mut open, mut acked) = (Vec::new(), Vec::new(), start.upstream);
    let mut next = Sequence::ZERO;
    for _ in 0..200 {
        if feed.is_empty() {
            break;
        }
        let step = feed.byte();
        match step % 8 {
            0 | 1 => {
                let unasked = Offset(number(&mut feed));
                let asked = copier.wish().map_or(unasked, |wish| wish.position);
                let part = answer(&mut feed, asked);
                copier.on_fetched(asked, part, &mut effects);
            }
            2..=4 => {
                if let Some((out, sequence)) = copier.take() {
                    let header = BatchHeader::parse(&out.header).expect("a header");
                    assert_eq!((header.producer_id, header.producer_epoch), (4001, 2));
                    assert_eq!(header.base_sequence, Some(sequence));
                    // What is sent again was sent before; what is new follows it.
                    if sequence == next {
                        next = next.advance(header.count);
                    } else {
                        assert!(open.contains(&sequence), "{sequence:?} after {next:?}");
                    }
                    open.push(sequence);
                    assert!(open.len() < 2000);
                }
            }
            5 | 6 => {
                let sequence = open.get(usize::from(feed.byte()) % open.len().max(1));
                let sequence = sequence.copied().unwrap_or_default();
                let outcome = match feed.byte() % 4 {
                    0 | 1 => Outcome::Stored(Offset(number(&mut feed))),
                    2 => Outcome::Refused(ErrorCode(i16::from(feed.byte()) - 1), None),
                    _ => Outcome::Unknown,
                };
                copier.on_produced(sequence, outcome, &mut effects);
            }
            _ if step & 8 == 8 => copier.release(),
            _ if step & 16 == 16 => copier.set_merging(Merging::Far),
            _ => drop(copier.take_bends()),
        }
        effects.clear();
        assert!(copier.acked() >= acked, "{} went back to {}", acked, copier.acked());
        acked = copier.acked();
        if let Some(wish) = copier.wish() {
            assert!(wish.position >= acked);
        }
    }
}

fn sets() -> impl Iterator<Item = Bytes> {
    golden::record_sets().into_iter().map(|set| set.bytes)
}

/// Every recorded batch of version 2.
pub(super) fn batches() -> impl Iterator<Item = Bytes> {
    sets().flat_map(Shallow::new).filter_map(|entry| match entry {
        Ok(Entry::Batch(batch)) => Some(batch.bytes().clone()),
        _ => None,
    })
}

pub(super) fn copier_ops_seeds() -> Vec<Vec<u8>> {
    (0..4_u8)
        .map(|first| {
            let pieces = (0..11_u8).flat_map(|at| [at.wrapping_mul(37).wrapping_add(first), at]);
            let steps = [0, 7, 7, 7, 7, 7, 15, 22, 20, 16, 28, 30, 143, 150, 29];
            [first, 11].into_iter().chain(pieces).chain(steps.repeat(6)).collect()
        })
        .collect()
}

pub(super) fn copier_peers_seeds() -> Vec<Vec<u8>> {
    (0..6_u8)
        .map(|by| {
            let steps = (0..220_u8).map(|at| at.wrapping_mul(29).wrapping_add(by) % 251);
            [by * 3, by, 7].into_iter().chain(steps).collect()
        })
        .collect()
}

pub(super) fn rebuild_equivalence_seeds() -> Vec<Vec<u8>> {
    batches().map(|batch| with(&[255, 0], &batch)).collect()
}

pub(super) fn restamp_differential_seeds() -> Vec<Vec<u8>> {
    batches().map(|batch| with(&[0, 9, 1, 2, 3], &batch)).collect()
}

pub(super) fn shallow_walk_seeds() -> Vec<Vec<u8>> {
    sets().map(Vec::from).collect()
}
