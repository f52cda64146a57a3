//! Flows that run inside another program.

use std::collections::BTreeMap;
use std::thread;

use tokio::sync::watch;

use crate::app::report::Exit;
use crate::app::run::{Control, run_flows};
use crate::config::MirrorSettings;
use crate::flow::PartitionStatus;
use crate::mirror::RoundReport;
use crate::model::FlowId;

/// A mirror could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mirror does not run: {0}")]
pub struct StartError(String);

/// How a mirror ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything in flight was seen through, and positions are written.
    Drained,
    /// Something was left undone; the next start finds out how far this run came.
    Late,
    /// A flow must not run, or something that it needs failed. Its log line says why.
    Failed(Option<StartError>),
}

/// One flow at one moment.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// Which flow.
    pub id: FlowId,
    /// Each partition: positions, lag, what it waits for, why it stopped.
    pub partitions: Vec<PartitionStatus>,
    /// Each kind of round (`topics`, `configs`, `acls`, `groups`): when it last ran, and how.
    pub rounds: BTreeMap<&'static str, RoundReport>,
}

/// The flows of a properties file, running on threads of their own.
///
/// Dropped without [`Mirror::stop`], it drains all the same, but nobody learns how that ended. A
/// cluster that does not answer is waited for; it is no error. Log lines go to whatever subscriber
/// of `tracing` the program has.
#[derive(Debug)]
pub struct Mirror {
    control: Control,
    ended: watch::Receiver<Option<Ended>>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.control.shutdown.cancel();
    }
}

impl Mirror {
    /// Starts all enabled flows, and with them heartbeats and the status page if the file asks for
    /// them. Returns at once.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the machine gives no thread.
    pub fn start(settings: MirrorSettings) -> Result<Self, StartError> {
        let control = Control::default();
        let (tell, ended) = watch::channel(None);
        let inside = control.clone();
        let run = move || {
            let ended = run(&settings, inside);
            tell.send_replace(Some(ended));
        };
        thread::Builder::new()
            .name("heliograph".into())
            .spawn(run)
            .map_err(|error| StartError(format!("no thread: {error}")))?;
        Ok(Self { control, ended })
    }

    /// How each flow stands; empty before they have begun. Waits up to two seconds for each thread
    /// that copies.
    pub async fn status(&self) -> Vec<FlowView> {
        let mut views = Vec::new();
        for (probe, board) in self.control.flows.get().into_iter().flatten() {
            let partitions = probe.partitions().await;
            views.push(FlowView { id: probe.id().clone(), partitions, rounds: board.reports() });
        }
        views
    }

    /// Waits for the mirror to end by itself: all of its flows were refused, or something failed.
    pub async fn ended(&mut self) -> Ended {
        let ended = self.ended.wait_for(Option::is_some).await.ok();
        // Its thread tells before it ends, unless it panicked.
        ended.and_then(|ended| ended.clone()).unwrap_or(Ended::Failed(None))
    }

    /// Drains: no new fetches, what is in flight is seen through, positions are written. Takes up to
    /// half a minute if a cluster does not answer.
    pub async fn stop(mut self) -> Ended {
        self.control.shutdown.cancel();
        self.ended().await
    }
}

/// One run, from the first connection to the last commit.
fn run(settings: &MirrorSettings, control: Control) -> Ended {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Ended::Failed(Some(StartError(format!("no runtime: {error}")))),
    };
    match runtime.block_on(run_flows(settings, control)) {
        Ok(Exit::Done) => Ended::Drained,
        Ok(Exit::Late) => Ended::Late,
        Ok(Exit::Failed | Exit::Usage | Exit::Unfit) => Ended::Failed(None),
        Err(failure) => Ended::Failed(Some(StartError(failure.to_string()))),
    }
}
