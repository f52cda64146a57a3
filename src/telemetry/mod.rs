//! Floor 6: what the process says about itself.

pub mod log;
