//! Many parked payments released by one act: previewed, started, stopped, and worked off at a rate.
//!
//! **Promises.** Each payment's own guard decides; what one person may not release is counted and skipped. A
//! batch is one transaction: payments, counts and the place in the list commit together, so a restart goes on
//! behind the last commit, and no payment is released twice by one act. Whoever works on it holds its row, so two
//! keepers never work on one; the rate is the row's, whoever works. What is parked after it was created, also
//! again, is not its business.
//!
//! If this dies in a batch, that batch did not happen. After [`BulkSwitched::Now`] of a stop nothing follows.

use super::acts::{self, Act};
use super::failure::{before_commit, is_bad_data, transaction};
use super::parked::ParkedFilter;
use super::port::ScheduleError;
use super::release::{Redrive, Released, redrive_within};
use super::{Postgres, row, statements};
use crate::domain::ids::{ActorId, GatewayName, Operator, PaymentId};
use crate::domain::parked::{KeyWanted, WhyNot};
use crate::domain::texts::texts;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Connection, Error, PgConnection, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Counted for a payment that was released.
const REDRIVEN: &str = "redriven";
/// Counted for a payment whose row the database refuses.
const FAILED: &str = "failed";
/// How long it waits for a database that is not released.
const QUARANTINE_PAUSE_MS: i64 = 10_000;

/// A bulk re-drive, as it is asked for.
#[derive(Debug, Clone)]
pub struct NewBulk {
    /// Random.
    pub id: Uuid,
    /// By whom.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// Of which payments.
    pub filter: ParkedFilter,
    /// Payments a second, 1 to 500.
    pub rate_per_s: i32,
}

/// What a bulk re-drive would look at, counted when it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Payments.
    pub count: i64,
    /// Payments by the reason for which they are parked.
    pub by_reason: BTreeMap<String, i64>,
    /// Minor units by currency.
    pub amounts: BTreeMap<String, i64>,
    /// Those that one person may not release: skipped.
    pub needs_approval: i64,
}

texts! { BulkStatus, "Where one stands.":
    Stopped = "stopped": "Not started, or stopped by a person.",
    Running = "running": "At work.",
    Done = "done": "Every payment of it was looked at.",
}

/// One bulk re-drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Bulk {
    /// Its id.
    pub id: Uuid,
    /// By whom.
    pub by: Operator,
    /// Why.
    pub reason: String,
    /// Of which payments.
    pub filter: ParkedFilter,
    /// Payments a second.
    pub rate_per_s: i32,
    /// Where it stands.
    pub status: BulkStatus,
    /// What it was made for.
    pub preview: Preview,
    /// By the database's clock; what was parked later is not its business.
    pub created_at: DateTime<Utc>,
    /// When it was first started.
    pub started_at: Option<DateTime<Utc>>,
    /// When it was done.
    pub finished_at: Option<DateTime<Utc>>,
    /// Payments by what came of them: `redriven`, `needs_approval`, or why not.
    pub outcomes: BTreeMap<String, i64>,
    passed: Uuid,
}

/// What became of a start or a stop.
#[derive(Debug, Clone, PartialEq)]
pub enum BulkSwitched {
    /// Done by this call.
    Now(Bulk),
    /// It was so before.
    Already(Bulk),
    /// It is done: there is nothing to start or stop.
    Done(Bulk),
    /// There is none of this id.
    NotFound,
}

/// What decides which payments one person may release.
#[derive(Debug, Clone)]
pub struct BulkTerms {
    /// Codes of declines after which something may be sent again.
    pub retryable_codes: Vec<String>,
    /// The largest amount, in minor units.
    pub approve_above_minor: i64,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkStep {
    /// There was nothing to do.
    Nothing,
    /// A batch was worked off.
    Batch {
        /// Payments released.
        redriven: i64,
        /// Payments looked at and left.
        left: i64,
    },
}

impl Postgres {
    /// Makes a bulk re-drive, stopped, with its preview.
    ///
    /// # Errors
    /// `CommitUnknown`: make another one; this one stays stopped.
    pub async fn create_bulk(&self, new: &NewBulk, approve_above_minor: i64) -> Result<Bulk, ScheduleError> {
        let new = new.clone();
        transaction(self.pool(), move |one| {
            Box::pin(async move { create_within(one, &new, approve_above_minor).await })
        })
        .await
    }

    /// One bulk re-drive.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn bulk(&self, id: Uuid) -> Result<Option<Bulk>, ScheduleError> {
        let mut connection = self.pool().acquire().await.map_err(before_commit)?;
        find(&mut connection, id).await.map_err(before_commit)
    }

    /// Starts ([`BulkStatus::Running`]) or stops it.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn switch_bulk(
        &self,
        id: Uuid,
        to: BulkStatus,
        by: &Operator,
        reason: &str,
    ) -> Result<BulkSwitched, ScheduleError> {
        let (by, reason) = (by.clone(), reason.to_owned());
        transaction(self.pool(), move |one| {
            Box::pin(async move { switch_within(one, id, to, &by, &reason).await })
        })
        .await
    }

    /// Works off one batch of whichever bulk re-drive is next, at most a second's worth.
    ///
    /// # Errors
    /// Any; nothing of the batch happened, or all of it.
    pub async fn step_bulk(&self, terms: &BulkTerms) -> Result<BulkStep, ScheduleError> {
        let terms = terms.clone();
        transaction(self.pool(), |one| Box::pin(async move { step_within(one, &terms).await })).await
    }
}

async fn create_within(
    transaction: &mut PgConnection,
    new: &NewBulk,
    approve_above_minor: i64,
) -> Result<Bulk, Error> {
    let now: DateTime<Utc> =
        sqlx::query_scalar(statements::DATABASE_NOW).fetch_one(&mut *transaction).await?;
    let (first, end) = new.filter.ids();
    let counted = sqlx::query(statements::BULK_PREVIEW)
        .bind(first)
        .bind(end)
        .bind(new.filter.reason.map(|reason| reason.as_str()))
        .bind(new.filter.gateway.as_ref().map(|GatewayName(name)| name))
        .bind(new.filter.actor.map(|ActorId(id)| id))
        .bind(now)
        .bind(approve_above_minor)
        .fetch_all(&mut *transaction)
        .await?;
    let preview = preview(&counted)?;
    let made = sqlx::query(statements::BULK_CREATE)
        .bind(new.id)
        .bind(&new.by.0)
        .bind(&new.reason)
        .bind(Json(&new.filter))
        .bind(new.rate_per_s)
        .bind(Json(&preview))
        .bind(now)
        .fetch_one(&mut *transaction)
        .await?;
    let detail = json!({"filter": new.filter, "count": preview.count, "ratePerS": new.rate_per_s});
    record(transaction, "create_bulk_redrive", new.id, &new.by, &new.reason, detail).await?;
    bulk(&made)
}

fn preview(counted: &[PgRow]) -> Result<Preview, Error> {
    let mut preview = Preview::default();
    for row in counted {
        let count: i64 = row.try_get("count")?;
        preview.count += count;
        preview.needs_approval += row.try_get::<i64, _>("needs_approval")?;
        *preview.by_reason.entry(row.try_get("reason")?).or_default() += count;
        let currency: Option<String> = row.try_get("currency")?;
        let amount: Option<i64> = row.try_get("amount_minor")?;
        if let (Some(currency), Some(amount)) = (currency, amount) {
            *preview.amounts.entry(currency).or_default() += amount;
        }
    }
    Ok(preview)
}

async fn find(connection: &mut PgConnection, id: Uuid) -> Result<Option<Bulk>, Error> {
    let found = sqlx::query(statements::BULK_FIND).bind(id).fetch_optional(connection).await?;
    found.as_ref().map(bulk).transpose()
}

async fn switch_within(
    transaction: &mut PgConnection,
    id: Uuid,
    to: BulkStatus,
    by: &Operator,
    reason: &str,
) -> Result<BulkSwitched, Error> {
    let switched = sqlx::query(statements::BULK_SWITCH)
        .bind(id)
        .bind(to.as_str())
        .fetch_optional(&mut *transaction)
        .await?;
    let Some(stands) = find(&mut *transaction, id).await? else { return Ok(BulkSwitched::NotFound) };
    if switched.is_none() {
        let done = stands.status == BulkStatus::Done;
        return Ok(if done { BulkSwitched::Done(stands) } else { BulkSwitched::Already(stands) });
    }
    let act = match to {
        BulkStatus::Running => "start_bulk_redrive",
        BulkStatus::Stopped | BulkStatus::Done => "stop_bulk_redrive",
    };
    record(transaction, act, id, by, reason, json!({})).await?;
    Ok(BulkSwitched::Now(stands))
}

async fn record(
    transaction: &mut PgConnection,
    act: &'static str,
    id: Uuid,
    by: &Operator,
    reason: &str,
    detail: serde_json::Value,
) -> Result<(), Error> {
    let (operator, subject, reason) = (by.clone(), id.to_string(), reason.to_owned());
    acts::record(transaction, &Act { operator, act, subject, reason, detail }).await
}

async fn step_within(transaction: &mut PgConnection, terms: &BulkTerms) -> Result<BulkStep, Error> {
    let taken = sqlx::query(statements::BULK_TAKE).fetch_optional(&mut *transaction).await?;
    let Some(taken) = taken else { return Ok(BulkStep::Nothing) };
    let mut work = bulk(&taken)?;
    let candidates = candidates(transaction, &work).await?;
    let mut is_done = i64::try_from(candidates.len()).is_ok_and(|count| count < i64::from(work.rate_per_s));
    let (mut redriven, mut left, mut quarantined) = (0, 0, false);
    for (payment, amount) in candidates {
        let is_one_persons = amount.is_some_and(|amount| amount <= terms.approve_above_minor);
        let outcome = if is_one_persons {
            one(transaction, &work, payment, terms).await?
        } else {
            WhyNot::NeedsApproval.as_str()
        };
        if outcome == WhyNot::Quarantined.as_str() {
            // It passes: this payment is the first of the next batch.
            (quarantined, is_done) = (true, false);
            break;
        }
        if outcome == REDRIVEN {
            redriven += 1
        } else {
            left += 1
        }
        *work.outcomes.entry(outcome.to_owned()).or_default() += 1;
        work.passed = payment.as_uuid();
    }
    let spent_ms = (redriven + left) * 1_000 / i64::from(work.rate_per_s);
    sqlx::query(statements::BULK_PASSED)
        .bind(work.id)
        .bind(work.passed)
        .bind(Json(&work.outcomes))
        .bind(is_done)
        .bind(if quarantined { QUARANTINE_PAUSE_MS } else { spent_ms })
        .execute(transaction)
        .await?;
    Ok(BulkStep::Batch { redriven, left })
}

async fn candidates(
    transaction: &mut PgConnection,
    work: &Bulk,
) -> Result<Vec<(PaymentId, Option<i64>)>, Error> {
    let (first, end) = work.filter.ids();
    let rows = sqlx::query(statements::BULK_CANDIDATES)
        .bind(work.passed.max(first))
        .bind(end)
        .bind(work.filter.reason.map(|reason| reason.as_str()))
        .bind(work.filter.gateway.as_ref().map(|GatewayName(name)| name))
        .bind(work.filter.actor.map(|ActorId(id)| id))
        .bind(work.created_at)
        .bind(i64::from(work.rate_per_s))
        .fetch_all(transaction)
        .await?;
    rows.iter().map(|row| Ok((row::payment_id(row, "payment_id")?, row.try_get("amount_minor")?))).collect()
}

/// One payment, and what to count it as; undone by itself if the database refuses its row.
async fn one(
    transaction: &mut PgConnection,
    work: &Bulk,
    payment: PaymentId,
    terms: &BulkTerms,
) -> Result<&'static str, Error> {
    let order = Redrive {
        payment,
        key: KeyWanted::Same,
        by: work.by.clone(),
        reason: work.reason.clone(),
        version: None,
        approval: None,
    };
    let mut alone = transaction.begin().await?;
    let released: Result<Released, Error> = redrive_within(&mut alone, &order, &terms.retryable_codes).await;
    match released {
        Ok(released) => {
            alone.commit().await?;
            Ok(released.map_or_else(WhyNot::as_str, |_| REDRIVEN))
        }
        Err(error) if is_bad_data(&error) => {
            tracing::error!(%payment, bulk = %work.id, "the database refuses to release this payment");
            alone.rollback().await?;
            Ok(FAILED)
        }
        Err(error) => Err(error),
    }
}

fn bulk(found: &PgRow) -> Result<Bulk, Error> {
    let filter: Json<ParkedFilter> = found.try_get("filter")?;
    let preview: Json<Preview> = found.try_get("preview")?;
    let outcomes: Json<BTreeMap<String, i64>> = found.try_get("outcomes")?;
    Ok(Bulk {
        id: found.try_get("id")?,
        by: Operator(found.try_get("asked_by")?),
        reason: found.try_get("reason")?,
        filter: filter.0,
        rate_per_s: found.try_get("rate_per_s")?,
        status: row::parsed(found, "status", BulkStatus::from_text)?,
        preview: preview.0,
        created_at: found.try_get("created_at")?,
        started_at: found.try_get("started_at")?,
        finished_at: found.try_get("finished_at")?,
        outcomes: outcomes.0,
        passed: found.try_get("passed")?,
    })
}
