//! Floor 6: what the process says about itself.

pub mod http;
pub mod log;
pub mod metrics;
pub mod status;

pub use status::{FlowPicture, ProcessStatus};
