//! `heliograph check`: what `run` would do with a file, found out without changing anything.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::check_page::{Checked, ClusterCheck, FlowCheck};
use super::report::{Exit, Failure};
use super::{check_page, run, wiring};
use crate::client::{Clock, Cluster};
use crate::config::MirrorSettings;
use crate::flow::Claims;
use crate::mirror::{Beats, inspect, one_cluster};
use crate::model::{ClusterAlias, FlowId};

/// How long a cluster may take to answer. A first attempt is made to its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long everything may take: whoever waits for it sits at a terminal, or is a pipeline.
const DEADLINE: Duration = Duration::from_secs(300);

/// Checks the flows of a file, and prints what it found.
///
/// # Errors
///
/// [`Failure`] for a file that cannot be used.
pub(super) fn check(file: &Path, only_targets: &[String], as_json: bool) -> Result<Exit, Failure> {
    let settings = run::load(file, only_targets)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::running(format!("no runtime: {error}")))?;
    let checked = runtime
        .block_on(async { tokio::time::timeout(DEADLINE, check_flows(&settings)).await })
        .map_err(|_| Failure::running(format!("not done within {DEADLINE:?}")))?;
    runtime.shutdown_background();
    let page = if as_json { check_page::json(&checked) + "\n" } else { check_page::text(&checked) };
    let mut out = io::stdout().lock();
    match out.write_all(page.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(Failure::running(format!("what was found cannot be written: {error}")));
        }
        // A reader that has gone has read enough.
        Ok(()) | Err(_) => {}
    }
    Ok(if checked.is_well() { Exit::Done } else { Exit::Unfit })
}

async fn check_flows(settings: &MirrorSettings) -> Checked {
    let (clock, tracker, end) = (Clock::start(), TaskTracker::new(), CancellationToken::new());
    let clusters: BTreeMap<ClusterAlias, Cluster> = settings
        .clusters
        .iter()
        .map(|(alias, cluster)| {
            let cluster = Cluster::new(wiring::cluster(cluster), clock, &tracker, end.clone());
            (alias.clone(), cluster)
        })
        .collect();
    let mut checked = Checked::default();
    // Of all flows: two into one topic, or round in a circle, would stop.
    let claims = Claims::default();
    for (alias, cluster) in &clusters {
        checked.clusters.insert(alias.clone(), reach(cluster).await);
    }
    for flow in settings.flows.iter().filter(|flow| flow.enabled) {
        let id = flow.id.clone();
        let ends = (clusters.get(&id.source), clusters.get(&id.target));
        let outcome = match ends {
            (Some(source), Some(target)) if checked.reached(&id) => {
                match one_cluster(source, target) {
                    Some(why) => Err(why),
                    None => {
                        let wired = wiring::flow(flow, &settings.process, &claims);
                        let beats = beats(settings, &id);
                        let connect = flow.offset_storage.connect.as_ref();
                        let offsets = connect.and_then(|kept| clusters.get(&kept.cluster));
                        let offsets = offsets.unwrap_or(target);
                        let inspected = inspect(&wired, (source, target), offsets, beats).await;
                        inspected.map_err(|error| error.to_string())
                    }
                }
            }
            _ => Err("not looked at, as a cluster does not answer".into()),
        };
        checked.flows.push(FlowCheck { id, outcome });
    }
    for (alias, cluster) in &clusters {
        if let Some(found) = checked.clusters.get_mut(alias) {
            found.certificates = cluster.certificates();
        }
    }
    checked.now_s = clock.wall().0 / 1000;
    end.cancel();
    checked
}

/// Whose heartbeats belong to a flow. Those of a way back that is a flow itself are that one's.
fn beats(settings: &MirrorSettings, flow: &FlowId) -> Beats {
    let back = FlowId { source: flow.target.clone(), target: flow.source.clone() };
    let beat = |pair: &FlowId| settings.heartbeats.iter().any(|one| one.pair == *pair);
    let runs = settings.flows.iter().any(|one| one.enabled && one.id == back);
    Beats { there: beat(flow), back: beat(&back) && !runs }
}

async fn reach(cluster: &Cluster) -> ClusterCheck {
    let settings = cluster.settings();
    let answered = cluster.greet(PATIENCE).await.map_err(|error| error.to_string());
    let view = cluster.view();
    ClusterCheck {
        bootstrap: settings.bootstrap.iter().map(ToString::to_string).collect(),
        protocol: settings.security.protocol(),
        principal: cluster.principal().to_owned(),
        answered: answered.map(|()| (view.cluster_id.clone(), view.brokers.len())),
        certificates: Vec::new(),
    }
}
