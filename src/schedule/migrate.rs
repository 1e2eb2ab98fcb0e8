//! The schema's versions: forward only, never edited once landed, each in a transaction of its own.
//!
//! The files are part of the binary, so a binary and its schema cannot be of different builds; a test
//! holds the list against the folder. Partitions are not migrations: a function makes them, a few
//! days in each transaction, since each transaction holds a lock on everything that it makes. **If
//! this dies here**, what is committed stays, and the next run goes on.

use super::connect::{ConnectError, Work, options};
use super::failure::before_commit;
use super::port::ScheduleError;
use super::statements;
use crate::platform::config::Database;
use chrono::NaiveDate;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection, Executor, SqlStr};
use std::borrow::Cow;

/// Days of partitions made by one transaction.
const DAYS_AT_ONCE: usize = 7;

macro_rules! migrations {
    ($( $version:literal $name:literal ),* $(,)?) => {
        /// Version, name and text of each, in order.
        const FILES: &[(i64, &str, &str)] = &[ $( (
            $version,
            $name,
            include_str!(concat!("../../migrations/", $version, "_", $name, ".sql")),
        ), )* ];
    };
}

migrations! {
    202611291600 "create_rules",
    202611291601 "create_payments",
    202611291602 "create_helpers",
    202611291603 "create_partition_function",
}

/// A migration that a database lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// `YYYYMMDDHHMM`.
    pub version: i64,
    /// What it does.
    pub name: &'static str,
}

/// Why a database could not be brought to this schema.
#[derive(Debug, thiserror::Error)]
pub enum MigrateFailed {
    /// Not reachable, not ours, or of another schema.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A migration was refused; it left nothing behind.
    #[error("a migration was refused: {0}")]
    Refused(#[source] MigrateError),
    /// The partitions could not be made; repeat it.
    #[error("partitions could not be made: {0}")]
    Partitions(#[source] ScheduleError),
}

/// Which versions exist, for tests that hold them against the folder.
#[must_use]
pub fn versions() -> Vec<(i64, &'static str)> {
    FILES.iter().map(|(version, name, _)| (*version, *name)).collect()
}

fn migrator() -> Migrator {
    let files = FILES.iter().map(|(version, name, text)| {
        Migration::new(*version, Cow::Borrowed(*name), MigrationType::Simple, SqlStr::from_static(text), false)
    });
    Migrator::with_migrations(files.collect())
}

/// Does what was applied equal what this binary knows?
pub(super) fn compare(applied: &[(i64, bool)]) -> Result<(), ConnectError> {
    for (version, success) in applied {
        if !FILES.iter().any(|(known, _, _)| known == version) {
            return Err(ConnectError::SchemaTooNew { unknown: *version });
        }
        if !success {
            return Err(ConnectError::SchemaDiffers { version: *version });
        }
    }
    let missing = FILES.iter().find(|(known, _, _)| !applied.iter().any(|(version, _)| version == known));
    match missing {
        Some((missing, _, _)) => Err(ConnectError::SchemaTooOld { missing: *missing }),
        None => Ok(()),
    }
}

async fn connect(settings: &Database) -> Result<PgConnection, ConnectError> {
    let options = options(settings, Work::Owner)?;
    options.connect().await.map_err(|error| ConnectError::Unreachable(before_commit(error)))
}

/// What [`run`] would do; changes nothing.
///
/// # Errors
/// See [`MigrateFailed`].
pub async fn plan(settings: &Database) -> Result<Vec<Pending>, MigrateFailed> {
    let mut connection = connect(settings).await?;
    let applied: Result<Vec<(i64, bool)>, _> =
        sqlx::query_as(statements::APPLIED_MIGRATIONS).fetch_all(&mut connection).await;
    // A database that was never migrated has no such table, and lacks everything.
    let applied = applied.unwrap_or_default();
    connection.close().await.map_err(|error| ConnectError::Unreachable(before_commit(error)))?;
    let lacks = |version: i64| !applied.iter().any(|(applied, _)| *applied == version);
    let pending = FILES.iter().filter(|(version, _, _)| lacks(*version));
    Ok(pending.map(|(version, name, _)| Pending { version: *version, name }).collect())
}

/// Brings the database to this binary's schema and makes the partitions of the configured days;
/// answers what it applied. `made` is told of partitions as they come.
///
/// # Errors
/// See [`MigrateFailed`]; repeating it is safe, also from several processes at once.
pub async fn run(settings: &Database, mut made: impl FnMut(usize, usize)) -> Result<Vec<Pending>, MigrateFailed> {
    let pending = plan(settings).await?;
    let mut connection = connect(settings).await?;
    let refused = |error| MigrateFailed::Refused(MigrateError::Execute(error));
    // Migrations may take their time; they have lock times of their own.
    connection.execute("SET statement_timeout = 0").await.map_err(refused)?;
    connection.execute("SET idle_in_transaction_session_timeout = 0").await.map_err(refused)?;
    migrator().run_direct(None, &mut connection, false).await.map_err(MigrateFailed::Refused)?;
    let (back, ahead) = (settings.partition_days_back, settings.partition_days_ahead);
    let days = missing_days(&mut connection, back, ahead).await.map_err(MigrateFailed::Partitions)?;
    let mut done = 0;
    for some in days.chunks(DAYS_AT_ONCE) {
        make(&mut connection, some).await.map_err(MigrateFailed::Partitions)?;
        done += some.len();
        made(done, days.len());
    }
    connection.close().await.map_err(|error| ConnectError::Unreachable(before_commit(error)))?;
    Ok(pending)
}

/// The days from `back` before today to `ahead` after it that lack a partition, in order.
pub(super) async fn missing_days(
    connection: &mut PgConnection,
    back: u32,
    ahead: u32,
) -> Result<Vec<NaiveDate>, ScheduleError> {
    let days = |days: u32| i32::try_from(days).unwrap_or(i32::MAX);
    sqlx::query_scalar(statements::MISSING_DAYS)
        .bind(days(back))
        .bind(days(ahead))
        .fetch_all(connection)
        .await
        .map_err(before_commit)
}

/// Makes what these days lack; answers how many partitions. The statement is its own transaction.
pub(super) async fn make(connection: &mut PgConnection, days: &[NaiveDate]) -> Result<u64, ScheduleError> {
    let mut made = 0;
    for day in days.chunk_by(|one, next| one.succ_opt() == Some(*next)) {
        let (Some(first), Some(last)) = (day.first(), day.last()) else { continue };
        let count: i32 = sqlx::query_scalar(statements::ENSURE_PARTITIONS)
            .bind(first)
            .bind(last)
            .fetch_one(&mut *connection)
            .await
            .map_err(before_commit)?;
        made += u64::try_from(count).unwrap_or(0);
    }
    Ok(made)
}

/// Makes every missing partition, a few days at a time.
pub(super) async fn ensure(connection: &mut PgConnection, back: u32, ahead: u32) -> Result<u64, ScheduleError> {
    let days = missing_days(connection, back, ahead).await?;
    let mut made = 0;
    for some in days.chunks(DAYS_AT_ONCE) {
        made += make(connection, some).await?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(i64, bool)> {
        FILES.iter().map(|(version, _, _)| (*version, true)).collect()
    }

    #[test]
    fn the_list_is_the_folder() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("plain"))
            .collect();
        files.sort();
        let listed: Vec<String> = versions().iter().map(|(version, name)| format!("{version}_{name}.sql")).collect();
        assert_eq!(listed, files);
    }

    #[test]
    fn an_older_a_newer_and_a_broken_schema_are_each_named() {
        assert!(compare(&all()).is_ok());
        let first = FILES[0].0;
        assert!(matches!(compare(&[]), Err(ConnectError::SchemaTooOld { missing }) if missing == first));
        let mut newer = all();
        newer.push((999_912_312_359, true));
        assert!(matches!(compare(&newer), Err(ConnectError::SchemaTooNew { unknown: 999_912_312_359 })));
        let mut broken = all();
        broken[0].1 = false;
        assert!(matches!(compare(&broken), Err(ConnectError::SchemaDiffers { version }) if version == first));
    }
}
