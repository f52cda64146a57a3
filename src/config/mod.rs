//! Floor 6: from MM2's own properties file to settings.
//!
//! ```text
//!   bytes ── properties ──▶ entries ── layers ──▶ one value per key ── load ──▶ settings
//!                                         ▲                │
//!                                       keys ── lint ──▶ problems
//! ```
//!
//! The caller reads the file; only config providers open others. Every problem is found in one
//! pass and shown at its place.

mod groups;
pub mod keys;
pub mod layers;
mod lint;
mod load;
mod names;
pub mod problems;
pub mod properties;
mod providers;
mod read;
mod security;
mod settings;
mod storage;
mod times;
mod tokens;

pub use load::load;
pub use problems::{Problem, Problems, render_warnings};
pub use settings::{
    AclSettings, Backoff, ClusterSettings, ConnectCluster, DefaultsFrom, ExistingRecordsPolicy,
    FlowSettings, GapPolicy, GroupSettings, HeartbeatSettings, Isolation, MirrorSettings,
    OffsetReset, OffsetStorage, OffsetSyncs, OversizePolicy, ProcessSettings, RecreatePolicy,
    SyncsLocation, TruncationPolicy, VerifyCrc,
};
