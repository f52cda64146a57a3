//! Floor 2: what to mirror, as pure decisions. Values in, decisions out.
//!
//! Everything here is a function of names and settings; nothing knows a broker, a clock or a
//! key of the properties file. The rules are MM2's own, its Java regular expressions included.

mod acls;
mod checkpoints;
mod configs;
mod filters;
mod naming;
mod pattern;
mod rights;
mod selection;
mod sync_store;

pub use acls::{MissingAcls, mirrored_acl, missing_acls};
pub use checkpoints::{Commit, Rewind, There, commit, is_due};
pub use configs::{ConfigMode, ConfigPlan, ConfigRules, Drift, NewConfigs, Owned};
pub use filters::{ConfigFilter, GroupFilter, NameList, NameListError, TopicFilter};
pub use naming::{PolicyKind, ReplicationPolicy};
pub use pattern::{Engine, Pattern, PatternError, StepLimit};
pub use rights::{Feature, RIGHTS, Right, Thing, find_right, rights_page};
pub use selection::{FlowTopics, Selection};
pub use sync_store::{BySync, SyncStore};
