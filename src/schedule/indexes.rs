//! Indexes of big partitioned tables, built beside the writes of a live installation.
//!
//! A migration is a transaction, and an index that is built in one keeps every writer of its table out until it commits:
//! a month of partitions would be minutes without a claim. So a migration makes the index of the parent alone (`ON
//! ONLY`, at once), partitions that are made later have it from their beginning, and those that were there get it
//! here: one after the other, `CONCURRENTLY`, which no transaction may do. The parent's index is valid when the last is
//! attached; until then what reads by it is slower, and nothing is wrong.
//!
//! **If this dies here**, a partition has none or an invalid one; the next run drops what is invalid and goes on.

use super::connect::{ConnectError, unreachable};
use super::statements;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};

/// Each index that partitions lack, and how many of them; changes nothing.
pub(super) async fn unbuilt(connection: &mut PgConnection) -> Result<Vec<(String, i64)>, ConnectError> {
    sqlx::query_as(statements::UNBUILT_INDEXES).fetch_all(connection).await.map_err(unreachable)
}

/// Builds what is missing; answers how many partitions got an index.
pub(super) async fn build(connection: &mut PgConnection) -> Result<u32, ConnectError> {
    let mut built = 0;
    loop {
        let next: Option<Vec<String>> = sqlx::query_scalar(statements::NEXT_INDEX)
            .fetch_optional(&mut *connection)
            .await
            .map_err(unreachable)?;
        let Some(commands) = next else { return Ok(built) };
        for command in commands {
            // Written by the database itself from its catalogue, each name quoted by it.
            connection.execute(AssertSqlSafe(command)).await.map_err(unreachable)?;
        }
        built += 1;
    }
}
