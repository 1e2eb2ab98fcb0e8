//! `GET /v1/ops/parked`: what is held for people, over all actors; and one of them with everything known of it.

use super::{Desk, IdInPath, shapes, text};
use crate::domain::ids::{ActorId, GatewayName, PaymentId};
use crate::domain::parked::WhyNot;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::intake::{Code, Pairs, Problem, Scope, json, trouble, utc};
use crate::schedule::{ParkedCount, ParkedFilter, ParkedView};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use serde_json::json as object;
use uuid::Uuid;

/// Nobody's id.
pub(super) const NOBODY: ActorId = ActorId(Uuid::nil());

/// The parameters of the list.
const KNOWN: [&str; 8] = ["reason", "gateway", "actor", "dueFrom", "dueTo", "q", "limit", "cursor"];

pub(super) async fn list(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = desk.intake.look(&headers, Scope::Operate).await?;
    let pairs = Pairs::read(&uri, &KNOWN)?;
    let filter = ParkedFilter {
        reason: pairs.read_as("reason", "Expected one of the registry of reasons.", Reason::from_text)?,
        gateway: pairs.read_as("gateway", "Expected a gateway's name.", gateway_name)?,
        actor: match pairs.read_as(
            "actor",
            "Expected a client's name or id, 100 characters at most.",
            actor,
        )? {
            Some(text) => Some(desk.actor(&text).await?),
            None => None,
        },
        due_from: pairs.time("dueFrom")?,
        due_to: pairs.time("dueTo")?,
        q: pairs.text("q").map(|text| super::bulk::of_parked("/q", text)).transpose()?,
    };
    // Equal filters have equal JSON.
    let query = format!("parked {}", serde_json::to_string(&filter).unwrap_or_default());
    let after = pairs.text("cursor").map(|text| desk.intake.unseal(&caller, &query, text)).transpose()?;
    let page = desk.intake.schedule().parked(&filter, after, pairs.limit()?).await.map_err(trouble)?;
    let next = page.next.map(|payment| desk.intake.seal(&caller, &query, payment));
    Ok(json(StatusCode::OK, shapes::page(page.entries.iter().map(shapes::entry).collect(), next)))
}

/// Entries that are counted; past them the counts are of the first due.
const MOST_COUNTED: i64 = 10_000;

pub(super) async fn counts(State(desk): State<Desk>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let found = desk.intake.schedule().parked_counts(MOST_COUNTED).await.map_err(trouble)?;
    let total: i64 = found.iter().map(|it| it.count).sum();
    let entry = |it: &ParkedCount| {
        object!({
            "parkedReason": it.reason,
            "explanation": Reason::from_text(&it.reason).map(Reason::explanation),
            "gateway": it.gateway,
            "count": it.count,
            "oldestParkedAt": utc(it.oldest),
        })
    };
    let data: Vec<_> = found.iter().map(entry).collect();
    let all = object!({"data": data, "count": total, "countIsAll": total < MOST_COUNTED});
    Ok(json(StatusCode::OK, shapes::bytes(&all)))
}

pub(super) async fn show(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let view = desk.one(payment_id(&text(id))?).await?;
    if view.payment.status != Status::Parked {
        return Err(super::refusal::refusal(WhyNot::NotParked, view.payment.id, Some(view.payment.status)));
    }
    Ok(json(StatusCode::OK, shapes::record(&view, &desk.rules)))
}

impl Desk {
    /// One payment, of whichever actor.
    pub(super) async fn one(&self, id: PaymentId) -> Result<ParkedView, Problem> {
        let found = self.intake.schedule().parked_one(id).await.map_err(trouble)?;
        found.ok_or_else(|| Problem::new(Code::PaymentNotFound).detail(WhyNot::NoSuchPayment.explanation()))
    }

    /// An actor by id or by name; one that does not exist has no payments.
    pub(super) async fn actor(&self, text: &str) -> Result<ActorId, Problem> {
        if let Ok(id) = text.parse::<Uuid>() {
            return Ok(ActorId(id));
        }
        let found = self.intake.schedule().actor_named(text).await.map_err(trouble)?;
        Ok(found.unwrap_or(NOBODY))
    }
}

/// An id in a path or body.
///
/// # Errors
/// 404, like an unknown one.
pub(super) fn payment_id(text: &str) -> Result<PaymentId, Problem> {
    text.parse().map_err(|_| Problem::new(Code::PaymentNotFound).detail(WhyNot::NoSuchPayment.explanation()))
}

/// A name, a subject or a person, as a query gives it.
pub(super) fn line(text: &str) -> Option<String> {
    (!text.is_empty() && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// What can name a client, as the document has it.
fn actor(text: &str) -> Option<String> {
    line(text).filter(|text| text.chars().count() <= 100)
}

/// A name as the settings allow it.
pub(super) fn gateway_name(text: &str) -> Option<GatewayName> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    ((1..=64).contains(&text.len()) && text.bytes().all(fits)).then(|| GatewayName(text.to_owned()))
}
