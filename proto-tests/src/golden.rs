//! Recorded bytes: where they lie, and how they read.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use heliograph::batch::{RawBatch, RecordView, for_each_record};
use serde_json::Value;

/// The folder of a kind of recordings.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Bytes from hexadecimal text.
///
/// # Panics
///
/// If it is not such text: the recordings are part of the sources.
#[must_use]
pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
        .collect()
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap_or_else(|error| panic!("{dir:?}: {error}"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    out.sort();
    out
}

/// A record set as a broker stores or sends it, and what Kafka's own classes read in it.
#[derive(Clone, Debug)]
pub struct RecordSet {
    /// The file's name, without its ending.
    pub name: String,
    /// The record set.
    pub bytes: Bytes,
    /// Its decoding.
    pub json: Value,
}

impl RecordSet {
    /// The decoding of its batches, in order.
    ///
    /// # Panics
    ///
    /// If the decoding has none.
    #[must_use]
    pub fn batches(&self) -> &[Value] {
        self.json["batches"].as_array().expect("batches")
    }
}

/// Every recorded record set, by name.
///
/// # Panics
///
/// If they cannot be read.
#[must_use]
pub fn record_sets() -> Vec<RecordSet> {
    files(&folder("batches"), "bin")
        .into_iter()
        .map(|path| RecordSet {
            name: path.file_stem().expect("a name").to_string_lossy().into_owned(),
            bytes: Bytes::from(fs::read(&path).expect("readable")),
            json: json(&path.with_extension("json")),
        })
        .collect()
}

/// The recorded record set of this name.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn record_set(name: &str) -> RecordSet {
    record_sets().into_iter().find(|set| set.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// One node's recorded ApiVersions exchange.
#[derive(Clone, Debug)]
pub struct ApiVersions {
    /// Version and listener: `4.3.1-broker`.
    pub node: String,
    /// The whole recording.
    pub json: Value,
}

impl ApiVersions {
    /// The recorded request or answer: `("request", 3)`, behind the length.
    #[must_use]
    pub fn bytes(&self, what: &str, version: i16) -> Option<Vec<u8>> {
        self.json.get(format!("{what}_v{version}_hex"))?.as_str().map(hex)
    }
}

/// Every recorded ApiVersions exchange.
///
/// # Panics
///
/// If they cannot be read.
#[must_use]
pub fn api_versions() -> Vec<ApiVersions> {
    files(&folder("api-versions"), "json")
        .into_iter()
        .map(|path| ApiVersions {
            node: path.file_stem().expect("a name").to_string_lossy().into_owned(),
            json: json(&path),
        })
        .collect()
}

/// One recorded request and its answer, both with their length in front.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// `fetch/v16/kafka-4.3.1-aborted`.
    pub name: String,
    /// The API's name as Kafka writes it.
    pub api: String,
    /// The version of request and answer.
    pub version: i16,
    /// The broker's release.
    pub broker: String,
    /// The situation.
    pub case: String,
    /// The request.
    pub request: Bytes,
    /// The answer.
    pub answer: Bytes,
}

/// Every recorded exchange, as the manifest lists them.
///
/// # Panics
///
/// If they cannot be read.
#[must_use]
pub fn exchanges() -> Vec<Exchange> {
    let root = folder("frames");
    let manifest = json(&root.join("manifest.json"));
    let text = |entry: &Value, field: &str| entry[field].as_str().expect(field).to_owned();
    manifest["exchanges"]
        .as_array()
        .expect("exchanges")
        .iter()
        .map(|entry| {
            let name = text(entry, "file");
            let read = |extension: &str| {
                let path = root.join(format!("{name}.{extension}"));
                Bytes::from(fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
            };
            Exchange {
                api: text(entry, "api"),
                version: entry["version"]
                    .as_i64()
                    .and_then(|v| v.try_into().ok())
                    .expect("version"),
                broker: text(entry, "broker"),
                case: text(entry, "case"),
                request: read("req"),
                answer: read("res"),
                name,
            }
        })
        .collect()
}

/// A record with everything that a reader sees of it, by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its offset.
    pub offset: i64,
    /// What a reader sees as its time.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order; names may repeat.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Record {
    /// Everything but the offset.
    #[must_use]
    pub fn content(&self) -> Self {
        Self { offset: 0, ..self.clone() }
    }
}

impl From<RecordView<'_>> for Record {
    fn from(view: RecordView<'_>) -> Self {
        Self {
            offset: view.offset.0,
            timestamp: view.timestamp.0,
            key: view.key.map(<[u8]>::to_vec),
            value: view.value.map(<[u8]>::to_vec),
            headers: headers(view.headers),
        }
    }
}

/// A plain reader of header bytes, which trusts them: they were walked before.
fn headers(mut bytes: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    fn number(bytes: &mut &[u8]) -> i64 {
        let (mut value, mut shift) = (0_i64, 0);
        loop {
            let (first, rest) = bytes.split_first().expect("a varint");
            *bytes = rest;
            value |= i64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return (value >> 1) ^ -(value & 1);
            }
        }
    }
    fn text(bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let length = usize::try_from(number(bytes)).ok()?;
        let (text, rest) = bytes.split_at(length);
        *bytes = rest;
        Some(text.to_vec())
    }
    let count = number(&mut bytes);
    (0..count).map(|_| (text(&mut bytes).expect("a name"), text(&mut bytes))).collect()
}

/// The records of a batch, by value.
///
/// # Errors
///
/// What the batch's own reader says.
pub fn records(batch: &RawBatch) -> Result<Vec<Record>, heliograph::batch::RecordError> {
    let mut out = Vec::new();
    for_each_record(batch, |record| out.push(record.into()))?;
    Ok(out)
}
