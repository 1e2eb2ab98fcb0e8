//! What is the client's own in a payment, shown to a person by an act of its own.
//!
//! **Promise.** Nothing is shown that is not on record: the act is committed before anything is answered. Lists and
//! records of people hold none of it. If this dies between the two, somebody is on record who saw nothing.

use super::acts::{self, Act};
use super::failure::transaction;
use super::key_acts::By;
use super::port::ScheduleError;
use super::{Postgres, row, statements};
use crate::domain::ids::PaymentId;
use secrecy::SecretString;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, Row};
use std::collections::BTreeMap;

/// What is shown.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Destination reference.
    pub payee: SecretString,
    /// Free text.
    pub description: Option<String>,
    /// String pairs.
    pub metadata: BTreeMap<String, String>,
}

impl Postgres {
    /// Records that this person looks, and why; then shows it. `None`: no such payment, and nothing is recorded.
    ///
    /// # Errors
    /// Any; repeating it records a second look.
    pub async fn show_secrets(&self, id: PaymentId, by: By) -> Result<Option<Secrets>, ScheduleError> {
        transaction(self.pool(), move |one| Box::pin(async move { show(one, id, by).await })).await
    }
}

async fn show(transaction: &mut PgConnection, id: PaymentId, by: By) -> Result<Option<Secrets>, Error> {
    let found = sqlx::query(statements::PAYMENT_SECRETS)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .fetch_optional(&mut *transaction)
        .await?;
    let Some(found) = found else { return Ok(None) };
    let metadata: Json<BTreeMap<String, String>> = found.try_get("metadata")?;
    let act = Act {
        operator: by.operator,
        act: "show_payee",
        subject: id.to_string(),
        reason: by.reason,
        detail: serde_json::json!({}),
    };
    acts::record(transaction, &act).await?;
    Ok(Some(Secrets {
        payee: row::payee(&found)?,
        description: found.try_get("description")?,
        metadata: metadata.0,
    }))
}
