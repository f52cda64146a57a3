//! `/status`: one picture of the process, as JSON.

use std::fmt::Write;
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

/// The picture of `flows`, a line for each partition.
///
/// Lines are written one by one: as one tree, thousands of partitions would take more memory than
/// everything else of the process.
#[must_use]
pub fn render(process: ProcessStatus, flows: &[(FlowId, Vec<PartitionStatus>)]) -> String {
    let memory = json!({
        "frame_bytes": process.frame_bytes,
        "frame_bytes_limit": process.frame_bytes_limit,
    });
    let (version, uptime) = (env!("CARGO_PKG_VERSION"), process.uptime.as_secs_f64());
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write!(
        out,
        "{{\"version\":{},\"uptime_seconds\":{uptime},\"memory\":{memory},\"flows\":[",
        json!(version)
    );
    for (i, (flow, partitions)) in flows.iter().enumerate() {
        let (source, target) = (json!(flow.source.as_str()), json!(flow.target.as_str()));
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(out, "{comma}\n{{\"source\":{source},\"target\":{target},\"partitions\":[");
        for (i, status) in partitions.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\n{}", partition(status));
        }
        out.push_str("\n]}");
    }
    out.push_str("\n]}\n");
    out
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Counts;
    use crate::flow::{PartitionState, Waiting};
    use crate::model::{
        ClusterAlias, Gap, GapReason, Offset, OffsetRange, Timestamp, TopicPartition,
    };

    #[test]
    fn the_picture_is_one_json_document_with_every_partition() {
        let flow = |source: &str| FlowId {
            source: ClusterAlias::new(source),
            target: ClusterAlias::new("b"),
        };
        let range = OffsetRange::new(Offset(3), Offset(5));
        let gap = Gap { range, reason: GapReason::Lost };
        let mut counts = Counts { records: 7, ..Counts::default() };
        counts.pass(gap);
        let status = |partition| PartitionStatus {
            source: TopicPartition::new("orders \"quoted\"", partition),
            target: TopicPartition::new("a.orders", partition),
            state: PartitionState::Waiting,
            waiting_for: Some(Waiting::Target),
            halt: None,
            copied: Offset(-1),
            source_end: None,
            downstream: Offset(5),
            lag: None,
            stalled: true,
            counts: counts.clone(),
            gaps: vec![SeenGap { gap, at: Timestamp(1) }],
        };
        let process = ProcessStatus {
            uptime: Duration::from_millis(1500),
            frame_bytes: 1,
            frame_bytes_limit: 2,
        };
        let flows = [(flow("a"), vec![status(0), status(1)]), (flow("c"), Vec::new())];
        let picture: Value = serde_json::from_str(&render(process, &flows)).unwrap();

        assert_eq!(picture["uptime_seconds"], json!(1.5));
        assert_eq!(picture["flows"][1]["partitions"], json!([]));
        let second = &picture["flows"][0]["partitions"][1];
        assert_eq!(second["topic"], json!("orders \"quoted\""));
        assert_eq!(second["upstream"], json!({ "copied": null, "end": null }));
        assert_eq!(second["waiting_for"], json!("target broker"));
        let recent = json!([{ "first": 3, "end": 5, "count": 2, "reason": "lost", "at_ms": 1 }]);
        assert_eq!(second["gaps"], json!({ "count": 1, "records": 2, "recent": recent }));
    }
}
