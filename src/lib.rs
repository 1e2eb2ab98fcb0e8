//! Punctual pays on time, once.

pub mod domain;

pub mod bucket;
pub mod gateway;
pub mod intake;
pub mod keeper;
pub mod outcome;
pub mod relay;
pub mod schedule;
pub mod worker;

pub mod cli;
pub mod dev;
pub mod platform;
pub mod roles;
pub mod sandbox;
