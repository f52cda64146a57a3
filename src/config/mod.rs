//! Floor 6: from MM2's own properties file to settings.

pub mod keys;
pub mod layers;
pub mod problems;
pub mod properties;
