//! Tests against real services: Postgres and Apache Kafka. One binary, since linking is slow.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]
#![allow(clippy::disallowed_methods, reason = "real services run on real time")]
#![allow(unreachable_pub, reason = "tests/support is written as the small library that it is")]

#[path = "../support/mod.rs"]
mod support;

mod broker;
mod buckets;
mod callbacks;
#[cfg(feature = "faults")]
mod conformance;
mod declines;
mod dev;
mod flow;
#[cfg(feature = "faults")]
mod gateway;
mod intake;
mod keys;
mod lists;
mod mixed;
mod money;
mod operations;
mod operators;
mod postgres;
mod proxy;
mod publisher;
mod readme;
mod readme_compose;
mod refunds;
mod ring;
mod schedule;
mod stand_in;
mod trouble;
