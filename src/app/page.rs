//! What the status page shows: the flows, asked at that moment.

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::report::Failure;
use crate::client::{Clock, FrameBudget};
use crate::flow::Probe;
use crate::mirror::RoundBoard;
use crate::model::FlowId;
use crate::telemetry::http::{self, Page};
use crate::telemetry::{FlowPicture, ProcessStatus, metrics, status};

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
    let address = listener.local_addr().map_or_else(|_| host.clone(), |at| at.to_string());
    tracing::info!(%address, "status page opened");
    Ok(listener)
}

/// What is shown.
#[derive(Clone, Debug)]
pub(super) struct Sights {
    pub(super) flows: Vec<(Probe, RoundBoard)>,
    /// Pairs that heartbeats are written for.
    pub(super) heartbeats: Vec<(FlowId, RoundBoard)>,
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

    async fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/status" => {
                let mut flows = Vec::with_capacity(self.flows.len());
                for (probe, board) in &self.flows {
                    let partitions = probe.partitions().await;
                    let (id, rounds) = (probe.id().clone(), board.reports());
                    flows.push(FlowPicture { id, partitions, rounds });
                }
                let beats = |(pair, board): &(FlowId, RoundBoard)| {
                    board.reports().into_values().next().map(|report| (pair.clone(), report))
                };
                let heartbeats: Vec<_> = self.heartbeats.iter().filter_map(beats).collect();
                let body = status::render(self.process(), &flows, &heartbeats);
                Some(Page { content_type: "application/json", body })
            }
            "/metrics" => {
                let mut flows = Vec::with_capacity(self.flows.len());
                for (probe, _) in &self.flows {
                    let latencies = probe.latencies().clone();
                    flows.push((probe.id().clone(), latencies, probe.partitions().await));
                }
                let body = metrics::render(self.process(), &flows).ok()?;
                Some(Page { content_type: METRICS_TYPE, body })
            }
            _ => None,
        }
    }
}
