//! Heliograph mirrors Apache Kafka clusters.

pub mod app;
pub mod batch;
pub mod client;
pub mod config;
pub mod copy;
pub mod flow;
pub mod mirror;
pub mod mm2;
pub mod model;
pub mod policy;
pub mod telemetry;
pub mod wire;
