//! The operators' audit: who did what to what, and why; written in the transaction of the act itself.
//!
//! **Promise**: an act is on record exactly if it happened. The table refuses every change. Acts on payments are
//! in the payment's own history as well; this is where those on gateways, keys and approvals are, and where one
//! person's acts can be found.

use super::failure::{before_commit, whole};
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::ids::Operator;
use chrono::{DateTime, Utc};
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};

/// One act, to be recorded.
#[derive(Debug, Clone)]
pub struct Act {
    /// Who.
    pub operator: Operator,
    /// What, as `pause_gateway`: 3 to 40 of `a-z` and `_`.
    pub act: &'static str,
    /// To what: a payment's id, a gateway's name and so on.
    pub subject: String,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// What else is worth keeping: a JSON object, no secrets, no payee.
    pub detail: serde_json::Value,
}

/// One act on record.
#[derive(Debug, Clone, PartialEq)]
pub struct ActEntry {
    /// Its number; grows.
    pub id: i64,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// Who.
    pub operator: Operator,
    /// What.
    pub act: String,
    /// To what.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// What else was kept.
    pub detail: serde_json::Value,
}

/// Which acts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActFilter {
    /// To this only.
    pub subject: Option<String>,
    /// By this person only.
    pub operator: Option<String>,
    /// Older than the act of this number.
    pub before: Option<i64>,
}

impl Postgres {
    /// At most `limit` acts, the newest first.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn acts(&self, filter: &ActFilter, limit: u32) -> Result<Vec<ActEntry>, ScheduleError> {
        whole(list(self.pool().clone(), filter.clone(), limit)).await
    }
}

/// Records an act; not done before the caller's COMMIT.
pub(super) async fn record(transaction: &mut PgConnection, act: &Act) -> Result<(), Error> {
    sqlx::query(statements::RECORD_ACT)
        .bind(&act.operator.0)
        .bind(act.act)
        .bind(&act.subject)
        .bind(&act.reason)
        .bind(Json(&act.detail))
        .execute(transaction)
        .await?;
    Ok(())
}

async fn list(pool: PgPool, filter: ActFilter, limit: u32) -> Result<Vec<ActEntry>, ScheduleError> {
    let rows = sqlx::query(statements::LIST_ACTS)
        .bind(filter.subject)
        .bind(filter.operator)
        .bind(filter.before)
        .bind(i64::from(limit))
        .fetch_all(&pool)
        .await
        .map_err(before_commit)?;
    let entry = |row: &sqlx::postgres::PgRow| {
        let detail: Json<serde_json::Value> = row.try_get("detail")?;
        Ok(ActEntry {
            id: row.try_get("id")?,
            at: row.try_get("at")?,
            operator: Operator(row.try_get("operator")?),
            act: row.try_get("act")?,
            subject: row.try_get("subject")?,
            reason: row.try_get("reason")?,
            detail: detail.0,
        })
    };
    rows.iter().map(entry).collect::<Result<_, Error>>().map_err(before_commit)
}
