//! Whether a cluster answers: asked again and again, for whoever wants to know at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, RequestCause, RequestError};
use super::connection::ConnectError;
use crate::model::Moment;

/// From an answer, or its absence, to the next question. One small request on a connection that is
/// there anyway.
const INTERVAL: Duration = Duration::from_secs(4);

/// How long an answer may take. A first attempt to connect is made to its own end.
const PATIENCE: Duration = Duration::from_secs(3);

/// A cluster whose last answer is older does not answer, whatever the question under way will
/// come to: two questions were lost.
const SILENT_AFTER: Duration = Duration::from_secs(11);

/// Why a cluster does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulseTrouble {
    /// `connection`, `tls`, `authentication` or `request`.
    pub kind: &'static str,
    /// In words.
    pub what: String,
}

#[derive(Debug, Default)]
struct State {
    answered: Option<Moment>,
    /// What happened instead of the last answer.
    trouble: Option<PulseTrouble>,
}

/// The pulse of one cluster; cheap to clone.
#[derive(Clone, Debug)]
pub struct Pulse {
    cluster: Cluster,
    state: Arc<Mutex<State>>,
}

impl Pulse {
    /// A pulse that nobody has felt yet.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), state: Arc::default() }
    }

    /// Asks until `end`.
    pub async fn run(self, end: CancellationToken) {
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = self.ask() => {}
        }
    }

    async fn ask(&self) {
        loop {
            let answered = self.cluster.greet(PATIENCE).await;
            {
                let mut state = self.state();
                match answered {
                    Ok(()) => {
                        state.answered = Some(self.cluster.clock().now());
                        state.trouble = None;
                    }
                    Err(error) => state.trouble = Some(trouble(&error)),
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the cluster does not answer now; nothing if it does.
    #[must_use]
    pub fn trouble(&self) -> Option<PulseTrouble> {
        let now = self.cluster.clock().now();
        let state = self.state();
        let silent = state.answered.is_none_or(|at| now.since(at) >= SILENT_AFTER);
        state.trouble.clone().or_else(|| {
            let what = format!("{} has not answered for {SILENT_AFTER:?}", self.cluster.alias());
            let what = if state.answered.is_none() {
                format!("{} has not answered yet", self.cluster.alias())
            } else {
                what
            };
            silent.then_some(PulseTrouble { kind: "connection", what })
        })
    }
}

fn trouble(error: &RequestError) -> PulseTrouble {
    let kind = match &error.cause {
        RequestCause::Connect(ConnectError::Login(_) | ConnectError::Held { .. }) => {
            "authentication"
        }
        RequestCause::Connect(ConnectError::Tls(_)) => "tls",
        RequestCause::Connect(_) | RequestCause::Fault(_) | RequestCause::NoNode => "connection",
        RequestCause::NoVersion(_)
        | RequestCause::Malformed(_)
        | RequestCause::Encode(_)
        | RequestCause::Refused(_) => "request",
    };
    PulseTrouble { kind, what: error.to_string() }
}
