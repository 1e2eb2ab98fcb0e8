//! Parks one row whose data the database refuses, so that the rest of its batch goes on.
//!
//! What was learned under the claim is not lost with it: the verdict and the gateway's reference go to
//! the parking record and to history, since a human decides by them.

use super::statements;
use crate::domain::ids::{ClaimId, PaymentId};
use crate::domain::invariants::Invariant;
use crate::platform::violation;
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
    if let Some(broken) = constraint.and_then(broken_by) {
        violation::seen(broken, Some(*payment), "the database refused a row that no rule allows");
    }
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

/// The promise that a constraint of the schema holds; `None` for one that holds no promise. Partitions
/// name their own keys, as `attempts_2026_11_29_pkey`.
fn broken_by(constraint: &str) -> Option<Invariant> {
    Some(match constraint {
        "legal_moves_only" => Invariant::H1,
        "never_early" => Invariant::M3,
        "clean_states_have_no_open_send" => Invariant::M8,
        "open_send_has_age" => Invariant::M5,
        "claim_belongs_to_processing" => Invariant::H3,
        "budget_is_kept" | "held_back_has_an_instant" => Invariant::H8,
        "day_is_the_due_day" => Invariant::H10,
        key if key.ends_with("_pkey") && key.starts_with("attempts") => Invariant::H3,
        key if key.ends_with("_pkey") && key.starts_with("payment_history") => Invariant::H1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_check_of_the_schema_holds_a_promise() {
        let schema = concat!(
            include_str!("../../migrations/202611291600_create_rules.sql"),
            include_str!("../../migrations/202611291601_create_payments.sql"),
        );
        let named = schema.split("CONSTRAINT ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        let named: Vec<&str> = named.collect();
        assert!(named.len() >= 7, "{named:?}");
        for constraint in named {
            assert!(broken_by(constraint).is_some(), "{constraint}");
        }
        assert_eq!(broken_by("attempts_2026_11_29_pkey"), Some(Invariant::H3));
        assert_eq!(broken_by("parked_pkey"), None);
    }
}
