//! Answers that came after their claim had ended: our own earlier COMMIT, or a zombie's evidence.
//!
//! Evidence never touches the status (rule R2). A decline or a proof that nothing was sent answers one
//! send of its own epoch; a charge answers none, pages, and has an UNKNOWN payment asked again. It leaves its
//! name, and what it took where that is not what was asked, by which people can give it back: it may be a second
//! charge beside the one that completed the payment. What a
//! claim brought back that this database does not know has no attempt to be kept with: it is counted and
//! logged, for a commit was lost (rule R17).

use super::outcome_columns::{charge_named, declined_destination};
use super::proof::{Answered, How, SettledAs};
use super::settle::Outcome;
use super::{row, statements, words};
use crate::domain::bucket::shard;
use crate::domain::effect::{Evidence, fenced};
use crate::domain::intent::Secret;
use crate::domain::invariants::Invariant;
use crate::domain::state::Status;
use crate::domain::verdict::Verdict;
use crate::platform::violation;
use chrono::NaiveDate;
use sqlx::{Error, PgConnection, Row};
use std::collections::HashMap;
use uuid::Uuid;

/// What became of claims that are not current, each with its place in the batch.
pub(super) async fn fence_off(
    transaction: &mut PgConnection,
    secret: &Secret,
    day: NaiveDate,
    batch: &[Outcome],
    late: Vec<usize>,
) -> Result<Vec<(usize, SettledAs)>, Error> {
    if late.is_empty() {
        return Ok(Vec::new());
    }
    let known = known(transaction, day, batch, &late).await?;
    let mut results = Vec::with_capacity(late.len());
    for place in late {
        let (answered, _) = &batch[place];
        let result = match known.get(&answered.claimed().claim_id().0) {
            Some(Some(status)) => SettledAs::Written(*status),
            Some(None) => {
                keep_evidence(transaction, secret, day, answered).await?;
                SettledAs::Fenced
            }
            None => {
                claim_is_lost(answered);
                SettledAs::Fenced
            }
        };
        results.push((place, result));
    }
    Ok(results)
}

/// The claims of these that were made here, with the state that each entered itself: our COMMIT got
/// through and its answer was lost.
async fn known(
    transaction: &mut PgConnection,
    day: NaiveDate,
    batch: &[Outcome],
    late: &[usize],
) -> Result<HashMap<Uuid, Option<Status>>, Error> {
    let of = |place: &usize| batch[*place].0.claimed();
    let ids: Vec<Uuid> = late.iter().map(|place| of(place).payment().id.as_uuid()).collect();
    let claims: Vec<Uuid> = late.iter().map(|place| of(place).claim_id().0).collect();
    let rows = sqlx::query(statements::SETTLED_ATTEMPTS)
        .bind(day)
        .bind(ids)
        .bind(claims)
        .fetch_all(transaction)
        .await?;
    let mut known = HashMap::new();
    for found in &rows {
        let fenced: bool = found.try_get("fenced")?;
        let settled_to: Option<String> = found.try_get("settled_to")?;
        let entered = settled_to.as_deref().and_then(Status::from_text).filter(|_| !fenced);
        known.insert(found.try_get("claim_id")?, entered);
    }
    Ok(known)
}

/// The claim's COMMIT was acknowledged, or nothing would have been asked under it; and it is not here.
fn claim_is_lost(answered: &Answered) {
    let (payment, answer) = (answered.claimed().payment().id, answered.answer());
    let verdict = answer.verdict.as_str();
    match answer.how {
        How::Sent => {
            let what =
                format!("a request was sent under a claim that the database lost; the answer: {verdict}");
            violation::seen(Invariant::M2, Some(payment), &what);
        }
        How::LookedUp | How::Voided | How::NotStarted => {
            tracing::error!(%payment, verdict, "the database lost a claim that it had committed");
        }
    }
}

async fn keep_evidence(
    transaction: &mut PgConnection,
    secret: &Secret,
    day: NaiveDate,
    answered: &Answered,
) -> Result<(), Error> {
    let claimed = answered.claimed();
    let answer = answered.answer();
    let payment = claimed.payment();
    // Weighed as if the row were still in the attempt's epoch; the statement compares the two.
    let evidence = fenced(&answer.verdict, payment.epoch, payment.epoch);
    if evidence == Evidence::Charged {
        tracing::error!(payment = %payment.id, "a fenced answer says charged; the payment is asked again");
    }
    let named = charge_named(answered);
    let amount = named.as_ref().and_then(|(_, amount)| *amount);
    let kept = sqlx::query(statements::FENCE)
        .bind(day)
        .bind(payment.id.as_uuid())
        .bind(claimed.claim_id().0)
        .bind(answer.verdict.as_str())
        .bind(words::how(answer.how))
        .bind(words::code(&answer.verdict))
        .bind(words::http_status(answer))
        .bind(words::took_ms(answer))
        .bind(words::note(answer))
        .bind(words::detail(answer, None))
        .bind(evidence == Evidence::AnswersOne)
        .bind(evidence == Evidence::Charged)
        .bind(shard(payment.id))
        .bind(declined_destination(secret, answered))
        .bind(named.map(|(reference, _)| reference))
        .bind(amount.map(|amount| amount.minor.get()))
        .bind(amount.map(|amount| amount.currency.as_str()))
        .fetch_optional(transaction)
        .await?;
    if let (Verdict::Charged { reference, .. }, Some(kept)) = (&answer.verdict, kept) {
        let status = row::status(&kept, "status")?;
        let known: Option<String> = kept.try_get("gateway_ref")?;
        if let Some(broken) = charged_although(status, known.is_some_and(|known| known != *reference)) {
            let what = format!("a late answer says charged, and the payment is {}", status.as_str());
            violation::seen(broken, Some(payment.id), &what);
        }
    }
    Ok(())
}

/// The promise that a charge breaks which turns up late. Where the outcome is open or people look, the
/// charge is what they ask for; under the reference that completed the payment, it is the same charge.
fn charged_although(status: Status, is_another_charge: bool) -> Option<Invariant> {
    match status {
        // Clean: it could have been cancelled.
        Status::Pending => Some(Invariant::M7),
        Status::Failed | Status::Cancelled => Some(Invariant::M8),
        Status::Completed | Status::Refunded => is_another_charge.then_some(Invariant::M1),
        Status::Processing | Status::Unknown | Status::Parked => None,
    }
}
