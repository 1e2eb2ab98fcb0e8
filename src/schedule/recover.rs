//! Rule R3: proves or disproves claims whose COMMIT was not answered, by a write whose own is.

use super::claim::Terms;
use super::days::by_day;
use super::failure::{before_commit, commit};
use super::port::ScheduleError;
use super::proof::Claimed;
use super::{row, statements};
use crate::domain::ids::{ClaimId, PaymentId};
use sqlx::PgPool;
use uuid::Uuid;

pub(super) async fn recover(
    pool: PgPool,
    terms: Terms,
    claims: Vec<(PaymentId, ClaimId)>,
) -> Result<Vec<Claimed>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let mut ours = Vec::new();
    for (day, places) in by_day(&claims, |claim| claim.0) {
        let ids: Vec<Uuid> = places.iter().map(|place| claims[*place].0.as_uuid()).collect();
        let names: Vec<Uuid> = places.iter().map(|place| claims[*place].1.0).collect();
        let rows = sqlx::query(statements::RECOVER)
            .bind(day)
            .bind(ids)
            .bind(names)
            .bind(&terms.destinations.inner)
            .bind(&terms.destinations.outer)
            .fetch_all(&mut *transaction)
            .await
            .map_err(before_commit)?;
        for found in &rows {
            ours.push(row::claimed(found, terms.terms.asked_at).map_err(before_commit)?);
        }
    }
    commit(transaction).await?;
    Ok(ours)
}
