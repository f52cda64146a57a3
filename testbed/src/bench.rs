//! `testbed bench`: Heliograph, the real MirrorMaker 2 and a bare relay on the same data, in one run and one table.
//!
//! Rules, so that figures can be compared: the source is filled and read once before anything is measured; each
//! mirror gets a fresh target cluster and the same properties file; both start as their users start them
//! (MirrorMaker 2 with the flags of its script, without a class archive); the clock runs from the start of the process
//! until the target's end offsets count all records; CPU and peak memory are the process's own, from `/proc`, at that
//! moment; afterwards each copy is compared record by record.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::admin::Topic;
use crate::cluster::{Cluster, ClusterSpec};
use crate::compare::Comparison;
use crate::fill::{Codec, Fill};
use crate::flow::FlowFile;
use crate::java::Jvm;
use crate::mirror::{self, Mirror, Program};
use crate::mm2;
use crate::process::usage_of;
use crate::relay;
use crate::version::Version;

const PARTITIONS: u32 = 8;

/// As in Kafka's own start script.
const BROKER_JVM: Jvm = Jvm::Measured { heap_mib: 1_024 };

/// 2 GiB at the speed of the slowest tool on a loaded machine.
const COPY_WAIT: Duration = Duration::from_secs(900);

const STOP_WAIT: Duration = Duration::from_secs(60);

/// The relay moves at least this much.
const RELAY_BYTES: u64 = 4 << 30;

/// How often a mirror's CPU time is noted, to tell starting from copying.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

const GIB: f64 = 1_073_741_824.0;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// An eighth of the data.
    pub quick: bool,
    /// Empty: all.
    pub shapes: Vec<Shape>,
    /// Empty: all.
    pub only: Vec<Tool>,
    pub compare: bool,
    /// `tasks.max`.
    pub tasks: u32,
    /// This binary, which also is the relay.
    pub program: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// 1 KiB of noise, uncompressed, 2 GiB.
    Kib,
    /// 100 bytes of words, lz4, 10 million.
    Small,
}

impl Shape {
    const ALL: [Self; 2] = [Self::Kib, Self::Small];

    const fn records(self, quick: bool) -> u64 {
        let all = match self {
            Self::Kib => 2 * 1_024 * 1_024,
            Self::Small => 10_000_000,
        };
        if quick { all / 8 } else { all }
    }

    fn fill(self, records: u64) -> Fill {
        match self {
            // Keys off, so that a record's payload is 1 KiB sharp.
            Self::Kib => Fill::new("bench", records)
                .size(1_024, 1_024)
                .noise()
                .null_keys(1.0)
                .batches(256 * 1_024, 20),
            Self::Small => Fill::new("bench", records)
                .codec(Codec::Lz4)
                .null_keys(1.0)
                .batches(256 * 1_024, 20),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kib => "1 KiB, none",
            Self::Small => "100 B, lz4",
        })
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "1k" => Ok(Self::Kib),
            "100b" => Ok(Self::Small),
            _ => bail!(
                "no shape {text:?}: there are 1k (1 KiB, uncompressed) and 100b (100 bytes, lz4)"
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Relay,
    Heliograph,
    Mm2,
}

impl Tool {
    const ALL: [Self; 3] = [Self::Relay, Self::Heliograph, Self::Mm2];

    const fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Heliograph => "heliograph",
            Self::Mm2 => "mm2",
        }
    }
}

impl FromStr for Tool {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|tool| tool.name() == text);
        found.with_context(|| format!("no tool {text:?}: there are relay, heliograph and mm2"))
    }
}

/// The data of one shape, as it lies on the source.
#[derive(Debug, Clone, Copy)]
struct Data {
    shape: Shape,
    records: u64,
    stored_bytes: u64,
    payload_bytes: u64,
}

/// One line of the table.
#[derive(Debug)]
struct Row {
    data: Data,
    tool: Tool,
    cpu_seconds: f64,
    /// Of these, until the first record was there.
    cpu_seconds_before: f64,
    peak_rss_bytes: u64,
    first_seconds: f64,
    total_seconds: f64,
    verdict: &'static str,
}

/// Measures and prints; the exit code says whether every copy was right.
pub fn run(options: &Options) -> Result<ExitCode> {
    let shapes =
        if options.shapes.is_empty() { Shape::ALL.to_vec() } else { options.shapes.clone() };
    let tools = if options.only.is_empty() { Tool::ALL.to_vec() } else { options.only.clone() };
    if tools.contains(&Tool::Heliograph) {
        mirror::heliograph_binary()?;
    }

    let mut rows = Vec::new();
    for shape in shapes {
        let (source, data) = filled_source(shape, options.quick)?;
        for tool in &tools {
            eprintln!("testbed: measuring {} on {shape}", tool.name());
            let row = match tool {
                Tool::Relay => relay_row(data, options)?,
                Tool::Heliograph => mirror_row(data, *tool, Program::Heliograph, &source, options)?,
                Tool::Mm2 => {
                    let jvm = Jvm::Measured { heap_mib: mm2::SCRIPT_HEAP_MIB };
                    mirror_row(data, *tool, Program::Mm2(jvm), &source, options)?
                }
            };
            eprintln!("testbed: {}", row.line());
            rows.push(row);
        }
    }
    print_table(&rows);
    let wrong = rows.iter().any(|row| row.verdict == "NOT the same");
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn filled_source(shape: Shape, quick: bool) -> Result<(Cluster, Data)> {
    eprintln!("testbed: filling the source with {} records ({shape})", shape.records(quick));
    let source = ClusterSpec::new(Version::V4_3_1).named("source").jvm(BROKER_JVM).start()?;
    source.create_topic(&Topic::new("bench").partitions(PARTITIONS))?;
    let records = shape.records(quick);
    let filled = source.fill(&shape.fill(records).run(200).producers(2))?;
    let stored_bytes = source.log_size("bench")?;
    // Nobody shall be the first to read from a cold cache with a cold compiler.
    let seen: u64 = source.drain("bench")?.iter().sum();
    if seen != records {
        bail!("the source shows {seen} of {records} records");
    }
    let data = Data { shape, records, stored_bytes, payload_bytes: filled.payload_bytes };
    Ok((source, data))
}

fn relay_row(data: Data, options: &Options) -> Result<Row> {
    // CPU time is counted in hundredths of a second: enough bytes for a hundred of them, scaled back.
    let times = RELAY_BYTES.div_ceil(data.stored_bytes.max(1)).max(1);
    let relayed = relay::measure(&options.program, data.stored_bytes * times)?;
    Ok(Row {
        data,
        tool: Tool::Relay,
        cpu_seconds: relayed.usage.cpu_seconds / as_f64(times),
        cpu_seconds_before: 0.0,
        peak_rss_bytes: relayed.usage.peak_rss_bytes,
        first_seconds: relayed.first.as_secs_f64(),
        total_seconds: relayed.elapsed.as_secs_f64() / as_f64(times),
        verdict: "-",
    })
}

fn mirror_row(
    data: Data,
    tool: Tool,
    program: Program,
    source: &Cluster,
    options: &Options,
) -> Result<Row> {
    let target = ClusterSpec::new(Version::V4_3_1).named("target").jvm(BROKER_JVM).start()?;
    // Nor the first to write to a broker that has compiled nothing yet: brokers run for months.
    target.create_topic(&Topic::new("warm-up").partitions(PARTITIONS))?;
    target.fill(&data.shape.fill(data.shape.records(true) / 4).to("warm-up"))?;
    let flow = FlowFile::one_way(("s", source), ("t", &target))
        .topics("bench")
        .set("tasks.max", options.tasks.to_string());
    let mut mirror = Mirror::prepare(program, &flow, &[])?;
    let watch = target.watch("s.bench", data.records, COPY_WAIT)?;

    let started = now_us();
    mirror.launch()?;
    let pid = mirror.pid().context("the mirror has no pid")?;
    let (stop, samples) = sample(pid);
    let seen = watch.seen()?;
    drop(stop);
    let samples = samples.join().unwrap_or_default();
    let usage = mirror.usage().with_context(|| mirror.last_words())?;
    if seen.done_at_us == 0 {
        bail!(
            "{} has copied {} of {} records within {COPY_WAIT:?}. {}",
            tool.name(),
            seen.end_offsets,
            data.records,
            mirror.last_words()
        );
    }
    let verdict = if options.compare {
        let verdict = Comparison::new(source, "bench", &target, "s.bench").wait(STOP_WAIT).run()?;
        eprintln!("testbed: {}: {verdict}", tool.name());
        if verdict.same { "same" } else { "NOT the same" }
    } else {
        "not compared"
    };
    // Some leave with 143 after SIGTERM; here only the copy counts.
    mirror.terminate(STOP_WAIT).with_context(|| format!("stopping {}", tool.name()))?;
    Ok(Row {
        data,
        tool,
        cpu_seconds: usage.cpu_seconds,
        cpu_seconds_before: samples
            .iter()
            .rev()
            .find(|(at, _)| *at <= seen.first_at_us)
            .map_or(0.0, |(_, cpu)| *cpu),
        peak_rss_bytes: usage.peak_rss_bytes,
        first_seconds: seconds_between(started, seen.first_at_us),
        total_seconds: seconds_between(started, seen.done_at_us),
        verdict,
    })
}

/// CPU seconds of a process at moments, until the sender is dropped.
fn sample(pid: u32) -> (mpsc::Sender<()>, thread::JoinHandle<Vec<(u64, f64)>>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let samples = thread::spawn(move || {
        let mut samples = Vec::new();
        while stopped.recv_timeout(SAMPLE_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
            let Ok(usage) = usage_of(pid) else { break };
            samples.push((now_us(), usage.cpu_seconds));
        }
        samples
    });
    (stop, samples)
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn seconds_between(from_us: u64, to_us: u64) -> f64 {
    Duration::from_micros(to_us.saturating_sub(from_us)).as_secs_f64()
}

fn as_f64(count: u64) -> f64 {
    // Counts here are far below 2^53.
    count.to_string().parse().unwrap_or(f64::NAN)
}

const HEADINGS: [&str; 12] = [
    "data",
    "tool",
    "CPU s/GiB stored",
    "after 1st record",
    "CPU s/GiB payload",
    "MB/s",
    "MB/s after 1st",
    "records/s",
    "peak MiB",
    "1st record s",
    "total s",
    "copy",
];

impl Row {
    fn cells(&self) -> [String; 12] {
        let stored = as_f64(self.data.stored_bytes);
        let payload = as_f64(self.data.payload_bytes);
        let copying = (self.total_seconds - self.first_seconds).max(1e-6);
        [
            self.data.shape.to_string(),
            self.tool.name().to_owned(),
            format!("{:.2}", self.cpu_seconds / (stored / GIB)),
            format!("{:.2}", (self.cpu_seconds - self.cpu_seconds_before) / (stored / GIB)),
            format!("{:.2}", self.cpu_seconds / (payload / GIB)),
            format!("{:.0}", stored / 1e6 / self.total_seconds),
            format!("{:.0}", stored / 1e6 / copying),
            format!("{:.0}", as_f64(self.data.records) / self.total_seconds),
            format!("{:.1}", as_f64(self.peak_rss_bytes) / 1_048_576.0),
            format!("{:.2}", self.first_seconds),
            format!("{:.1}", self.total_seconds),
            self.verdict.to_owned(),
        ]
    }

    fn line(&self) -> String {
        let cells = self.cells();
        HEADINGS
            .iter()
            .zip(&cells)
            .map(|(heading, cell)| format!("{heading}: {cell}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn print_table(rows: &[Row]) {
    let cells: Vec<[String; 12]> = rows.iter().map(Row::cells).collect();
    let mut widths = HEADINGS.map(str::len);
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let line = |row: &[String]| {
        let padded: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        println!("| {} |", padded.join(" | "));
    };
    println!();
    line(&HEADINGS.map(String::from));
    println!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"));
    for row in &cells {
        line(row);
    }
    let mut described: Vec<String> = Vec::new();
    for row in rows {
        let data = row.data;
        let text = format!(
            "{}: {} records in {PARTITIONS} partitions, {:.2} GiB stored on the source, {:.2} GiB of payload",
            data.shape,
            data.records,
            as_f64(data.stored_bytes) / GIB,
            as_f64(data.payload_bytes) / GIB
        );
        if !described.contains(&text) {
            described.push(text);
        }
    }
    println!(
        "\n{}\nMB/s and total count from the start of the process; 10^6 bytes as stored.",
        described.join("\n")
    );
}
