//! Connections: who we are to Postgres, how long anything may take, and whether its schema is ours.
//!
//! **Promises.** No statement, lock or idle transaction waits for ever; each process works with the
//! least rights of its work; none works on a schema that it does not know, nor lets a role or a
//! database have its COMMITs answered before they are on the disk. **Why custom plans**: with
//! hundreds of partitions a generic plan locks all of them.
//!
//! Keepalives and `tcp_user_timeout` are set for the server's end; the driver offers neither for ours,
//! nor TCP_NODELAY, so a Unix socket or a near proxy is the better road.

use super::failure::before_commit;
use super::migrate::check_schema;
use super::port::{BoxError, ScheduleError};
use super::postgres::Postgres;
use super::statements;
use crate::platform::config::Database;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection};
use std::str::FromStr;
use std::time::Duration;

/// A connection idle for longer may have lost its server.
const RESTED: Duration = Duration::from_secs(1);

/// Which database role a process works as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Makes and cancels payments; cannot claim.
    Api,
    /// Claims, settles, relays, watches; cannot make payments.
    Worker,
    /// Migrations, keys, an operator's release: whoever the owner's URL names.
    Owner,
}

impl Access {
    fn set_role(self) -> Option<&'static str> {
        match self {
            Self::Api => Some("SET ROLE punctual_api"),
            Self::Worker => Some("SET ROLE punctual_worker"),
            Self::Owner => None,
        }
    }

    fn application_name(self) -> &'static str {
        match self {
            Self::Api => "punctual api",
            Self::Worker => "punctual worker",
            Self::Owner => "punctual owner",
        }
    }
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
    /// `database.pool` is more than the server has; a smaller pool, or a larger server.
    #[error(
        "database.pool = {pool} is more than the {server} connections that the server has for all processes"
    )]
    PoolTooLarge {
        /// As configured.
        pool: u32,
        /// What the server has for others than its superusers.
        server: i32,
    },
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
    /// A landed migration was edited, or ended half-way.
    #[error("migration {version} was changed after it was applied, or did not finish")]
    SchemaChanged {
        /// Its version.
        version: i64,
    },
    /// Something else that no retry mends.
    #[error("the database refused: {0}")]
    Refused(#[source] BoxError),
}

/// The options of one connection.
pub(super) fn options(settings: &Database, access: Access) -> Result<PgConnectOptions, ConnectError> {
    let owner = access == Access::Owner && !settings.owner_url.is_empty();
    let url: &str = if owner { &settings.owner_url } else { &settings.url };
    let options = PgConnectOptions::from_str(url).map_err(|error| ConnectError::BadUrl(error.into()))?;
    let statement_ms = settings.statement_timeout.as_millis();
    // A lock is waited for less long than a statement, so that the error names the lock.
    let lock_ms = statement_ms / 3;
    Ok(options
        .application_name(access.application_name())
        .options([
            ("plan_cache_mode", "force_custom_plan".to_owned()),
            ("statement_timeout", statement_ms.to_string()),
            ("lock_timeout", lock_ms.to_string()),
            ("idle_in_transaction_session_timeout", statement_ms.to_string()),
            ("tcp_user_timeout", statement_ms.to_string()),
            ("tcp_keepalives_idle", "15".to_owned()),
            ("tcp_keepalives_interval", "5".to_owned()),
            ("tcp_keepalives_count", "3".to_owned()),
            // Compiling a plan takes longer than any statement here should.
            ("jit", "off".to_owned()),
            // What every statement here is written for (see claim.sql), whatever a role or database says.
            ("default_transaction_isolation", "read committed".to_owned()),
            ("timezone", "UTC".to_owned()),
            // No value of a row reaches the server's log.
            ("log_parameter_max_length_on_error", "0".to_owned()),
        ])
        .disable_statement_logging())
}

/// What a failure before any work means to somebody who starts a process.
pub(super) fn unreachable(error: sqlx::Error) -> ConnectError {
    match before_commit(error) {
        ScheduleError::Unavailable(source) | ScheduleError::CommitUnknown(source) => {
            ConnectError::Unreachable(source)
        }
        ScheduleError::Defect(source) => ConnectError::Refused(source),
    }
}

/// Opens a pool for one process, checks the schema, and reads the installation's secret.
///
/// # Errors
/// See [`ConnectError`]; only `Unreachable` is worth another try.
pub async fn connect(settings: &Database, access: Access) -> Result<Postgres, ConnectError> {
    let options = options(settings, access)?;
    let mut first = PgConnection::connect_with(&options).await.map_err(unreachable)?;
    check_schema(&mut first).await?;
    let server = sqlx::query_scalar(statements::CONNECTIONS).fetch_one(&mut first).await;
    let server: i32 = server.map_err(unreachable)?;
    if i64::from(settings.pool) > i64::from(server) {
        return Err(ConnectError::PoolTooLarge { pool: settings.pool, server });
    }
    let secret: Option<Vec<u8>> =
        sqlx::query_scalar(statements::INSTALLATION).fetch_optional(&mut first).await.map_err(unreachable)?;
    let secret = secret
        .and_then(|secret| secret.try_into().ok())
        .ok_or_else(|| ConnectError::Refused("there is no installation secret of 32 bytes".into()))?;
    // A failed goodbye has nothing to say: the work is done.
    drop(first.close().await);
    let pool = PgPoolOptions::new()
        .max_connections(settings.pool)
        .acquire_timeout(settings.acquire_timeout)
        // A ping before each use would be a round trip more; only what has rested is asked.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for < RESTED {
                    return Ok(true);
                }
                Ok(connection.ping().await.is_ok())
            })
        })
        .after_connect(move |connection, _| {
            Box::pin(async move {
                if let Some(role) = access.set_role() {
                    sqlx::query(role).execute(&mut *connection).await?;
                }
                sqlx::query(statements::PIN_COMMIT).execute(connection).await?;
                Ok(())
            })
        })
        .connect_with(options)
        .await
        .map_err(unreachable)?;
    Ok(Postgres::new(pool, secret))
}
