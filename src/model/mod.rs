//! Floor 0: plain values. No I/O, no clock, no floor below.
//!
//! Two kinds of offset exist side by side in this program: those of the source log
//! (*upstream*) and those of the target log (*downstream*). Both are [`Offset`]; names say
//! which, as in MirrorMaker 2.

mod acl;
mod cluster;
mod config;
mod gap;
mod ids;
mod offset;
mod offset_map;
mod producer;
mod secret;
mod time;

pub use acl::{AclBinding, AclOperation, AclPattern, AclPermission, AclResource, Operations};
pub use cluster::{ClusterAlias, FlowId, Leader, Side};
pub use config::{ConfigChange, ConfigEntry, ConfigSource};
pub use gap::{Gap, GapReason};
pub use ids::{NodeId, PartitionIndex, TopicId, TopicName, TopicPartition};
pub use offset::{LeaderEpoch, Offset, OffsetRange};
pub use offset_map::{Bend, Chunk, KeptChunk, OffsetMap, Runs, Translation};
pub use producer::{AbortedTransaction, ProducerIdentity, Sequence};
pub use secret::Secret;
pub use time::{Moment, Timestamp};
