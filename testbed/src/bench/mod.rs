//! `testbed bench`: Heliograph, the real MirrorMaker 2 and a bare relay on the same data, in one run and one table.
//!
//! Rules, so that figures can be compared: the source is filled and read once before anything is measured; each
//! mirror gets a fresh target cluster and the same properties file; both start as their users start them
//! (MirrorMaker 2 with the flags of its script, without a class archive); the clock runs from the start of the process
//! until the target's end offsets count all records; CPU and peak memory are the process's own, from `/proc`, at that
//! moment; afterwards each copy is compared record by record.
//!
//! Besides the shapes of data ([`Shape`]) there are questions about time and rest ([`Probe`]).

mod large;
mod limit;
mod live;
mod measure;
mod shape;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::java::Jvm;
use crate::mirror::{self, Program};
use crate::mm2;

pub use limit::{fetch as limit_fetch, produce as limit_produce};
pub use live::Probe;
pub use shape::Shape;

/// As in Kafka's own start script.
const BROKER_JVM: Jvm = Jvm::Measured { heap_mib: 1_024 };

const STOP_WAIT: Duration = Duration::from_secs(60);

const GIB: f64 = 1_073_741_824.0;

const NOT_THE_SAME: &str = "NOT the same";

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// An eighth of the data, a quarter of the time.
    pub quick: bool,
    /// Empty: all.
    pub benches: Vec<Bench>,
    /// Empty: all.
    pub only: Vec<Tool>,
    pub compare: bool,
    /// `tasks.max`.
    pub tasks: u32,
    /// Results for programs.
    pub json: Option<PathBuf>,
    /// This binary, which also is the relay and the two processes of the limit.
    pub program: PathBuf,
}

/// One question of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bench {
    /// How fast, at what cost?
    Copy(Shape),
    Probe(Probe),
}

impl FromStr for Bench {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Ok(probe) = text.parse() {
            return Ok(Self::Probe(probe));
        }
        let shape = text.parse().map(Self::Copy);
        shape
            .with_context(|| format!("nor is it one of {}", Probe::ALL.map(Probe::word).join(", ")))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Relay,
    Limit,
    Heliograph,
    /// The same with `heliograph.verify.crc=always`: only where it is asked for.
    Verifying,
    Mm2,
}

impl Tool {
    const ALL: [Self; 5] = [Self::Relay, Self::Limit, Self::Heliograph, Self::Verifying, Self::Mm2];

    /// What is measured if nothing else is asked for.
    const USUAL: [Self; 4] = [Self::Relay, Self::Limit, Self::Heliograph, Self::Mm2];

    const fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Limit => "limit",
            Self::Heliograph => "heliograph",
            Self::Verifying => "verifying",
            Self::Mm2 => "mm2",
        }
    }

    /// The process, if it is a mirror.
    fn program(self) -> Option<Program> {
        match self {
            Self::Relay | Self::Limit => None,
            Self::Heliograph | Self::Verifying => Some(Program::Heliograph),
            Self::Mm2 => Some(Program::Mm2(Jvm::Measured { heap_mib: mm2::SCRIPT_HEAP_MIB })),
        }
    }
}

impl FromStr for Tool {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|tool| tool.name() == text);
        found.with_context(|| {
            format!("no tool {text:?}: there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Measures and prints; the exit code says whether every copy was right.
pub fn run(options: &Options) -> Result<ExitCode> {
    let benches = if options.benches.is_empty() {
        let shapes = Shape::ALL.into_iter().map(Bench::Copy);
        shapes.chain(Probe::ALL.into_iter().map(Bench::Probe)).collect()
    } else {
        options.benches.clone()
    };
    let tools = if options.only.is_empty() { Tool::USUAL.to_vec() } else { options.only.clone() };
    if tools.contains(&Tool::Heliograph) || tools.contains(&Tool::Verifying) {
        mirror::heliograph_binary()?;
    }

    let (mut results, mut rows, mut right) = (Vec::new(), Vec::new(), true);
    for bench in benches {
        match bench {
            Bench::Copy(shape) => {
                for row in copy(shape, &tools, options)? {
                    right &= row.verdict != NOT_THE_SAME;
                    results.push(row.json());
                    rows.push(row);
                }
            }
            Bench::Probe(probe) => {
                // Mirrors only: the two others have no topics.
                let mirrors = tools.iter().copied().filter(|tool| tool.program().is_some());
                results.extend(live::run(probe, &mirrors.collect::<Vec<_>>(), options)?);
            }
        }
        // After each question: what a long run has found out is not lost with its end.
        write_json(options, &results)?;
    }
    if !rows.is_empty() {
        table::print_rows(&rows);
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn copy(shape: Shape, tools: &[Tool], options: &Options) -> Result<Vec<measure::Row>> {
    let (source, data) = shape.source(options.quick)?;
    let mut rows: Vec<measure::Row> = Vec::new();
    for tool in tools {
        if *tool == Tool::Relay && !shape.has_a_floor() {
            continue;
        }
        eprintln!("testbed: measuring {} on {shape}", tool.name());
        let mut row = match (tool, tool.program()) {
            (_, Some(program)) => measure::mirror_row(data, *tool, program, &source, options)?,
            (Tool::Limit, None) => measure::limit_row(data, &source, options)?,
            (_, None) => measure::relay_row(data, options)?,
        };
        row.limit = row.limit.or_else(|| rows.iter().find_map(|row| row.limit));
        eprintln!("testbed: {}", row.line());
        rows.push(row);
    }
    Ok(rows)
}

fn write_json(options: &Options, results: &[Value]) -> Result<()> {
    let Some(path) = &options.json else { return Ok(()) };
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let all = json!({
        "quick": options.quick,
        "tasks_max": options.tasks,
        "processors": processors,
        "at_ms": now_us() / 1_000,
        "results": results,
    });
    std::fs::write(path, serde_json::to_string_pretty(&all)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))
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
