//! What a mirror says about itself: its log, one JSON object a line, and its HTTP page.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::mirror::{Mirror, eventually};

/// For a page of a process on this machine.
const PAGE_WAIT: Duration = Duration::from_secs(10);

/// One line of the log.
#[derive(Debug, Clone)]
pub struct Event(Value);

impl Event {
    pub fn message(&self) -> &str {
        self.0["message"].as_str().unwrap_or("")
    }

    /// `ERROR`, `WARN`, `INFO`, ...
    pub fn level(&self) -> &str {
        self.0["level"].as_str().unwrap_or("")
    }

    /// A field as text, however it was logged.
    pub fn text(&self, field: &str) -> Option<String> {
        match &self.0[field] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// A field as a number, however it was logged.
    pub fn number(&self, field: &str) -> Option<i64> {
        self.text(field)?.parse().ok()
    }

    /// Whether message and fields together hold all of `words`.
    pub fn holds(&self, words: &[&str]) -> bool {
        let all = self.0.to_string();
        words.iter().all(|word| all.contains(word))
    }
}

/// Lines of a log that are JSON; what a panic or the shell says is passed over.
pub fn parse(log: &str) -> Vec<Event> {
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(Value::is_object)
        .map(Event)
        .collect()
}

impl Mirror {
    /// What it has logged so far; it must have been started with JSON lines.
    pub fn events(&self) -> Vec<Event> {
        parse(&self.log_text())
    }

    /// Waits for an event whose message holds `message`, and that as a whole holds all of `words`.
    pub fn await_event(&self, message: &str, words: &[&str], within: Duration) -> Result<Event> {
        let mut found = None;
        eventually(&format!("an event {message:?} with {words:?}"), within, self, || {
            found = self
                .events()
                .into_iter()
                .find(|event| event.message().contains(message) && event.holds(words));
            Ok(found.is_some())
        })?;
        found.context("the event is gone")
    }
}

/// `GET path` from the process that listens there, which must answer with 200.
pub fn get(address: &str, path: &str) -> Result<String> {
    let (status, body) = answer(address, path)?;
    if status != 200 {
        bail!("GET {path} is answered with {status}: {body}");
    }
    Ok(body)
}

/// `GET path` from the process that listens there: status and body.
pub fn answer(address: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
    stream.set_read_timeout(Some(PAGE_WAIT))?;
    // 1.0, so that the answer ends with the connection and comes in one piece.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the HTTP head")?;
    let status = head.split_whitespace().nth(1).context("no status in the HTTP head")?;
    Ok((status.parse()?, body.to_owned()))
}

/// What `/status` says about the rounds of a flow, by kind.
pub fn rounds(address: &str, source: &str, target: &str) -> Result<Value> {
    let status: Value = serde_json::from_str(&get(address, "/status")?)?;
    let flows = status["flows"].as_array().into_iter().flatten();
    flows
        .filter(|flow| flow["source"] == source && flow["target"] == target)
        .map(|flow| flow["rounds"].clone())
        .next()
        .with_context(|| format!("no flow {source}->{target} in {status}"))
}

/// `/status`.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    pub version: String,
    pub uptime_seconds: f64,
    pub memory: Memory,
    pub flows: Vec<FlowState>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Memory {
    pub frame_bytes: u64,
    pub frame_bytes_limit: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FlowState {
    pub source: String,
    pub target: String,
    pub partitions: Vec<PartitionState>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PartitionState {
    pub topic: String,
    pub partition: u32,
    pub target_topic: String,
    /// `copying`, `waiting`, `doubt`, `halted` or `draining`.
    pub state: String,
    pub waiting_for: Option<String>,
    pub halt: Option<String>,
    pub upstream: Upstream,
    pub downstream: Downstream,
    pub lag: Option<i64>,
    pub records: u64,
    pub bytes: u64,
    pub batches: Batches,
    pub gaps: Gaps,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Upstream {
    /// -1 for a partition that was not begun.
    #[serde(deserialize_with = "known")]
    pub copied: i64,
    pub end: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Downstream {
    /// -1 for a partition that was not begun.
    #[serde(deserialize_with = "known")]
    pub next: i64,
}

fn known<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(-1))
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Batches {
    pub raw: u64,
    pub merged: u64,
    pub rebuilt: u64,
    pub dropped: u64,
}

impl fmt::Display for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { raw, merged, rebuilt, dropped } = self;
        let share = (raw * 100).checked_div(raw + merged + rebuilt).unwrap_or(0);
        write!(
            f,
            "{share} % of its batches went raw: {raw}, {merged} merged, {rebuilt} rebuilt, {dropped} dropped"
        )
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Gaps {
    pub count: u64,
    pub records: u64,
    pub recent: Vec<GapSeen>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GapSeen {
    pub first: i64,
    pub end: i64,
    pub count: i64,
    pub reason: String,
    pub at_ms: i64,
}

impl Status {
    pub fn fetch(address: &str) -> Result<Self> {
        let text = get(address, "/status")?;
        serde_json::from_str(&text).with_context(|| format!("/status has another shape: {text}"))
    }

    /// What became of a source topic's batches, over all partitions and flows, since the process started.
    pub fn batches(&self, topic: &str) -> Batches {
        let partitions = self.flows.iter().flat_map(|flow| &flow.partitions);
        partitions.filter(|one| one.topic == topic).fold(Batches::default(), |sum, one| Batches {
            raw: sum.raw + one.batches.raw,
            merged: sum.merged + one.batches.merged,
            rebuilt: sum.rebuilt + one.batches.rebuilt,
            dropped: sum.dropped + one.batches.dropped,
        })
    }

    /// A partition by its source topic, in whichever flow.
    pub fn partition(&self, topic: &str, partition: u32) -> Result<&PartitionState> {
        let all = self.flows.iter().flat_map(|flow| &flow.partitions);
        let mut found = all.filter(|one| one.topic == topic && one.partition == partition);
        found.next().with_context(|| format!("/status shows no {topic}-{partition}"))
    }
}

/// `/metrics`: value by name and labels, as they are written.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

impl Metrics {
    pub fn fetch(address: &str) -> Result<Self> {
        Self::parse(&get(address, "/metrics")?)
    }

    pub fn parse(text: &str) -> Result<Self> {
        let mut samples = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            samples.push(sample(line).with_context(|| format!("no sample: {line:?}"))?);
        }
        Ok(Self { samples })
    }

    /// Sum of all samples of this name whose labels hold all of `labels`; `None` if there is no such sample.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut of = self
            .samples
            .iter()
            .filter(|(found, has, _)| {
                found == name
                    && labels
                        .iter()
                        .all(|(key, value)| has.get(*key).is_some_and(|found| found == value))
            })
            .map(|(_, _, value)| *value)
            .peekable();
        of.peek()?;
        Some(of.sum())
    }
}

fn sample(line: &str) -> Result<(String, BTreeMap<String, String>, f64)> {
    let (name, rest) = match line.find(['{', ' ']) {
        Some(at) => line.split_at(at),
        None => bail!("no value"),
    };
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    if let Some(inner) = rest.strip_prefix('{') {
        let mut inner = inner;
        loop {
            inner = inner.trim_start_matches([',', ' ']);
            if let Some(after) = inner.strip_prefix('}') {
                rest = after;
                break;
            }
            let (key, after) = inner.split_once("=\"").context("no label")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().context("a label without an end")? {
                    (_, '\\') => value.push(match chars.next().context("half an escape")?.1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (at, '"') => break at,
                    (_, other) => value.push(other),
                }
            };
            labels.insert(key.to_owned(), value);
            inner = &after[end + 1..];
        }
    }
    let value = rest.split_whitespace().next().context("no value")?.parse()?;
    ensure!(!name.is_empty(), "no name");
    Ok((name.to_owned(), labels, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_however_they_were_logged() {
        let log =
            "not json\n{\"level\":\"WARN\",\"message\":\"gone\",\"first\":\"7\",\"count\":3}\n";
        let events = parse(log);
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].message(), events[0].level()), ("gone", "WARN"));
        assert_eq!((events[0].number("first"), events[0].number("count")), (Some(7), Some(3)));
        assert!(events[0].holds(&["gone", "7"]) && !events[0].holds(&["8"]));
    }

    #[test]
    fn samples_are_summed_by_label() {
        let text = "# HELP x y\nx_total{topic=\"a\",partition=\"0\"} 3\nx_total{topic=\"a\",partition=\"1\"} 4\n\
                    x_total{topic=\"b \\\"{}\\\"\",partition=\"0\"} 5 1700000000000\nup 1\n";
        let metrics = Metrics::parse(text).unwrap();
        assert_eq!(metrics.sum("x_total", &[("topic", "a")]), Some(7.0));
        assert_eq!(metrics.sum("x_total", &[]), Some(12.0));
        assert_eq!(metrics.sum("x_total", &[("topic", "b \"{}\"")]), Some(5.0));
        assert_eq!(metrics.sum("up", &[]), Some(1.0));
        assert_eq!(metrics.sum("x_total", &[("topic", "c")]), None);
        assert!(Metrics::parse("nothing").is_err());
    }
}
