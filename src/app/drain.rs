//! Signals: the first drains, the second ends.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::report::Exit;

/// Signals that come so soon after the first are the same wish: `timeout` sends one to the program
/// and one to its group, a terminal that closes one by the shell and one by the system. A person
/// who presses Ctrl-C twice takes longer.
const SAME_WISH: Duration = Duration::from_millis(100);

/// SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// A terminal that was closed; to Java the same as the others.
    hangup: Signal,
}

impl Signals {
    /// Listens from here on.
    ///
    /// # Errors
    ///
    /// If the process may not.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }

    /// Cancels `shutdown` at the first signal and ends the process at the second.
    pub(super) async fn watch(mut self, shutdown: CancellationToken) {
        let signal = self.next().await;
        tracing::info!(signal, "ending: seeing through what is in flight (again to end at once)");
        shutdown.cancel();
        let same = async {
            loop {
                self.next().await;
            }
        };
        // Ends by the timeout only.
        let _over = tokio::time::timeout(SAME_WISH, same).await;
        let signal = self.next().await;
        tracing::error!(
            signal,
            "ended at once; the target's log says at the next start how far \
            this run came"
        );
        std::process::exit(i32::from(Exit::Late.code()));
    }
}
