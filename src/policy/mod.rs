//! Floor 2: what to mirror, as pure decisions. Values in, decisions out.
//!
//! Everything here is a function of names and settings; nothing knows a broker, a clock or a
//! key of the properties file. The rules are MM2's own, its Java regular expressions included, and
//! rename rules beyond them.

mod acls;
mod checkpoints;
mod configs;
mod filters;
mod flow_names;
mod naming;
mod origins;
mod pattern;
mod renames;
mod rights;
mod selection;
mod sync_store;

pub use acls::{AclClaim, AclClaims, AclOwners, AclPlan, AclRules, AclSides, Astray, claim_id};
pub use checkpoints::{Commit, Rewind, There, commit, is_due};
pub use configs::{ConfigMode, ConfigPlan, ConfigRules, Drift, NewConfigs, Owned};
pub use filters::{ConfigFilter, GroupFilter, NameList, NameListError, TopicFilter};
pub use flow_names::{FlowNames, NoName};
pub use naming::{PolicyKind, ReplicationPolicy};
pub use origins::{NamedFlow, Origins};
pub use pattern::{Engine, Pattern, PatternError, StepLimit};
pub use renames::{RenameError, Renames};
pub use rights::{Feature, RIGHTS, Right, Thing, find_right, rights_page};
pub use selection::{FlowTopics, Selection};
pub use sync_store::{BySync, SyncStore};
