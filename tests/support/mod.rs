//! What tests against real services stand on: the services, a database each, a ring to lease, a
//! proxy that breaks the network, and waiting without guessing.
//!
//! Only this folder may sleep; tests say what they wait for with [`eventually`].

#![allow(dead_code, reason = "not every test binary uses every part")]

pub mod api;
pub mod audit;
pub mod backups;
pub mod brokers;
pub mod cancels;
pub mod cells;
pub mod cells_table;
pub mod collector;
pub mod contract;
pub mod crowds;
pub mod database;
pub mod emitted;
pub mod hooks;
pub mod imports;
pub mod installation;
pub mod mixed;
pub mod people;
pub mod proxy;
pub mod records;
pub mod ring;
pub mod services;
pub mod settlement;
pub mod steady;
pub mod stub;
pub mod tiny_disk;
pub mod watched;
pub mod webdriver;
pub mod zombies;

use std::future::Future;
use std::panic::Location;
use std::time::{Duration, Instant};

/// Asks `condition` again and again until it gives a value, at most `within`.
///
/// # Panics
/// Says `what` was awaited and where when the time is over.
#[track_caller]
pub fn eventually<T, F, Fut>(what: &str, within: Duration, mut condition: F) -> impl Future<Output = T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let asked_at = Location::caller();
    async move {
        let start = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            assert!(start.elapsed() < within, "{asked_at}: not within {within:?}: {what}");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }
}
