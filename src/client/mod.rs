//! Floor 3: connections, metadata, routing. The first floor that may await.
//!
//! A [`Cluster`] knows its brokers and who leads what, keeps one control connection per node,
//! and opens further connections (lanes) for whoever must not wait behind others: a long poll
//! delays nothing but its own lane.

mod access;
mod acls;
mod admin;
mod certificates;
mod clock;
mod cluster;
mod connection;
mod dial;
#[doc(hidden)]
pub mod doors;
mod epochs;
mod fetch_session;
mod first_words;
mod frame_budget;
mod grant;
mod groups;
mod inflow;
mod jaas;
mod keystore;
mod log;
mod login;
mod low_water;
mod metadata;
mod operations;
mod pem;
#[cfg(test)]
mod pieces;
mod pkcs8;
mod principal;
mod pulse;
mod retry;
mod security;
mod tls;
mod token;
mod whole_records;

pub use access::LoginError;
pub use admin::{
    CreateTopic, EARLIEST, EndOffsets, LATEST, ListedOffset, OpenTransaction, PartitionError,
    TopicError,
};
pub use certificates::{CertificateRole, SeenCertificate};
pub use clock::Clock;
pub use cluster::{Cluster, ClusterSettings, RequestCause, RequestError, Route};
pub use connection::{Answer, ConnectError, Connection, ConnectionFault, FaultCause, Pending};
pub use dial::{Connect, DialError, Dialer, Endpoint};
pub use fetch_session::{FetchSession, SessionKey, SessionPlan};
pub use frame_budget::{FrameBudget, Outside};
pub use grant::{check_token_settings, token_tls};
pub use groups::{Committed, ListedGroup, Offsets as GroupOffsets, Outcomes as GroupOutcomes};
pub use log::{Appended, LogError, LogRecord, NewRecord, ScannedBatch};
pub use login::credentials;
pub use metadata::{Broker, MetadataView, PartitionView, TopicView};
pub use pulse::{Pulse, PulseTrouble};
pub use retry::{Backoff, Jitter};
pub use security::{
    Provide, Provided, RefreshRule, SaslSettings, Security, Store, StoreFormat, TlsSettings,
    TokenSettings, TokenUrl, Trust,
};
pub use tls::{TlsError, cipher_suites};
