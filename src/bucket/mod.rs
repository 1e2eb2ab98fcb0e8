//! The Kafka edge.

pub mod probe;
