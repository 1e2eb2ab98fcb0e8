//! The Kafka edge.

pub mod in_process;
pub mod probe;
