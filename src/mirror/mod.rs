//! Floor 5: the control plane, in rounds.
//!
//! A round observes both clusters, asks policy what should be, and carries out the difference.
//! It never overlaps itself, and what it could not do it tries again in the next one.

mod checkpoints;
mod flow;
mod internal_topics;
mod offset_syncs;
mod topics;

pub use checkpoints::GroupRules;
pub use flow::{FlowEnd, MirrorFlow, MirrorSettings};
pub use internal_topics::InternalTopic;
pub use topics::TopicRules;
