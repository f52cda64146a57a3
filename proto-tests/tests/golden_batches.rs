//! Batches of real brokers read, restamp and rebuild as Kafka's own classes say they should.
//!
//! The recordings and their decoding by Kafka 4.3.1 lie in `golden/batches`.

use bytes::Bytes;
use heliograph::batch::{
    AbortedIndex, Batches, ControlType, Disposition, Entry, HEADER_BYTES, Oversize, RawBatch,
    RebuildReason, Shallow, Terms, control_type, disposition, is_whole, rebuild, restamp, verify,
};
use heliograph::model::{AbortedTransaction, GapReason, Offset, ProducerIdentity, Sequence};
use proto_tests::golden::{self, Record, RecordSet, hex, record_set, record_sets, records};
use serde_json::Value;

const US: ProducerIdentity = ProducerIdentity { id: 4711, epoch: 3 };
const NEAR_THE_END: i32 = i32::MAX - 1;

fn walk(set: &RecordSet) -> (Vec<Entry>, Option<usize>) {
    let mut walk = Shallow::new(set.bytes.clone());
    let entries = walk.by_ref().map(|entry| entry.expect("a whole entry")).collect();
    (entries, walk.cut_off())
}

/// The version 2 batches of a set, each with its decoding.
fn batches(set: &RecordSet) -> Vec<(RawBatch, Value)> {
    let (entries, _) = walk(set);
    assert_eq!(entries.len(), set.batches().len(), "{}", set.name);
    entries
        .into_iter()
        .zip(set.batches())
        .filter_map(|(entry, json)| match entry {
            Entry::Batch(batch) => Some((batch, json.clone())),
            Entry::Legacy { .. } => None,
        })
        .collect()
}

fn all_batches() -> Vec<(String, RawBatch, Value)> {
    let named = |set: RecordSet| {
        batches(&set)
            .into_iter()
            .enumerate()
            .map(move |(i, (batch, json))| (format!("{} batch {i}", set.name), batch, json))
    };
    let out: Vec<_> = record_sets().into_iter().flat_map(named).collect();
    assert!(out.len() > 40, "{} batches", out.len());
    out
}

fn terms(position: Offset) -> Terms {
    Terms { position, aborted: false, batch_bytes_max: 1_048_588 }
}

fn decided(batch: &RawBatch) -> Disposition {
    disposition(batch.header(), terms(batch.header().base_offset))
}

/// CRC-32C bit by bit: no table, no instruction, nothing in common with the code under test.
fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut crc = !0_u32;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

fn size(json: &Value) -> usize {
    json["size"].as_u64().and_then(|size| size.try_into().ok()).expect("a size")
}

fn bytes_or_null(json: &Value) -> Option<Vec<u8>> {
    json.as_str().map(hex)
}

fn expected_records(json: &Value) -> Vec<Record> {
    let headers = |record: &Value| {
        record["headers"].as_array().map_or_else(Vec::new, |all| {
            all.iter()
                .map(|pair| (pair[0].as_str().expect("a name").into(), bytes_or_null(&pair[1])))
                .collect()
        })
    };
    json["records"]
        .as_array()
        .expect("records")
        .iter()
        .map(|record| Record {
            offset: record["offset"].as_i64().expect("offset"),
            timestamp: record["timestamp"].as_i64().expect("timestamp"),
            key: bytes_or_null(&record["key"]),
            value: bytes_or_null(&record["value"]),
            headers: headers(record),
        })
        .collect()
}

#[test]
fn every_header_reads_as_kafka_reads_it() {
    for (name, batch, json) in all_batches() {
        let header = batch.header();
        let number = |field: &str| json[field].as_i64().unwrap_or_else(|| panic!("{name} {field}"));

        assert_eq!(header.base_offset.0, number("baseOffset"), "{name}");
        assert_eq!(header.next_offset().0, number("lastOffset") + 1, "{name}");
        assert_eq!(i64::from(header.last_offset_delta), number("lastOffsetDelta"), "{name}");
        assert_eq!(i64::from(header.count), number("recordCount"), "{name}");
        assert_eq!(i64::from(header.attributes.0), number("attributes"), "{name}");
        assert_eq!(i64::from(header.leader_epoch.0), number("partitionLeaderEpoch"), "{name}");
        assert_eq!(header.base_timestamp.0, number("baseTimestamp"), "{name}");
        assert_eq!(header.max_timestamp.0, number("maxTimestamp"), "{name}");
        assert_eq!(header.producer_id, number("producerId"), "{name}");
        assert_eq!(i64::from(header.producer_epoch), number("producerEpoch"), "{name}");
        let sequence = header.base_sequence.map_or(-1, Sequence::to_wire);
        assert_eq!(i64::from(sequence), number("baseSequence"), "{name}");
        assert_eq!(format!("{:08x}", header.crc), json["crc"].as_str().unwrap(), "{name}");
        assert_eq!(batch.bytes().len() as i64, number("size"), "{name}");
        assert_eq!(header.attributes.is_transactional(), json["transactional"], "{name}");
        assert_eq!(header.attributes.is_control(), json["control"], "{name}");
        let append_time = json["timestampType"] == "LogAppendTime";
        assert_eq!(header.attributes.is_log_append_time(), append_time, "{name}");
        let codec = header.attributes.codec().expect("a codec").id();
        let names = ["none", "gzip", "snappy", "lz4", "zstd"];
        assert_eq!(names[usize::from(codec)], json["compression"].as_str().unwrap(), "{name}");
        assert_eq!(verify(&batch), json["valid"], "{name}");
    }
}

#[test]
fn a_walk_ends_before_a_tail_that_is_cut_off() {
    let mut cut = 0;
    for set in record_sets() {
        let (entries, cut_off) = walk(&set);
        let walked: usize = entries
            .iter()
            .map(|entry| match entry {
                Entry::Batch(batch) => batch.bytes().len(),
                Entry::Legacy { bytes, .. } => bytes.len(),
            })
            .sum();
        let left = set.bytes.len() - walked;

        assert_eq!(left as u64, set.json["trailingBytes"].as_u64().unwrap(), "{}", set.name);
        assert_eq!(cut_off.is_some(), left >= 12, "{}", set.name);
        assert!(cut_off.is_none_or(|whole| whole > left), "{}", set.name);
        cut += usize::from(left > 0);
    }
    assert!(cut > 0, "a recording with a cut-off tail");

    // And wherever else it is cut.
    let set = record_set("v2-transactions");
    for end in 0..set.bytes.len() {
        let mut walk = Shallow::new(set.bytes.slice(..end));
        let whole: usize = walk
            .by_ref()
            .map(|entry| match entry.expect("whole or cut off") {
                Entry::Batch(batch) => batch.bytes().len(),
                Entry::Legacy { .. } => unreachable!("all are of format 2"),
            })
            .sum();
        let expected = set.batches().iter().map(size);
        let ends: Vec<usize> = expected
            .scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            })
            .collect();
        let last = ends.iter().filter(|at| **at <= end).max().copied().unwrap_or(0);
        assert_eq!(whole, last, "cut at byte {end}");
    }
}

#[test]
fn messages_of_old_formats_are_walked_with_their_offsets() {
    let mut seen = 0;
    for set in record_sets() {
        let mut at = 0;
        for (entry, json) in walk(&set).0.iter().zip(set.batches()) {
            assert_eq!(at as u64, json["position"].as_u64().unwrap(), "{}", set.name);
            at += size(json);
            let Entry::Legacy { magic, offset, bytes } = entry else {
                assert_eq!(json["magic"], 2, "{}", set.name);
                continue;
            };
            assert_eq!(json["magic"], *magic, "{}", set.name);
            // A wrapper's own offset is that of its last inner message.
            assert_eq!(json["lastOffset"], offset.0, "{}", set.name);
            assert_eq!(json["size"], bytes.len(), "{}", set.name);
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} messages of old formats");
}

#[test]
fn every_record_of_every_codec_reads_as_kafka_reads_it() {
    let mut codecs = std::collections::BTreeSet::new();
    for (name, batch, json) in all_batches() {
        codecs.insert(batch.header().attributes.codec().expect("a codec").id());
        assert_eq!(records(&batch).expect(&name), expected_records(&json), "{name}");
    }
    assert_eq!(codecs.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn records_of_every_format_come_out_as_kafka_reads_them() {
    let mut formats = std::collections::BTreeSet::new();
    for set in record_sets() {
        let mut read = Vec::new();
        for batch in Batches::new(set.bytes.clone()) {
            let batch = batch.unwrap_or_else(|error| panic!("{}: {error}", set.name));
            assert!(verify(&batch), "{}", set.name);
            read.extend(records(&batch).expect(&set.name));
        }
        let expected: Vec<Record> = set.batches().iter().flat_map(expected_records).collect();
        assert_eq!(read, expected, "{}", set.name);
        formats.extend(set.batches().iter().filter_map(|batch| batch["magic"].as_i64()));
    }
    assert_eq!(formats.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_bit_flipped_in_a_message_of_an_old_format_is_noticed() {
    let mut flipped = 0;
    for set in record_sets() {
        let magics: Vec<_> = set.batches().iter().map(|batch| batch["magic"].clone()).collect();
        if magics.iter().any(|magic| *magic == 2) {
            continue;
        }
        // Behind offset and length of the first message: its checksum and what that covers.
        let first = usize::try_from(set.batches()[0]["size"].as_u64().unwrap()).unwrap();
        for at in (12..first).step_by(3) {
            let mut bytes = set.bytes.to_vec();
            bytes[at] ^= 1 << (at % 8);
            let outcome: Result<Vec<_>, _> = Batches::new(bytes.into()).collect();
            assert!(outcome.is_err(), "{} byte {at}", set.name);
            flipped += 1;
        }
    }
    assert!(flipped > 200, "{flipped} bits");
}

/// Offsets are not covered by an old message's checksum, so any can come.
#[test]
fn impossible_offsets_of_old_messages_are_errors_and_no_panic() {
    for set in record_sets() {
        if set.batches().iter().any(|batch| batch["magic"] == 2) {
            continue;
        }
        for offset in [i64::MIN, -1, i64::MAX] {
            let mut bytes = set.bytes.to_vec();
            bytes[..8].copy_from_slice(&offset.to_be_bytes());
            let first = Batches::new(bytes.into()).next();
            // A wrapper of format 0 has the offsets that count inside.
            let inside =
                set.batches()[0]["magic"] == 0 && set.batches()[0]["compression"] != "none";
            assert_eq!(first.is_some_and(|batch| batch.is_err()), !inside, "{} {offset}", set.name);
        }
    }
}

#[test]
fn markers_say_commit_or_abort() {
    let mut seen = Vec::new();
    for (name, batch, json) in all_batches() {
        let Some(word) = json["records"][0]["controlType"].as_str() else {
            assert!(!batch.header().attributes.is_control(), "{name}");
            continue;
        };
        let expected = match word {
            "COMMIT" => ControlType::Commit,
            "ABORT" => ControlType::Abort,
            other => panic!("{name}: {other}"),
        };
        assert_eq!(control_type(&batch), Some(expected), "{name}");
        seen.push(word.to_owned());
    }
    assert!(seen.contains(&"COMMIT".to_owned()) && seen.contains(&"ABORT".to_owned()));
}

#[test]
fn a_committed_reader_misses_exactly_the_aborted_batches() {
    let set = record_set("fetch-v4-isolation-1");
    let list = vec![AbortedTransaction { first_offset: Offset(3), producer_id: 0 }];

    let mut index = AbortedIndex::new(list);
    let mut seen = Vec::new();
    let mut hidden = Vec::new();
    for (batch, _) in batches(&set) {
        let covered = index.covers(&batch);
        if batch.header().attributes.is_control() {
            assert!(!covered);
            continue;
        }
        for record in records(&batch).unwrap() {
            let value = String::from_utf8(record.value.unwrap()).unwrap();
            if covered { &mut hidden } else { &mut seen }.push((record.offset, value));
        }
    }
    assert!(seen.iter().all(|(_, value)| value.starts_with("committed")), "{seen:?}");
    assert_eq!(hidden, [(3, "aborted".to_owned()), (4, "aborted".to_owned())]);
    assert_eq!(seen.len(), 3);

    // Negative control: without the list nothing is hidden.
    let mut index = AbortedIndex::new(Vec::new());
    assert!(batches(&set).iter().all(|(batch, _)| !index.covers(batch)));
}

#[test]
fn what_becomes_of_each_recorded_batch_is_what_its_broker_did_to_it() {
    use Disposition::{Drop, Forward, Rebuild};
    let all = |name: &str| -> Vec<Disposition> {
        batches(&record_set(name)).iter().map(|(batch, _)| decided(batch)).collect()
    };
    let control = Drop(GapReason::Control);
    let holes = Rebuild(RebuildReason::OffsetHoles);
    let append = Rebuild(RebuildReason::AppendTime);

    assert_eq!(all("v2-compact-before"), [Forward, Forward, Forward]);
    // Holes, emptied, and dense with a delete horizon in place of the base timestamp.
    assert_eq!(all("v2-compact-after"), [holes, Drop(GapReason::Emptied), Forward]);
    assert_eq!(all("v2-transactions"), [Forward, control, Forward, control, Forward, control]);
    assert!(all("v2-log-append-time").iter().all(|decided| *decided == append));
    assert!(all("v2-log-append-time-gzip").iter().all(|decided| *decided == append));
    for codec in ["plain", "gzip", "snappy", "lz4", "zstd", "headers", "nulls", "not-idempotent"] {
        assert!(all(&format!("v2-{codec}")).iter().all(|decided| *decided == Forward), "{codec}");
    }

    // From offset 7 on: the first batch begins before, and the position lies inside it.
    let mid: Vec<Disposition> = batches(&record_set("fetch-v4-mid-batch"))
        .iter()
        .map(|(batch, _)| disposition(batch.header(), terms(Offset(7))))
        .collect();
    assert_eq!(mid, [Rebuild(RebuildReason::StartsBefore), Forward]);

    // The same rows, from what Kafka read instead of what we read.
    for (name, batch, json) in all_batches() {
        let (count, delta) = (&json["recordCount"], json["lastOffsetDelta"].as_i64().unwrap());
        let alone = json["compression"] == "none"
            && *count == 1
            && json["baseTimestamp"] == json["maxTimestamp"];
        let expected = if json["control"] == true {
            control
        } else if *count == 0 {
            Drop(GapReason::Emptied)
        } else if *count != delta + 1 {
            holes
        } else if json["timestampType"] == "LogAppendTime" && !alone {
            append
        } else {
            Forward
        };
        assert_eq!(decided(&batch), expected, "{name}");
    }
}

#[test]
fn a_restamped_batch_has_the_checksum_of_its_bytes_and_shares_its_body() {
    let mut restamped = 0;
    for (name, batch, _) in all_batches() {
        if decided(&batch) != Disposition::Forward {
            continue;
        }
        let sequence = Sequence::from_wire(NEAR_THE_END).unwrap();
        let out = restamp(&batch, US, sequence);

        let stored = u32::from_be_bytes(out.header[17..21].try_into().unwrap());
        assert_eq!(stored, crc32c_of(&[&out.header[21..], &out.body]), "{name}");
        assert!(is_whole(&out), "{name}");
        assert!(std::ptr::eq(&raw const out.body[0], &raw const batch.bytes()[HEADER_BYTES]));
        assert_eq!(out.total_bytes(), batch.bytes().len(), "{name}");

        let whole = RawBatch::new(Bytes::from([&out.header[..], &out.body].concat())).unwrap();
        let (old, new) = (batch.header(), whole.header());
        assert_eq!(new.base_offset, Offset(0), "{name}");
        assert_eq!((new.producer_id, new.producer_epoch), (US.id, US.epoch), "{name}");
        assert_eq!(new.base_sequence, Some(sequence), "{name}");
        assert_eq!(new.attributes.0, old.attributes.0 & 0b111, "{name}");
        assert_eq!((new.count, new.last_offset_delta), (old.count, old.last_offset_delta));
        let contents = |batch| -> Vec<Record> {
            records(batch).unwrap().iter().map(Record::content).collect()
        };
        assert_eq!(contents(&whole), contents(&batch), "{name}");
        restamped += 1;
    }
    assert!(restamped > 25, "{restamped} batches");
}

#[test]
fn a_rebuilt_batch_keeps_keys_values_headers_and_times() {
    let mut rebuilt = 0;
    for (name, batch, json) in all_batches() {
        if matches!(decided(&batch), Disposition::Drop(_)) {
            continue;
        }
        let expected = expected_records(&json);
        let contents: Vec<Record> = expected.iter().map(Record::content).collect();
        for limit in [1 << 20, 400] {
            let first = batch.header().base_offset;
            let pieces = match rebuild(&batch, first, limit, Oversize::Refuse) {
                Ok(built) => built.pieces,
                Err(error) => {
                    assert!(limit == 400 && error.to_string().contains("takes 400"), "{name}");
                    continue;
                }
            };
            let mut found = Vec::new();
            for piece in &pieces {
                let mut walk = Shallow::new(piece.batch.bytes().clone());
                let Some(Ok(Entry::Batch(walked))) = walk.next() else { panic!("{name}") };
                assert!(walk.next().is_none() && walk.cut_off().is_none(), "{name}");
                assert!(verify(&walked), "{name}");
                assert!(walked.bytes().len() <= limit, "{name}");
                assert_eq!(walked.header().attributes.codec(), batch.header().attributes.codec());
                assert_eq!(decided(&walked), Disposition::Forward, "{name}");

                let inside = records(&walked).unwrap();
                let start = piece.upstream.start.0;
                assert_eq!(inside[0].offset, start, "{name}");
                let dense = (start..).take(inside.len());
                assert!(inside.iter().map(|record| record.offset).eq(dense), "{name}");
                let first = expected[found.len()].offset;
                assert_eq!(first, start, "{name}: a piece begins at its first record's offset");
                let latest = inside.iter().map(|record| record.timestamp).max();
                assert_eq!(Some(walked.header().max_timestamp.0), latest, "{name}");
                found.extend(inside.iter().map(Record::content));
            }
            assert_eq!(found, contents, "{name}");
            assert!(pieces.windows(2).all(|pair| pair[0].upstream.end == pair[1].upstream.start));
            assert_eq!(pieces.last().unwrap().upstream.end, batch.header().next_offset());
            rebuilt += 1;
        }
    }
    assert!(rebuilt > 40, "{rebuilt} rebuilds");
}

#[test]
fn a_rebuild_from_the_middle_begins_with_the_wanted_record() {
    let set = record_set("fetch-v4-mid-batch");
    let (batch, json) = &batches(&set)[0];
    let pieces = rebuild(batch, Offset(7), 1 << 20, Oversize::Refuse).unwrap().pieces;

    let found: Vec<Record> = pieces.iter().flat_map(|p| records(&p.batch).unwrap()).collect();
    assert_eq!(found, expected_records(json)[7..]);
}

/// Negative control: the checksum, or the parser, finds any flipped bit, and restamping does not
/// hide it. Base offset and leader epoch are outside the checksum, as brokers rewrite them.
#[test]
fn a_flipped_bit_is_found_before_and_after_restamping() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).unwrap()
    };
    let (mut by_parser, mut by_checksum, mut after) = (0, 0, 0);
    let mut flip = |name: &str, batch: &RawBatch, bit: usize| {
        let mut bytes = batch.bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(damaged) = RawBatch::new(Bytes::from(bytes)) else {
            by_parser += 1;
            return;
        };
        assert!(!verify(&damaged), "{name}: bit {bit} flipped unseen");
        assert!(records(&damaged).is_err(), "{name}: bit {bit}");
        by_checksum += 1;
        let header = damaged.header();
        if header.count == header.last_offset_delta + 1 {
            let out = restamp(&damaged, US, Sequence::ZERO);
            assert!(!is_whole(&out), "{name}: bit {bit} was laundered by restamping");
            let stored = u32::from_be_bytes(out.header[17..21].try_into().unwrap());
            assert_ne!(stored, crc32c_of(&[&out.header[21..], &out.body]), "{name}: bit {bit}");
            after += 1;
        }
    };

    for (name, batch, _) in all_batches() {
        let bits = batch.bytes().len() * 8;
        for _ in 0..12 {
            let bit = next(bits);
            if bit / 8 >= 16 || (8..12).contains(&(bit / 8)) {
                flip(&name, &batch, bit);
            }
        }
    }
    // Every bit of one header that the checksum or the parser must guard.
    let set = record_set("v2-gzip");
    let (batch, _) = &batches(&set)[0];
    for bit in (8 * 8..12 * 8).chain(16 * 8..HEADER_BYTES * 8) {
        flip("v2-gzip", batch, bit);
    }
    assert!(
        by_parser > 20 && by_checksum > 400 && after > 300,
        "{by_parser} {by_checksum} {after}"
    );
}

#[test]
fn the_recordings_are_all_there() {
    assert_eq!(record_sets().len(), 39);
    assert_eq!(golden::api_versions().len(), 5);
}
