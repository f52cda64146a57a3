//! The test bed: real Kafka clusters, the real MirrorMaker 2, and an independent judge.
//!
//! | what | where |
//! |---|---|
//! | what must be on the machine: jars, class archives, the compiled agent | [`install`], [`version`], [`java`] |
//! | processes that never outlive us, their CPU and memory | [`process`] |
//! | the folder of one run, and what is left of it | [`scratch`], [`ports`] |
//! | clusters of one or three nodes: start, stop, kill, restart | [`cluster`], [`node`] |
//! | a long-lived JVM with Kafka's own clients: topics, offsets, groups | [`agent`], [`admin`] |
//! | topics of every shape, from a seed | [`fill`] |
//! | the judge: is the target the source, record by record | [`compare`] |
//! | the programs under test, on one and the same properties file | [`flow`], [`mirror`], [`mm2`], [`connect`] |
//! | what a mirror says: its log, its page | [`events`] |
//! | the physical floor | [`relay`] |
//! | a link of a hundred milliseconds; clients of bare frames | [`delay`], [`raw`] |
//! | requests counted by kind, answers lost | [`frames`] |
//! | certificates, secured listeners | [`certs`], [`secured`] |
//! | frames recorded from real brokers | [`tap`] |
//! | what the real MM2 leaves behind, and what we do | [`side_by_side`] |
//! | what a group reads again after a failover, beside the real MM2 | [`failover`] |
//! | commands | [`setup`], [`mod@bench`], [`soak`], [`demo`] |
//!
//! Everything is blocking; every wait has a bound. Loads go to the loopback interface only.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "the test bed measures real processes by real clocks; nothing here runs under a test clock"
)]

pub mod admin;
pub mod agent;
pub mod bench;
pub mod certs;
pub mod cluster;
pub mod compare;
pub mod connect;
pub mod delay;
pub mod demo;
pub mod events;
pub mod failover;
pub mod fill;
pub mod flow;
pub mod frames;
pub mod install;
pub mod java;
mod metadata;
pub mod mirror;
pub mod mm2;
pub mod node;
pub mod ports;
pub mod process;
pub mod raw;
pub mod relay;
pub mod scratch;
pub mod secured;
pub mod setup;
pub mod side_by_side;
pub mod soak;
pub mod tap;
mod tap_groups;
pub mod version;
