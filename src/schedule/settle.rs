//! Rule R2: outcomes are written only under the claim that holds the row.
//!
//! A claim that is not current any more is looked up by its id first: the same outcome there means
//! that our own COMMIT got through and only its answer was lost, so repeating a settle is safe.
//! Otherwise the answer is a zombie's, kept as evidence and never as the status. If this dies here,
//! the lease runs out and the payment is asked about.

use super::claim::park;
use super::days::by_day;
use super::failure::{BatchFailure, commit};
use super::fence::fence_off;
use super::outcome_columns::Columns;
use super::poison::Poisoned;
use super::port::SettleFailed;
use super::proof::{Answered, Settled, SettledAs};
use super::{row, statements};
use crate::domain::decision::Decision;
use crate::domain::ids::Fence;
use crate::domain::intent::Secret;
use crate::domain::invariants::Invariant;
use crate::domain::state::Status;
use crate::platform::failpoints::{Point, reach};
use crate::platform::violation;
use chrono::NaiveDate;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::HashMap;
use uuid::Uuid;

/// One outcome to be written.
pub(super) type Outcome = (Answered, Decision);

pub(super) async fn settle(
    pool: PgPool,
    secret: Secret,
    batch: Vec<Outcome>,
) -> Result<Vec<Settled>, SettleFailed> {
    match write(&pool, &secret, &batch).await {
        Ok(results) => Ok(results.into_iter().map(Settled::new).collect()),
        Err(BatchFailure::BadRow(error)) => one_by_one(&pool, &secret, batch, error).await,
        Err(BatchFailure::Whole(error)) => Err(SettleFailed { batch, error }),
    }
}

/// Writes one by one, since one row of the batch cannot be written; that one is parked.
///
/// What was written before an error in the middle is found written when the whole batch comes again.
async fn one_by_one(
    pool: &PgPool,
    secret: &Secret,
    batch: Vec<Outcome>,
    error: Error,
) -> Result<Vec<Settled>, SettleFailed> {
    tracing::warn!(%error, rows = batch.len(), "a settle batch is split to find its bad row");
    let mut results = Vec::with_capacity(batch.len());
    let mut bad = Vec::new();
    for place in 0..batch.len() {
        match write(pool, secret, std::slice::from_ref(&batch[place])).await {
            Ok(written) => results.extend(written),
            Err(BatchFailure::BadRow(error)) => {
                bad.push((place, error));
                results.push(SettledAs::Written(Status::Parked));
            }
            Err(BatchFailure::Whole(error)) => return Err(SettleFailed { batch, error }),
        }
    }
    if bad.len() == batch.len() && bad.len() > 1 {
        return Err(SettleFailed { batch, error: BatchFailure::all_refused(error) });
    }
    for (place, error) in bad {
        let (answered, decision) = &batch[place];
        let poisoned = Poisoned {
            payment: answered.claimed().payment().id,
            claim_id: Some(answered.claimed().claim_id()),
            by: "schedule",
            error: &error,
            verdict: Some(answered.answer().verdict.as_str()),
            reference: decision.gateway_ref.as_deref(),
        };
        if let Err(error) = park(pool, &poisoned).await {
            return Err(SettleFailed { batch, error });
        }
    }
    Ok(results.into_iter().map(Settled::new).collect())
}

async fn write(pool: &PgPool, secret: &Secret, batch: &[Outcome]) -> Result<Vec<SettledAs>, BatchFailure> {
    let mut transaction = pool.begin().await?;
    let mut results: HashMap<usize, SettledAs> = HashMap::with_capacity(batch.len());
    for (day, places) in by_day(batch, |(answered, _)| answered.claimed().payment().id) {
        let written = written(&mut transaction, secret, day, batch, &places).await?;
        let mut late = Vec::new();
        for place in places {
            let claim = batch[place].0.claimed().claim_id().0;
            match written.get(&claim) {
                Some(status) => drop(results.insert(place, SettledAs::Written(*status))),
                None => late.push(place),
            }
        }
        for (place, result) in fence_off(&mut transaction, secret, day, batch, late).await? {
            results.insert(place, result);
        }
    }
    reach(Point::MidSettle);
    commit(transaction).await.map_err(BatchFailure::Whole)?;
    // Every place was either written or fenced off.
    Ok((0..batch.len()).filter_map(|place| results.remove(&place)).collect())
}

/// Writes one day's outcomes; answers the new state by claim id for those that were current.
async fn written(
    transaction: &mut PgConnection,
    secret: &Secret,
    day: NaiveDate,
    batch: &[Outcome],
    places: &[usize],
) -> Result<HashMap<Uuid, Status>, Error> {
    let columns = Columns::of(secret, places.iter().map(|place| &batch[*place]));
    let rows = columns.bind(sqlx::query(statements::SETTLE).bind(day)).fetch_all(transaction).await?;
    let mut written = HashMap::with_capacity(rows.len());
    for found in &rows {
        let claim: Uuid = found.try_get("claim_id")?;
        let asked = places.iter().map(|place| batch[*place].0.claimed()).find(|it| it.claim_id().0 == claim);
        let payment = asked.map(|claimed| claimed.payment());
        if found.try_get("reference_is_anothers")? {
            let what = "a gateway reference already belongs to another payment: one charge for two";
            violation::seen(Invariant::M9, payment.map(|payment| payment.id), what);
        }
        if found.try_get("is_second_charge")? {
            let what = "a late answer named another charge than the one that is written now";
            violation::seen(Invariant::M1, payment.map(|payment| payment.id), what);
        }
        let twice = written.insert(claim, row::status(found, "status")?).is_some();
        let fence: i64 = found.try_get("fence")?;
        if is_stale(twice, payment.map(|payment| payment.fence), Fence(fence)) {
            let what = "an outcome was written that its claim did not hold the row for";
            violation::seen(Invariant::H4, payment.map(|payment| payment.id), what);
        }
    }
    Ok(written)
}

/// Was something written that rule R2 forbids: under no claim of the batch, under another fence than the
/// claim's, or two times under one claim?
fn is_stale(twice: bool, claimed: Option<Fence>, written: Fence) -> bool {
    twice || claimed != Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_under_another_fence_or_claim_is_stale() {
        assert!(!is_stale(false, Some(Fence(3)), Fence(3)));
        assert!(is_stale(false, Some(Fence(3)), Fence(4)));
        assert!(is_stale(false, None, Fence(3)));
        assert!(is_stale(true, Some(Fence(3)), Fence(3)));
    }
}
