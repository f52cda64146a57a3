//! Heliograph mirrors Apache Kafka clusters.

pub mod mm2;
pub mod model;
pub mod policy;
