//! What a real MirrorMaker 2 wrote, we read; and we write it again to the same bytes.
//!
//! The records are in `golden/mm2`, recorded from MM2 4.3.1.

use std::fs;
use std::path::{Path, PathBuf};

use heliograph::mm2::{
    CHECKPOINT_CONNECTOR, Checkpoint, HEARTBEAT_CONNECTOR, Heartbeat, InternalNames, OffsetSync,
    SOURCE_CONNECTOR, SourceOffsetKey, decode_value, encode_value, partition_for_key,
};
use heliograph::model::ClusterAlias;
use serde_json::Value;

/// Partitions of Connect's offset topic unless the file says otherwise.
const OFFSET_PARTITIONS: i32 = 25;

struct Recorded {
    place: String,
    partition: i32,
    key: Vec<u8>,
    value: Vec<u8>,
    json: Value,
}

fn hex(json: &Value) -> Vec<u8> {
    let text = json.as_str().expect("hex text");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
        .collect()
}

/// All records of the files that begin with `prefix`, over all recorded runs.
fn recorded(prefix: &str) -> Vec<Recorded> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/mm2");
    let mut files: Vec<PathBuf> = fs::read_dir(root)
        .expect("golden/mm2")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.is_dir())
        .flat_map(|run| fs::read_dir(run).expect("a run"))
        .map(|entry| entry.expect("entry").path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        .collect();
    files.sort();
    assert!(files.len() >= 5, "one file per run at least, found {files:?}");

    let mut records = Vec::new();
    for file in files {
        let text = fs::read(&file).expect("a readable file");
        let Value::Array(lines) = serde_json::from_slice(&text).expect("JSON") else {
            panic!("{} is no array", file.display());
        };
        for (index, json) in lines.into_iter().enumerate() {
            records.push(Recorded {
                place: format!("{} record {index}", file.display()),
                partition: json["partition"]
                    .as_i64()
                    .and_then(|number| number.try_into().ok())
                    .expect("number"),
                key: hex(&json["key_hex"]),
                value: hex(&json["value_hex"]),
                json,
            });
        }
    }
    records
}

#[test]
fn every_recorded_source_offset_is_written_again_to_the_same_bytes_and_partition() {
    let mut source = 0;
    let mut others = 0;

    for record in recorded("connect-offsets") {
        let place = &record.place;
        assert_eq!(
            partition_for_key(&record.key, OFFSET_PARTITIONS),
            record.partition,
            "{place}: Java put it into another partition"
        );
        let last = decode_value(Some(&record.value)).unwrap().expect("an offset");
        assert_eq!(encode_value(last), record.value, "{place}");
        let Some(key) = SourceOffsetKey::decode(&record.key).unwrap() else {
            let text = record.json["key_text"].as_str().unwrap();
            assert!(
                text.contains(CHECKPOINT_CONNECTOR) || text.contains(HEARTBEAT_CONNECTOR),
                "{place}: {text} was passed over"
            );
            others += 1;
            continue;
        };
        assert_eq!(key.connector, SOURCE_CONNECTOR, "{place}");
        assert_eq!(key.cluster, ClusterAlias::new("A"), "{place}");
        assert_eq!(key.encode(), record.key, "{place}");
        source += 1;
    }

    assert!(source > 20 && others > 20, "{source} source offsets and {others} others");
}

#[test]
fn every_recorded_offset_sync_is_written_again_to_the_same_bytes() {
    for record in recorded("offset-syncs") {
        let sync = OffsetSync::decode(&record.key, &record.value).expect(&record.place);

        assert_eq!(sync.encode_key(), record.key, "{}", record.place);
        assert_eq!(sync.encode_value().as_slice(), record.value, "{}", record.place);
        let decoded = &record.json["decoded"];
        assert_eq!(decoded["topic"], sync.partition.topic.as_str(), "{}", record.place);
        assert_eq!(decoded["partition"], sync.partition.partition, "{}", record.place);
        assert_eq!(decoded["upstreamOffset"], sync.upstream.0, "{}", record.place);
        assert_eq!(decoded["downstreamOffset"], sync.downstream.0, "{}", record.place);
    }
}

#[test]
fn every_recorded_checkpoint_is_written_again_to_the_same_bytes() {
    for record in recorded("checkpoints") {
        let checkpoint = Checkpoint::decode(&record.key, &record.value).expect(&record.place);

        assert_eq!(checkpoint.encode_key().unwrap(), record.key, "{}", record.place);
        assert_eq!(checkpoint.encode_value().unwrap(), record.value, "{}", record.place);
        let decoded = &record.json["decoded"];
        assert_eq!(decoded["group"], checkpoint.group.as_str(), "{}", record.place);
        assert_eq!(decoded["metadata"], checkpoint.metadata.as_str(), "{}", record.place);
    }
}

#[test]
fn every_recorded_heartbeat_is_written_again_to_the_same_bytes() {
    for record in recorded("heartbeats") {
        let heartbeat = Heartbeat::decode(&record.key, &record.value).expect(&record.place);

        assert_eq!(heartbeat.encode_key(), record.key, "{}", record.place);
        assert_eq!(heartbeat.encode_value().as_slice(), record.value, "{}", record.place);
        assert_eq!(record.json["timestamp"], heartbeat.timestamp.0, "{}", record.place);
    }
}

/// Negative control: the comparison above notices one changed byte.
#[test]
fn a_key_with_another_member_order_is_read_but_does_not_compare_equal() {
    let shuffled = br#"["MirrorSourceConnector",{"topic":"orders","partition":0,"cluster":"A"}]"#;

    let key = SourceOffsetKey::decode(shuffled).unwrap().unwrap();

    assert_ne!(key.encode(), shuffled);
}

#[test]
fn every_topic_that_mm2_made_for_itself_counts_as_internal() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/mm2/default-policy");
    let names = InternalNames::new(".");
    let mut internal = 0;

    for file in ["topics-source.json", "topics-target.json"] {
        let text = fs::read_to_string(root.join(file)).expect(file);
        for name in text.split('"').filter(|part| part.starts_with("mm2-")) {
            assert!(names.is_internal(name), "{name}");
            internal += 1;
        }
    }

    assert!(internal >= 4, "only {internal} found");
}
