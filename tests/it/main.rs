//! Tests against real services: Postgres and Apache Kafka. One binary, since linking is slow.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]
#![allow(clippy::disallowed_methods, reason = "real services run on real time")]
#![allow(unreachable_pub, reason = "tests/support is written as the small library that it is")]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod api_keys;
mod batch;
mod books;
mod broker;
mod buckets;
mod callbacks;
mod caps;
mod cli;
#[cfg(feature = "faults")]
mod conformance;
mod contract;
mod dashboard;
mod declines;
mod dev;
mod doctor;
mod events;
mod flow;
#[cfg(feature = "faults")]
mod gateway;
mod hooks;
mod intake;
mod keys;
mod limits;
mod lists;
mod mixed;
mod money;
mod operations;
mod operators;
mod postgres;
mod proof;
mod proxy;
mod publisher;
mod quarantine;
mod readme;
mod readme_compose;
mod refunds;
mod ring;
mod schedule;
mod signals;
mod stand_in;
mod stream;
mod tokens;
mod trouble;
mod webhook_endpoints;
