//! Floor 3: connections, metadata, routing. The first floor that may await.
//!
//! A [`Cluster`] knows its brokers and who leads what, keeps one control connection per node,
//! and opens further connections (lanes) for whoever must not wait behind others: a long poll
//! delays nothing but its own lane.

mod acls;
mod admin;
mod clock;
mod cluster;
mod connection;
mod dial;
mod epochs;
mod fetch_session;
mod frame_budget;
mod groups;
mod log;
mod metadata;
mod retry;

pub use admin::{
    CreateTopic, EARLIEST, EndOffsets, LATEST, ListedOffset, OpenTransaction, PartitionError,
    TopicError,
};
pub use clock::Clock;
pub use cluster::{Cluster, ClusterSettings, RequestCause, RequestError, Route};
pub use connection::{Answer, ConnectError, Connection, ConnectionFault, FaultCause, Pending};
pub use dial::{Connect, DialError, Dialer, Endpoint};
pub use fetch_session::{FetchSession, SessionKey, SessionPlan};
pub use frame_budget::FrameBudget;
pub use groups::{Committed, ListedGroup, Offsets as GroupOffsets};
pub use log::{Appended, LogError, LogRecord, NewRecord, ScannedBatch};
pub use metadata::{Broker, MetadataView, PartitionView, TopicView};
pub use retry::{Backoff, Jitter};
