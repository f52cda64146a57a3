//! Records of the topics that MirrorMaker 2, Connect and we ourselves keep notes in.

use std::fs;

use heliograph::flow::doors;
use heliograph::mm2::{
    Checkpoint, Heartbeat, OffsetSync, SourceOffsetKey, decode_value, encode_value, murmur2,
    partition_for_key,
};
use heliograph::model::{Bend, KeptChunk, Offset, OffsetMap, TopicPartition, Translation};
use heliograph::policy::{BySync, SyncStore};

use super::{Feed, with};
use crate::golden;
use crate::offset_map_run::{self, Step};

/// Kafka's murmur2, written down from its description: an independent reading.
fn plain_murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(bytes.len()).expect("short");
    let mut at = 0;
    while at + 4 <= bytes.len() {
        let mut k = 0_u32;
        for i in (0..4).rev() {
            k = k << 8 | u32::from(bytes[at + i]);
        }
        k = k.wrapping_mul(M);
        k = (k ^ k >> 24).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
        at += 4;
    }
    let rest = &bytes[at..];
    for i in (0..rest.len()).rev() {
        hash ^= u32::from(rest[i]) << (8 * i);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// Keys and values of Connect's offsets topic: what is read is written again to what reads the same,
/// in one way only, and lands in the partition that Java picks.
///
/// # Panics
///
/// If not.
pub(super) fn connect_offset_json(data: &[u8]) {
    let mut feed = Feed(data);
    if feed.byte() & 1 == 0 {
        let Ok(Some(key)) = SourceOffsetKey::decode(feed.0) else { return };
        let bytes = key.encode();
        assert_eq!(SourceOffsetKey::decode(&bytes).as_ref(), Ok(&Some(key)));
        let hash = plain_murmur2(&bytes);
        assert_eq!(murmur2(&bytes).cast_unsigned(), hash);
        let partition = partition_for_key(&bytes, 25);
        assert_eq!(partition.cast_unsigned(), (hash & 0x7fff_ffff) % 25);
        // Jackson's way has one line and no control character, whatever the names are.
        assert!(bytes.iter().all(|byte| *byte >= b' '));
        return;
    }
    let Ok(Some(last)) = decode_value(Some(feed.0)) else { return };
    assert!(last.advance(1) > last, "there is a place to go on at");
    assert_eq!(decode_value(Some(&encode_value(last))), Ok(Some(last)));
}

/// Offset syncs, checkpoints and heartbeats: what is read is written again to the bytes it was read
/// from; and by syncs, an offset is translated to one of their places, or the one behind it.
///
/// # Panics
///
/// If not.
pub(super) fn mm2_records(data: &[u8]) {
    let mut feed = Feed(data);
    let kind = feed.byte();
    if kind % 4 == 3 {
        return translated_by_syncs(feed);
    }
    let length = usize::from(u16::from_be_bytes([feed.byte(), feed.byte()]));
    let (key, value) = (feed.take(length), feed.0);
    // What stands behind the last field is passed over, as Kafka's `Schema.read` does.
    match kind % 4 {
        0 => {
            let Ok(sync) = OffsetSync::decode(key, value) else { return };
            assert!(key.starts_with(&sync.encode_key()) && value.starts_with(&sync.encode_value()));
        }
        1 => {
            let Ok(checkpoint) = Checkpoint::decode(key, value) else { return };
            assert!(key.starts_with(&checkpoint.encode_key().expect("it was read")));
            assert!(value.starts_with(&checkpoint.encode_value().expect("it was read")));
        }
        _ => {
            let Ok(beat) = Heartbeat::decode(key, value) else { return };
            assert!(key.starts_with(&beat.encode_key()) && value.starts_with(&beat.encode_value()));
        }
    }
}

/// A number that is small, or near an end of `i64`.
fn number(feed: &mut Feed<'_>) -> i64 {
    match feed.byte() {
        255 => i64::MAX - i64::from(feed.byte()),
        254 => i64::MIN + i64::from(feed.byte()),
        253 => i64::from_be_bytes(std::array::from_fn(|_| feed.byte())),
        small => i64::from(small) * 256 + i64::from(feed.byte()),
    }
}

fn translated_by_syncs(mut feed: Feed<'_>) {
    let partition = TopicPartition::new("t", 0);
    let mut store = SyncStore::default();
    let mut known: Vec<Bend> = Vec::new();
    let mut at = Bend::new(0, 0);
    while !feed.is_empty() && known.len() < 200 {
        match feed.byte() % 4 {
            // MM2's syncs move on, as a rule.
            0 | 1 => {
                let (up, less) = (i64::from(feed.byte()), i64::from(feed.byte()));
                at.upstream = at.upstream.advance(up);
                at.downstream = at.downstream.advance((up - less).max(0));
            }
            2 => at = Bend::new(number(&mut feed), number(&mut feed)),
            _ => {
                let upstream = Offset(number(&mut feed));
                let before = |bend: &&Bend| bend.upstream <= upstream;
                match store.translate(&partition, upstream) {
                    BySync::Nothing => assert!(known.is_empty()),
                    // Nothing is said about what lies before everything that is left.
                    BySync::TooOld => assert!(!known.is_empty()),
                    BySync::At(place) => {
                        let stands = known.iter().filter(before).any(|bend| {
                            let behind = bend.downstream.0.wrapping_add(1);
                            place == bend.downstream && bend.upstream == upstream
                                || place.0 == behind && bend.upstream < upstream
                        });
                        assert!(stands, "{place} for {upstream}, by {known:?}");
                    }
                }
                continue;
            }
        }
        store.take(&partition, at);
        known.push(at);
        // The newest is always there.
        assert_eq!(store.translate(&partition, at.upstream), BySync::At(at.downstream));
    }
}

/// An offset map says what a list of all records says; and what is read back damaged is no map, or
/// one that answers.
///
/// # Panics
///
/// If not.
pub(super) fn offset_map_ops(data: &[u8]) {
    let mut feed = Feed(data);
    let kind = feed.byte();
    if kind & 1 == 1 {
        return restored(feed);
    }
    let start =
        Bend::new(i64::from(feed.byte()), i64::from(feed.byte() % 4) * i64::from(feed.byte()));
    let mut steps = Vec::new();
    while !feed.is_empty() && steps.len() < 400 {
        let byte = feed.byte();
        let size = feed.byte();
        steps.push(match byte % 16 {
            0..=4 => Step::Records(u16::from(size % 40) + 1),
            5..=8 => Step::Hole(size % 5 + 1),
            9 => Step::Foreign(size % 3 + 1),
            10 => Step::Cut(size),
            11 | 12 => Step::Save,
            13 => Step::Evict,
            14 => Step::Forget(size),
            _ => Step::Restart,
        });
    }
    if let Err(what) = offset_map_run::run(start, &steps) {
        panic!("{what}\nsteps: {steps:?}");
    }
}

/// A map from chunks that may be anything.
fn restored(mut feed: Feed<'_>) {
    let mut chunks = Vec::new();
    let count = feed.byte() % 6;
    for place in 0..count {
        let (index, more) = (number(&mut feed).cast_unsigned(), u32::from(feed.byte()));
        let mut value = vec![0; 33];
        value.extend_from_slice(&index.to_be_bytes());
        for _ in 0..2 {
            value.extend_from_slice(&number(&mut feed).to_be_bytes());
        }
        value.extend_from_slice(&more.to_be_bytes());
        let length = usize::from(feed.byte() % 32);
        value.extend_from_slice(feed.take(length));
        let Some((chunk, _)) = doors::chunk(&value) else { continue };
        let (first, away) = (chunk.first, feed.byte() & 1 == 1);
        let at = Offset(i64::from(place));
        chunks.push(KeptChunk { index, first, more, chunk: (!away).then_some(chunk), at });
    }
    let end = Bend::new(number(&mut feed), number(&mut feed));
    let bends = match (chunks.last(), feed.byte() & 1) {
        (Some(last), 0) => last.index.saturating_add(u64::from(last.more) + 1),
        _ => number(&mut feed).cast_unsigned(),
    };
    let Some(mut map) = OffsetMap::restore(chunks, end, bends) else { return };
    assert_eq!((map.bends(), map.end()), (bends, end));
    while !feed.is_empty() {
        let upstream = Offset(number(&mut feed));
        match map.translate(upstream) {
            Translation::Exact(place) => assert!(place <= map.end().downstream),
            Translation::Before => assert!(upstream < map.start().upstream),
            Translation::Away { end, .. } => assert!(end <= map.end().downstream),
        }
        if let Some(back) = map.reverse(Offset(number(&mut feed))) {
            assert!(back <= map.end().upstream);
        }
        if feed.byte() & 7 == 7 && map.is_open() {
            let (up, down) = (map.end().upstream.advance(2), map.end().downstream.advance(1));
            map.push(Bend { upstream: up, downstream: down });
            map.advance(Bend { upstream: up.advance(1), downstream: down.advance(1) });
        }
    }
}

/// Our own anchors and chunks of offset maps: what is read is written again to what reads the same.
///
/// # Panics
///
/// If not.
pub(super) fn internal_notes(data: &[u8]) {
    let mut feed = Feed(data);
    if feed.byte() & 1 == 0 {
        let Some(again) = doors::anchor(feed.0) else { return };
        assert_eq!(doors::anchor(&again).as_ref(), Some(&again), "one way to write an anchor");
        return;
    }
    let Some((chunk, again)) = doors::chunk(feed.0) else { return };
    // Whether the map is whole is one bit of a byte.
    assert!(
        again.len() == feed.0.len() && again[..32] == feed.0[..32] && again[33..] == feed.0[33..]
    );
    let bends: Vec<Bend> = chunk.bends().collect();
    assert_eq!(bends.len() - 1, chunk.more as usize);
    for pair in bends.windows(2) {
        assert!(pair[0].upstream <= pair[1].upstream && pair[0].downstream <= pair[1].downstream);
    }
    let last = bends[bends.len() - 1];
    let found = chunk.translate(last.upstream, last.downstream);
    assert!(found <= last.downstream);
}

/// Keys and values that a real MM2 wrote to the topics whose files begin like this.
fn recorded(prefix: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    for run in fs::read_dir(golden::folder("mm2")).expect("recordings") {
        let run = run.expect("an entry").path();
        if !run.is_dir() {
            continue;
        }
        let mut files: Vec<_> =
            fs::read_dir(run).expect("a run").map(|file| file.expect("an entry").path()).collect();
        files.sort();
        for file in files {
            if !file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) {
                continue;
            }
            let text = fs::read(&file).expect("readable");
            let records: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            for record in records.as_array().expect("records").iter().take(20) {
                let field = |name: &str| golden::hex(record[name].as_str().unwrap_or_default());
                out.push((field("key_hex"), field("value_hex")));
            }
        }
    }
    out.sort();
    out.dedup();
    out
}

pub(super) fn connect_offset_json_seeds() -> Vec<Vec<u8>> {
    recorded("connect-offsets")
        .iter()
        .flat_map(|(key, value)| [with(&[0], key), with(&[1], value)])
        .collect()
}

pub(super) fn mm2_records_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (kind, prefix) in (0..).zip(["offset-syncs", "checkpoints", "heartbeats"]) {
        for (key, value) in recorded(prefix) {
            let [high, low] = u16::try_from(key.len()).expect("short").to_be_bytes();
            seeds.push([&[kind, high, low], &key[..], &value].concat());
        }
    }
    let moves: Vec<u8> =
        (0..120_u8).flat_map(|at| [0, at.wrapping_mul(37), at % 3, 3, at, 9]).collect();
    seeds.push(with(&[3], &moves));
    seeds
}

pub(super) fn offset_map_ops_seeds() -> Vec<Vec<u8>> {
    let steps = |by: u8| (0..200_u8).flat_map(move |at| [at.wrapping_mul(by), at]);
    let mut seeds: Vec<Vec<u8>> =
        [1, 3, 5, 7, 11].map(|by| [0, by, 1, by].into_iter().chain(steps(by)).collect()).into();
    // Two chunks of two and one bends that fit together, and questions.
    let two = [
        [&[1, 2][..], &[0, 0, 1, 0, 10, 0, 10, 2, 2, 2, 0]].concat(),
        vec![0, 2, 0, 0, 90, 0, 80, 0, 0],
        vec![0, 200, 0, 190, 0, 0, 50, 0, 60, 0, 0, 95, 0, 85, 7],
    ];
    seeds.push(two.concat());
    seeds
}

pub(super) fn internal_notes_seeds() -> Vec<Vec<u8>> {
    let anchor = br#"{"upstream":17,"downstream":12,"epoch":3,"producerId":4001,"producerEpoch":0,"sequence":99,"sourceTopicId":"00112233445566778899aabbccddeeff","targetTopicId":"ffeeddccbbaa99887766554433221100","bends":3}"#;
    let mut chunk = vec![1; 33];
    for number in [5_u64, 100, 90] {
        chunk.extend_from_slice(&number.to_be_bytes());
    }
    chunk.extend_from_slice(&[0, 0, 0, 2, 6, 2, 20, 4]);
    vec![with(&[0], anchor), with(&[1], &chunk)]
}
