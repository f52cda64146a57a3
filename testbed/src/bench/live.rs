//! Questions about a mirror that runs: how much later are records there, what does rest cost, when is a new topic seen?

use std::str::FromStr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::large;
use super::shape::Shape;
use super::{Options, STOP_WAIT, Tool, as_f64, now_us, seconds_between, table};
use crate::admin::{Topic, millis};
use crate::agent::Agent;
use crate::cluster::Cluster;
use crate::fill::Fill;
use crate::flow::FlowFile;
use crate::mirror::Mirror;
use crate::process::{resident_bytes, usage_of};

/// To the first record, at the slowest tool.
const START_WAIT: Duration = Duration::from_secs(180);

/// Records a second of the latency probe.
const RATE: u64 = 200;

/// Partitions at rest.
const PARTITIONS: u32 = 1_000;

/// From the last record to the beginning of rest: positions are written, caches settle.
const SETTLE: Duration = Duration::from_secs(15);

/// New topics one after the other. Each is made when the one before it was seen, so just after a round; pauses that
/// differ have them meet the rounds at all moments.
const TOPICS: u32 = 8;

fn pause(round: u32, topics: u32) -> Duration {
    Duration::from_secs(5) * (2 * round + 1) / (2 * topics)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// How much later than on the source is a record visible on the target?
    Latency,
    /// What does a mirror of a thousand partitions use when nothing moves?
    Idle,
    /// How long until the first record of a new topic is there?
    Topic,
    /// A hundred topics, five hundred groups, two thousand rules: until all is there, and at rest.
    Large,
}

impl Probe {
    pub const ALL: [Self; 4] = [Self::Latency, Self::Idle, Self::Topic, Self::Large];

    /// On the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Idle => "idle",
            Self::Topic => "topic",
            Self::Large => "large",
        }
    }
}

impl FromStr for Probe {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|probe| probe.word() == text);
        found.with_context(|| format!("{text:?} asks for nothing"))
    }
}

/// Asks each mirror, prints the table, and gives results for programs.
pub(super) fn run(probe: Probe, tools: &[Tool], options: &Options) -> Result<Vec<Value>> {
    match probe {
        Probe::Latency => latency(tools, options),
        Probe::Idle => idle(tools, options),
        Probe::Topic => topic(tools, options),
        Probe::Large => large::run(tools, options),
    }
}

/// A pair of clusters as the copies have it, and a mirror that has copied `topic`.
fn running(
    tool: Tool,
    partitions: u32,
    records: u64,
    options: &Options,
) -> Result<(Cluster, Cluster, Mirror)> {
    let program = tool.program().context("no mirror")?;
    eprintln!("testbed: starting {}", tool.name());
    let source = Shape::cluster("source", false)?;
    let target = Shape::cluster("target", false)?;
    source.create_topic(&Topic::new("bench").partitions(partitions))?;
    source.fill(&Fill::new("bench", records))?;
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("bench.*")
        .set("tasks.max", options.tasks.to_string())
        // MirrorMaker 2's default of ten minutes is not waited for; this is Heliograph's default.
        .set("refresh.topics.interval.seconds", "5");
    let mirror = Mirror::start(program, &flow)?;
    let copied = target.await_end_offsets("s.bench", records, START_WAIT);
    copied.with_context(|| mirror.last_words())?;
    Ok((source, target, mirror))
}

/// Microseconds at some shares of all records.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Spread {
    p50_us: i64,
    p99_us: i64,
    max_us: i64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Delays {
    records: u64,
    /// From the source's acknowledgement to a reader of the source.
    source: Spread,
    /// From the source's acknowledgement to a reader of the target.
    target: Spread,
    /// From a reader of the source to a reader of the target, record by record.
    added: Spread,
}

fn latency(tools: &[Tool], options: &Options) -> Result<Vec<Value>> {
    let seconds = if options.quick { 15 } else { 60 };
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for tool in tools {
        let (source, target, mut mirror) = running(*tool, 8, 8_000, options)?;
        let wait = Duration::from_secs(seconds + 60);
        let args = json!({
            "source": source.bootstrap(), "source_topic": "bench",
            "target": target.bootstrap(), "target_topic": "s.bench",
            "records": RATE * seconds, "rate": RATE, "warm_up": RATE * 5,
            "wait_ms": millis(wait),
        });
        let delays: Delays =
            Agent::shared()?.call("delays", args, wait * 2).with_context(|| mirror.last_words())?;
        mirror.terminate(STOP_WAIT)?;
        let cells = |spread: Spread| {
            [spread.p50_us, spread.p99_us, spread.max_us]
                .map(|micros| format!("{:.1}", as_millis(micros)))
        };
        for (what, spread) in [
            ("source reader after ack", delays.source),
            ("target reader after ack", delays.target),
            ("added", delays.added),
        ] {
            let [p50, p99, max] = cells(spread);
            rows.push([tool.name().to_owned(), what.to_owned(), p50, p99, max]);
            results.push(json!({
                "bench": "latency", "tool": tool.name(), "what": what, "records": delays.records,
                "p50_us": spread.p50_us, "p99_us": spread.p99_us, "max_us": spread.max_us,
            }));
        }
    }
    table::print(["tool", "latency", "p50 ms", "p99 ms", "max ms"], &rows);
    println!(
        "{RATE} records/s for {seconds} s into 8 partitions; one clock; \"added\" is record by record, from a reader of \
         the source to a reader of the target."
    );
    Ok(results)
}

fn as_millis(micros: i64) -> f64 {
    let size = Duration::from_micros(micros.unsigned_abs()).as_secs_f64() * 1e3;
    if micros < 0 { -size } else { size }
}

fn idle(tools: &[Tool], options: &Options) -> Result<Vec<Value>> {
    let rest = Duration::from_secs(if options.quick { 15 } else { 60 });
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for tool in tools {
        let (_source, _target, mut mirror) =
            running(*tool, PARTITIONS, u64::from(PARTITIONS), options)?;
        thread::sleep(SETTLE);
        let pid = mirror.pid().context("the mirror has no pid")?;
        let before = usage_of(pid)?;
        thread::sleep(rest);
        let after = usage_of(pid).with_context(|| mirror.last_words())?;
        let resident = resident_bytes(pid)?;
        mirror.terminate(STOP_WAIT)?;
        let percent = 100.0 * (after.cpu_seconds - before.cpu_seconds) / rest.as_secs_f64();
        let mib = |bytes| format!("{:.1}", as_f64(bytes) / 1_048_576.0);
        rows.push([
            tool.name().to_owned(),
            format!("{percent:.2}"),
            mib(resident),
            mib(after.peak_rss_bytes),
        ]);
        results.push(json!({
            "bench": "idle", "tool": tool.name(), "partitions": PARTITIONS,
            "cpu_percent_of_one_core": percent, "resident_bytes": resident,
            "peak_rss_bytes": after.peak_rss_bytes, "seconds": rest.as_secs(),
        }));
    }
    table::print(["tool", "% of one core", "resident MiB", "peak MiB"], &rows);
    println!("{PARTITIONS} partitions, nothing moving, over {} s.", rest.as_secs());
    Ok(results)
}

fn topic(tools: &[Tool], options: &Options) -> Result<Vec<Value>> {
    let topics = if options.quick { TOPICS / 2 } else { TOPICS };
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for tool in tools {
        let (source, target, mut mirror) = running(*tool, 2, 100, options)?;
        let mut took = Vec::new();
        for round in 0..topics {
            thread::sleep(pause(round, topics));
            let name = format!("bench-{round}");
            let watch = target.watch(&format!("s.{name}"), 1, START_WAIT)?;
            let created = now_us();
            source.create_topic(&Topic::new(&name).partitions(2))?;
            source.fill(&Fill::new(&name, 1))?;
            let seen = watch.seen()?;
            if seen.first_at_us == 0 {
                bail!("s.{name} got no record within {START_WAIT:?}. {}", mirror.last_words());
            }
            took.push(seconds_between(created, seen.first_at_us));
        }
        mirror.terminate(STOP_WAIT)?;
        took.sort_by(f64::total_cmp);
        let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
        rows.push([tool.name().to_owned(), format!("{median:.2}"), format!("{longest:.2}")]);
        results.push(json!({
            "bench": "topic", "tool": tool.name(), "seconds": took,
            "median_seconds": median, "max_seconds": longest,
        }));
    }
    table::print(["tool", "median s", "longest s"], &rows);
    println!(
        "From the creation of a topic to its first record on the target, {topics} topics, \
         refresh.topics.interval.seconds=5."
    );
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_keep_their_sign() {
        assert!((as_millis(-1_500) + 1.5).abs() < 1e-9);
        assert!((as_millis(250) - 0.25).abs() < 1e-9);
    }
}
