//! Rule R14: the lease of a claim, granted anew while its call is in flight.
//!
//! Under the claim's own fence and name alone, so a worker that lost its claim learns it here and prolongs
//! nobody else's. No history is written: nothing about the payment has changed. If this dies here, the lease
//! ends where it was, and the next renewal, or the reaper, finds it so.

use super::days::by_day;
use super::failure::{before_commit, commit};
use super::length::interval;
use super::port::{OpenClaim, Renewed, ScheduleError};
use super::statements;
use sqlx::PgPool;
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

pub(super) async fn renew(
    pool: PgPool,
    claims: Vec<OpenClaim>,
    length: Duration,
) -> Result<Vec<Renewed>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let mut held: HashSet<Uuid> = HashSet::with_capacity(claims.len());
    for (day, places) in by_day(&claims, |claim| claim.payment) {
        let ids: Vec<Uuid> = places.iter().map(|place| claims[*place].payment.as_uuid()).collect();
        let fences: Vec<i64> = places.iter().map(|place| claims[*place].fence.0).collect();
        let names: Vec<Uuid> = places.iter().map(|place| claims[*place].claim_id.0).collect();
        let renewed: Vec<Uuid> = sqlx::query_scalar(statements::RENEW)
            .bind(day)
            .bind(ids)
            .bind(fences)
            .bind(names)
            .bind(interval(length))
            .fetch_all(&mut *transaction)
            .await
            .map_err(before_commit)?;
        held.extend(renewed);
    }
    commit(transaction).await?;
    let answer = |claim: &OpenClaim| {
        if held.contains(&claim.claim_id.0) { Renewed::Held } else { Renewed::Lost }
    };
    Ok(claims.iter().map(answer).collect())
}
