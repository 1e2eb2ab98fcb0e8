//! The rules: no async, no I/O, no clock.

pub mod ids;
