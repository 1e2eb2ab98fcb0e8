//! A person's word on one parked payment: released, or ended.
//!
//! **Promises.** One function of the owner does all of it on the locked row: guard, move, history, the next
//! notice, the operators' audit (`redrive_parked()`, `resolve_parked()`). Of two consoles at once one wins, and
//! the other is told what it lost to. If COMMIT's answer is lost, whoever repeats is told `NotParked`, and the
//! payment's history says who did it.
//!
//! If this dies here, nothing happened, or all of it did.

use super::failure::transaction;
use super::port::ScheduleError;
use super::row::unfit;
use super::{Postgres, statements};
use crate::domain::bucket::shard;
use crate::domain::ids::{Operator, PaymentId};
use crate::domain::money::Money;
use crate::domain::parked::{KeyWanted, WhyNot};
use crate::domain::state::Status;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, Row};
use uuid::Uuid;

/// A release, as it is ordered.
#[derive(Debug, Clone)]
pub struct Redrive {
    /// Which payment.
    pub payment: PaymentId,
    /// Under which key.
    pub key: KeyWanted,
    /// Who asks for it.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// The version that they saw; `None`: as it stands.
    pub version: Option<i32>,
    /// The approval of a second person.
    pub approval: Option<Uuid>,
}

/// What a person says became of a payment.
#[derive(Debug, Clone)]
pub struct Resolve {
    /// Which payment.
    pub payment: PaymentId,
    /// The gateway's reference and what it took; `None`: it was not charged and never will be.
    pub charged: Option<(String, Option<Money>)>,
    /// Who says so.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// What they saw, as it is kept with the payment: a JSON object, no secrets.
    pub evidence: Value,
    /// The version that they saw; `None`: as it stands.
    pub version: Option<i32>,
}

/// What became of an act.
pub type Released = Result<Status, WhyNot>;

impl Postgres {
    /// Releases one parked payment, or says why not.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn redrive(&self, order: &Redrive, retryable: &[String]) -> Result<Released, ScheduleError> {
        let (order, retryable) = (order.clone(), retryable.to_vec());
        transaction(self.pool(), |one| Box::pin(async move { redrive_within(one, &order, &retryable).await }))
            .await
    }

    /// Ends one parked payment, or says why not.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn resolve(&self, order: &Resolve) -> Result<Released, ScheduleError> {
        let order = order.clone();
        transaction(self.pool(), |one| Box::pin(async move { resolve_within(one, &order).await })).await
    }
}

/// Releases it; not done before the caller's COMMIT. A refusal has written nothing.
pub(super) async fn redrive_within(
    transaction: &mut PgConnection,
    order: &Redrive,
    retryable: &[String],
) -> Result<Released, Error> {
    let answer = sqlx::query(statements::REDRIVE)
        .bind(order.payment.due_day())
        .bind(order.payment.as_uuid())
        .bind(shard(order.payment))
        .bind(order.key == KeyWanted::New)
        .bind(retryable)
        .bind(&order.by.0)
        .bind(&order.reason)
        .bind(order.version)
        .bind(order.approval)
        .fetch_one(&mut *transaction)
        .await?;
    read(transaction, order.payment, &answer.try_get::<String, _>("answer")?).await
}

async fn resolve_within(transaction: &mut PgConnection, order: &Resolve) -> Result<Released, Error> {
    let amount = order.charged.as_ref().and_then(|(_, amount)| *amount);
    let answer = sqlx::query(statements::RESOLVE)
        .bind(order.payment.due_day())
        .bind(order.payment.as_uuid())
        .bind(order.charged.is_some())
        .bind(order.charged.as_ref().map(|(reference, _)| reference.as_str()))
        .bind(amount.map(|amount| amount.minor.get()))
        .bind(amount.map(|amount| amount.currency.as_str()))
        .bind(&order.by.0)
        .bind(&order.reason)
        .bind(Json(&order.evidence))
        .bind(order.version)
        .fetch_one(&mut *transaction)
        .await?;
    read(transaction, order.payment, &answer.try_get::<String, _>("answer")?).await
}

/// The function's answer; the state that it wrote is read in the same transaction, under its lock.
async fn read(transaction: &mut PgConnection, payment: PaymentId, answer: &str) -> Result<Released, Error> {
    if answer != "done" {
        return Ok(Err(WhyNot::from_text(answer).ok_or_else(|| unfit("answer", &answer))?));
    }
    let stands = sqlx::query(statements::STATES)
        .bind(payment.due_day())
        .bind(vec![payment.as_uuid()])
        .fetch_one(transaction)
        .await?;
    Ok(Ok(super::row::status(&stands, "status")?))
}
