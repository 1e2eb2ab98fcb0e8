//! Tests that need no service: whole protocols over the pure rules.

mod one_charge;
mod world;
