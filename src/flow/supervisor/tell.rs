//! How a flow's partitions stand: for who asks, and in the log.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::resume::Occasion;
use super::super::shard::Command;
use super::super::status::{Notice, PartitionState, Waiting};
use super::{FlowStatus, Standing, Supervisor};
use crate::model::Moment;

/// How often the progress line is written while something moves.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

impl Supervisor {
    /// Says what shards do not know about partitions that are not simply copied.
    pub(super) fn post_notices(&self) {
        let mut notices = BTreeMap::new();
        for (source, known) in &self.known {
            let (state, waiting_for, halt) = match known.state {
                Standing::Copying | Standing::Leaving(_) => continue,
                Standing::Waiting(_, Occasion::Doubt { .. }) => {
                    let why = known.why.clone().unwrap_or_default();
                    let denied = known.denied.map(|side| Waiting::Denied(side, why));
                    (PartitionState::Doubt, denied, None)
                }
                Standing::Waiting(_, Occasion::First) => {
                    let decision = |why| match known.denied {
                        Some(side) => Waiting::Denied(side, why),
                        None => Waiting::Decision(why),
                    };
                    let waiting = known.why.clone().map(decision);
                    (PartitionState::Waiting, waiting, None)
                }
                // Its shard says why.
                Standing::Stuck(_) => continue,
                Standing::Halted if known.why.is_none() => continue,
                Standing::Halted => (PartitionState::Halted, None, known.why.clone()),
            };
            let target = known.pair.target.clone();
            notices.insert(source.clone(), Notice { target, state, waiting_for, halt });
        }
        self.probe.post(notices);
    }

    /// Names the transactions that hold back what was committed behind them.
    pub(super) async fn tell_unstable(&mut self) {
        for (partition, stable) in std::mem::take(&mut self.unstable) {
            let flow = &self.settings.id;
            let producers = match self.source.open_transactions(&partition).await {
                Ok(open) => open.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                Err(error) => format!("not known: {error}"),
            };
            tracing::warn!(%flow, %partition, last_stable_offset = %stable, producers,
                "last stable offset has not moved for a minute: a transaction hangs, and what \
                 follows it is not copied before it ends");
        }
    }

    pub(super) async fn summarise(&self) -> FlowStatus {
        let mut status = FlowStatus { partitions: self.known.len(), ..FlowStatus::default() };
        for known in self.known.values() {
            match known.state {
                Standing::Waiting(..) => status.waiting += 1,
                Standing::Halted | Standing::Stuck(_) => status.halted += 1,
                Standing::Copying | Standing::Leaving(_) => {}
            }
        }
        for shard in &self.shards {
            let (reply, summary) = oneshot::channel();
            drop(shard.send(Command::Summarise(reply)).await);
            if let Ok(summary) = summary.await {
                status.records += summary.records;
                status.bytes += summary.bytes;
                status.lag += summary.lag;
            }
        }
        status
    }

    /// One line every ten seconds while something moves.
    pub(super) fn tell(
        &self,
        told: (Moment, FlowStatus),
        (now, status): (Moment, FlowStatus),
    ) -> (Moment, FlowStatus) {
        let elapsed = now.since(told.0);
        if elapsed < PROGRESS_INTERVAL {
            return told;
        }
        let records = status.records.saturating_sub(told.1.records);
        if records > 0 || status.halted != told.1.halted || status.waiting != told.1.waiting {
            #[expect(clippy::cast_precision_loss, reason = "rates for people")]
            let (records_per_s, mb_per_s) = (
                (records as f64 / elapsed.as_secs_f64()).round(),
                status.bytes.saturating_sub(told.1.bytes) as f64 / elapsed.as_secs_f64() / 1e6,
            );
            tracing::info!(flow = %self.settings.id, partitions = status.partitions, records,
                records_per_s, mb_per_s = format!("{mb_per_s:.1}"), lag = status.lag,
                waiting = status.waiting, halted = status.halted, "progress");
        }
        (now, status)
    }
}
