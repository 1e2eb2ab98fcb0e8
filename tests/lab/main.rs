//! Tests that need no service: rules, simulation, model, tidiness.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]
#![allow(unreachable_pub, reason = "one binary: its modules have no other readers")]

mod alerts;
mod compose;
mod contracts;
mod dashboard;
mod failpoints;
mod help;
mod ids;
mod model;
mod one_charge;
mod openapi;
mod readme;
mod refunds;
mod registries;
mod seeded;
mod settlement;
mod simulation;
mod tidy;
mod world;
