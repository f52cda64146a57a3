//! Runs the flows of a properties file until the targets have everything, then stops: the last copy before a move.
//!
//! ```text
//! cargo run --example mirror_until_caught_up -- mm2.properties
//! ```

use std::error::Error;
use std::time::Duration;

use heliograph::embed::{Ended, FlowView, Mirror, settings};

/// Whether every partition is known, and nothing of it is left to copy.
fn caught_up(flows: &[FlowView]) -> bool {
    let mut partitions = flows.iter().flat_map(|flow| &flow.partitions).peekable();
    partitions.peek().is_some() && partitions.all(|one| one.lag == Some(0))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("which properties file?")?;
    let settings = settings(&file, &std::fs::read(&file)?)?;
    let mut mirror = Mirror::start(settings)?;
    loop {
        tokio::select! {
            ended = mirror.ended() => return Err(format!("ended by itself: {ended:?}").into()),
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
        let flows = mirror.status().await;
        if let Some(halted) =
            flows.iter().flat_map(|flow| &flow.partitions).find(|one| one.halt.is_some())
        {
            let why = halted.halt.clone().unwrap_or_default();
            return Err(format!("{} stopped: {why}", halted.source).into());
        }
        if caught_up(&flows) {
            for flow in flows {
                let records: u64 = flow.partitions.iter().map(|one| one.counts.records).sum();
                println!("{}: {} partitions, {records} records", flow.id, flow.partitions.len());
            }
            break;
        }
    }
    match mirror.stop().await {
        Ended::Drained => Ok(()),
        other => Err(format!("not drained: {other:?}").into()),
    }
}
