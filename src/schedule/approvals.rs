//! What one person asked for and a second one allows: asked once, decided once, carried out as it was asked for.
//!
//! **Promises.** The person who asked never decides ([`Decided::SamePerson`]). Of two who decide at once one wins,
//! since both lock the row. An approval and the act it allows are one transaction: either both happened or
//! neither, and the act's own guard is asked again then, on the locked payment. An act that has become impossible
//! voids its approval (`expired`), so that it can be asked for anew. A day after it was asked for nothing
//! decides it any more.
//!
//! If this dies here, nothing was decided, or all of it was; whoever repeats is told ([`Decided::Already`]).
//!
//! **To add a kind**: a variant of [`ApprovalKind`], the kind in the table's CHECK, and an arm in `carry_out.rs`.

use super::acts::{self, Act};
use super::carry_out::{CarriedOut, Obstacle, carry_out};
use super::failure::{before_commit, transaction, whole};
use super::port::ScheduleError;
use super::{Postgres, reconcile_repair, reconcile_withdraw, refund_resolve, refunds, row, statements};
use crate::domain::ids::{Operator, PaymentId};
use crate::domain::parked::WhyNot;
use crate::domain::repair::NotRepaired;
use crate::domain::texts::texts;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Connection, Error, PgConnection, PgPool, Row};
use uuid::Uuid;

texts! { ApprovalKind, "What is asked for.":
    NewEpoch = "new_epoch": "A re-drive under a new gateway key.",
    Redrive = "redrive": "A re-drive of a large amount.",
    Refund = "refund": "A refund.",
    ResolveRefund = "resolve_refund": "What people say became of a refund.",
    Repair = "repair": "A payment that had failed or was cancelled is completed by a line of the gateway's settlement report.",
    Withdraw = "withdraw": "A settlement report that explains money does not count any more.",
}

texts! { ApprovalStatus, "Where an approval stands.":
    Pending = "pending": "Nobody decided yet, and there is time left.",
    Approved = "approved": "A second person allowed it, and it was carried out.",
    Rejected = "rejected": "A second person refused it.",
    Expired = "expired": "Nobody decided within a day, or it had become impossible.",
}

texts! { ApprovalVerdict, "What a second person says.":
    Approve = "approve": "Do it.",
    Reject = "reject": "Do not.",
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct NewApproval {
    /// Random.
    pub id: Uuid,
    /// What.
    pub kind: ApprovalKind,
    /// Of which payment; `None`: of a report, which the request names.
    pub payment: Option<PaymentId>,
    /// By whom.
    pub asked_by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// All that the act needs besides, as its kind reads it.
    pub request: Value,
}

/// One approval.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Its id.
    pub id: Uuid,
    /// What was asked for.
    pub kind: ApprovalKind,
    /// Of which payment; `None`: of a report, which the request names.
    pub payment: Option<PaymentId>,
    /// By whom.
    pub asked_by: Operator,
    /// Why.
    pub reason: String,
    /// All that the act needs besides.
    pub request: Value,
    /// Where it stands; one that nobody decided in time is [`ApprovalStatus::Expired`].
    pub status: ApprovalStatus,
    /// The second person.
    pub decided_by: Option<Operator>,
    /// Their reason.
    pub decided_reason: Option<String>,
    /// When it was asked for, by the database's clock.
    pub asked_at: DateTime<Utc>,
    /// When it was decided, or found to be impossible.
    pub decided_at: Option<DateTime<Utc>>,
    /// From then on nothing decides it.
    pub expires_at: DateTime<Utc>,
}

/// What became of asking.
#[derive(Debug, Clone, PartialEq)]
pub enum AskedFor {
    /// A second person may decide now.
    Asked(Approval),
    /// The like was asked for before and waits: a release of this payment as it stands, a word on this refund.
    Waiting(Approval),
    /// One waited, and was decided while this was asked: look at the payment again.
    Decided,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// Allowed and carried out, by this call.
    Approved(Approval, CarriedOut),
    /// Refused, by this call.
    Rejected(Approval),
    /// It had been decided, or had become impossible, before; nothing happened now.
    Already(Approval),
    /// Its time is over.
    Expired(Approval),
    /// Whoever asked does not decide.
    SamePerson(Approval),
    /// The act is not possible (any more); the approval is void.
    Impossible(Approval, Obstacle),
    /// There is none of this id.
    NotFound,
}

/// What the act of an approval needs to know that no request carries.
#[derive(Debug, Clone, Default)]
pub struct ActTerms {
    /// Codes of declines after which something may be sent again.
    pub retryable_codes: Vec<String>,
}

impl Postgres {
    /// Asks a second person, or answers that the same was asked for before.
    ///
    /// # Errors
    /// Any; repeating it asks once.
    pub async fn ask_approval(&self, new: &NewApproval) -> Result<AskedFor, ScheduleError> {
        let new = new.clone();
        transaction(self.pool(), |one| Box::pin(async move { ask_within(one, &new).await })).await
    }

    /// One approval.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn approval(&self, id: Uuid) -> Result<Option<Approval>, ScheduleError> {
        whole(find(self.pool().clone(), id)).await
    }

    /// At most `limit` approvals in this state, the oldest first, asked for after the one at `after`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn approvals(
        &self,
        status: ApprovalStatus,
        after: Option<(DateTime<Utc>, Uuid)>,
        limit: u32,
    ) -> Result<Vec<Approval>, ScheduleError> {
        whole(list(self.pool().clone(), status, after, limit)).await
    }

    /// Decides, and carries out what is allowed, in one transaction.
    ///
    /// # Errors
    /// `CommitUnknown`: repeat it; a decision that got through is answered [`Decided::Already`].
    pub async fn decide_approval(
        &self,
        id: Uuid,
        by: &Operator,
        verdict: ApprovalVerdict,
        reason: &str,
        terms: &ActTerms,
    ) -> Result<Decided, ScheduleError> {
        let deciding =
            Deciding { id, by: by.clone(), verdict, reason: reason.to_owned(), terms: terms.clone() };
        // Committed also where nothing was decided: an approval whose time is over is marked so.
        transaction(self.pool(), |one| Box::pin(async move { decide_within(one, &deciding).await })).await
    }
}

/// In the caller's transaction.
pub(super) async fn ask_within(transaction: &mut PgConnection, new: &NewApproval) -> Result<AskedFor, Error> {
    match new.kind {
        // What can never be carried out must not stand in the way of what can.
        ApprovalKind::NewEpoch | ApprovalKind::Redrive => {
            sqlx::query(statements::EXPIRE_APPROVALS)
                .bind(new.payment.map(|payment| payment.as_uuid()))
                .bind(new.request.get("version").and_then(Value::as_i64))
                .execute(&mut *transaction)
                .await?;
        }
        // Nothing stands in its way. Its payment and charge are locked by now, and a decision locks those behind
        // its approval: to touch another approval here would be to wait for each other.
        ApprovalKind::Refund => {}
        // Who asks for it has looked for what stands in its way.
        ApprovalKind::ResolveRefund | ApprovalKind::Repair | ApprovalKind::Withdraw => {}
    }
    let made = sqlx::query(statements::ASK_APPROVAL)
        .bind(new.id)
        .bind(new.kind.as_str())
        .bind(new.payment.map(|payment| payment.as_uuid()))
        .bind(&new.asked_by.0)
        .bind(&new.reason)
        .bind(Json(&new.request))
        .fetch_optional(&mut *transaction)
        .await?;
    if let Some(made) = made {
        let act = Act {
            operator: new.asked_by.clone(),
            act: "ask_approval",
            subject: subject(new.payment, &new.request),
            reason: new.reason.clone(),
            detail: json!({"approval": new.id, "kind": new.kind.as_str()}),
        };
        acts::record(transaction, &act).await?;
        return Ok(AskedFor::Asked(approval(&made)?));
    }
    let waits = match new.kind {
        ApprovalKind::NewEpoch | ApprovalKind::Redrive | ApprovalKind::Refund => {
            waiting(transaction, new.payment).await?
        }
        ApprovalKind::ResolveRefund => refund_resolve::waiting(transaction, &new.request).await?,
        ApprovalKind::Repair => reconcile_repair::waiting(transaction, &new.request).await?,
        ApprovalKind::Withdraw => reconcile_withdraw::waiting(transaction, &new.request).await?,
    };
    // What stood in the way may be decided between the two looks.
    Ok(waits.map_or(AskedFor::Decided, AskedFor::Waiting))
}

/// What people find its acts under: the payment, or the report.
fn subject(payment: Option<PaymentId>, request: &Value) -> String {
    let report = || request.get("report").and_then(Value::as_str).unwrap_or_default().to_owned();
    payment.map_or_else(report, |payment| payment.to_string())
}

/// The release of this payment that waits for a second person.
pub(super) async fn waiting(
    connection: &mut PgConnection,
    payment: Option<PaymentId>,
) -> Result<Option<Approval>, Error> {
    let payment = payment.map(|payment| payment.as_uuid());
    let waiting = sqlx::query(statements::WAITING_APPROVAL).bind(payment).fetch_optional(connection).await?;
    waiting.as_ref().map(approval).transpose()
}

async fn find(pool: PgPool, id: Uuid) -> Result<Option<Approval>, ScheduleError> {
    let found = sqlx::query(statements::FIND_APPROVAL).bind(id).fetch_optional(&pool).await;
    found.map_err(before_commit)?.as_ref().map(approval).transpose().map_err(before_commit)
}

async fn list(
    pool: PgPool,
    status: ApprovalStatus,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: u32,
) -> Result<Vec<Approval>, ScheduleError> {
    let (at, id) = after.unwrap_or((DateTime::UNIX_EPOCH, Uuid::nil()));
    let rows = sqlx::query(statements::LIST_APPROVALS)
        .bind(status.as_str())
        .bind(at)
        .bind(id)
        .bind(i64::from(limit))
        .fetch_all(&pool)
        .await
        .map_err(before_commit)?;
    rows.iter().map(approval).collect::<Result<_, _>>().map_err(before_commit)
}

/// One decision on its way.
struct Deciding {
    id: Uuid,
    by: Operator,
    verdict: ApprovalVerdict,
    reason: String,
    terms: ActTerms,
}

async fn decide_within(transaction: &mut PgConnection, deciding: &Deciding) -> Result<Decided, Error> {
    let locked =
        sqlx::query(statements::LOCK_APPROVAL).bind(deciding.id).fetch_optional(&mut *transaction).await?;
    let Some(locked) = locked else { return Ok(Decided::NotFound) };
    let asked = approval(&locked)?;
    // As stored: one whose time is over is read as expired although nobody has marked it yet.
    let stored: String = locked.try_get("stored_status")?;
    if stored != ApprovalStatus::Pending.as_str() {
        return Ok(Decided::Already(asked));
    }
    if asked.status == ApprovalStatus::Expired {
        expire(transaction, &asked, "nobody decided in time").await?;
        return Ok(Decided::Expired(asked));
    }
    if asked.asked_by == deciding.by {
        return Ok(Decided::SamePerson(asked));
    }
    match deciding.verdict {
        ApprovalVerdict::Reject => {
            let rejected = write(transaction, deciding, ApprovalStatus::Rejected, &asked).await?;
            if rejected.kind == ApprovalKind::Refund {
                refunds::drop_within(transaction, &rejected, "a second person refused it").await?;
            }
            Ok(Decided::Rejected(rejected))
        }
        ApprovalVerdict::Approve => approve(transaction, deciding, asked).await,
    }
}

/// The approval first, since the act asks for it; undone together if the act is impossible.
async fn approve(
    transaction: &mut PgConnection,
    deciding: &Deciding,
    asked: Approval,
) -> Result<Decided, Error> {
    let mut both = transaction.begin().await?;
    let approved = write(&mut both, deciding, ApprovalStatus::Approved, &asked).await?;
    match carry_out(&mut both, &approved, &deciding.terms).await? {
        Ok(done) => {
            both.commit().await?;
            Ok(Decided::Approved(approved, done))
        }
        // It passes: the approval stays as it was.
        Err(passing @ (Obstacle::Parked(WhyNot::Quarantined) | Obstacle::Repair(NotRepaired::InFlight))) => {
            both.rollback().await?;
            Ok(Decided::Impossible(asked, passing))
        }
        Err(obstacle) => {
            both.rollback().await?;
            let expired = expire(transaction, &asked, "it had become impossible").await?;
            record(transaction, deciding, &asked, Some(obstacle)).await?;
            Ok(Decided::Impossible(expired, obstacle))
        }
    }
}

async fn write(
    transaction: &mut PgConnection,
    deciding: &Deciding,
    status: ApprovalStatus,
    asked: &Approval,
) -> Result<Approval, Error> {
    let written = sqlx::query(statements::DECIDE_APPROVAL)
        .bind(deciding.id)
        .bind(status.as_str())
        .bind(&deciding.by.0)
        .bind(&deciding.reason)
        .fetch_one(&mut *transaction)
        .await?;
    record(transaction, deciding, asked, None).await?;
    approval(&written)
}

/// Whose word it was, also where it ended in vain what somebody else had asked for.
async fn record(
    transaction: &mut PgConnection,
    deciding: &Deciding,
    asked: &Approval,
    in_vain: Option<Obstacle>,
) -> Result<(), Error> {
    let mut detail = json!({"approval": asked.id, "kind": asked.kind.as_str(), "askedBy": asked.asked_by.0});
    if let Some(obstacle) = in_vain {
        detail["whyNot"] = json!(obstacle.as_str());
    }
    let act = Act {
        operator: deciding.by.clone(),
        act: in_vain.map_or(deciding.verdict.as_str(), |_| "void_approval"),
        subject: subject(asked.payment, &asked.request),
        reason: deciding.reason.clone(),
        detail,
    };
    acts::record(transaction, &act).await
}

async fn expire(transaction: &mut PgConnection, asked: &Approval, because: &str) -> Result<Approval, Error> {
    let expired =
        sqlx::query(statements::EXPIRE_APPROVAL).bind(asked.id).fetch_one(&mut *transaction).await?;
    if asked.kind == ApprovalKind::Refund {
        refunds::drop_within(transaction, asked, because).await?;
    }
    approval(&expired)
}

/// A row of `approvals`.
pub(super) fn approval(found: &PgRow) -> Result<Approval, Error> {
    let request: Json<Value> = found.try_get("request")?;
    let decided_by: Option<String> = found.try_get("decided_by")?;
    Ok(Approval {
        id: found.try_get("id")?,
        kind: row::parsed(found, "kind", ApprovalKind::from_text)?,
        payment: row::payment_if_any(found, "payment_id")?,
        asked_by: Operator(found.try_get("asked_by")?),
        reason: found.try_get("reason")?,
        request: request.0,
        status: row::parsed(found, "status", ApprovalStatus::from_text)?,
        decided_by: decided_by.map(Operator),
        decided_reason: found.try_get("decided_reason")?,
        asked_at: found.try_get("asked_at")?,
        decided_at: found.try_get("decided_at")?,
        expires_at: found.try_get("expires_at")?,
    })
}
