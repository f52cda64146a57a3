//! What the tests of this package and the fuzz targets share.
//!
//! | what | where |
//! |---|---|
//! | recorded bytes and their decoding | [`golden`] |
//! | a partition's log with a broker's rules for idempotent producers | [`oracle`] |
//! | a copier driven by a list of steps against that log | [`copy_run`] |
//! | the bodies of the fuzz targets | [`targets`] |

pub mod copy_run;
pub mod golden;
pub mod oracle;
pub mod targets;
