//! `POST /v1/ops/parked/{id}/resolve`: end one parked payment by a person's word, with evidence.
//!
//! Charged needs the gateway's reference and exactly the amount that was asked for; not charged is refused while an
//! answer says charged or a send is open. The evidence is kept with the payment for good.

use super::redrive::version;
use super::{Desk, IdInPath, refusal, shapes, text};
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::parked::Act;
use crate::intake::{Caller, Code, Form, Problem, Scope, json, trouble};
use crate::platform::metrics;
use crate::schedule::Resolve;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Map, Value};

/// The fields of the evidence.
const EVIDENCE: [&str; 5] = ["gatewayReference", "amount", "currency", "source", "note"];

pub(super) async fn post(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) =
        desk.intake.act(request, Scope::Redrive, &["reason", "as", "evidence", "version"]).await?;
    let act = outcome(&mut form)?;
    let payment = super::parked::payment_id(&text(id))?;
    let order = order(payment, act, caller, form)?;
    let resolved = desk.intake.schedule().resolve(&order).await.map_err(trouble)?;
    metrics::OPERATOR_ACTS.add(1, [act.as_str(), if resolved.is_ok() { "done" } else { "refused" }]);
    let stands = desk.one(payment).await?;
    match resolved {
        Ok(status) => {
            metrics::PAYMENT_TRANSITIONS.add(1, [status.as_str(), "resolved"]);
            Ok(json(StatusCode::OK, shapes::record(&stands, &desk.rules)))
        }
        Err(why) => Err(refusal::refusal(why, payment, Some(stands.payment.status))),
    }
}

fn outcome(form: &mut Form) -> Result<Act, Problem> {
    match form.text("as", 20)?.as_deref() {
        Some("charged") => Ok(Act::ResolveCharged),
        Some("not_charged") => Ok(Act::ResolveNotCharged),
        Some(_) => {
            Err(Problem::at(Code::UnknownChoice, form.pointer("as"), "Expected charged or not_charged."))
        }
        None => Err(form.missing("as")),
    }
}

fn order(
    payment: crate::domain::ids::PaymentId,
    act: Act,
    caller: Caller,
    mut form: Form,
) -> Result<Resolve, Problem> {
    let Evidence { reference, money, kept } = evidence(&mut form)?;
    let charged = match act {
        Act::ResolveCharged => Some((reference.unwrap_or_default(), money)),
        Act::ResolveNotCharged | Act::Redrive | Act::RedriveNewEpoch => None,
    };
    Ok(Resolve {
        payment,
        charged,
        by: caller.operator,
        version: version(form.integer("version")?),
        reason: form.reason()?,
        evidence: kept,
    })
}

/// What a person saw.
pub(super) struct Evidence {
    /// The gateway's own name of it.
    pub(super) reference: Option<String>,
    /// How much; `None` without one, or for a currency or amount that we know none of.
    pub(super) money: Option<Money>,
    /// All of it, as it is kept for good.
    pub(super) kept: Value,
}

/// Reads the evidence of an act.
///
/// # Errors
/// 400 without it or its source, 422 for what cannot be kept.
pub(super) fn evidence(form: &mut Form) -> Result<Evidence, Problem> {
    let mut given = form.form("evidence", &EVIDENCE)?.ok_or_else(|| form.missing("evidence"))?;
    let source = given.text("source", 100)?.ok_or_else(|| given.missing("source"))?;
    let reference = given.reference("gatewayReference")?;
    let amount = given.integer("amount")?;
    let currency = given.text("currency", 3)?;
    let note = given.text("note", 500)?;
    let money = amount.and_then(Minor::new).zip(currency.as_deref().and_then(Currency::from_code));
    let mut kept = Map::new();
    let all = [
        ("source", Some(Value::from(source))),
        ("gatewayReference", reference.clone().map(Value::from)),
        ("amount", amount.map(Value::from)),
        ("currency", currency.map(Value::from)),
        ("note", note.map(Value::from)),
    ];
    kept.extend(all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    let money = money.map(|(minor, currency)| Money { minor, currency });
    Ok(Evidence { reference, money, kept: Value::Object(kept) })
}
