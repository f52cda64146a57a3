//! Floor 6: what the process says about itself.

pub mod http;
pub mod log;
pub mod metrics;
pub mod ready;
pub mod status;

pub use ready::{FlowReadiness, Reason};
pub use status::{FlowPicture, HeartbeatPicture, ProcessStatus};
