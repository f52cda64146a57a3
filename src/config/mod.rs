//! Floor 6: from MM2's properties file to settings.
pub mod properties;
