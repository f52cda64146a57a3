//! The scripted broker: a Kafka cluster inside the test, with a real broker's rules.
//!
//! It speaks over streams in memory, keeps its logs as bytes, and does to requests what a test or
//! a seeded source of faults says ([`Faults`]). It never uses the code under test to judge what
//! that code sent: batches are read by [`batch`], checksums are computed again.
//!
//! ```text
//!   client ─ stream ─▶ reader ─▶ line of requests ─▶ worker: plan, apply, answer
//!                                (stays when the client is gone)
//! ```
//!
//! A connection's requests are read at once and worked on one after the other, as behind a real
//! broker's socket. What a client leaves behind when it goes is worked on all the same: that is
//! how a killed mirror's last batches land late. The state outlives tokio's runtime, so that a
//! mirror is killed by dropping the runtime it ran on, with every task and timer in it.
//!
//! What it does not have: replication that lags, transactional producers of its own (a test puts
//! transactions into logs), groups, SASL, TLS. `tests/contract.rs` holds it to the rules that a
//! real broker shows.

mod answers;
pub mod batch;
mod faults;
mod fetch;
mod log;
mod net;
mod produce;
mod release;
mod state;

pub use answers::api;
pub use faults::{Action, Arrived, Faults, NoFaults, Plan, Script};
pub use log::{Aborted, PartitionLog, Sequenced, Stored};
pub use net::FakeCluster;
pub use release::Release;
pub use state::{BATCH_BYTES_MAX, Mark, Node, Partition, Quirks, Seen, State, Topic};
