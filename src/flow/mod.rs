//! Floor 4: the data plane of one flow.
//!
//! A [`Supervisor`] reconciles progress with both logs and gives each partition to one shard.
//! A shard owns its partitions, its lanes and the answers it waits for; it selects one event,
//! applies it, and pumps. What shards have done is noted in a book that one committer writes
//! to the target.

mod age;
mod align;
mod anchor;
mod claims;
#[doc(hidden)]
pub mod doors;
mod foresee;
mod lane;
mod ledger;
mod offsets;
mod progress;
mod rate;
mod resume;
mod settings;
mod shard;
mod sizing;
mod slot;
mod status;
mod supervisor;
mod sync_rule;
mod workers;

pub use claims::Claims;
pub use foresee::{Foreseen, Outlook, foresee};
pub use offsets::{Offsets, Translated};
pub use resume::Origin;
pub use settings::{
    ExistingRecords, FlowSettings, GapPolicy, Recreate, Reset, SyncSettings, Truncation,
};
pub use status::{Latencies, PartitionState, PartitionStatus, Probe, SeenGap, Waiting};
pub use supervisor::{FlowStatus, Pair, Supervisor};
pub use workers::{GiveBack, Workers, tidy};
