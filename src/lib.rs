//! Heliograph mirrors Apache Kafka clusters.

pub mod batch;
pub mod model;
pub mod wire;
