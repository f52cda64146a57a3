//! `/status`: one picture of the process, as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::copy::Path;
use crate::flow::{PartitionStatus, SeenGap};
use crate::mirror::{Lines, Missing, Outcome, RoundReport};
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

/// One flow at one moment.
#[derive(Clone, Debug)]
pub struct FlowPicture {
    /// Which flow.
    pub id: FlowId,
    /// Each partition.
    pub partitions: Vec<PartitionStatus>,
    /// Each kind of round.
    pub rounds: BTreeMap<&'static str, RoundReport>,
    /// Why it does not copy yet.
    pub waits_for: Option<String>,
    /// Rights that it lacks.
    pub missing: BTreeSet<Missing>,
}

/// One pair of clusters that heartbeats are written for, at one moment.
#[derive(Clone, Debug)]
pub struct HeartbeatPicture {
    /// Which pair.
    pub pair: FlowId,
    /// How their rounds go.
    pub report: RoundReport,
    /// Rights that they lack.
    pub missing: BTreeSet<Missing>,
}

/// Missing rights that are shown one by one; the rest is counted.
const RIGHTS_MAX: usize = 100;

/// The picture of `flows`, a line for each partition, and of the pairs that heartbeats are
/// written for.
///
/// Lines are written one by one: as one tree, thousands of partitions would take more memory than
/// everything else of the process.
#[must_use]
pub fn render(
    process: ProcessStatus,
    flows: &[FlowPicture],
    heartbeats: &[HeartbeatPicture],
) -> String {
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
    for (i, flow) in flows.iter().enumerate() {
        let (source, target) = (json!(flow.id.source.as_str()), json!(flow.id.target.as_str()));
        let comma = if i > 0 { "," } else { "" };
        let rounds: Map<String, Value> =
            flow.rounds.iter().map(|(kind, report)| ((*kind).to_owned(), round(report))).collect();
        let rounds = Value::Object(rounds);
        let _ = write!(out, "{comma}\n{{\"source\":{source},\"target\":{target},");
        let (waits_for, missing) = (json!(flow.waits_for), rights(&flow.missing));
        let _ = write!(out, "\"waits_for\":{waits_for},\"missing_rights\":{missing},");
        let _ = write!(out, "\"rounds\":{rounds},\"partitions\":[");
        for (i, status) in flow.partitions.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\n{}", partition(status));
        }
        out.push_str("\n]}");
    }
    let pair = |one: &HeartbeatPicture| {
        json!({
            "source": one.pair.source.as_str(),
            "target": one.pair.target.as_str(),
            "missing_rights": rights(&one.missing),
            "round": round(&one.report),
        })
    };
    let heartbeats = Value::Array(heartbeats.iter().map(pair).collect());
    let _ = write!(out, "\n],\n\"heartbeats\":{heartbeats}}}\n");
    out
}

fn rights(missing: &BTreeSet<Missing>) -> Value {
    let one = |one: &Missing| {
        json!({
            "features": one.features().iter().map(|feature| feature.name()).collect::<Vec<_>>(),
            "cluster": one.cluster.as_str(),
            "operation": one.operation.to_string(),
            "on": one.resource.to_string(),
            "grant": one.grant,
        })
    };
    let first: Vec<Value> = missing.iter().take(RIGHTS_MAX).map(one).collect();
    json!({ "count": missing.len(), "first": first })
}

fn round(report: &RoundReport) -> Value {
    let lines = |lines: &Lines| json!({ "count": lines.count, "first": lines.first });
    json!({
        "runs": report.runs,
        "failures": report.failures,
        "started_ms": report.started.map(|at| at.0),
        "took_seconds": report.took.as_secs_f64(),
        "outcome": report.outcome.word(),
        "why": match &report.outcome {
            Outcome::Pending | Outcome::Done => None,
            Outcome::Troubled(trouble) => Some(trouble.to_string()),
        },
        "undone": lines(&report.notes.undone),
        "left": lines(&report.notes.left),
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
        "oldest_uncopied_seconds": status.oldest.as_secs_f64(),
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
    use crate::mirror::{Resource, Trouble};
    use crate::model::{
        AclOperation, ClusterAlias, Gap, GapReason, Offset, OffsetRange, Timestamp, TopicPartition,
    };
    use crate::policy::Thing;

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
            oldest: Duration::from_millis(2500),
            counts: counts.clone(),
            gaps: vec![SeenGap { gap, at: Timestamp(1) }],
        };
        let process = ProcessStatus {
            uptime: Duration::from_millis(1500),
            frame_bytes: 1,
            frame_bytes_limit: 2,
        };
        let missing = Missing {
            cluster: ClusterAlias::new("a"),
            resource: Resource::Topic("orders".into()),
            thing: Thing::Topics,
            operation: AclOperation::READ,
            grant: "kafka-acls".into(),
        };
        let rights = BTreeSet::from([missing.clone()]);
        let denied = Trouble::Denied { what: "no \"right\"".into(), missing };
        let report = RoundReport { outcome: Outcome::Troubled(denied), ..RoundReport::default() };
        let picture_of = |source, partitions| FlowPicture {
            id: flow(source),
            partitions,
            rounds: [("acls", report.clone())].into(),
            waits_for: Some("a \"topic\"".into()),
            missing: rights.clone(),
        };
        let flows = [picture_of("a", vec![status(0), status(1)]), picture_of("c", Vec::new())];
        let heartbeats = [HeartbeatPicture {
            pair: flow("a"),
            report: RoundReport::default(),
            missing: BTreeSet::new(),
        }];
        let text = render(process, &flows, &heartbeats);
        let picture: Value = serde_json::from_str(&text).unwrap();

        let acls = &picture["flows"][1]["rounds"]["acls"];
        assert_eq!(acls["outcome"], json!("denied"));
        assert_eq!(acls["why"], json!("no \"right\"; to grant the right: kafka-acls"));
        assert_eq!(acls["undone"], json!({ "count": 0, "first": [] }));
        let lacked = &picture["flows"][0]["missing_rights"];
        assert_eq!(lacked["count"], json!(1));
        assert_eq!(lacked["first"][0]["features"], json!(["data read"]));
        assert_eq!(lacked["first"][0]["on"], json!("topic orders"));
        assert_eq!(picture["flows"][0]["waits_for"], json!("a \"topic\""));
        assert_eq!(picture["heartbeats"][0]["round"]["outcome"], json!("pending"));

        assert_eq!(picture["uptime_seconds"], json!(1.5));
        assert_eq!(picture["flows"][1]["partitions"], json!([]));
        let second = &picture["flows"][0]["partitions"][1];
        assert_eq!(second["topic"], json!("orders \"quoted\""));
        assert_eq!(second["upstream"], json!({ "copied": null, "end": null }));
        assert_eq!(second["waiting_for"], json!("target broker"));
        assert_eq!(second["oldest_uncopied_seconds"], json!(2.5));
        let recent = json!([{ "first": 3, "end": 5, "count": 2, "reason": "lost", "at_ms": 1 }]);
        assert_eq!(second["gaps"], json!({ "count": 1, "records": 2, "recent": recent }));
    }
}
