//! Punctual pays on time, once.

pub mod domain;
pub mod intake;
pub mod schedule;
pub mod relay;
pub mod bucket;
pub mod worker;
pub mod gateway;
pub mod outcome;
pub mod keeper;

pub mod sandbox;
pub mod dev;
pub mod platform;
