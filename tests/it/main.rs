//! Tests against real services: Postgres and Apache Kafka. One binary, since linking is slow.

#[path = "../support/mod.rs"]
mod support;

mod broker;
mod dev;
mod postgres;
mod proxy;
mod ring;
mod stand_in;
