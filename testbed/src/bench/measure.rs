//! One tool, one shape, one line of the table.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::limit::{self, Ends, Limit};
use super::shape::{Shape, address};
use super::{GIB, Options, STOP_WAIT, Tool, as_f64, now_us, seconds_between};
use crate::admin::Topic;
use crate::cluster::Cluster;
use crate::compare::Comparison;
use crate::flow::FlowFile;
use crate::mirror::{Mirror, Program};
use crate::process::usage_of;
use crate::relay;

/// 2 GiB at the speed of the slowest tool on a loaded machine.
const COPY_WAIT: Duration = Duration::from_secs(900);

/// The relay moves at least this much.
const RELAY_BYTES: u64 = 4 << 30;

/// How often a mirror's CPU time is noted, to tell starting from copying.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// Written to a target before anything is measured there.
const WARM_UP_RECORDS: u64 = 64 * 1_024;

/// The data of one shape, as it lies on the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data {
    pub(super) shape: Shape,
    pub(super) records: u64,
    pub(super) stored_bytes: u64,
    pub(super) payload_bytes: u64,
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) data: Data,
    pub(super) tool: Tool,
    pub(super) cpu_seconds: f64,
    /// Of these, until the first record was there.
    pub(super) cpu_seconds_before: f64,
    pub(super) peak_rss_bytes: u64,
    pub(super) first_seconds: f64,
    pub(super) total_seconds: f64,
    /// What the brokers give at most, if that was measured.
    pub(super) limit: Option<Limit>,
    pub(super) verdict: &'static str,
}

impl Row {
    /// From the first record to the last one.
    pub(super) fn copying_seconds(&self) -> f64 {
        (self.total_seconds - self.first_seconds).max(1e-6)
    }

    /// How close the copy came to what the brokers give, in percent.
    pub(super) fn percent_of_limit(&self) -> Option<f64> {
        let is_mirror = !matches!(self.tool, Tool::Relay | Tool::Limit);
        let limit = self.limit.filter(|_| is_mirror)?;
        Some(100.0 * limit.seconds / self.copying_seconds())
    }

    pub(super) fn json(&self) -> Value {
        let stored = as_f64(self.data.stored_bytes);
        let mut row = json!({
            "bench": self.data.shape.word(),
            "tool": self.tool.name(),
            "records": self.data.records,
            "stored_bytes": self.data.stored_bytes,
            "payload_bytes": self.data.payload_bytes,
            "partitions": self.data.shape.partitions(),
            "first_record_seconds": self.first_seconds,
            "total_seconds": self.total_seconds,
            "records_per_second": as_f64(self.data.records) / self.total_seconds,
            "bytes_per_second_after_first": stored / self.copying_seconds(),
            "verdict": self.verdict,
        });
        if self.tool != Tool::Limit {
            row["cpu_seconds"] = self.cpu_seconds.into();
            row["cpu_seconds_per_gib_stored"] = (self.cpu_seconds / (stored / GIB)).into();
            row["peak_rss_bytes"] = self.peak_rss_bytes.into();
        }
        if let (Tool::Limit, Some(limit)) = (self.tool, self.limit) {
            row["records_per_second"] = limit.records_per_s.into();
            row["fetch_bytes_per_second"] = limit.fetch_bytes_per_s.into();
            row["produce_bytes_per_second"] = limit.produce_bytes_per_s.into();
        }
        if let Some(percent) = self.percent_of_limit() {
            row["percent_of_limit"] = percent.into();
        }
        row
    }
}

/// The physical floor for this data.
pub(super) fn relay_row(data: Data, options: &Options) -> Result<Row> {
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
        limit: None,
        verdict: "-",
    })
}

/// What the brokers give at most.
pub(super) fn limit_row(data: Data, source: &Cluster, options: &Options) -> Result<Row> {
    let shape = data.shape;
    let target = warm_target(data)?;
    target.create_topic(&shape.topic("limit"))?;
    let ends = Ends {
        source: address(source, shape.source_is_delayed())?,
        target: address(&target, shape.target_is_delayed())?,
        target_topic: "limit".into(),
    };
    let limit = limit::measure(&options.program, data, &ends)?;
    Ok(Row {
        data,
        tool: Tool::Limit,
        cpu_seconds: 0.0,
        cpu_seconds_before: 0.0,
        peak_rss_bytes: 0,
        first_seconds: 0.0,
        total_seconds: limit.seconds,
        limit: Some(limit),
        verdict: "-",
    })
}

/// Nobody shall be the first to write to a broker that has compiled nothing yet: brokers run for months.
fn warm_target(data: Data) -> Result<Cluster> {
    let target = data.shape.target()?;
    target.create_topic(&Topic::new("warm-up").partitions(8))?;
    let like = if data.shape == Shape::Small { Shape::Small } else { Shape::Kib };
    target.fill(&like.fill(WARM_UP_RECORDS).to("warm-up"))?;
    Ok(target)
}

/// One mirror, from its start to the last record.
pub(super) fn mirror_row(
    data: Data,
    tool: Tool,
    program: Program,
    source: &Cluster,
    options: &Options,
) -> Result<Row> {
    let shape = data.shape;
    let target = warm_target(data)?;
    let flow = FlowFile::one_way(("s", source), ("t", &target))
        .topics("bench")
        .set("tasks.max", options.tasks.to_string())
        // The same work for both; MirrorMaker 2 would copy aborted records, too.
        .set("s.consumer.isolation.level", "read_committed");
    let flow = match tool {
        Tool::Verifying => flow.set("heliograph.verify.crc", "always"),
        _ => flow,
    };
    let flow = shape.point(flow, source, &target)?;
    if shape == Shape::Many {
        // A broker makes a thousand folders in ten seconds: that is no figure of a mirror.
        target.create_topic(&Topic::new("s.bench").partitions(shape.partitions()))?;
    }
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
        if verdict.same { "same" } else { super::NOT_THE_SAME }
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
        limit: None,
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
