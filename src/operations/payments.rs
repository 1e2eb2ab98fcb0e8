//! `/v1/ops/payments`: payments of all clients, for people: found by the filter, looked at whole, cancelled for a
//! client, and their payee shown to whoever says why.
//!
//! The list examines a bounded number of payments for one page and says so: `count` is from the page's place on, and
//! whether it is all of them stands beside it. What is the client's own (payee, description, metadata) is in no list
//! and no record; it is shown by an act that is written down before it is answered.

use super::parked::payment_id;
use super::{Desk, IdInPath, shapes, text};
use crate::domain::filter::{Filter, FilterError};
use crate::domain::parked::WhyNot;
use crate::intake::{Code, Pairs, Problem, Scope, cancel_refusal, history_as_json, json, trouble, utc};
use crate::platform::metrics;
use crate::schedule::{
    By, CancelAnswer, DeliveryOfPayment, FoundPayment, Matches, Search, SearchOrder, SearchPage, Secrets,
};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use secrecy::ExposeSecret;
use serde_json::{Value, json as object};

/// The parameters of the list.
const KNOWN: [&str; 4] = ["q", "order", "limit", "cursor"];

pub(super) async fn list(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = desk.intake.look(&headers, Scope::Operate).await?;
    let pairs = Pairs::read(&uri, &KNOWN)?;
    let filter = pairs.text("q").map(read).transpose()?.unwrap_or_default();
    let order = pairs.read_as("order", "Expected due_first or due_last.", order)?;
    let order = order.unwrap_or(SearchOrder::DueLast);
    let search = Search { asked: filter.conditions(), order };
    let query = format!("payments {order:?} {filter}");
    let after = pairs.text("cursor").map(|text| desk.intake.unseal(&caller, &query, text)).transpose()?;
    let page = desk.intake.schedule().search(&search, after, pairs.limit()?).await.map_err(trouble)?;
    let next = page.next.map(|payment| desk.intake.seal(&caller, &query, payment));
    Ok(json(StatusCode::OK, shapes::bytes(&shown(&page, next))))
}

fn order(text: &str) -> Option<SearchOrder> {
    match text {
        "due_first" => Some(SearchOrder::DueFirst),
        "due_last" => Some(SearchOrder::DueLast),
        _ => None,
    }
}

fn read(text: &str) -> Result<Filter, Problem> {
    text.parse().map_err(|error: FilterError| {
        let told = format!("At character {}: {}.", error.at, error.why);
        Problem::at(Code::InvalidParameter, "/q", told)
    })
}

fn shown(page: &SearchPage, next: Option<String>) -> Value {
    let (count, is_all) = match page.matches {
        Matches::Exactly(count) => (count, true),
        Matches::AtLeast(count) => (count, false),
    };
    object!({
        "data": page.found.iter().map(entry).collect::<Vec<_>>(),
        "nextCursor": next,
        "count": count,
        "countIsAll": is_all,
    })
}

fn entry(found: &FoundPayment) -> Value {
    object!({
        "paymentId": found.payment,
        "status": found.status,
        "statusReason": found.reason,
        "actorId": found.actor,
        "actor": found.actor_name,
        "gateway": found.gateway,
        "gatewayReference": found.gateway_ref,
        "amount": found.amount.minor.get(),
        "currency": found.amount.currency.as_str(),
        "dueAt": utc(found.due_at),
        "nextAttemptAt": found.status.is_claimable().then(|| utc(found.next_attempt_at)),
        "createdAt": utc(found.created_at),
    })
}

pub(super) async fn show(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let view = desk.one(payment_id(&text(id))?).await?;
    Ok(json(StatusCode::OK, shapes::record(&view, &desk.rules)))
}

pub(super) async fn history(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let payment = desk.one(payment_id(&text(id))?).await?.payment;
    let found = desk.intake.schedule().history(payment.actor, payment.id).await.map_err(trouble)?;
    let entries = found.ok_or_else(|| Problem::new(Code::PaymentNotFound))?;
    Ok(json(StatusCode::OK, history_as_json(payment.id, &entries)))
}

pub(super) async fn deliveries(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let payment = desk.one(payment_id(&text(id))?).await?.payment;
    let schedule = desk.intake.schedule();
    let history = schedule.history(payment.actor, payment.id).await.map_err(trouble)?.unwrap_or_default();
    let events = history.iter().map(|entry| entry.row.at).collect();
    let found = schedule.deliveries_of(payment.actor, payment.id, events).await.map_err(trouble)?;
    Ok(json(StatusCode::OK, shapes::page(found.iter().map(delivery).collect(), None)))
}

fn delivery(found: &DeliveryOfPayment) -> Value {
    let it = &found.delivery;
    object!({
        "endpointId": found.endpoint,
        "url": found.url,
        "sequence": it.place.seq,
        "eventType": it.event_type,
        "eventAt": utc(it.place.at),
        "status": it.status.as_str(),
        "underWay": it.is_under_way,
        "tries": it.tries,
        "lastStatus": it.last_status,
        "lastError": it.last_error,
        "deliveredAt": it.delivered_at.map(utc),
    })
}

pub(super) async fn cancel(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Redrive, &["reason"]).await?;
    let by = By { operator: caller.operator, reason: form.reason()? };
    let payment = desk.one(payment_id(&text(id))?).await?.payment;
    let schedule = desk.intake.schedule();
    let answer = schedule.cancel_for(payment.actor, payment.id, by).await.map_err(trouble)?;
    let (status, result, count) = match &answer {
        CancelAnswer::Cancelled(_) => (Ok(StatusCode::OK), "cancelled", "done"),
        CancelAnswer::Wished(_) => (Ok(StatusCode::ACCEPTED), "wished", "done"),
        CancelAnswer::Refused(view) => (Err(cancel_refusal(&view.payment)), "refused", "refused"),
        CancelAnswer::NotFound => {
            let gone = Problem::new(Code::PaymentNotFound).detail(WhyNot::NoSuchPayment.explanation());
            (Err(gone), "not_found", "refused")
        }
    };
    metrics::CANCELS.add(1, [result]);
    metrics::OPERATOR_ACTS.add(1, ["cancel", count]);
    let stands = desk.one(payment.id).await?;
    Ok(json(status?, shapes::record(&stands, &desk.rules)))
}

pub(super) async fn payee(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Redrive, &["reason"]).await?;
    let by = By { operator: caller.operator, reason: form.reason()? };
    let id = payment_id(&text(id))?;
    let found = desk.intake.schedule().show_secrets(id, by).await.map_err(trouble)?;
    let result = if found.is_some() { "done" } else { "refused" };
    metrics::OPERATOR_ACTS.add(1, ["show_payee", result]);
    let gone = || Problem::new(Code::PaymentNotFound).detail(WhyNot::NoSuchPayment.explanation());
    let Secrets { payee, description, metadata } = found.ok_or_else(gone)?;
    let shown = object!({
        "paymentId": id,
        "payee": payee.expose_secret(),
        "description": description,
        "metadata": metadata,
    });
    Ok(json(StatusCode::OK, shapes::bytes(&shown)))
}
