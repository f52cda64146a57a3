//! `/status`: one picture of the process, as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::copy::Path;
use crate::flow::{PartitionStatus, SeenGap};
use crate::model::FlowId;

/// What the process says about itself besides its flows.
#[derive(Clone, Copy, Debug)]
pub struct ProcessStatus {
    /// Time since the start.
    pub uptime: Duration,
    /// Bytes of frames alive.
    pub frame_bytes: usize,
    /// Bytes of frames that may be alive now.
    pub frame_bytes_limit: usize,
}

/// The picture of `flows`, with every partition.
#[must_use]
pub fn render(process: ProcessStatus, flows: &[(FlowId, Vec<PartitionStatus>)]) -> Value {
    let flows: Vec<Value> = flows
        .iter()
        .map(|(flow, partitions)| {
            json!({
                "source": flow.source.as_str(),
                "target": flow.target.as_str(),
                "partitions": partitions.iter().map(partition).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": process.uptime.as_secs_f64(),
        "memory": {
            "frame_bytes": process.frame_bytes,
            "frame_bytes_limit": process.frame_bytes_limit,
        },
        "flows": flows,
    })
}

fn partition(status: &PartitionStatus) -> Value {
    let counts = &status.counts;
    let known = |offset: i64| (offset >= 0).then_some(offset);
    let batches = |wanted: fn(&Path) -> bool| -> u64 {
        counts.batches.iter().filter(|(path, _)| wanted(path)).map(|(_, count)| count).sum()
    };
    json!({
        "topic": status.source.topic.as_str(),
        "partition": status.source.partition,
        "target_topic": status.target.topic.as_str(),
        "state": status.state.word(),
        "waiting_for": status.waiting_for.as_ref().map(ToString::to_string),
        "stalled": status.stalled,
        "halt": status.halt,
        "upstream": {
            "copied": known(status.copied.0),
            "end": status.source_end.map(|end| end.0),
        },
        "downstream": { "next": known(status.downstream.0) },
        "lag": status.lag,
        "records": counts.records,
        "bytes": counts.bytes,
        "batches": {
            "raw": batches(|path| *path == Path::Raw),
            "merged": batches(|path| *path == Path::Merged),
            "rebuilt": batches(|path| matches!(path, Path::Rebuilt(_))),
            "dropped": counts.dropped.values().sum::<u64>(),
        },
        "gaps": {
            "count": counts.gaps,
            "records": counts.lost(),
            "recent": status.gaps.iter().map(gap).collect::<Vec<_>>(),
        },
    })
}

fn gap(seen: &SeenGap) -> Value {
    json!({
        "first": seen.gap.range.start.0,
        "end": seen.gap.range.end.0,
        "count": seen.gap.range.len(),
        "reason": seen.gap.reason.word(),
        "at_ms": seen.at.0,
    })
}
