//! Punctual pays on time, once.

pub mod bucket;
pub mod dev;
pub mod domain;
