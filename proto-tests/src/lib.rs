//! What the tests of this package and the fuzz targets share.
//!
//! | what | where |
//! |---|---|
//! | recorded bytes and their decoding | [`golden`] |
//! | a partition's log with a broker's rules for idempotent producers | [`oracle`] |
//! | a copier driven by a list of steps against that log | [`copy_run`] |
//! | messages of formats 0 and 1, read and written | [`legacy`] |
//! | an offset map driven by a list of steps beside a naive list | [`offset_map_run`] |
//! | the bodies of the fuzz targets | [`targets`] |
//! | a Kafka cluster in memory, with a real broker's rules and faults on demand | [`broker`] |
//! | whole flows under seeded faults, and their judge | [`sim`] |

#![forbid(unsafe_code)]

pub mod broker;
pub mod copy_run;
pub mod golden;
pub mod legacy;
pub mod offset_map_run;
pub mod oracle;
pub mod sim;
pub mod targets;
