//! Connections, migrations, and the refusal to start on a schema that is not this binary's.

use super::failure::before_commit;
use super::port::{BoxError, ScheduleError};
use super::postgres::Postgres;
use super::statements;
use crate::platform::config::Database;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Row};
use std::str::FromStr;
use std::sync::Arc;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Which database role a process works as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Makes and cancels payments; cannot claim.
    Api,
    /// Claims, settles, relays, watches; cannot make payments.
    Worker,
    /// Migrations, partitions, keys: whoever the URL names.
    Owner,
}

/// Why a process cannot work with this database; what to do is in the words.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// `database.url` is not a Postgres URL.
    #[error("database.url is not a Postgres URL: {0}")]
    BadUrl(#[source] BoxError),
    /// Nobody answers there, or not to us. May pass by itself.
    #[error("the database cannot be reached: {0}")]
    Unreachable(#[source] BoxError),
    /// The schema lacks migrations of this binary.
    #[error(
        "the database's schema is older than this binary: run `punctual migrate run` ({missing} missing, first {first})"
    )]
    SchemaOlder {
        /// How many.
        missing: usize,
        /// The first one's version.
        first: i64,
    },
    /// The schema has migrations that this binary does not know.
    #[error("the database's schema is newer than this binary (migration {version}): deploy the newer binary")]
    SchemaNewer {
        /// The first unknown version.
        version: i64,
    },
    /// A landed migration was edited.
    #[error("migration {version} was changed after it was applied")]
    SchemaChanged {
        /// Its version.
        version: i64,
    },
    /// Something else that no retry mends.
    #[error("the database refused: {0}")]
    Refused(#[source] BoxError),
}

fn options(url: &str) -> Result<PgConnectOptions, ConnectError> {
    PgConnectOptions::from_str(url).map_err(|error| ConnectError::BadUrl(error.into()))
}

/// Opens a pool for one process and checks the schema.
///
/// # Errors
/// See [`ConnectError`]; `Unreachable` is worth another try.
pub async fn connect(config: &Database, access: Access) -> Result<Postgres, ConnectError> {
    let url = if access == Access::Owner { owner_url(config) } else { &config.url };
    let statement_timeout = format!("{}ms", config.statement_timeout.as_millis());
    let options = options(url)?.application_name("punctual").options([
        ("statement_timeout", statement_timeout.as_str()),
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "15s"),
        // A generic plan locks every partition; a custom one only the day it names.
        ("plan_cache_mode", "force_custom_plan"),
        ("timezone", "UTC"),
        // No value of a row reaches the server's log.
        ("log_parameter_max_length_on_error", "0"),
    ]);
    let role = match access {
        Access::Api => Some("SET ROLE punctual_api"),
        Access::Worker => Some("SET ROLE punctual_worker"),
        Access::Owner => None,
    };
    let mut check = PgConnection::connect_with(&options).await.map_err(unreachable)?;
    check_schema(&mut check).await?;
    let installation =
        sqlx::query(statements::INSTALLATION).fetch_one(&mut check).await.map_err(unreachable)?;
    let secret: Vec<u8> = installation.try_get("secret").map_err(unreachable)?;
    let secret: [u8; 32] = secret
        .try_into()
        .map_err(|_| ConnectError::Refused("the installation's secret has a wrong length".into()))?;
    // A failed goodbye has nothing to say: the work is done.
    drop(check.close().await);
    let pool = PgPoolOptions::new()
        .max_connections(config.pool)
        .acquire_timeout(config.acquire_timeout)
        .after_connect(move |connection, _| {
            Box::pin(async move {
                if let Some(role) = role {
                    sqlx::query(role).execute(connection).await?;
                }
                Ok(())
            })
        })
        .connect_with(options)
        .await
        .map_err(unreachable)?;
    Ok(Postgres::new(pool, Arc::new(secret)))
}

fn owner_url(config: &Database) -> &str {
    if config.owner_url.is_empty() { &config.url } else { &config.owner_url }
}

fn unreachable(error: sqlx::Error) -> ConnectError {
    match before_commit(error) {
        ScheduleError::Unavailable(source) | ScheduleError::CommitUnknown(source) => {
            ConnectError::Unreachable(source)
        }
        ScheduleError::Defect(source) => ConnectError::Refused(source),
    }
}

/// The versions and checksums that were applied; none in an empty database.
async fn applied(connection: &mut PgConnection) -> Result<Vec<(i64, Vec<u8>)>, ConnectError> {
    let there: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .map_err(unreachable)?;
    if !there {
        return Ok(Vec::new());
    }
    sqlx::query_as("SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version")
        .fetch_all(connection)
        .await
        .map_err(unreachable)
}

async fn check_schema(connection: &mut PgConnection) -> Result<(), ConnectError> {
    let missing = missing(connection).await?;
    match missing.first() {
        Some(first) => Err(ConnectError::SchemaOlder { missing: missing.len(), first: first.0 }),
        None => Ok(()),
    }
}

/// Migrations that the database lacks, oldest first; an error where it has others than this binary.
async fn missing(connection: &mut PgConnection) -> Result<Vec<(i64, String)>, ConnectError> {
    let applied = applied(connection).await?;
    for (version, checksum) in &applied {
        match MIGRATIONS.iter().find(|known| known.version == *version) {
            None => return Err(ConnectError::SchemaNewer { version: *version }),
            Some(known) if known.checksum.as_ref() != checksum.as_slice() => {
                return Err(ConnectError::SchemaChanged { version: *version });
            }
            Some(_) => {}
        }
    }
    let is_applied = |version: i64| applied.iter().any(|(applied, _)| *applied == version);
    let missing = MIGRATIONS.iter().filter(|known| !is_applied(known.version));
    Ok(missing.map(|known| (known.version, known.description.to_string())).collect())
}

/// What [`migrate`] would apply, oldest first.
///
/// # Errors
/// See [`ConnectError`].
pub async fn migration_plan(config: &Database) -> Result<Vec<(i64, String)>, ConnectError> {
    let mut connection =
        PgConnection::connect_with(&options(owner_url(config))?).await.map_err(unreachable)?;
    missing(&mut connection).await
}

/// Brings the database to this binary's schema and makes the partitions; answers how many
/// migrations and partitions that took. Two at once wait for each other.
///
/// # Errors
/// See [`ConnectError`].
pub async fn migrate(config: &Database) -> Result<(usize, i32), ConnectError> {
    let options = options(owner_url(config))?;
    let mut connection = PgConnection::connect_with(&options).await.map_err(unreachable)?;
    let missing = missing(&mut connection).await?.len();
    MIGRATIONS.run(&mut connection).await.map_err(|error| ConnectError::Refused(error.into()))?;
    let made: i32 = sqlx::query_scalar(statements::ENSURE_PARTITIONS)
        .bind(i32::try_from(config.partition_days_back).unwrap_or(i32::MAX))
        .bind(i32::try_from(config.partition_days_ahead).unwrap_or(i32::MAX))
        .fetch_one(&mut connection)
        .await
        .map_err(unreachable)?;
    Ok((missing, made))
}

/// A pool is a handle: closing it waits for what is out.
pub(super) async fn close(pool: &PgPool) {
    pool.close().await;
}
