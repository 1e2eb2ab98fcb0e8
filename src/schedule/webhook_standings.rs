//! Endpoints of webhooks as operators see them: all clients' together, without their addresses' paths and secrets.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{Postgres, statements};
use chrono::{DateTime, Utc};
use sqlx::{Error, Row};
use uuid::Uuid;

/// One endpoint with what it is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookStanding {
    /// Its id.
    pub id: Uuid,
    /// Whose it is.
    pub actor: String,
    /// Host and port of its address.
    pub host: String,
    /// Its owner's words.
    pub description: String,
    /// Since when nothing is sent to it, and why.
    pub disabled: Option<(DateTime<Utc>, String)>,
    /// No try has succeeded since then.
    pub failing_since: Option<DateTime<Utc>>,
    /// One last did then.
    pub last_success_at: Option<DateTime<Utc>>,
    /// It is not asked before then.
    pub hold_until: Option<DateTime<Utc>>,
    /// Deliveries that wait, no further than was counted.
    pub owed: i64,
    /// When the first of them is tried, or was to be.
    pub oldest: Option<DateTime<Utc>>,
    /// Deliveries that were given up, no further than was counted.
    pub failed: i64,
}

impl Postgres {
    /// Those that need somebody first, at most `most` of them; no count goes further than `counted`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; ask again later.
    pub async fn webhook_standings(
        &self,
        most: u32,
        counted: u32,
    ) -> Result<Vec<WebhookStanding>, ScheduleError> {
        let found = sqlx::query(statements::WEBHOOK_STANDINGS).bind(i64::from(most)).bind(i64::from(counted));
        let rows = found.fetch_all(self.pool()).await.map_err(before_commit)?;
        let read = |row: &sqlx::postgres::PgRow| -> Result<WebhookStanding, Error> {
            let disabled: (Option<DateTime<Utc>>, Option<String>) =
                (row.try_get("disabled_at")?, row.try_get("disabled_reason")?);
            Ok(WebhookStanding {
                id: row.try_get("id")?,
                actor: row.try_get("actor")?,
                host: row.try_get("host")?,
                description: row.try_get("description")?,
                disabled: disabled.0.zip(disabled.1),
                failing_since: row.try_get("failing_since")?,
                last_success_at: row.try_get("last_success_at")?,
                hold_until: row.try_get("hold_until")?,
                owed: row.try_get("owed")?,
                oldest: row.try_get("oldest")?,
                failed: row.try_get("failed")?,
            })
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(before_commit)
    }
}
