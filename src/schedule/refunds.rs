//! Refunds as people ask for them, allow them and look at them.
//!
//! **Promises.** What is asked for is reserved in the same transaction, under the lock of the charge's own row, so
//! that two who ask at once never promise back more than was charged. Asked for again under the same key it is
//! the same refund. It moves no money before a second person has allowed it, and then a worker does
//! (`refund_work.rs`): the API's role can do neither.
//!
//! If this dies here, it was asked for with its approval, or not at all; whoever repeats is answered the same.

use super::approvals::{self, Approval, ApprovalKind, AskedFor, NewApproval};
use super::failure::{before_commit, commit, whole};
use super::port::ScheduleError;
use super::row::{self, unfit};
use super::{Postgres, statements};
use crate::domain::ids::{ActorId, GatewayName, Operator, PaymentId};
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::refund::{RefundId, RefundRefused, RefundStatus};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};
use uuid::Uuid;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct NewRefund {
    /// Of [`RefundId::of`] this actor and key.
    pub id: RefundId,
    /// Whose key it is.
    pub actor: ActorId,
    /// Their key.
    pub idempotency_key: String,
    /// Of everything that was asked for.
    pub request_hash: [u8; 32],
    /// Of which payment.
    pub payment: PaymentId,
    /// The charge, by the gateway's own name.
    pub reference: String,
    /// How much; `None`: all that is left of it.
    pub amount: Option<Minor>,
    /// By whom.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// Random.
    pub approval: Uuid,
}

/// One refund.
#[derive(Debug, Clone, PartialEq)]
pub struct Refund {
    /// Its id, and the gateway's key of it.
    pub id: RefundId,
    /// Of which payment.
    pub payment: PaymentId,
    /// At which gateway.
    pub gateway: GatewayName,
    /// Of which charge.
    pub reference: String,
    /// How much.
    pub amount: Money,
    /// Where it stands.
    pub status: RefundStatus,
    /// By whom it was asked for.
    pub asked_by: Operator,
    /// Why.
    pub reason: String,
    /// Where a second person decides.
    pub approval: Uuid,
    /// Who allowed it.
    pub approved_by: Option<Operator>,
    /// When it was asked for.
    pub asked_at: DateTime<Utc>,
    /// Not decided by then, it is dropped.
    pub expires_at: DateTime<Utc>,
    /// When it was allowed.
    pub approved_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// When it is claimed next; `None` while it is under way: a person has to look.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Claims so far.
    pub attempt: i32,
    /// Claims whose answer is not known.
    pub open_sends: i32,
    /// The gateway's name of it.
    pub gateway_ref: Option<String>,
    /// The gateway's code, where it refused.
    pub code: Option<String>,
    /// For people.
    pub note: Option<String>,
    /// What was given back, where people found another amount than was asked for.
    pub given_back: Option<Minor>,
    /// Who said what became of it.
    pub resolved_by: Option<Operator>,
    /// On which approval.
    pub resolved_approval: Option<Uuid>,
    /// What they saw.
    pub evidence: Option<Value>,
}

/// What became of asking.
#[derive(Debug, Clone, PartialEq)]
pub enum RefundAsked {
    /// A second person may decide now.
    Asked(Refund),
    /// The same was asked for before, under the same key.
    Replayed(Refund),
    /// The key was used for something else.
    KeyReused,
    /// It cannot be asked for.
    Refused(RefundRefused),
}

impl Postgres {
    /// Asks for a refund and for a second person's word on it.
    ///
    /// # Errors
    /// Any; repeating it under the same key asks once.
    pub async fn ask_refund(&self, new: &NewRefund) -> Result<RefundAsked, ScheduleError> {
        whole(ask(self.pool().clone(), new.clone())).await
    }

    /// One refund.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn refund(&self, id: RefundId) -> Result<Option<Refund>, ScheduleError> {
        let mut connection = self.pool().acquire().await.map_err(before_commit)?;
        find(&mut connection, id).await.map_err(before_commit)
    }

    /// Every refund of one payment, the oldest first; at most a thousand.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn refunds_of(&self, payment: PaymentId) -> Result<Vec<Refund>, ScheduleError> {
        let rows = sqlx::query(statements::LIST_REFUNDS).bind(payment.as_uuid()).fetch_all(self.pool()).await;
        let rows = rows.map_err(before_commit)?;
        rows.iter().map(refund).collect::<Result<_, _>>().map_err(before_commit)
    }
}

async fn ask(pool: PgPool, new: NewRefund) -> Result<RefundAsked, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let asked = ask_within(&mut transaction, &new).await.map_err(before_commit)?;
    commit(transaction).await?;
    asked.ok_or_else(|| ScheduleError::Unavailable("the approval could not be asked for".into()))
}

async fn ask_within(transaction: &mut PgConnection, new: &NewRefund) -> Result<Option<RefundAsked>, Error> {
    let answer = sqlx::query(statements::ASK_REFUND)
        .bind(new.id.0)
        .bind(new.payment.due_day())
        .bind(new.payment.as_uuid())
        .bind(&new.reference)
        .bind(new.amount.map(Minor::get))
        .bind(new.actor.0)
        .bind(&new.idempotency_key)
        .bind(new.request_hash.as_slice())
        .bind(&new.by.0)
        .bind(&new.reason)
        .bind(new.approval)
        .fetch_one(&mut *transaction)
        .await?;
    let answer: String = answer.try_get("answer")?;
    let is_replay = match answer.as_str() {
        "asked" => false,
        "replayed" => true,
        "key_reused" => return Ok(Some(RefundAsked::KeyReused)),
        other => {
            let why = RefundRefused::from_text(other).ok_or_else(|| unfit("answer", &other))?;
            return Ok(Some(RefundAsked::Refused(why)));
        }
    };
    // Just written, or found by the function, in this transaction.
    let refund = find(&mut *transaction, new.id).await?.ok_or(Error::RowNotFound)?;
    if is_replay {
        return Ok(Some(RefundAsked::Replayed(refund)));
    }
    let approval = NewApproval {
        id: new.approval,
        kind: ApprovalKind::Refund,
        payment: Some(new.payment),
        asked_by: new.by.clone(),
        reason: new.reason.clone(),
        request: json!({
            "refund": refund.id,
            "gatewayReference": refund.reference,
            "amount": refund.amount.minor.get(),
            "currency": refund.amount.currency.as_str(),
        }),
    };
    match approvals::ask_within(transaction, &approval).await? {
        AskedFor::Asked(_) => Ok(Some(RefundAsked::Asked(refund))),
        // Another kind stands in the way of none of ours; if it ever does, nothing may be kept of this.
        AskedFor::Waiting(_) | AskedFor::Decided => Err(Error::RowNotFound),
    }
}

/// What an allowed refund came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approving {
    /// A worker sends it from here on.
    Approved(RefundId),
    /// This database is not released; it can be allowed when it is.
    Quarantined,
    /// It is not to be had any more.
    Void,
}

/// Lets the refund of this approval go; not done before the caller's COMMIT.
pub(super) async fn approve_within(
    transaction: &mut PgConnection,
    approved: &Approval,
) -> Result<Approving, Error> {
    let Some(id) = asked_for(approved) else { return Ok(Approving::Void) };
    let answer =
        sqlx::query(statements::APPROVE_REFUND).bind(id.0).bind(approved.id).fetch_one(transaction).await?;
    Ok(match answer.try_get::<String, _>("answer")?.as_str() {
        "approved" => Approving::Approved(id),
        "quarantined" => Approving::Quarantined,
        _ => Approving::Void,
    })
}

/// Ends the refund of an approval that was refused or is void, and gives back what it reserved.
pub(super) async fn drop_within(
    transaction: &mut PgConnection,
    approval: &Approval,
    because: &str,
) -> Result<(), Error> {
    let Some(id) = asked_for(approval) else { return Ok(()) };
    sqlx::query(statements::DROP_REFUNDS)
        .bind(id.0)
        .bind(None::<Uuid>)
        .bind(because)
        .execute(transaction)
        .await
        .map(drop)
}

/// The refund that an approval is about.
pub(super) fn asked_for(approval: &Approval) -> Option<RefundId> {
    let text = approval.request.get("refund")?.as_str()?;
    Uuid::try_parse(text).ok().map(RefundId)
}

async fn find(connection: &mut PgConnection, id: RefundId) -> Result<Option<Refund>, Error> {
    let found = sqlx::query(statements::FIND_REFUND).bind(id.0).fetch_optional(connection).await?;
    found.as_ref().map(refund).transpose()
}

/// The amount in these columns.
pub(super) fn money(row: &PgRow) -> Result<Money, Error> {
    let minor: i64 = row.try_get("amount_minor")?;
    Ok(Money {
        minor: Minor::new(minor).ok_or_else(|| unfit("amount_minor", &minor))?,
        currency: row::parsed(row, "currency", Currency::from_code)?,
    })
}

/// A row of `refunds`.
pub(super) fn refund(row: &PgRow) -> Result<Refund, Error> {
    let approved_by: Option<String> = row.try_get("approved_by")?;
    let resolved_by: Option<String> = row.try_get("resolved_by")?;
    let given_back: Option<i64> = row.try_get("given_back_minor")?;
    let evidence: Option<Json<Value>> = row.try_get("evidence")?;
    Ok(Refund {
        id: RefundId(row.try_get("id")?),
        payment: row::payment_id(row, "payment_id")?,
        gateway: GatewayName(row.try_get("gateway")?),
        reference: row.try_get("reference")?,
        amount: money(row)?,
        status: row::parsed(row, "status", RefundStatus::from_text)?,
        asked_by: Operator(row.try_get("asked_by")?),
        reason: row.try_get("reason")?,
        approval: row.try_get("approval_id")?,
        approved_by: approved_by.map(Operator),
        asked_at: row.try_get("asked_at")?,
        expires_at: row.try_get("expires_at")?,
        approved_at: row.try_get("approved_at")?,
        finished_at: row.try_get("finished_at")?,
        next_attempt_at: row.try_get("next_attempt_at")?,
        attempt: row.try_get("attempt")?,
        open_sends: row.try_get("open_sends")?,
        gateway_ref: row.try_get("gateway_ref")?,
        code: row.try_get("code")?,
        note: row.try_get("note")?,
        given_back: given_back
            .map(|minor| Minor::new(minor).ok_or_else(|| unfit("given_back_minor", &minor)))
            .transpose()?,
        resolved_by: resolved_by.map(Operator),
        resolved_approval: row.try_get("resolved_approval")?,
        evidence: evidence.map(|evidence| evidence.0),
    })
}
