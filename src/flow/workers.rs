//! Threads that shards run on.
//!
//! A shard and the connections of its lanes live on one thread with a runtime of its own: a frame
//! goes from socket to socket without another thread being woken, and its bytes stay in one
//! core's cache. Everything else of the process, which is not in a hurry, has the main thread.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often a thread gives memory back.
const TIDY_INTERVAL: Duration = Duration::from_secs(5);

/// Gives memory that the calling thread does not use back to the system.
///
/// An allocator keeps what became free, in case it is wanted again, and many look at it again
/// only when they are asked for more. A mirror that has nothing to copy asks for nothing: what
/// starting took would stay for good, 3 MB of 18 with 1,000 partitions.
pub type GiveBack = fn();

/// Calls `give_back` on its own thread, now and then. Never ends.
pub async fn tidy(give_back: GiveBack) {
    loop {
        tokio::time::sleep(TIDY_INTERVAL).await;
        give_back();
    }
}

/// Where the shards of all flows run.
#[derive(Clone, Debug)]
pub struct Workers {
    /// Empty: on the runtime that asks.
    threads: Arc<[Handle]>,
}

impl Workers {
    /// No threads: shards run where their flow does, as simulations with one clock need it.
    #[must_use]
    pub fn here() -> Self {
        Self { threads: Arc::from([]) }
    }

    /// Starts `count` threads that live until `end`, each calling `give_back` now and then.
    ///
    /// # Errors
    ///
    /// If the system gives no thread or no event queue.
    pub fn start(count: usize, end: &CancellationToken, give_back: GiveBack) -> io::Result<Self> {
        let mut threads = Vec::with_capacity(count);
        for index in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            threads.push(runtime.handle().clone());
            let end = end.clone();
            thread::Builder::new()
                .name(format!("shard-{index}"))
                .spawn(move || runtime.block_on(end.run_until_cancelled(tidy(give_back))))?;
        }
        Ok(Self { threads: threads.into() })
    }

    /// Runs a flow's shard number `index`.
    pub(super) fn spawn<F>(&self, tracker: &TaskTracker, index: usize, shard: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self.threads.len() {
            0 => tracker.spawn(shard),
            count => tracker.spawn_on(shard, &self.threads[index % count]),
        }
    }
}
