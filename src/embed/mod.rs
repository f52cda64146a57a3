//! Floor 8: Heliograph inside another program.
//!
//! [`Mirror`] runs the flows of a properties file until it is told to stop; [`MirrorClient`] says
//! what a mirror, this one or MirrorMaker 2, has left on a cluster: which clusters are upstream,
//! which topics are replicas, and where a consumer group goes on after it has moved. Its questions
//! are those of Java's `MirrorClient` and `RemoteClusterUtils`, and so are its answers.
//!
//! ```no_run
//! # async fn failover() -> Result<(), Box<dyn std::error::Error>> {
//! use heliograph::embed::{MirrorClient, settings};
//!
//! let settings = settings("mm2.properties", &std::fs::read("mm2.properties")?)?;
//! let backup = MirrorClient::new(&settings, "backup")?;
//! for (partition, position) in backup.translate_offsets("primary", "billing").await? {
//!     println!("{partition}: {}", position.offset);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Both need a Tokio runtime with I/O and time to be called in. `docs/examples` has a program for
//! each.

mod client;
mod mirror;

pub use client::{ClientError, MirrorClient, Position, UnknownCluster};
pub use mirror::{Ended, FlowView, Mirror, StartError};

pub use crate::config::{MirrorSettings, Problems};
pub use crate::flow::PartitionStatus;
pub use crate::mirror::RoundReport;
pub use crate::model::{FlowId, TopicName, TopicPartition};

/// Reads a properties file as `heliograph run` does. `name` is what problems call it.
///
/// # Errors
///
/// [`Problems`]: everything that is wrong with it, each at its place.
pub fn settings(name: &str, text: &[u8]) -> Result<MirrorSettings, Problems> {
    crate::config::load(name, text, &[])
}
