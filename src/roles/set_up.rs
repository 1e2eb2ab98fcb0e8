//! The commands that prepare what all roles need: the database's tables and the topics.

use super::{failed, refused};
use crate::bucket::{self, topics};
use crate::cli::{self, Ended, Migrate, Topics};
use crate::platform::clock::{Host, SharedClock};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use crate::schedule;
use std::sync::Arc;

/// Database set-up.
///
/// # Errors
/// [`Exit::Differences`] where a plan has something to do; otherwise what failed.
pub async fn migrate(command: Migrate, config: Config) -> Result<(), Ended> {
    config.require(&["database.url"])?;
    match command {
        Migrate::Plan => {
            let plan = schedule::migration_plan(&config.database).await.map_err(refused)?;
            for (version, description) in &plan.migrations {
                cli::print(&format!("{version}  {description}\n"))?;
            }
            for (name, partitions) in &plan.indexes {
                cli::print(&format!("index {name}  to be built on {partitions} partitions\n"))?;
            }
            match (plan.migrations.len(), plan.indexes.len()) {
                (0, 0) => Ok(()),
                (0, indexes) => Err(differences(indexes, "indexes to build")),
                (migrations, 0) => Err(differences(migrations, "migrations to apply")),
                (migrations, indexes) => {
                    Err(differences(migrations, &format!("migrations to apply, {indexes} indexes to build")))
                }
            }
        }
        Migrate::Run => {
            let (applied, partitions) = schedule::migrate(&config.database).await.map_err(refused)?;
            cli::print(&format!("applied {applied} migrations, made {partitions} partitions\n"))
        }
    }
}

fn differences(count: usize, of: &str) -> Ended {
    Ended::with(Exit::Differences, format!("{count} {of}"))
}

/// Topic set-up.
///
/// # Errors
/// [`Exit::Differences`] where a plan or a check finds any; otherwise what failed.
pub async fn topics(command: Topics, config: Config) -> Result<(), Ended> {
    if command == Topics::Describe {
        let document = bucket::asyncapi::document(&config.kafka).map_err(failed)?;
        return cli::print(&bucket::asyncapi::as_yaml(&document));
    }
    config.require(&["kafka.bootstrap_servers"])?;
    let clock: SharedClock = Arc::new(Host);
    let left = match command {
        // `rebuild` is a command of its own (`rebuild.rs`).
        Topics::Plan | Topics::Check | Topics::Describe | Topics::Rebuild(_) => {
            topics::plan(&config.kafka, topics::Depth::Full, topics::ANSWER_WITHIN).await
        }
        Topics::Apply => topics::apply(&config.kafka, &clock).await,
    };
    let left = left.map_err(failed)?;
    for difference in &left {
        cli::print(&format!("{difference}\n"))?;
    }
    if left.is_empty() {
        cli::print("every topic is as declared\n")
    } else {
        Err(differences(left.len(), "differences"))
    }
}
