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
use super::parked::{self, ParkedEntry, ParkedFilter};
use super::port::ScheduleError;
use super::release::{Redrive, Released, redrive_within};
use super::{Postgres, row, statements};
use crate::domain::ids::{Operator, PaymentId};
use crate::domain::parked::{KeyWanted, WhyNot};
use crate::domain::texts::texts;
use chrono::{DateTime, Utc};
use futures_util::TryStreamExt;
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
/// Entries of the parked list examined for one batch: where few pass, the next batch goes on behind them.
const MOST_EXAMINED: i64 = 5_000;
/// So many at once.
const EXAMINED_AT_ONCE: i64 = 500;
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

    /// At most `limit` of them, the newest first, from behind `after`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn bulks(&self, after: Option<&Bulk>, limit: u32) -> Result<Vec<Bulk>, ScheduleError> {
        let (created_at, id) =
            after.map_or((DateTime::<Utc>::MAX_UTC, Uuid::max()), |it| (it.created_at, it.id));
        let rows = sqlx::query(statements::LIST_BULKS)
            .bind(created_at)
            .bind(id)
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await
            .map_err(before_commit)?;
        rows.iter().map(bulk).collect::<Result<_, Error>>().map_err(before_commit)
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
    let preview = preview(transaction, &new.filter, now, approve_above_minor).await?;
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

/// Counted whole, in one statement and so in one snapshot, by the sieve that [`candidates`] goes by.
async fn preview(
    transaction: &mut PgConnection,
    filter: &ParkedFilter,
    until: DateTime<Utc>,
    approve_above_minor: i64,
) -> Result<Preview, Error> {
    let sieve = filter.sieve();
    let (first, end) = sieve.ids();
    let rows = sqlx::query(statements::LIST_PARKED).bind(first).bind(end).bind(i64::MAX);
    let mut rows = rows.fetch(transaction);
    let mut preview = Preview::default();
    while let Some(row) = rows.try_next().await? {
        let entry = parked::entry(&row)?;
        if entry.parked_at > until || !sieve.passes(&entry) {
            continue;
        }
        preview.count += 1;
        preview.needs_approval += i64::from(!is_one_persons(&entry, approve_above_minor));
        if let Some(amount) = entry.amount {
            *preview.amounts.entry(amount.currency.as_str().to_owned()).or_default() += amount.minor.get();
        }
        *preview.by_reason.entry(entry.reason).or_default() += 1;
    }
    Ok(preview)
}

/// One whose amount is not known is not.
fn is_one_persons(entry: &ParkedEntry, approve_above_minor: i64) -> bool {
    entry.amount.is_some_and(|amount| amount.minor.get() <= approve_above_minor)
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
    let Candidates { entries, examined_to, mut is_end } = candidates(transaction, &work).await?;
    let (mut redriven, mut left, mut quarantined) = (0, 0, false);
    for entry in entries {
        let payment = entry.payment;
        let outcome = if is_one_persons(&entry, terms.approve_above_minor) {
            one(transaction, &work, payment, terms).await?
        } else {
            WhyNot::NeedsApproval.as_str()
        };
        if outcome == WhyNot::Quarantined.as_str() {
            // It passes: this payment is the first of the next batch.
            (quarantined, is_end) = (true, false);
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
    if !quarantined {
        work.passed = work.passed.max(examined_to);
    }
    let spent_ms = (redriven + left) * 1_000 / i64::from(work.rate_per_s);
    sqlx::query(statements::BULK_PASSED)
        .bind(work.id)
        .bind(work.passed)
        .bind(Json(&work.outcomes))
        .bind(is_end)
        .bind(if quarantined { QUARANTINE_PAUSE_MS } else { spent_ms })
        .execute(transaction)
        .await?;
    Ok(BulkStep::Batch { redriven, left })
}

/// What one batch looks at.
struct Candidates {
    /// In the order of the list, at most a second's worth.
    entries: Vec<ParkedEntry>,
    /// What lies up to here was examined.
    examined_to: Uuid,
    /// Nothing is behind it.
    is_end: bool,
}

async fn candidates(transaction: &mut PgConnection, work: &Bulk) -> Result<Candidates, Error> {
    let sieve = work.filter.sieve();
    let (first, end) = sieve.ids();
    let most = usize::try_from(work.rate_per_s).unwrap_or(1);
    let mut found = Candidates { entries: Vec::new(), examined_to: work.passed.max(first), is_end: false };
    for _ in 0..MOST_EXAMINED / EXAMINED_AT_ONCE {
        let rows = sqlx::query(statements::LIST_PARKED)
            .bind(found.examined_to)
            .bind(end)
            .bind(EXAMINED_AT_ONCE)
            .fetch_all(&mut *transaction)
            .await?;
        for row in &rows {
            if found.entries.len() == most {
                return Ok(found);
            }
            let entry = parked::entry(row)?;
            found.examined_to = entry.payment.as_uuid();
            let is_meant = entry.parked_at <= work.created_at && sieve.passes(&entry);
            found.entries.extend(is_meant.then_some(entry));
        }
        if i64::try_from(rows.len()).is_ok_and(|count| count < EXAMINED_AT_ONCE) {
            found.is_end = true;
            return Ok(found);
        }
    }
    Ok(found)
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
