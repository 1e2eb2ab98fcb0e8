//! The outside that moves money: one trait, one profile a gateway.

mod port;

pub use port::*;
