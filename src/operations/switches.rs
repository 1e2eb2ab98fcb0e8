//! `/v1/ops/kill-switches`: what is switched off, and by whom; to switch something off, or on again.
//!
//! A switch is effective when this answers: claims ask the database in their own statement. What was claimed
//! before is stopped right before its first byte, with each worker's next beat, a second later at most. It
//! takes no request back.

use super::{Desk, shapes};
use crate::domain::switches::{Switch, SwitchKind, Turned};
use crate::intake::{Code, Problem, Scope, actor_name, json, trouble, utc};
use crate::platform::metrics;
use crate::schedule::{SwitchAnswer, SwitchOrder, ThrownSwitch};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json as object};

pub(super) async fn list(State(desk): State<Desk>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let thrown = desk.intake.schedule().kill_switches().await.map_err(trouble)?;
    let data: Vec<Value> = thrown.iter().map(shown).collect();
    Ok(json(StatusCode::OK, shapes::bytes(&object!({"data": data}))))
}

fn shown(thrown: &ThrownSwitch) -> Value {
    object!({
        "kind": thrown.switch.kind.as_str(),
        "value": thrown.switch.value,
        "on": true,
        "actor": thrown.actor_name,
        "by": thrown.by,
        "reason": thrown.reason,
        "since": utc(thrown.at),
    })
}

pub(super) async fn put(
    State(desk): State<Desk>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let named = path.ok().and_then(|Path((kind, value))| Some((SwitchKind::from_text(&kind)?, value)));
    let headers = request.headers().clone();
    let (caller, mut form) = desk.intake.act(request, Scope::Gateways, &["on", "reason"]).await?;
    if named.as_ref().is_some_and(|(kind, _)| is_beyond_gateways(*kind)) {
        desk.intake.authorise(&headers, Scope::Admin).await?;
    }
    let on = form.flag("on")?.ok_or_else(|| form.missing("on"))?;
    let reason = form.reason()?;
    let none_of_that_name = || Problem::new(Code::NothingToSwitch);
    let (kind, value) = named.ok_or_else(none_of_that_name)?;
    let value = canonical(kind, value).ok_or_else(none_of_that_name)?;
    let order = SwitchOrder {
        kind,
        value: value.clone(),
        turned: if on { Turned::Off } else { Turned::On },
        by: caller.operator,
        reason,
        configured: desk.profile.iter().map(|profile| profile.gateway.clone()).collect(),
    };
    let answer = desk.intake.schedule().turn_switch(&order).await.map_err(trouble)?;
    let act = if on { "throw_switch" } else { "release_switch" };
    let result = if answer == SwitchAnswer::NothingOfThatName { "refused" } else { "done" };
    metrics::OPERATOR_ACTS.add(1, [act, result]);
    let body = match answer {
        SwitchAnswer::Thrown(thrown) => shown(&thrown),
        SwitchAnswer::Released => object!({"kind": kind.as_str(), "value": value, "on": false}),
        SwitchAnswer::NothingOfThatName => return Err(none_of_that_name()),
    };
    Ok(json(StatusCode::OK, shapes::bytes(&body)))
}

/// To stop one client, or everything, is more than to look after gateways.
fn is_beyond_gateways(kind: SwitchKind) -> bool {
    match kind {
        SwitchKind::Gateway | SwitchKind::Currency => false,
        SwitchKind::Global | SwitchKind::Actor => true,
    }
}

/// The value as it is compared; an actor may be named as well as numbered. `None`: it can name nothing.
fn canonical(kind: SwitchKind, value: String) -> Option<String> {
    match Switch::of(kind, &value) {
        Some(switch) => Some(switch.value),
        None if kind == SwitchKind::Actor => actor_name(&value).ok(),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_named_in_the_form_in_which_it_is_compared() {
        let read = |kind, value: &str| canonical(kind, value.to_owned());
        assert_eq!(read(SwitchKind::Global, "all").as_deref(), Some("all"));
        assert_eq!(read(SwitchKind::Global, "everything"), None);
        assert_eq!(read(SwitchKind::Gateway, "bank-1").as_deref(), Some("bank-1"));
        assert_eq!(read(SwitchKind::Gateway, "Bank"), None);
        assert_eq!(read(SwitchKind::Currency, "EUR").as_deref(), Some("EUR"));
        assert_eq!(read(SwitchKind::Currency, "eur"), None);
        assert_eq!(read(SwitchKind::Actor, "shop").as_deref(), Some("shop"));
        assert_eq!(read(SwitchKind::Actor, "sh\0p"), None);
        let id = "0190F3C1-0000-7000-8000-0000000000AB";
        assert_eq!(read(SwitchKind::Actor, id), Some(id.to_ascii_lowercase()));
    }
}
