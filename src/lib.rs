//! Heliograph mirrors Apache Kafka clusters.

pub mod config;
pub mod mm2;
pub mod model;
pub mod policy;
