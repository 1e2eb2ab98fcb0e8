//! Refunds as workers carry them out: claim, call, record, as charges are.
//!
//! **Promises.** A [`ClaimedRefund`] is handed out once and consumed by its answer, and an answer by its record
//! (rule R2): under another fence it changes nothing and is kept as evidence. From the claim on a request may be
//! under way, and the row says so until an answer says otherwise. The move of the payment, the sums of the
//! charge and the history are one statement with the outcome.
//!
//! If this dies between the claim and the record, the lease runs out and the refund is asked about.

use super::failure::{at_commit, before_commit, commit, whole};
use super::length::interval;
use super::port::{ClaimTerms, ScheduleError};
use super::proof::How;
use super::{Postgres, refunds, row, statements, words};
use crate::domain::ids::{ActorId, ClaimId, Fence, GatewayName, PaymentId};
use crate::domain::invariants::Invariant;
use crate::domain::lease::Mono;
use crate::domain::money::Money;
use crate::domain::refund::{RefundDecision, RefundId, RefundSends, RefundStatus, RefundVerdict};
use crate::platform::violation;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::time::Duration;
use uuid::Uuid;

/// A refund that this process holds. Not `Clone`: it is answered once.
#[derive(Debug)]
pub struct ClaimedRefund {
    order: RefundOrder,
    claim_id: ClaimId,
    fence: Fence,
    asked_at: Mono,
}

/// What is known of a refund at its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundOrder {
    /// Its id, and the gateway's key of it.
    pub id: RefundId,
    /// Of which payment.
    pub payment: PaymentId,
    /// Whose payment it is.
    pub payer: ActorId,
    /// At which gateway.
    pub gateway: GatewayName,
    /// Of which charge.
    pub reference: String,
    /// How much.
    pub amount: Money,
    /// Where it stood.
    pub was: RefundStatus,
    /// Claims so far, this one included.
    pub attempt: i32,
    /// Questions so far without an answer that decides.
    pub asks: i16,
    /// Other claims that may have sent and have no answer.
    pub others_open: i32,
    /// When the key was first used, by the database's clock; `None`: never before this claim.
    pub first_sent_at: Option<DateTime<Utc>>,
    /// How long before this claim that was.
    pub key_age: Option<Duration>,
}

impl ClaimedRefund {
    /// What it is.
    #[must_use]
    pub fn order(&self) -> &RefundOrder {
        &self.order
    }

    /// Names this claim.
    #[must_use]
    pub fn claim_id(&self) -> ClaimId {
        self.claim_id
    }

    /// Of this claim.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The host's clock right before the claim was asked for.
    #[must_use]
    pub fn asked_at(&self) -> Mono {
        self.asked_at
    }

    /// The claim is spent; this is what it learned.
    #[must_use]
    pub fn answered(self, answer: RefundAnswer) -> AnsweredRefund {
        AnsweredRefund { claimed: self, answer }
    }

    /// One that no database gave out.
    #[cfg(any(test, feature = "simulation", feature = "faults"))]
    #[must_use]
    pub fn for_tests(order: RefundOrder, claim_id: ClaimId, fence: Fence, asked_at: Mono) -> Self {
        Self { order, claim_id, fence, asked_at }
    }
}

/// What one attempt learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundAnswer {
    /// What it means.
    pub verdict: RefundVerdict,
    /// How it was come by.
    pub how: How,
    /// HTTP status, where there was one.
    pub http_status: Option<u16>,
    /// How long the gateway took.
    pub took: Option<Duration>,
    /// For people: no secrets, ≤ 500 characters.
    pub note: Option<String>,
}

impl RefundAnswer {
    /// An answer without any request behind it.
    #[must_use]
    pub fn silent(verdict: RefundVerdict, how: How) -> Self {
        Self { verdict, how, http_status: None, took: None, note: None }
    }
}

/// An answered claim; it is recorded once.
#[derive(Debug)]
pub struct AnsweredRefund {
    claimed: ClaimedRefund,
    answer: RefundAnswer,
}

impl AnsweredRefund {
    /// What was claimed.
    #[must_use]
    pub fn order(&self) -> &RefundOrder {
        &self.claimed.order
    }

    /// What was learned.
    #[must_use]
    pub fn answer(&self) -> &RefundAnswer {
        &self.answer
    }
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundSettled {
    /// It stands so, by this call or by the one whose answer was lost.
    Written {
        /// Where.
        to: RefundStatus,
        /// The payment is refunded in full by it. Not said again when it is repeated.
        is_whole: bool,
    },
    /// The claim was not current any more; its answer is kept as evidence.
    Fenced,
}

impl Postgres {
    /// Claims refunds of this gateway that are due, as many as there are fresh ids.
    ///
    /// # Errors
    /// Any; what a lost answer had claimed is reaped.
    pub async fn claim_refunds(
        &self,
        terms: &ClaimTerms,
        ids: &[ClaimId],
    ) -> Result<Vec<ClaimedRefund>, ScheduleError> {
        whole(claim(self.pool().clone(), terms.clone(), ids.iter().map(|id| id.0).collect())).await
    }

    /// Records what one claim learned. The claim is lent, so that a caller whose commit got no answer can repeat.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn settle_refund(
        &self,
        answered: &AnsweredRefund,
        decision: &RefundDecision,
    ) -> Result<RefundSettled, ScheduleError> {
        let record = Record::of(answered, decision);
        whole(settle(self.pool().clone(), record)).await
    }

    /// Takes back claims whose lease ran out, and drops what nobody allowed in time.
    ///
    /// # Errors
    /// Any; the next call does what this one did not.
    pub async fn reap_refunds(&self, margin: Duration, limit: u32) -> Result<u64, ScheduleError> {
        let reaped = sqlx::query(statements::REAP_REFUNDS).bind(interval(margin)).bind(i64::from(limit));
        let reaped = reaped.fetch_all(self.pool()).await.map_err(at_commit)?.len();
        sqlx::query(statements::DROP_REFUNDS)
            .bind(None::<Uuid>)
            .bind(None::<Uuid>)
            .bind("nobody decided in time")
            .execute(self.pool())
            .await
            .map_err(at_commit)?;
        Ok(u64::try_from(reaped).unwrap_or(u64::MAX))
    }
}

async fn claim(pool: PgPool, terms: ClaimTerms, ids: Vec<Uuid>) -> Result<Vec<ClaimedRefund>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let rows = sqlx::query(statements::CLAIM_REFUNDS)
        .bind(&terms.gateway.0)
        .bind(&terms.account)
        .bind(&terms.worker.0)
        .bind(interval(terms.lease.length))
        .bind(ids)
        .fetch_all(&mut *transaction)
        .await
        .map_err(before_commit)?;
    let claimed: Result<Vec<_>, _> = rows.iter().map(|row| claimed(row, terms.asked_at)).collect();
    let claimed = claimed.map_err(before_commit)?;
    commit(transaction).await?;
    Ok(claimed)
}

fn claimed(row: &PgRow, asked_at: Mono) -> Result<ClaimedRefund, Error> {
    let age_us: Option<i64> = row.try_get("key_age_us")?;
    // A clock that was set back makes the key look unused, but never older than it is by the gateway's clock.
    let key_age = age_us.map(|age| Duration::from_micros(u64::try_from(age).unwrap_or(0)));
    Ok(ClaimedRefund {
        order: RefundOrder {
            id: RefundId(row.try_get("id")?),
            payment: row::payment_id(row, "payment_id")?,
            payer: ActorId(row.try_get("payer")?),
            gateway: GatewayName(row.try_get("gateway")?),
            reference: row.try_get("reference")?,
            amount: refunds::money(row)?,
            was: row::parsed(row, "was", RefundStatus::from_text)?,
            attempt: row.try_get("attempt")?,
            asks: row.try_get("asks")?,
            others_open: row.try_get("others_open")?,
            first_sent_at: row.try_get("first_sent_at")?,
            key_age,
        },
        claim_id: ClaimId(row.try_get("claim_id")?),
        fence: Fence(row.try_get("fence")?),
        asked_at,
    })
}

/// The record of one outcome, as it is bound.
#[derive(Debug, Clone)]
struct Record {
    id: RefundId,
    payment: PaymentId,
    fence: Fence,
    claim_id: ClaimId,
    decision: RefundDecision,
    reference: Option<String>,
    code: Option<String>,
    verdict: &'static str,
    how: How,
    http_status: Option<i16>,
    took_ms: Option<i32>,
    note: Option<String>,
}

impl Record {
    fn of(answered: &AnsweredRefund, decision: &RefundDecision) -> Self {
        let (claimed, answer) = (&answered.claimed, &answered.answer);
        let (reference, code) = match &answer.verdict {
            RefundVerdict::Refunded { reference, .. } => (Some(reference.clone()), None),
            RefundVerdict::Declined { code } => (None, Some(code.clone())),
            RefundVerdict::NotSent { why, .. } => (None, Some(why.as_str().to_owned())),
            RefundVerdict::Unknown(why) => (None, Some(words::doubt(*why).to_owned())),
            RefundVerdict::Underway { .. } | RefundVerdict::ContractViolation { .. } => (None, None),
        };
        Self {
            id: claimed.order.id,
            payment: claimed.order.payment,
            fence: claimed.fence,
            claim_id: claimed.claim_id,
            decision: decision.clone(),
            reference,
            code,
            verdict: answer.verdict.as_str(),
            how: answer.how,
            http_status: answer.http_status.and_then(|status| i16::try_from(status).ok()),
            took_ms: answer.took.map(|took| i32::try_from(took.as_millis()).unwrap_or(i32::MAX)),
            note: answer.note.clone(),
        }
    }
}

async fn settle(pool: PgPool, record: Record) -> Result<RefundSettled, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let settled = settle_within(&mut transaction, &record).await.map_err(before_commit)?;
    commit(transaction).await?;
    Ok(settled)
}

async fn settle_within(transaction: &mut PgConnection, record: &Record) -> Result<RefundSettled, Error> {
    let day = record.payment.due_day();
    sqlx::query(statements::LOCK_PAYMENT)
        .bind(day)
        .bind(record.payment.as_uuid())
        .fetch_optional(&mut *transaction)
        .await?;
    let answered: i16 = match record.decision.answered {
        RefundSends::None => 0,
        RefundSends::Own => 1,
        RefundSends::All => 2,
    };
    let written = sqlx::query(statements::SETTLE_REFUND)
        .bind(record.id.0)
        .bind(record.fence.0)
        .bind(record.claim_id.0)
        .bind(record.decision.to.as_str())
        .bind(record.decision.next_at)
        .bind(answered)
        .bind(&record.reference)
        .bind(&record.code)
        .bind(&record.note)
        .bind(record.verdict)
        .bind(words::how(record.how))
        .bind(record.http_status)
        .bind(record.took_ms)
        .bind(day)
        .bind(record.payment.as_uuid())
        .fetch_optional(&mut *transaction)
        .await?;
    if let Some(written) = written {
        let to = row::parsed(&written, "status", RefundStatus::from_text)?;
        return Ok(RefundSettled::Written { to, is_whole: written.try_get("is_whole")? });
    }
    let late = sqlx::query(statements::LATE_REFUND)
        .bind(record.id.0)
        .bind(record.claim_id.0)
        .bind(record.verdict)
        .bind(words::how(record.how))
        .bind(&record.code)
        .bind(record.http_status)
        .bind(record.took_ms)
        .bind(&record.note)
        .fetch_one(transaction)
        .await?;
    if late.try_get("was_written")? {
        return Ok(RefundSettled::Written { to: record.decision.to, is_whole: false });
    }
    page(&late, record)?;
    Ok(RefundSettled::Fenced)
}

/// Says aloud what a late answer shows broken: a request under a claim that the database lost, or money that came
/// back although the refund had ended otherwise, and its reservation was given to others.
fn page(late: &PgRow, record: &Record) -> Result<(), Error> {
    let status: Option<String> = late.try_get("status")?;
    let ended_otherwise = matches!(
        status.as_deref().and_then(RefundStatus::from_text),
        Some(RefundStatus::Declined | RefundStatus::Rejected)
    );
    let what = if !late.try_get::<bool, _>("is_known")? {
        match record.how {
            How::Sent => "a refund was sent under a claim that the database lost",
            How::LookedUp | How::Voided | How::NotStarted => return Ok(()),
        }
    } else if late.try_get("is_kept")? && ended_otherwise && record.reference.is_some() {
        "a late answer says refunded, and the refund had ended without it"
    } else {
        return Ok(());
    };
    violation::seen(Invariant::M10, Some(record.payment), what);
    Ok(())
}
