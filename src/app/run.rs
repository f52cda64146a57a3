//! `heliograph run`: every flow of a file, until told to end.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::drain::Signals;
use super::page::Sights;
use super::report::{Exit, Failure};
use super::{meter, page, wiring};
use crate::client::{Clock, Cluster, FrameBudget, Pulse};
use crate::config::keys::is_password;
use crate::config::properties::{Document, Entry};
use crate::config::{self, MirrorSettings, render_warnings};
use crate::flow::{Claims, GiveBack, Probe, Workers, tidy};
use crate::mirror::{FlowEnd, Heartbeats, MirrorFlow, RoundBoard};
use crate::model::{ClusterAlias, FlowId};
use crate::telemetry::log;

/// How long tasks that only hold connections may take to end.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Reads the file and runs its flows. `give_back` gives a thread's free memory back to the system.
///
/// # Errors
///
/// [`Failure`] for a file that cannot be used.
pub(super) fn run(
    file: &Path,
    only_targets: &[String],
    give_back: GiveBack,
) -> Result<Exit, Failure> {
    let settings = load(file, only_targets)?;
    // The control plane is in no hurry; shards have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::running(format!("no runtime: {error}")))?;
    let exit = runtime.block_on(run_flows(&settings, Control::of_program(give_back)))?;
    // Whatever still runs holds nothing that matters.
    runtime.shutdown_timeout(LAST_WAIT);
    Ok(exit)
}

/// Reads the file; warnings go to standard error.
///
/// # Errors
///
/// [`Failure`] for a file that cannot be used, or that names stores that are not there.
pub(super) fn load(file: &Path, only_targets: &[String]) -> Result<MirrorSettings, Failure> {
    let shown = file.display().to_string();
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
    let settings = config::load(&shown, &bytes, only_targets).map_err(Failure::laid_out)?;
    if !settings.warnings.is_empty() {
        log::tell(render_warnings(&shown, &settings.warnings).trim_end());
    }
    if let Some(warning) = open_to_all(file, &bytes) {
        log::tell(warning);
    }
    let unreadable = settings.clusters.iter().flat_map(|(alias, cluster)| {
        let files = cluster.security.unreadable_files().into_iter();
        files.map(move |(key, why)| format!("{alias}.{key}: {why}"))
    });
    let unreadable: Vec<String> = unreadable.collect();
    if unreadable.is_empty() {
        Ok(settings)
    } else {
        Err(Failure::usage(unreadable.join("\n       ")))
    }
}

/// A word about a file with passwords that every user of the machine may read.
fn open_to_all(file: &Path, bytes: &[u8]) -> Option<String> {
    const READ_BY_OTHERS: u32 = 0o004;
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    let document = Document::parse(bytes);
    let written = |entry: &Entry| {
        let value = entry.value.as_str();
        is_password(entry.key.as_str()) && !value.is_empty() && !value.contains("${")
    };
    let holds = document.entries.iter().any(written);
    (holds && mode & READ_BY_OTHERS != 0).then(|| {
        let file = file.display();
        format!(
            "warning: {file} holds passwords or keys, and every user of this machine may read it\n  \
             hint: chmod 600 {file}"
        )
    })
}

/// How a run is told to end, and where it shows its flows.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// Cancelled, the run drains.
    pub(crate) shutdown: CancellationToken,
    /// Filled once its flows are there.
    pub(crate) flows: Arc<OnceLock<Vec<(Probe, RoundBoard)>>>,
    /// Whether signals to the process end it, too.
    signals: bool,
    /// What the process's allocator needs to be told now and then.
    give_back: GiveBack,
}

impl Default for Control {
    /// In a process that is not ours: its signals and its allocator are its own.
    fn default() -> Self {
        let (shutdown, flows) = (CancellationToken::default(), Arc::default());
        Self { shutdown, flows, signals: false, give_back: || () }
    }
}

impl Control {
    fn of_program(give_back: GiveBack) -> Self {
        Self { signals: true, give_back, ..Self::default() }
    }
}

/// Runs all enabled flows until `control` or a signal ends them, or all have ended by themselves.
///
/// # Errors
///
/// [`Failure`] where this machine does not give what it takes.
pub(crate) async fn run_flows(
    settings: &MirrorSettings,
    control: Control,
) -> Result<Exit, Failure> {
    let (clock, tracker) = (Clock::start(), TaskTracker::new());
    let (shutdown, end) = (control.shutdown.clone(), CancellationToken::new());
    if control.signals {
        let signals = Signals::listen()
            .map_err(|error| Failure::running(format!("signals cannot be listened to: {error}")))?;
        tracker.spawn(signals.watch(shutdown.clone()));
    }
    let memory = usize::try_from(settings.process.memory_bytes).unwrap_or(usize::MAX);
    let memory_max = usize::try_from(settings.process.memory_bytes_max).unwrap_or(usize::MAX);
    let budget = FrameBudget::growing(memory, memory_max);
    let page = match &settings.process.http_listen {
        Some(address) => Some(page::listen(address).await?),
        None => None,
    };
    let clusters: BTreeMap<&ClusterAlias, Cluster> = settings
        .clusters
        .iter()
        .map(|(alias, cluster)| {
            let cluster = wiring::cluster(cluster);
            (alias, Cluster::new(cluster, clock, &tracker, end.clone()))
        })
        .collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        flows = settings.flows.iter().filter(|flow| flow.enabled).count(),
        memory_bytes = budget.total_bytes(),
        "heliograph started"
    );

    let claims = Claims::default();
    let connect: BTreeMap<&FlowId, &ClusterAlias> = settings
        .flows
        .iter()
        .filter_map(|flow| Some((&flow.id, &flow.offset_storage.connect.as_ref()?.cluster)))
        .collect();
    let wired: Vec<_> = settings
        .flows
        .iter()
        .filter(|flow| flow.enabled)
        .map(|flow| wiring::flow(flow, &settings.process, &claims))
        .collect();
    let shards = wired.iter().map(|flow| flow.flow.shards).max().unwrap_or(0);
    let workers = Workers::start(shards, &end, control.give_back)
        .map_err(|error| Failure::running(format!("threads cannot be started: {error}")))?;

    let (mut statuses, mut probes) = (Vec::new(), Vec::new());
    let mut flows: JoinSet<(FlowId, FlowEnd)> = JoinSet::new();
    let mut mirrors = Vec::new();
    for flow in wired {
        let id = flow.flow.id.clone();
        let ends = (clusters.get(&id.source), clusters.get(&id.target));
        let (Some(source), Some(target)) = ends else {
            return Err(Failure::running(format!("{id} names an unknown cluster")));
        };
        let mut mirror = MirrorFlow::new(flow, (source, target), &budget, (&workers, &tracker));
        if let Some(alias) = connect.get(&id) {
            let cluster = clusters.get(alias);
            let unknown = || Failure::running(format!("{id} names an unknown cluster"));
            mirror.set_connect(cluster.ok_or_else(unknown)?);
        }
        mirrors.push((id, mirror));
    }
    introduce(&mut mirrors);
    for (id, mirror) in mirrors {
        statuses.push((id.clone(), mirror.status()));
        probes.push((mirror.probe(), mirror.rounds()));
        let shutdown = shutdown.clone();
        flows.spawn(async move { (id, mirror.run(shutdown).await) });
    }
    drop(control.flows.set(probes.clone()));
    // Not among the flows: when all of those have ended, so has the process. A file may ask for
    // nothing but heartbeats, though.
    let mut heartbeats = Vec::new();
    for pair in &settings.heartbeats {
        let Some(target) = clusters.get(&pair.pair.target) else {
            return Err(Failure::running(format!("{} names an unknown cluster", pair.pair)));
        };
        let beating = Heartbeats::new(wiring::heartbeats(pair), target);
        heartbeats.push((beating.pair().clone(), beating.rounds()));
        // Until the flows begin to drain: what comes later would say that they are alive.
        tracker.spawn(beating.run(shutdown.clone()));
    }
    tracker.spawn(meter::draw(statuses));
    let ended = end.clone();
    tracker.spawn(async move { ended.run_until_cancelled(tidy(control.give_back)).await });
    if let Some(listener) = page {
        let mut watched = BTreeMap::new();
        for (alias, cluster) in &clusters {
            let pulse = Pulse::new(cluster);
            tracker.spawn(pulse.clone().run(end.clone()));
            watched.insert((*alias).clone(), (cluster.clone(), pulse));
        }
        let (flows, budget) = (probes, budget.clone());
        let sights = Sights { flows, heartbeats, clusters: watched, budget, clock };
        tracker.spawn(sights.serve(listener, end.clone()));
    }
    if flows.is_empty() {
        shutdown.cancelled().await;
    }
    let mut exit = Exit::Done;
    while let Some(ended) = flows.join_next().await {
        match ended {
            Ok((_, FlowEnd::Drained)) => {}
            Ok((_, FlowEnd::Late)) => exit = Exit::Late,
            Ok((flow, FlowEnd::Refused(why))) => {
                tracing::error!(%flow, why, "flow does not run");
                if exit == Exit::Done {
                    exit = Exit::Failed;
                }
            }
            Err(error) => return Err(Failure::running(format!("a flow was given up: {error}"))),
        }
    }
    end.cancel();
    tracing::info!(code = exit.code(), "heliograph ended");
    Ok(exit)
}

/// Tells each flow which one goes the other way.
fn introduce(mirrors: &mut [(FlowId, MirrorFlow)]) {
    let all: BTreeMap<FlowId, _> =
        mirrors.iter().map(|(id, mirror)| (id.clone(), mirror.way())).collect();
    for (id, mirror) in mirrors {
        let back = FlowId { source: id.target.clone(), target: id.source.clone() };
        if let Some(way) = all.get(&back) {
            mirror.set_reverse(way.clone());
        }
    }
}
