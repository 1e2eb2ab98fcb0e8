//! `/v1/ops/reconciliations` and their like: what the gateways' reports were found to say, what differs, and what
//! people do about it.
//!
//! To look needs `ops:read`, to act `ops:redrive` and a reason. A repair is one verb of the schedule, whose guard
//! decides on the locked payment and takes the report's own line as its evidence; where a client was told that a
//! payment had ended without a charge it is answered 202, and a second person carries it out; so is a withdrawal of a
//! report that explains money. Reports are not loaded here: one may be a file of gigabytes (`punctual reconcile run`, and the keeper).

use super::reconciliation_shapes as wire;
use super::{Desk, IdInPath, shapes, text, uuid};
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::matching::{Class, ItemStatus};
use crate::domain::reason::Reason;
use crate::domain::repair::NotRepaired;
use crate::domain::state::{Cause, Status};
use crate::intake::{Code, Pairs, Problem, Scope, json, trouble};
use crate::platform::metrics;
use crate::schedule::{
    ReconciliationItem, ReconciliationItemFilter, ReconciliationRunFilter, RepairAnswer, RepairDone,
    RepairOrder, ReportStatus, WithdrawAnswer, WithdrawOrder,
};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use chrono::NaiveDate;
use serde_json::json as object;
use std::collections::BTreeSet;

/// What a day is.
const DAY: &str = "Expected a day like 2030-01-31.";
const GATEWAY: &str = "Expected a gateway's name.";

/// Most days of one request for sums: each is a scan of its day.
const MOST_DAYS: i64 = 31;

fn day(pairs: &Pairs, name: &str) -> Result<Option<NaiveDate>, Problem> {
    // The form is that of the document; chrono reads shorter ones too.
    pairs.read_as(name, DAY, |text| (text.len() == 10).then(|| text.parse().ok()).flatten())
}

fn gateway(pairs: &Pairs) -> Result<Option<GatewayName>, Problem> {
    pairs.read_as("gateway", GATEWAY, super::parked::gateway_name)
}

pub(super) async fn list(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let pairs = Pairs::read(&uri, &["gateway", "from", "to", "status", "limit", "cursor"])?;
    let filter = ReconciliationRunFilter {
        gateway: gateway(&pairs)?,
        from: day(&pairs, "from")?,
        to: day(&pairs, "to")?,
        status: pairs.read_as("status", "Expected where a report can stand.", ReportStatus::from_text)?,
    };
    let limit = pairs.limit()?;
    let schedule = desk.intake.schedule();
    let last = super::before(&pairs, |id| schedule.reconciliation_run(id)).await?;
    let before = last.map(|last| (last.day, last.started_at, last.id));
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let found = schedule.reconciliation_runs(&filter, before, most).await.map_err(trouble)?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id.to_string());
    Ok(json(StatusCode::OK, shapes::page(found.iter().map(wire::run).collect(), next)))
}

pub(super) async fn show(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let id = uuid(id, Code::ReconciliationNotFound)?;
    let found = desk.intake.schedule().reconciliation_run(id).await.map_err(trouble)?;
    let found = found.ok_or_else(|| Problem::new(Code::ReconciliationNotFound))?;
    Ok(json(StatusCode::OK, shapes::bytes(&wire::run(&found))))
}

pub(super) async fn withdraw(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Redrive, &["reason"]).await?;
    let reason = form.reason()?;
    let id = uuid(id, Code::ReconciliationNotFound)?;
    let order = WithdrawOrder { run: id, by: caller.operator, reason, approval: desk.intake.fresh_id() };
    let answer = desk.intake.schedule().withdraw_report(&order).await.map_err(trouble)?;
    let result = match &answer {
        WithdrawAnswer::Done(_) => "done",
        WithdrawAnswer::Asked(_) | WithdrawAnswer::Waiting(_) => "asked",
        WithdrawAnswer::DoesNotCount | WithdrawAnswer::NotFound => "refused",
    };
    metrics::OPERATOR_ACTS.add(1, ["withdraw_report", result]);
    match answer {
        WithdrawAnswer::Done(stands) => Ok(json(StatusCode::OK, shapes::bytes(&wire::run(&stands)))),
        WithdrawAnswer::Asked(approval) | WithdrawAnswer::Waiting(approval) => {
            Ok(json(StatusCode::ACCEPTED, shapes::bytes(&shapes::approval(&approval))))
        }
        WithdrawAnswer::DoesNotCount => Err(Problem::new(Code::ReportDoesNotCount)),
        WithdrawAnswer::NotFound => Err(Problem::new(Code::ReconciliationNotFound)),
    }
}

pub(super) async fn standing(
    State(desk): State<Desk>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let found = desk.intake.schedule().reconciliation_standing().await.map_err(trouble)?;
    let data: Vec<_> = found.iter().map(wire::standing).collect();
    Ok(json(StatusCode::OK, shapes::bytes(&object!({"data": data}))))
}

pub(super) async fn items(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let known = ["gateway", "day", "class", "status", "paymentId", "limit", "cursor"];
    let pairs = Pairs::read(&uri, &known)?;
    let filter = ReconciliationItemFilter {
        gateway: gateway(&pairs)?,
        day: day(&pairs, "day")?,
        class: pairs.read_as("class", "Expected a class of differences.", Class::from_text)?,
        status: pairs.read_as("status", "Expected where a difference can stand.", ItemStatus::from_text)?,
        payment: pairs
            .read_as("paymentId", "Expected a payment's id.", |text| text.parse::<PaymentId>().ok())?,
    };
    let limit = pairs.limit()?;
    // The number of the last one of the page before: numbers only grow.
    let cursor = "Expected the cursor of the page before.";
    let after = pairs.read_as("cursor", cursor, |text| text.parse().ok().filter(|number| *number > 0))?;
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let found = desk.intake.schedule().reconciliation_items(&filter, after, most).await.map_err(trouble)?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.number.to_string());
    Ok(json(StatusCode::OK, shapes::page(found.iter().map(wire::item).collect(), next)))
}

pub(super) async fn item(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let found = desk.item(number(id)?).await?;
    Ok(json(StatusCode::OK, shapes::bytes(&wire::item(&found))))
}

/// The number of an item; what is none names nothing.
fn number(id: IdInPath) -> Result<i64, Problem> {
    let none = || Problem::new(Code::ReconciliationItemNotFound);
    text(id).parse().ok().filter(|number| *number > 0).ok_or_else(none)
}

pub(super) async fn repair(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Redrive, &["reason", "version"]).await?;
    let (version, reason) = (super::redrive::version(form.integer("version")?), form.reason()?);
    let order = RepairOrder {
        item: number(id)?,
        by: caller.operator,
        version,
        reason,
        approval: desk.intake.fresh_id(),
    };
    let answer = desk.intake.schedule().repair_item(&order).await.map_err(trouble)?;
    let result = match &answer {
        RepairAnswer::Done(_) => "done",
        RepairAnswer::Asked(_) | RepairAnswer::Waiting(_) => "asked",
        RepairAnswer::Refused(_) => "refused",
    };
    metrics::OPERATOR_ACTS.add(1, ["repair_item", result]);
    match answer {
        RepairAnswer::Done(done) => {
            // What had ended is repaired by two people only: see `approvals`.
            count(done, Cause::Reconciled);
            let stands = desk.item(order.item).await?;
            Ok(json(StatusCode::OK, shapes::bytes(&wire::item(&stands))))
        }
        RepairAnswer::Asked(approval) | RepairAnswer::Waiting(approval) => {
            Ok(json(StatusCode::ACCEPTED, shapes::bytes(&shapes::approval(&approval))))
        }
        RepairAnswer::Refused(why) => {
            let item = desk.intake.schedule().reconciliation_item(order.item).await.map_err(trouble)?;
            Err(refusal(why, item.and_then(|item| item.what.payment)))
        }
    }
}

pub(super) async fn dismiss(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Redrive, &["reason"]).await?;
    let reason = form.reason()?;
    let number = number(id)?;
    let schedule = desk.intake.schedule();
    let dismissed = schedule.dismiss_item(number, &caller.operator, &reason).await.map_err(trouble)?;
    metrics::OPERATOR_ACTS.add(1, ["dismiss_item", if dismissed.is_ok() { "done" } else { "refused" }]);
    dismissed.map_err(|why| refusal(why, None))?;
    let stands = desk.item(number).await?;
    Ok(json(StatusCode::OK, shapes::bytes(&wire::item(&stands))))
}

pub(super) async fn sums(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let pairs = Pairs::read(&uri, &["from", "to", "gateway"])?;
    let missing = || Problem::at(Code::InvalidParameter, "/from", DAY);
    let from = day(&pairs, "from")?.ok_or_else(missing)?;
    let to = day(&pairs, "to")?.unwrap_or(from);
    if !(0..MOST_DAYS).contains(&(to - from).num_days()) {
        let why = "Expected a day from the first one on, 31 days in all at most.";
        return Err(Problem::at(Code::InvalidParameter, "/to", why));
    }
    let schedule = desk.intake.schedule();
    let gateways: BTreeSet<GatewayName> = match gateway(&pairs)? {
        Some(gateway) => BTreeSet::from([gateway]),
        None => {
            // Those that a worker charges through, and those of which only reports are known.
            let charged = schedule.gateways().await.map_err(trouble)?;
            let reported = schedule.reconciliation_standing().await.map_err(trouble)?;
            let charged = charged.into_iter().map(|standing| standing.name);
            charged.chain(reported.into_iter().map(|standing| standing.gateway)).collect()
        }
    };
    let mut data = Vec::new();
    for day in from.iter_days().take_while(|day| *day <= to) {
        for gateway in &gateways {
            let sums = schedule.day_sums(gateway, day).await.map_err(trouble)?;
            data.extend(sums.iter().map(|sum| wire::sum(gateway, day, sum)));
        }
    }
    Ok(json(StatusCode::OK, shapes::bytes(&object!({"data": data}))))
}

impl Desk {
    async fn item(&self, number: i64) -> Result<ReconciliationItem, Problem> {
        let found = self.intake.schedule().reconciliation_item(number).await.map_err(trouble)?;
        found.ok_or_else(|| Problem::new(Code::ReconciliationItemNotFound))
    }
}

/// Counts the moves of a repair, as every move is counted where it is made: of a payment by this cause.
pub(super) fn count(done: RepairDone, of_payment: Cause) {
    if done.has_moved {
        let cause = if done.ended_refund { Cause::Refunded } else { of_payment };
        metrics::PAYMENT_TRANSITIONS.add(1, [done.status.as_str(), cause.as_str()]);
    }
    if done.parked_another {
        metrics::PAYMENT_TRANSITIONS.add(1, [Status::Parked.as_str(), Cause::Reconciled.as_str()]);
        metrics::PARKED.add(1, [Reason::ExternalIdTakenBack.as_str()]);
    }
}

/// Why the line repairs nothing, as people are told.
pub(super) fn refusal(why: NotRepaired, payment: Option<PaymentId>) -> Problem {
    let code = match why {
        NotRepaired::NoSuchItem => Code::ReconciliationItemNotFound,
        NotRepaired::NotOpen => Code::ItemDecided,
        NotRepaired::NothingToRepair | NotRepaired::OtherGateway | NotRepaired::ReferenceMissing => {
            Code::NothingToRepair
        }
        NotRepaired::NoSuchPayment => Code::PaymentNotFound,
        NotRepaired::Changed => Code::PaymentChanged,
        NotRepaired::InFlight => Code::PaymentHeld,
        NotRepaired::ReferenceTaken => Code::ReferenceTaken,
        NotRepaired::AboveCharge => Code::RefundAboveCharge,
        NotRepaired::OnRecord => Code::ChargeOnRecord,
        // A person asked, and a second one was asked for before the schedule could say so.
        NotRepaired::NeedsPerson | NotRepaired::NeedsApproval => Code::Internal,
    };
    let problem = Problem::new(code).detail(why.explanation());
    match payment {
        Some(payment) => problem.about(payment, None),
        None => problem,
    }
}
