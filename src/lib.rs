//! Punctual pays on time, once.

pub mod dev;
pub mod domain;
