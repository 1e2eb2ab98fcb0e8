//! TODO-STUB roles: the composition root, the only place that builds pools, producers and clients.

use crate::cli::{Ended, Keys, Migrate, Topics};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use crate::platform::shutdown::Shutdown;

fn stub(what: &str) -> Result<(), Ended> {
    Err(Ended::with(Exit::Failed, format!("{what} is not part of this version yet")))
}

/// The REST interface, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn api(_: Config, _: Shutdown) -> Result<(), Ended> {
    stub("api")
}

/// Due notices to the ring, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn relay(_: Config, _: Shutdown) -> Result<(), Ended> {
    stub("relay")
}

/// Due payments to the gateway, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn worker(_: Config, _: Shutdown) -> Result<(), Ended> {
    stub("worker")
}

/// The loops that watch the schedule, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn keeper(_: Config, _: Shutdown) -> Result<(), Ended> {
    stub("keeper")
}

/// The simulated gateway, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn sandbox(_: Config, _: Shutdown) -> Result<(), Ended> {
    stub("sandbox")
}

/// api, relay, worker and keeper in one process, until shutdown.
///
/// # Errors
/// What ended the first that ended.
pub async fn all(_: Config, _: Shutdown) -> Result<(), Ended> {
    stub("all")
}

/// Database set-up.
///
/// # Errors
/// [`Exit::Differences`] where a plan has something to do; otherwise what failed.
pub async fn migrate(_: Migrate, _: Config) -> Result<(), Ended> {
    stub("migrate")
}

/// Topic set-up.
///
/// # Errors
/// [`Exit::Differences`] where a plan or a check finds any; otherwise what failed.
pub async fn topics(_: Topics, _: Config) -> Result<(), Ended> {
    stub("topics")
}

/// API keys.
///
/// # Errors
/// What failed.
pub async fn keys(_: Keys, _: Config) -> Result<(), Ended> {
    stub("keys")
}
