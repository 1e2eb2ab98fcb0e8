//! Parks one row whose data the database refuses, so that the rest of its batch goes on.
//!
//! What was learned under the claim is not lost with it: the verdict and the gateway's reference go to
//! the parking record and to history, since a human decides by them.

use super::statements;
use crate::domain::ids::{ClaimId, PaymentId};
use sqlx::{Error, PgConnection};

/// What is parked, and what is known of it.
#[derive(Debug)]
pub(super) struct Poisoned<'a> {
    pub(super) payment: PaymentId,
    /// The claim under which it was refused; `None` for a row that could not be claimed.
    pub(super) claim_id: Option<ClaimId>,
    pub(super) by: &'a str,
    pub(super) error: &'a Error,
    /// The attempt's verdict, as stored.
    pub(super) verdict: Option<&'static str>,
    /// The gateway's reference, if it charged.
    pub(super) reference: Option<&'a str>,
}

impl<'a> Poisoned<'a> {
    /// A row that could not even be claimed.
    pub(super) fn unclaimed(payment: PaymentId, by: &'a str, error: &'a Error) -> Self {
        Self { payment, claim_id: None, by, error, verdict: None, reference: None }
    }
}

/// Moves it to PARKED; not done before the caller's COMMIT.
pub(super) async fn poison(transaction: &mut PgConnection, poisoned: &Poisoned<'_>) -> Result<(), Error> {
    let Poisoned { payment, claim_id, by, error, verdict, reference } = poisoned;
    // Postgres's own message can quote values; the code and the constraint cannot.
    let database = error.as_database_error();
    let sqlstate = database.and_then(|db| db.code()).map(|code| code.into_owned());
    let constraint = database.and_then(|db| db.constraint());
    tracing::error!(%payment, ?sqlstate, constraint, "a row that the database refuses is parked");
    let detail = serde_json::json!({
        "sqlstate": sqlstate,
        "constraint": constraint,
        "verdict": verdict,
        "reference": reference,
    });
    sqlx::query(statements::POISON)
        .bind(payment.due_day())
        .bind(payment.as_uuid())
        .bind(claim_id.map(|claim| claim.0))
        .bind(by)
        .bind(detail.to_string())
        .bind(verdict)
        .execute(transaction)
        .await?;
    Ok(())
}
