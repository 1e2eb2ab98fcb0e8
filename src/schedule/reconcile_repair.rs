//! What a line repairs: by a program within its bounds, by a person, or by two.
//!
//! **Promises.** One function of the owner does all of it on the locked row (`repair_item()`, of refunds
//! `repair_refund()`): guard, move, history, the external id, the operators' audit. Its evidence is the difference's own, which only who compares can write. What
//! a program may not do is asked of people; what one may not do, of two ([`ApprovalKind::Repair`]), and the approval
//! and the repair are one transaction.
//!
//! If this dies here, it was repaired or not; whoever repeats is told ([`NotRepaired::NotOpen`]).

use super::approvals::{self, Approval, ApprovalKind, AskedFor, NewApproval};
use super::failure::{before_commit, transaction, whole};
use super::port::ScheduleError;
use super::reconcile::{RepairAnswer, RepairDone, RepairOrder, Repairs, RepairsOrder};
use super::reconcile_items::item;
use super::row::unfit;
use super::{Postgres, statements};
use crate::domain::ids::Operator;
use crate::domain::repair::{NotRepaired, Power};
use crate::domain::state::Status;
use serde_json::{Value, json};
use sqlx::{Error, PgConnection, PgPool};
use uuid::Uuid;

/// Differences looked at by one statement.
const LISTED_AT_ONCE: i64 = 500;

impl Postgres {
    /// Repairs what may be repaired without a person, one payment a transaction.
    ///
    /// # Errors
    /// Any; repeating it does no harm. [`Power::Person`] is a `Defect`: no program is one.
    pub async fn repair_day(&self, order: &RepairsOrder) -> Result<Repairs, ScheduleError> {
        if order.power == Power::Person {
            return Err(ScheduleError::Defect("a program repairs as a person".into()));
        }
        let (pool, order) = (self.pool().clone(), order.clone());
        whole(async move { repairs(&pool, &order).await }).await
    }

    /// Repairs by one difference, or asks a second person, or says why not.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn repair_item(&self, order: &RepairOrder) -> Result<RepairAnswer, ScheduleError> {
        let order = order.clone();
        transaction(self.pool(), move |one| Box::pin(async move { by_person(one, &order).await })).await
    }
}

/// One repair by a person's word, as it is put to the function.
struct Asked<'a> {
    item: i64,
    by: &'a Operator,
    reason: &'a str,
    version: Option<i32>,
    approval: Option<Uuid>,
}

/// Not done before the caller's COMMIT. A refusal has written nothing.
async fn repair_by_person(
    transaction: &mut PgConnection,
    asked: &Asked<'_>,
) -> Result<Result<RepairDone, NotRepaired>, Error> {
    let answer: String = sqlx::query_scalar(statements::REPAIR_BY_PERSON)
        .bind(asked.item)
        .bind(&asked.by.0)
        .bind(asked.reason)
        .bind(asked.version)
        .bind(asked.approval)
        .fetch_one(&mut *transaction)
        .await?;
    told(transaction, asked.item, &answer).await
}

/// What the function's word means.
async fn told(
    transaction: &mut PgConnection,
    item: i64,
    answer: &str,
) -> Result<Result<RepairDone, NotRepaired>, Error> {
    let (answer, parked_another) = match answer.strip_suffix("_and_parked_another") {
        Some(answer) => (answer, true),
        None => (answer, false),
    };
    let ended_refund = matches!(answer, "refunded" | "refunded_whole");
    let done = |status, has_moved| Ok(Ok(RepairDone { status, has_moved, ended_refund, parked_another }));
    match answer {
        "completed" => done(Status::Completed, true),
        "parked" => done(Status::Parked, true),
        "refunded_whole" => done(Status::Refunded, true),
        "recorded" | "refunded" => {
            let found = sqlx::query(statements::FIND_ITEM).bind(item).fetch_one(&mut *transaction).await?;
            let payment = super::row::payment_id(&found, "payment_id")?;
            let stands = sqlx::query(statements::STATES)
                .bind(payment.due_day())
                .bind(vec![payment.as_uuid()])
                .fetch_one(transaction)
                .await?;
            done(super::row::status(&stands, "status")?, false)
        }
        other => Ok(Err(NotRepaired::from_text(other).ok_or_else(|| unfit("answer", &other))?)),
    }
}

async fn repairs(pool: &PgPool, order: &RepairsOrder) -> Result<Repairs, ScheduleError> {
    let mut repairs = Repairs::default();
    let mut after = 0_i64;
    loop {
        let items: Vec<i64> = sqlx::query_scalar(statements::REPAIRABLE_ITEMS)
            .bind(&order.gateway.0)
            .bind(order.day)
            .bind(after)
            .bind(LISTED_AT_ONCE)
            .bind(order.power.as_str())
            .fetch_all(pool)
            .await
            .map_err(before_commit)?;
        let Some(last) = items.last() else { return Ok(repairs) };
        after = *last;
        for item in items {
            one(pool, item, order.power, &mut repairs).await?;
        }
    }
}

async fn one(pool: &PgPool, item: i64, power: Power, repairs: &mut Repairs) -> Result<(), ScheduleError> {
    let done = transaction(pool, move |one| {
        Box::pin(async move {
            let answer: String = sqlx::query_scalar(statements::REPAIR_BY_PROGRAM)
                .bind(item)
                .bind(power.as_str())
                .fetch_one(&mut *one)
                .await?;
            let done = told(one, item, &answer).await?;
            if let Err(why) = done {
                sqlx::query(statements::NOTE_NOT_REPAIRED).bind(item).bind(why.as_str()).execute(one).await?;
            }
            Ok(done)
        })
    })
    .await?;
    match done {
        Ok(RepairDone { ended_refund: true, has_moved, .. }) => {
            repairs.refunds += 1;
            repairs.refunded += u64::from(has_moved);
        }
        Ok(RepairDone { has_moved: false, .. }) => repairs.recorded += 1,
        Ok(RepairDone { status, parked_another, .. }) => {
            *(if status == Status::Completed { &mut repairs.completed } else { &mut repairs.parked }) += 1;
            repairs.others += u64::from(parked_another);
        }
        Err(why) => *repairs.refused.entry(why).or_default() += 1,
    }
    Ok(())
}

async fn by_person(transaction: &mut PgConnection, order: &RepairOrder) -> Result<RepairAnswer, Error> {
    let asked = Asked {
        item: order.item,
        by: &order.by,
        reason: &order.reason,
        version: order.version,
        approval: None,
    };
    match repair_by_person(transaction, &asked).await? {
        Ok(done) => Ok(RepairAnswer::Done(done)),
        Err(NotRepaired::NeedsApproval) => ask(transaction, order).await,
        Err(why) => Ok(RepairAnswer::Refused(why)),
    }
}

/// Of the payment as it stands now, which the second person is shown.
async fn ask(transaction: &mut PgConnection, order: &RepairOrder) -> Result<RepairAnswer, Error> {
    let found = sqlx::query(statements::FIND_ITEM).bind(order.item).fetch_one(&mut *transaction).await?;
    let item = item(&found)?;
    let Some(payment) = item.what.payment else {
        return Ok(RepairAnswer::Refused(NotRepaired::NoSuchPayment));
    };
    let version: i32 = sqlx::query_scalar(statements::PAYMENT_VERSION)
        .bind(payment.due_day())
        .bind(payment.as_uuid())
        .fetch_one(&mut *transaction)
        .await?;
    let request = json!({
        "item": item.number.to_string(),
        "version": version,
        "gateway": item.gateway,
        "day": item.day,
        "gatewayReference": item.what.reference,
        "amount": item.what.amount_minor,
        "currency": item.what.currency,
        "evidence": item.what.evidence,
    });
    sqlx::query(statements::EXPIRE_REPAIRS)
        .bind(item.number.to_string())
        .bind(i64::from(version))
        .execute(&mut *transaction)
        .await?;
    let new = NewApproval {
        id: order.approval,
        kind: ApprovalKind::Repair,
        payment: Some(payment),
        asked_by: order.by.clone(),
        reason: order.reason.clone(),
        request,
    };
    Ok(match approvals::ask_within(transaction, &new).await? {
        AskedFor::Asked(approval) => RepairAnswer::Asked(approval),
        AskedFor::Waiting(approval) => RepairAnswer::Waiting(approval),
        AskedFor::Decided => RepairAnswer::Refused(NotRepaired::Changed),
    })
}

/// The repair by this request's difference that waits for a second person.
pub(super) async fn waiting(
    connection: &mut PgConnection,
    request: &Value,
) -> Result<Option<Approval>, Error> {
    let item = request.get("item").and_then(Value::as_str);
    let waits = sqlx::query(statements::WAITING_REPAIR).bind(item).fetch_optional(connection).await?;
    waits.as_ref().map(approvals::approval).transpose()
}

/// Does what this approval allows; not done before the caller's COMMIT.
pub(super) async fn carry_out(
    transaction: &mut PgConnection,
    approved: &Approval,
) -> Result<Option<Result<RepairDone, NotRepaired>>, Error> {
    let item = approved.request.get("item").and_then(Value::as_str).and_then(|item| item.parse().ok());
    let version = approved.request.get("version").and_then(Value::as_i64);
    let (Some(item), Some(version)) = (item, version) else { return Ok(None) };
    let asked = Asked {
        item,
        by: &approved.asked_by,
        reason: &approved.reason,
        // A version that no row can have fits no row.
        version: Some(i32::try_from(version).unwrap_or(-1)),
        approval: Some(approved.id),
    };
    repair_by_person(transaction, &asked).await.map(Some)
}
