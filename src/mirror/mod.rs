//! Floor 5: the control plane, in rounds.
//!
//! A round observes both clusters, asks policy what should be, and carries out the difference.
//! It never overlaps itself, and what it could not do it tries again in the next one.

mod acls;
mod audit;
mod checkpoints;
mod claims;
mod complaints;
mod configs;
mod denials;
mod flow;
mod heartbeats;
mod homecoming;
mod inspect;
mod internal_topics;
mod ledger;
mod offset_syncs;
mod owned;
mod rights;
mod rounds;
mod topics;

pub use acls::{AclForecast, AclSync};
pub use audit::{Audit, FeatureAudit, Standing};
pub use checkpoints::GroupRules;
pub use claims::claims_topic;
pub use configs::ConfigSync;
pub use flow::{FlowEnd, MirrorFlow, MirrorSettings, one_cluster};
pub use heartbeats::{HeartbeatSettings, Heartbeats};
pub use homecoming::{Placed, WayThere};
pub use inspect::{Beats, Inspection, inspect};
pub use internal_topics::InternalTopic;
pub use rights::{Missing, Resource};
pub use rounds::{Lines, Notes, Outcome, Pace, Round, RoundBoard, RoundReport, Rounds, Trouble};
pub use topics::TopicRules;
