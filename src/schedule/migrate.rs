//! The schema's versions: forward only, never edited once landed, each in a transaction of its own.
//!
//! The files are part of the binary, so a binary and its schema cannot be of different builds.
//! What keeps writers out for as long as a big table is read is no migration either (`indexes.rs`).
//! Partitions are not migrations: a function makes them, a few days in each transaction, since a
//! transaction holds a lock on everything that it makes. **If this dies here**, what is committed
//! stays, and the next run goes on.

use super::connect::{Access, ConnectError, options, unreachable};
use super::failure::{at_commit, before_commit};
use super::port::ScheduleError;
use super::{indexes, statements};
use crate::platform::config::Database;
use chrono::NaiveDate;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection, Executor};

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Days of partitions made by one transaction: with some 25 tables and indexes a day, far below
/// Postgres's default of 6,400 locks.
const DAYS_AT_ONCE: usize = 7;

/// A version of the database: number, checksum, whether it finished.
type Applied = (i64, Vec<u8>, bool);

async fn owner(settings: &Database) -> Result<PgConnection, ConnectError> {
    options(settings, Access::Owner)?.connect().await.map_err(unreachable)
}

async fn applied(connection: &mut PgConnection) -> Result<Vec<Applied>, ConnectError> {
    match sqlx::query_as(statements::APPLIED_MIGRATIONS).fetch_all(connection).await {
        Ok(applied) => Ok(applied),
        // No such table: never migrated.
        Err(error) if error.as_database_error().and_then(|db| db.code()).as_deref() == Some("42P01") => {
            Ok(Vec::new())
        }
        Err(error) => Err(unreachable(error)),
    }
}

/// Migrations that the database lacks, oldest first; an error where it has others than this binary.
fn missing(applied: &[Applied]) -> Result<Vec<(i64, String)>, ConnectError> {
    for (version, checksum, finished) in applied {
        match MIGRATIONS.iter().find(|known| known.version == *version) {
            None => return Err(ConnectError::SchemaNewer { version: *version }),
            Some(known) if known.checksum.as_ref() != checksum.as_slice() || !finished => {
                return Err(ConnectError::SchemaChanged { version: *version });
            }
            Some(_) => {}
        }
    }
    let is_applied = |version: i64| applied.iter().any(|(applied, _, _)| *applied == version);
    let missing = MIGRATIONS.iter().filter(|known| !is_applied(known.version));
    Ok(missing.map(|known| (known.version, known.description.to_string())).collect())
}

/// Is the schema exactly this binary's?
pub(super) async fn check_schema(connection: &mut PgConnection) -> Result<(), ConnectError> {
    let missing = missing(&applied(connection).await?)?;
    match missing.first() {
        Some(first) => Err(ConnectError::SchemaOlder { missing: missing.len(), first: first.0 }),
        None => Ok(()),
    }
}

/// What [`migrate`] would do to a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationPlan {
    /// Migrations, oldest first: number and what it does.
    pub migrations: Vec<(i64, String)>,
    /// Indexes that are built beside the writes, and how many partitions lack each. What the migrations add comes on top.
    pub indexes: Vec<(String, i64)>,
}

/// What [`migrate`] would do; changes nothing.
///
/// # Errors
/// See [`ConnectError`].
pub async fn migration_plan(settings: &Database) -> Result<MigrationPlan, ConnectError> {
    let mut connection = owner(settings).await?;
    let migrations = missing(&applied(&mut connection).await?)?;
    Ok(MigrationPlan { migrations, indexes: indexes::unbuilt(&mut connection).await? })
}

/// Brings the database to this binary's schema and makes the partitions of the configured days;
/// answers how many migrations and partitions that took. Two at once wait for each other.
///
/// # Errors
/// See [`ConnectError`]; repeating it is safe.
pub async fn migrate(settings: &Database) -> Result<(usize, u32), ConnectError> {
    let mut connection = owner(settings).await?;
    let missing = missing(&applied(&mut connection).await?)?.len();
    // Migrations may take their time; they have lock times of their own.
    connection.execute("SET statement_timeout = 0").await.map_err(unreachable)?;
    connection.execute("SET idle_in_transaction_session_timeout = 0").await.map_err(unreachable)?;
    let run = MIGRATIONS.run_direct(None, &mut connection, false).await;
    run.map_err(|error| ConnectError::Refused(error.into()))?;
    indexes::build(&mut connection).await?;
    let made = ensure(&mut connection, settings.partition_days_back, settings.partition_days_ahead).await;
    let made = made.map_err(|error| match error {
        ScheduleError::Unavailable(source) | ScheduleError::CommitUnknown(source) => {
            ConnectError::Unreachable(source)
        }
        ScheduleError::Defect(source) => ConnectError::Refused(source),
    })?;
    // A failed goodbye has nothing to say: the work is done.
    drop(connection.close().await);
    Ok((missing, made))
}

/// Makes what is missing from `back` days before today to `ahead` after it; answers how many
/// partitions. What was made before an error stays.
pub(super) async fn ensure(
    connection: &mut PgConnection,
    back: u32,
    ahead: u32,
) -> Result<u32, ScheduleError> {
    let days = |days: u32| i32::try_from(days).unwrap_or(i32::MAX);
    let missing: Vec<NaiveDate> = sqlx::query_scalar(statements::MISSING_DAYS)
        .bind(days(back))
        .bind(days(ahead))
        .fetch_all(&mut *connection)
        .await
        .map_err(before_commit)?;
    let mut made = 0;
    for some in missing.chunks(DAYS_AT_ONCE) {
        let count: i32 = sqlx::query_scalar(statements::ENSURE_PARTITIONS)
            .bind(some)
            .fetch_one(&mut *connection)
            .await
            .map_err(at_commit)?;
        made += u32::try_from(count).unwrap_or(0);
    }
    let webhooks: i32 = sqlx::query_scalar(statements::ENSURE_WEBHOOK_DAYS)
        .fetch_one(&mut *connection)
        .await
        .map_err(at_commit)?;
    Ok(made + u32::try_from(webhooks).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Applied> {
        MIGRATIONS.iter().map(|known| (known.version, known.checksum.to_vec(), true)).collect()
    }

    #[test]
    fn an_older_a_newer_and_a_changed_schema_are_each_named() {
        assert_eq!(missing(&all()).expect("ours"), Vec::new());
        let mut older = all();
        let last = older.pop().expect("there are migrations").0;
        assert_eq!(missing(&older).expect("older").iter().map(|it| it.0).collect::<Vec<_>>(), [last]);
        let mut newer = all();
        newer.push((999_912_312_359, Vec::new(), true));
        assert!(matches!(missing(&newer), Err(ConnectError::SchemaNewer { version: 999_912_312_359 })));
        let mut edited = all();
        edited[0].1[0] ^= 1;
        assert!(matches!(missing(&edited), Err(ConnectError::SchemaChanged { .. })));
        let mut broken = all();
        broken[0].2 = false;
        assert!(matches!(missing(&broken), Err(ConnectError::SchemaChanged { .. })));
    }
}
