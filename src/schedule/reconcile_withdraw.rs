//! A report that is taken out by people's word: by one's while nothing hangs on it, by two's where it explains money.
//!
//! **Promises.** The report, what only it raised and what only it explained change in one transaction, and so does the
//! approval that allowed it ([`ApprovalKind::Withdraw`]). The same bytes do not come back by themselves: whoever fetches
//! them again is told so ([`super::ReportBegun::Withdrawn`]). A payment that it has repaired stays as it is, since money
//! may have moved; the next comparison of its day finds it in no report, and somebody has to look.
//!
//! If this dies here, it was taken out or not; whoever repeats is told ([`WithdrawAnswer::DoesNotCount`]).

use super::approvals::{self, Approval, ApprovalKind, AskedFor, NewApproval};
use super::failure::transaction;
use super::port::ScheduleError;
use super::reconcile::ReconciliationRun;
use super::reconcile_runs::report;
use super::row::unfit;
use super::{Postgres, statements};
use crate::domain::ids::Operator;
use serde_json::{Value, json};
use sqlx::{Error, PgConnection};
use uuid::Uuid;

/// A person's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithdrawOrder {
    /// Which report.
    pub run: Uuid,
    /// Who orders it.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// Random: the id of the approval, if one is needed.
    pub approval: Uuid,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub enum WithdrawAnswer {
    /// It counts no more.
    Done(ReconciliationRun),
    /// Money hangs on it: a second person may decide now.
    Asked(Approval),
    /// The same was asked for before, and waits.
    Waiting(Approval),
    /// It did not count, or it was decided while this was asked.
    DoesNotCount,
    /// There is none of this id.
    NotFound,
}

impl Postgres {
    /// Takes a report out that counts, or asks a second person; its day has to be compared again.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn withdraw_report(&self, order: &WithdrawOrder) -> Result<WithdrawAnswer, ScheduleError> {
        let order = order.clone();
        transaction(self.pool(), move |one| Box::pin(async move { by_person(one, &order).await })).await
    }
}

/// What the function says.
enum Told {
    Withdrawn,
    DoesNotCount,
    NotFound,
    NeedsApproval,
}

async fn withdraw(
    transaction: &mut PgConnection,
    run: Uuid,
    by: &Operator,
    reason: &str,
    approval: Option<Uuid>,
) -> Result<Told, Error> {
    let told: String = sqlx::query_scalar(statements::WITHDRAW_REPORT)
        .bind(run)
        .bind(&by.0)
        .bind(reason)
        .bind(approval)
        .fetch_one(transaction)
        .await?;
    match told.as_str() {
        "withdrawn" => Ok(Told::Withdrawn),
        "does_not_count" => Ok(Told::DoesNotCount),
        "no_such_report" => Ok(Told::NotFound),
        "needs_approval" => Ok(Told::NeedsApproval),
        other => Err(unfit("answer", &other)),
    }
}

async fn by_person(transaction: &mut PgConnection, order: &WithdrawOrder) -> Result<WithdrawAnswer, Error> {
    match withdraw(transaction, order.run, &order.by, &order.reason, None).await? {
        Told::Withdrawn => Ok(WithdrawAnswer::Done(stands(transaction, order.run).await?)),
        Told::DoesNotCount => Ok(WithdrawAnswer::DoesNotCount),
        Told::NotFound => Ok(WithdrawAnswer::NotFound),
        Told::NeedsApproval => ask(transaction, order).await,
    }
}

async fn stands(transaction: &mut PgConnection, run: Uuid) -> Result<ReconciliationRun, Error> {
    report(&sqlx::query(statements::FIND_REPORT).bind(run).fetch_one(transaction).await?)
}

/// Of the report as the second person can look it up.
async fn ask(transaction: &mut PgConnection, order: &WithdrawOrder) -> Result<WithdrawAnswer, Error> {
    let run = stands(transaction, order.run).await?;
    sqlx::query(statements::EXPIRE_WITHDRAWALS).bind(run.id.to_string()).execute(&mut *transaction).await?;
    let request = json!({
        "report": run.id.to_string(),
        "gateway": run.gateway,
        "day": run.day,
        "format": run.format,
        "source": run.source,
        "lines": run.lines,
        "counts": run.counts,
        "sums": run.sums,
    });
    let new = NewApproval {
        id: order.approval,
        kind: ApprovalKind::Withdraw,
        payment: None,
        asked_by: order.by.clone(),
        reason: order.reason.clone(),
        request,
    };
    Ok(match approvals::ask_within(transaction, &new).await? {
        AskedFor::Asked(approval) => WithdrawAnswer::Asked(approval),
        AskedFor::Waiting(approval) => WithdrawAnswer::Waiting(approval),
        AskedFor::Decided => WithdrawAnswer::DoesNotCount,
    })
}

/// The withdrawal of this request's report that waits for a second person.
pub(super) async fn waiting(
    connection: &mut PgConnection,
    request: &Value,
) -> Result<Option<Approval>, Error> {
    let report = request.get("report").and_then(Value::as_str);
    let waits = sqlx::query(statements::WAITING_WITHDRAWAL).bind(report).fetch_optional(connection).await?;
    waits.as_ref().map(approvals::approval).transpose()
}

/// Does what this approval allows, and answers which report; not done before the caller's COMMIT. `None`: it does not
/// count any more.
pub(super) async fn carry_out(
    transaction: &mut PgConnection,
    approved: &Approval,
) -> Result<Option<Uuid>, Error> {
    let report = approved.request.get("report").and_then(Value::as_str);
    let Some(run) = report.and_then(|report| report.parse().ok()) else { return Ok(None) };
    let told = withdraw(transaction, run, &approved.asked_by, &approved.reason, Some(approved.id)).await?;
    Ok(match told {
        Told::Withdrawn => Some(run),
        Told::DoesNotCount | Told::NotFound | Told::NeedsApproval => None,
    })
}
