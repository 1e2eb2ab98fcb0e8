//! People's word on a refund about which nobody asks the gateway any more: asked for by one, approved by another.
//!
//! **Promises.** What is asked for is judged at once, so that nobody approves what cannot be done, and again on the
//! locked rows when it is carried out (`resolve_refund()`), from the approval alone: the word, the evidence and the
//! number of claims that the first person saw. One word on a refund waits at a time. The refund's end, the sums of
//! its charge, the payment's history and the operators' audit are one transaction with the approval.
//!
//! If this dies here, it was asked for, or carried out, whole or not at all.

use super::approvals::{self, Approval, ApprovalKind, AskedFor, NewApproval};
use super::failure::{before_commit, commit, whole};
use super::port::ScheduleError;
use super::row::{self, unfit};
use super::{Postgres, refunds, statements};
use crate::domain::guard::Lineage;
use crate::domain::ids::{Operator, PaymentId};
use crate::domain::money::Money;
use crate::domain::refund::{RefundId, RefundStatus};
use crate::domain::refund_resolution::{ChargeSums, OpenRefund, RefundUnresolved, RefundWord, resolve};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use uuid::Uuid;

/// What a person says became of a refund.
#[derive(Debug, Clone)]
pub struct NewRefundWord {
    /// Which refund.
    pub refund: RefundId,
    /// The gateway's name of it and what was given back; `None`: nothing was, and never will be.
    pub refunded: Option<(String, Option<Money>)>,
    /// Who says so.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// What they saw, as it is kept: a JSON object, no secrets.
    pub evidence: Value,
    /// Random.
    pub approval: Uuid,
}

impl NewRefundWord {
    fn word(&self) -> RefundWord<'_> {
        match &self.refunded {
            Some((reference, amount)) => RefundWord::Refunded { reference, amount: *amount },
            None => RefundWord::NotRefunded,
        }
    }

    /// All that carrying it out needs.
    fn request(&self, attempt: i32) -> Value {
        let refunded = self.refunded.as_ref();
        let amount = refunded.and_then(|(_, amount)| *amount);
        json!({
            "refund": self.refund,
            "as": if refunded.is_some() { "refunded" } else { "not_refunded" },
            "gatewayReference": refunded.map(|(reference, _)| reference),
            "amount": amount.map(|amount| amount.minor.get()),
            "currency": amount.map(|amount| amount.currency.as_str()),
            "evidence": self.evidence,
            "attempt": attempt,
        })
    }
}

/// What became of asking.
#[derive(Debug, Clone, PartialEq)]
pub enum RefundWordAsked {
    /// A second person may decide now.
    Asked(Approval),
    /// The very same was asked for before, by the same person, and waits.
    Replayed(Approval),
    /// Another word on this refund waits.
    Waiting(Approval),
    /// It cannot be said; of this payment, where the refund exists.
    Refused(RefundUnresolved, Option<PaymentId>),
}

/// What a carried-out word did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefundClosed {
    /// How it ended.
    pub to: RefundStatus,
    /// The payment is refunded in full by it.
    pub is_whole: bool,
}

impl Postgres {
    /// Asks a second person to confirm what became of a refund, or says why that cannot be said.
    ///
    /// # Errors
    /// Any; repeating it asks once.
    pub async fn ask_refund_resolution(&self, new: &NewRefundWord) -> Result<RefundWordAsked, ScheduleError> {
        whole(ask(self.pool().clone(), new.clone())).await
    }

    /// Refunds about which nobody asks the gateway any more, the oldest first; at most a thousand.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn refunds_for_people(&self) -> Result<Vec<refunds::Refund>, ScheduleError> {
        let rows = sqlx::query(statements::LIST_REFUNDS_FOR_PEOPLE).fetch_all(self.pool()).await;
        let rows = rows.map_err(before_commit)?;
        rows.iter().map(refunds::refund).collect::<Result<_, _>>().map_err(before_commit)
    }
}

async fn ask(pool: PgPool, new: NewRefundWord) -> Result<RefundWordAsked, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let asked = ask_within(&mut transaction, &new).await.map_err(before_commit)?;
    commit(transaction).await?;
    Ok(asked)
}

async fn ask_within(transaction: &mut PgConnection, new: &NewRefundWord) -> Result<RefundWordAsked, Error> {
    let found = sqlx::query(statements::FIND_OPEN_REFUND)
        .bind(new.refund.0)
        .bind(new.refunded.as_ref().map(|(reference, _)| reference.as_str()))
        .fetch_optional(&mut *transaction)
        .await?;
    let Some(found) = found else {
        return Ok(RefundWordAsked::Refused(RefundUnresolved::NoSuchRefund, None));
    };
    let payment = row::payment_id(&found, "payment_id")?;
    let open = open_refund(&found)?;
    let lineage = if found.try_get("released")? { Lineage::Released } else { Lineage::Quarantined };
    let now: DateTime<Utc> = found.try_get("now")?;
    if let Err(why) = resolve(&open, new.word(), open.attempt, lineage, now) {
        return Ok(RefundWordAsked::Refused(why, Some(payment)));
    }
    // What can never be carried out must not stand in the way of what can.
    sqlx::query(statements::EXPIRE_REFUND_WORDS)
        .bind(new.refund.to_string())
        .bind(open.attempt)
        .execute(&mut *transaction)
        .await?;
    let approval = NewApproval {
        id: new.approval,
        kind: ApprovalKind::ResolveRefund,
        payment: Some(payment),
        asked_by: new.by.clone(),
        reason: new.reason.clone(),
        request: new.request(open.attempt),
    };
    Ok(match approvals::ask_within(transaction, &approval).await? {
        AskedFor::Asked(asked) => RefundWordAsked::Asked(asked),
        AskedFor::Waiting(waits) if waits.asked_by == new.by && waits.request == approval.request => {
            RefundWordAsked::Replayed(waits)
        }
        AskedFor::Waiting(waits) => RefundWordAsked::Waiting(waits),
        AskedFor::Decided => RefundWordAsked::Refused(RefundUnresolved::Changed, Some(payment)),
    })
}

fn open_refund(found: &PgRow) -> Result<OpenRefund, Error> {
    Ok(OpenRefund {
        status: row::parsed(found, "status", RefundStatus::from_text)?,
        next_attempt_at: found.try_get("next_attempt_at")?,
        amount: row::money(found)?,
        sums: ChargeSums {
            charge_minor: found.try_get("charge_minor")?,
            reserved_minor: found.try_get("reserved_minor")?,
            refunded_minor: found.try_get("refunded_minor")?,
        },
        reference: found.try_get("gateway_ref")?,
        is_anothers: found.try_get("is_anothers")?,
        says_refunded: found.try_get("says_refunded")?,
        attempt: found.try_get("attempt")?,
        last_claimed_at: found.try_get("last_claimed_at")?,
    })
}

/// The word on the refund of this request that waits for a second person.
pub(super) async fn waiting(
    connection: &mut PgConnection,
    request: &Value,
) -> Result<Option<Approval>, Error> {
    let refund = request.get("refund").and_then(Value::as_str);
    let waits = sqlx::query(statements::WAITING_REFUND_WORD).bind(refund).fetch_optional(connection).await?;
    waits.as_ref().map(approvals::approval).transpose()
}

/// Closes the refund of this approval; not done before the caller's COMMIT. A refusal has written nothing.
pub(super) async fn close_within(
    transaction: &mut PgConnection,
    approved: &Approval,
) -> Result<Result<RefundClosed, RefundUnresolved>, Error> {
    let Some(id) = refunds::asked_for(approved) else { return Ok(Err(RefundUnresolved::NoSuchRefund)) };
    let answer =
        sqlx::query(statements::RESOLVE_REFUND).bind(id.0).bind(approved.id).fetch_one(transaction).await?;
    let answer: String = answer.try_get("answer")?;
    let closed = |to, is_whole| Ok(Ok(RefundClosed { to, is_whole }));
    match answer.as_str() {
        "refunded_whole" => closed(RefundStatus::Refunded, true),
        "refunded" => closed(RefundStatus::Refunded, false),
        "declined" => closed(RefundStatus::Declined, false),
        other => Ok(Err(RefundUnresolved::from_text(other).ok_or_else(|| unfit("answer", &other))?)),
    }
}
