//! `/readyz`: whether every flow is connected to both of its clusters and moves.
//!
//! Reasons are values, judged here and shown as JSON, so that whoever asks sees what to look at
//! first. A partition that stopped is a person's business and does not make its flow unready: it
//! has a metric of its own, and others go on.

use serde_json::{Value, json};

use crate::flow::{PartitionState, PartitionStatus, Waiting};
use crate::model::{ClusterAlias, FlowId};

/// Why a flow is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What sort of reason: `connection`, `tls`, `authentication`, `request`, `start`, `copying`.
    pub kind: &'static str,
    /// The cluster that it is about.
    pub cluster: Option<ClusterAlias>,
    /// In words.
    pub what: String,
}

/// How one flow stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReadiness {
    /// Which one.
    pub id: FlowId,
    /// Why it is not ready; none if it is.
    pub reasons: Vec<Reason>,
    /// Partitions that stopped.
    pub halted: usize,
}

/// Judges one flow by what its clusters answer, what it waits for before it copies, and its
/// partitions.
#[must_use]
pub fn judge(
    id: FlowId,
    clusters: Vec<Reason>,
    waits_for: Option<String>,
    partitions: &[PartitionStatus],
) -> FlowReadiness {
    let mut reasons = clusters;
    if let Some(what) = waits_for {
        reasons.push(Reason { kind: "start", cluster: None, what });
    } else if reasons.is_empty()
        && let Some(what) = stands_still(partitions)
    {
        reasons.push(Reason { kind: "copying", cluster: None, what });
    }
    let halted = partitions.iter().filter(|one| one.state == PartitionState::Halted).count();
    FlowReadiness { id, reasons, halted }
}

/// Why nothing is copied though there is something to copy: of the partitions that are behind, or
/// whose state says that they cannot go on, not one moves.
fn stands_still(partitions: &[PartitionStatus]) -> Option<String> {
    let waits = |one: &PartitionStatus| {
        one.stalled
            || one.state == PartitionState::Halted
            || !matches!(
                one.waiting_for,
                None | Some(Waiting::Records | Waiting::RateLimit | Waiting::Throttled(_))
            )
    };
    let has_work = |one: &&PartitionStatus| waits(one) || one.lag != Some(0);
    let behind: Vec<&PartitionStatus> = partitions.iter().filter(has_work).collect();
    let first = behind.first()?;
    if !behind.iter().all(|one| waits(one)) {
        return None;
    }
    let why = match (&first.halt, &first.waiting_for) {
        (Some(halt), _) => format!("halted: {halt}"),
        (None, Some(waiting)) => format!("waits: {waiting}"),
        (None, None) => "its source has records, and none was acknowledged for 15 s".into(),
    };
    Some(format!(
        "{} of {} partitions cannot go on; {}: {why}",
        behind.len(),
        partitions.len(),
        first.source
    ))
}

/// Whether all are ready, and the page that says so.
#[must_use]
pub fn render(flows: &[FlowReadiness]) -> (bool, String) {
    let reason = |reason: &Reason| {
        json!({
            "kind": reason.kind,
            "cluster": reason.cluster.as_ref().map(ClusterAlias::as_str),
            "what": reason.what,
        })
    };
    let flow = |flow: &FlowReadiness| {
        json!({
            "source": flow.id.source.as_str(),
            "target": flow.id.target.as_str(),
            "ready": flow.reasons.is_empty(),
            "reasons": flow.reasons.iter().map(reason).collect::<Vec<Value>>(),
            "halted_partitions": flow.halted,
        })
    };
    let ready = flows.iter().all(|flow| flow.reasons.is_empty());
    let flows: Vec<Value> = flows.iter().map(flow).collect();
    (ready, json!({ "ready": ready, "flows": flows }).to_string() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Counts;
    use crate::model::{Offset, TopicPartition};

    fn flow() -> FlowId {
        FlowId { source: ClusterAlias::new("a"), target: ClusterAlias::new("b") }
    }

    fn partition(lag: i64, state: PartitionState, waiting_for: Option<Waiting>) -> PartitionStatus {
        PartitionStatus {
            source: TopicPartition::new("t", 0),
            target: TopicPartition::new("a.t", 0),
            state,
            waiting_for,
            halt: (state == PartitionState::Halted).then(|| "why".into()),
            copied: Offset(0),
            source_end: Some(Offset(lag)),
            downstream: Offset(0),
            lag: Some(lag),
            stalled: false,
            oldest: std::time::Duration::ZERO,
            counts: Counts::default(),
            gaps: Vec::new(),
        }
    }

    fn kinds(waits_for: Option<&str>, partitions: &[PartitionStatus]) -> Vec<&'static str> {
        let judged = judge(flow(), Vec::new(), waits_for.map(Into::into), partitions);
        judged.reasons.iter().map(|reason| reason.kind).collect()
    }

    #[test]
    fn a_flow_is_ready_while_one_of_the_partitions_that_are_behind_moves() {
        let idle = partition(0, PartitionState::Copying, Some(Waiting::Records));
        let moving = partition(7, PartitionState::Copying, None);
        let halted = partition(7, PartitionState::Halted, None);
        let cut_off = partition(0, PartitionState::Waiting, Some(Waiting::Target));
        let stalled = PartitionStatus { stalled: true, ..moving.clone() };

        assert!(kinds(None, &[]).is_empty());
        assert!(kinds(None, std::slice::from_ref(&idle)).is_empty());
        assert!(kinds(None, &[idle.clone(), moving.clone(), halted.clone()]).is_empty());
        assert_eq!(kinds(None, &[idle.clone(), halted]), ["copying"]);
        assert_eq!(kinds(None, &[idle.clone(), cut_off]), ["copying"]);
        assert_eq!(kinds(None, &[idle, stalled]), ["copying"]);
        assert_eq!(kinds(Some("no progress"), &[moving]), ["start"]);
    }

    #[test]
    fn the_page_names_the_cluster_and_the_kind_of_reason() {
        let refused = Reason {
            kind: "authentication",
            cluster: Some(ClusterAlias::new("b")),
            what: "no \"user\"".into(),
        };
        let flows = [judge(flow(), vec![refused], None, &[])];
        let (ready, page) = render(&flows);
        let page: Value = serde_json::from_str(&page).unwrap();

        assert!(!ready);
        assert_eq!(page["flows"][0]["reasons"][0]["cluster"], "b");
        assert_eq!(page["flows"][0]["reasons"][0]["kind"], "authentication");
        assert!(render(&[judge(flow(), Vec::new(), None, &[])]).0);
    }
}
