//! Heliograph mirrors Apache Kafka clusters.

pub mod batch;
pub mod client;
pub mod copy;
pub mod model;
pub mod wire;
