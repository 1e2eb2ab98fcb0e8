//! Connections: who we are to Postgres, how long anything may take, and whether its schema is ours.
//!
//! **Promises.** No statement, lock or idle transaction waits for ever; each connection has the least
//! privileges of its work, if the login may take that role; a process never works on a schema that it
//! does not know. **Why custom plans**: with hundreds of partitions a generic plan locks all of them.
//!
//! TCP keepalives and `tcp_user_timeout` are set on the server's side of the connection by option;
//! the driver offers neither, so a Unix socket or a near proxy is the better road.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{migrate, statements};
use crate::domain::intent::Secret;
use crate::platform::config::Database;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Error, PgPool};
use std::str::FromStr;
use std::time::Duration;

/// A connection idle for longer may have lost its server.
const RESTED: Duration = Duration::from_secs(1);

/// What a process's connections are for; each has its own rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Migrations, keys, an operator's word: the owner's URL and rights.
    Owner,
    /// Intake: creates, reads, cancels.
    Api,
    /// Worker, relay, keeper: claims, settles, notices.
    Worker,
}

impl Work {
    fn role(self) -> Option<&'static str> {
        match self {
            Self::Owner => None,
            Self::Api => Some("punctual_api"),
            Self::Worker => Some("punctual_worker"),
        }
    }

    fn application_name(self) -> &'static str {
        match self {
            Self::Owner => "punctual owner",
            Self::Api => "punctual api",
            Self::Worker => "punctual worker",
        }
    }
}

/// Why the schedule cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be read, or names no user or database. It is not repeated here: it is secret.
    #[error("database.url is not a Postgres URL with user and database")]
    BadUrl,
    /// Nobody answers, or refuses us; try again.
    #[error("the database is not reachable: {0}")]
    Unreachable(#[source] ScheduleError),
    /// Older than this binary: run `migrate run`.
    #[error("the database's schema is older than this binary: it lacks migration {missing}; run `punctual migrate run`")]
    SchemaTooOld {
        /// The first version that is missing.
        missing: i64,
    },
    /// Newer than this binary: update the binary.
    #[error("the database's schema is newer than this binary: it has migration {unknown}, which this binary does not know")]
    SchemaTooNew {
        /// The first version that is unknown.
        unknown: i64,
    },
    /// A migration was changed after it was run, or ended half-way.
    #[error("migration {version} of the database is not the one of this binary, or did not finish")]
    SchemaDiffers {
        /// Which.
        version: i64,
    },
    /// There is no installation row, or its secret is not 32 bytes.
    #[error("the database has no installation secret")]
    NoSecret,
}

/// The options of one connection.
pub(super) fn options(settings: &Database, work: Work) -> Result<PgConnectOptions, ConnectError> {
    let owner = work == Work::Owner && !settings.owner_url.is_empty();
    let url: &str = if owner { &settings.owner_url } else { &settings.url };
    let options = PgConnectOptions::from_str(url).map_err(|_| ConnectError::BadUrl)?;
    let statement_ms = settings.statement_timeout.as_millis();
    // A lock is waited for less long than a statement, so that the error names the lock.
    let lock_ms = statement_ms / 3;
    Ok(options
        .application_name(work.application_name())
        .options([
            ("plan_cache_mode", "force_custom_plan".to_owned()),
            ("statement_timeout", statement_ms.to_string()),
            ("lock_timeout", lock_ms.to_string()),
            ("idle_in_transaction_session_timeout", statement_ms.to_string()),
            ("tcp_user_timeout", statement_ms.to_string()),
            ("tcp_keepalives_idle", "15".to_owned()),
            ("tcp_keepalives_interval", "5".to_owned()),
            ("tcp_keepalives_count", "3".to_owned()),
            ("jit", "off".to_owned()),
        ])
        // Values of statements never reach our logs.
        .disable_statement_logging())
}

/// Opens a pool, checks the schema, and reads the installation's secret.
pub(super) async fn open(settings: &Database, work: Work) -> Result<(PgPool, Secret), ConnectError> {
    let unreachable = |error| ConnectError::Unreachable(before_commit(error));
    let options = options(settings, work)?;
    let pool = PgPoolOptions::new()
        .max_connections(settings.pool)
        .acquire_timeout(settings.acquire_timeout)
        // A ping before each use would be a round trip more; only what has rested is asked.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > RESTED { connection.ping().await.map(|()| true).or(Ok(false)) } else { Ok(true) }
            })
        })
        .after_connect(move |connection, _| {
            Box::pin(async move {
                if let Some(role) = work.role() {
                    sqlx::query(statements::ASSUME_ROLE).bind(role).fetch_optional(connection).await?;
                }
                Ok(())
            })
        })
        .connect_with(options)
        .await
        .map_err(unreachable)?;
    check_schema(&pool).await?;
    let secret: Option<Vec<u8>> =
        sqlx::query_scalar(statements::INSTALLATION).fetch_optional(&pool).await.map_err(unreachable)?;
    let secret = secret.and_then(|secret| secret.try_into().ok()).ok_or(ConnectError::NoSecret)?;
    Ok((pool, secret))
}

async fn check_schema(pool: &PgPool) -> Result<(), ConnectError> {
    let applied: Result<Vec<(i64, bool)>, Error> =
        sqlx::query_as(statements::APPLIED_MIGRATIONS).fetch_all(pool).await;
    let applied = match applied {
        Ok(applied) => applied,
        // No such table: never migrated.
        Err(error) if error.as_database_error().and_then(|db| db.code()).as_deref() == Some("42P01") => {
            Vec::new()
        }
        Err(error) => return Err(ConnectError::Unreachable(before_commit(error))),
    };
    migrate::compare(&applied)
}
