//! Heliograph mirrors Apache Kafka clusters.

pub mod model;
