//! For people at a terminal: one line per flow with a bar, while something moves.

use std::io::IsTerminal;
use std::time::Duration;

use tokio::sync::watch;

use crate::flow::FlowStatus;
use crate::model::FlowId;
use crate::telemetry::log;

/// How often the bars are drawn; the log's own progress line comes as often.
const INTERVAL: Duration = Duration::from_secs(10);

/// Characters of a bar.
const BAR: usize = 20;

/// Draws until the process ends; does nothing where nobody looks.
pub(super) async fn draw(flows: Vec<(FlowId, watch::Receiver<FlowStatus>)>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut before: Vec<FlowStatus> = flows.iter().map(|(_, status)| *status.borrow()).collect();
    loop {
        tokio::time::sleep(INTERVAL).await;
        for ((flow, status), before) in flows.iter().zip(&mut before) {
            let now = *status.borrow();
            if now.records != before.records {
                log::tell(line(flow, *before, now, INTERVAL));
            }
            *before = now;
        }
    }
}

/// One flow's line: how much of what the source holds beyond this run's start is copied.
fn line(flow: &FlowId, before: FlowStatus, now: FlowStatus, elapsed: Duration) -> String {
    let left = now.lag.unsigned_abs();
    let total = now.records.saturating_add(left).max(1);
    let percent = now.records.saturating_mul(100) / total;
    let filled = usize::try_from(percent).unwrap_or(100).min(100) * BAR / 100;
    let seconds = elapsed.as_secs().max(1);
    let rate = (now.records.saturating_sub(before.records)) / seconds;
    let megabytes = (now.bytes.saturating_sub(before.bytes)) / seconds / 1_000_000;
    format!(
        "{flow}  [{}{}] {percent:3} %  {rate} records/s  {megabytes} MB/s  {left} left  {} \
         partitions{}",
        "#".repeat(filled),
        "-".repeat(BAR - filled),
        now.partitions,
        if now.halted > 0 { format!(", {} halted", now.halted) } else { String::new() },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ClusterAlias;

    #[test]
    fn the_bar_shows_what_is_copied_of_what_is_there() {
        let flow = FlowId { source: ClusterAlias::new("a"), target: ClusterAlias::new("b") };
        let before = FlowStatus { records: 500_000, bytes: 500_000_000, ..FlowStatus::default() };
        let now = FlowStatus {
            partitions: 8,
            records: 750_000,
            bytes: 750_000_000,
            lag: 250_000,
            halted: 1,
            waiting: 0,
        };
        assert_eq!(
            line(&flow, before, now, Duration::from_secs(10)),
            "a->b  [###############-----]  75 %  25000 records/s  25 MB/s  250000 left  8 \
             partitions, 1 halted"
        );
    }
}
