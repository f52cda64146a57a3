//! What the status page shows: the flows, asked at that moment.

use std::collections::BTreeMap;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::report::Failure;
use crate::client::{Clock, Cluster, FrameBudget, Pulse};
use crate::flow::Probe;
use crate::mirror::RoundBoard;
use crate::model::{ClusterAlias, FlowId};
use crate::telemetry::http::{self, Page};
use crate::telemetry::{
    FlowPicture, HeartbeatPicture, ProcessStatus, Reason, metrics, ready, status,
};

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Opens the page's socket.
///
/// # Errors
///
/// [`Failure`] if the address cannot be listened on: whoever asked for a page would look in vain.
pub(super) async fn listen((host, port): &(String, u16)) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind((host.as_str(), *port)).await.map_err(|error| {
        Failure::running(format!(
            "heliograph.http.listen: {host}:{port} cannot be listened on: {error}"
        ))
    })?;
    let bound = listener.local_addr();
    let open = bound.as_ref().is_ok_and(|at| !at.ip().is_loopback());
    let address = bound.map_or_else(|_| host.clone(), |at| at.to_string());
    if open {
        tracing::warn!(%address, "the status page has no password and is open to whoever can reach \
            it; heliograph.http.listen = 127.0.0.1:PORT keeps it on this machine");
    }
    tracing::info!(%address, "status page opened");
    Ok(listener)
}

/// What is shown.
#[derive(Clone, Debug)]
pub(super) struct Sights {
    pub(super) flows: Vec<(Probe, RoundBoard)>,
    /// Pairs that heartbeats are written for.
    pub(super) heartbeats: Vec<(FlowId, RoundBoard)>,
    /// The clusters of all of them.
    pub(super) clusters: BTreeMap<ClusterAlias, (Cluster, Pulse)>,
    pub(super) budget: FrameBudget,
    pub(super) clock: Clock,
}

impl Sights {
    /// Serves the page until `end`.
    pub(super) async fn serve(self, listener: TcpListener, end: CancellationToken) {
        let page = move |path: String| {
            let sights = self.clone();
            async move { sights.page(&path).await }
        };
        http::serve(listener, page, end).await;
    }

    fn process(&self) -> ProcessStatus {
        ProcessStatus {
            uptime: self.clock.now().0,
            frame_bytes: self.budget.in_use_bytes(),
            frame_bytes_limit: self.budget.total_bytes(),
        }
    }

    /// Why the clusters of a flow do not answer.
    fn troubles(&self, flow: &FlowId) -> Vec<Reason> {
        let of = |alias: &ClusterAlias| {
            let trouble = self.clusters.get(alias)?.1.trouble()?;
            let cluster = Some(alias.clone());
            Some(Reason { kind: trouble.kind, cluster, what: trouble.what })
        };
        [&flow.source, &flow.target].into_iter().filter_map(of).collect()
    }

    async fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/status" => {
                let mut flows = Vec::with_capacity(self.flows.len());
                for (probe, board) in &self.flows {
                    let partitions = probe.partitions().await;
                    flows.push(FlowPicture {
                        id: probe.id().clone(),
                        partitions,
                        rounds: board.reports(),
                        waits_for: board.waits_for(),
                        missing: board.missing(),
                    });
                }
                let beats = |(pair, board): &(FlowId, RoundBoard)| {
                    let (pair, missing) = (pair.clone(), board.missing());
                    let report = board.reports().into_values().next()?;
                    Some(HeartbeatPicture { pair, report, missing })
                };
                let heartbeats: Vec<_> = self.heartbeats.iter().filter_map(beats).collect();
                let body = status::render(self.process(), &flows, &heartbeats);
                Some(json(body, false))
            }
            "/healthz" => Some(json("{\"alive\":true}\n".into(), false)),
            "/readyz" => {
                let mut flows = Vec::with_capacity(self.flows.len());
                for (probe, board) in &self.flows {
                    let id = probe.id().clone();
                    let clusters = self.troubles(&id);
                    let partitions = probe.partitions().await;
                    flows.push(ready::judge(id, clusters, board.waits_for(), &partitions));
                }
                let (ready, body) = ready::render(&flows);
                Some(json(body, !ready))
            }
            "/metrics" => {
                let mut sights = metrics::Sights::default();
                for (probe, board) in &self.flows {
                    let (id, latencies) = (probe.id().clone(), probe.latencies().clone());
                    sights.missing.push((id.clone(), board.missing()));
                    sights.flows.push((id, latencies, probe.partitions().await));
                }
                let of_pair =
                    |(pair, board): &(FlowId, RoundBoard)| (pair.clone(), board.missing());
                sights.missing.extend(self.heartbeats.iter().map(of_pair));
                for (alias, (cluster, _)) in &self.clusters {
                    let seen = cluster.certificates().into_iter();
                    sights.certificates.extend(seen.map(|one| (alias.clone(), one)));
                }
                let body = metrics::render(self.process(), &sights).ok()?;
                Some(Page { content_type: METRICS_TYPE, body, unavailable: false })
            }
            _ => None,
        }
    }
}

fn json(body: String, unavailable: bool) -> Page {
    Page { content_type: "application/json", body, unavailable }
}
