//! `/v1/ops/gateways`: how each account stands, to pause and resume it, and to hold it to a lower rate.
//!
//! What a beat shares among workers is what is shown. An order is one statement with its act; workers follow it
//! from their next beat on, a second later at most.

use super::parked::gateway_name;
use super::{Desk, IdInPath, shapes, text};
use crate::domain::ids::GatewayName;
use crate::domain::pace::{Breaker, Pace};
use crate::domain::switches::{Closed, Orders, Pause, SwitchKind};
use crate::intake::{Code, Form, Problem, Scope, json, trouble, utc};
use crate::platform::{config, metrics};
use crate::schedule::{GatewayAnswer, GatewayChange, GatewayOrder, GatewayStanding};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json as object};

/// What this process was configured to believe of its gateway, for people.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Profile {
    #[serde(skip)]
    pub(super) gateway: GatewayName,
    account: String,
    calls_per_second: u32,
    lookup_share_per_cent: u32,
    max_in_flight: u32,
    key_ttl_s: u64,
    looks_up: bool,
    replays_declines: bool,
    compares_body: bool,
    takes_callbacks: bool,
}

impl Profile {
    pub(super) fn of(gateway: &config::Gateway) -> Self {
        Self {
            gateway: GatewayName(gateway.name.clone()),
            account: gateway.account.clone(),
            calls_per_second: gateway.rate,
            lookup_share_per_cent: gateway.lookup_share,
            max_in_flight: gateway.max_in_flight_total,
            key_ttl_s: gateway.key_ttl.as_secs(),
            looks_up: gateway.lookup,
            replays_declines: gateway.replays_declines,
            compares_body: gateway.compares_body,
            takes_callbacks: !gateway.callback_secret.is_empty(),
        }
    }
}

pub(super) async fn list(State(desk): State<Desk>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let standings = desk.intake.schedule().gateways().await.map_err(trouble)?;
    let data: Vec<Value> = standings.iter().map(|standing| shown(standing, &desk)).collect();
    Ok(json(StatusCode::OK, shapes::bytes(&object!({"data": data}))))
}

pub(super) async fn pause(
    State(desk): State<Desk>,
    name: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    desk.order("pause_gateway", name, request, &["reason"], |_, _| Ok(GatewayChange::Pause)).await
}

pub(super) async fn resume(
    State(desk): State<Desk>,
    name: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    desk.order("resume_gateway", name, request, &["reason"], |_, _| Ok(GatewayChange::Resume)).await
}

/// `callsPerSecond` left out returns to what is configured.
pub(super) async fn rate(
    State(desk): State<Desk>,
    name: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let fields = ["callsPerSecond", "reason"];
    desk.order("limit_gateway_rate", name, request, &fields, |form, most| {
        limit(form.integer("callsPerSecond")?, most)
    })
    .await
}

/// At most what is configured, because permits are shared out by that; and only where something is.
fn limit(asked: Option<i64>, configured: Option<u32>) -> Result<GatewayChange, Problem> {
    let Some(asked) = asked else { return Ok(GatewayChange::Limit(None)) };
    let most = configured.filter(|most| *most > 0).ok_or_else(|| Problem::new(Code::RateNotSettable))?;
    let fits = u32::try_from(asked).ok().filter(|asked| (1..=most).contains(asked));
    let asked = fits.ok_or_else(|| {
        Problem::new(Code::RateNotSettable).detail(format!("callsPerSecond is 1 to {most}, or left out."))
    })?;
    Ok(GatewayChange::Limit(Some(asked)))
}

impl Desk {
    async fn order(
        &self,
        act: &'static str,
        name: IdInPath,
        request: Request,
        fields: &[&str],
        read: impl Fn(&mut Form, Option<u32>) -> Result<GatewayChange, Problem>,
    ) -> Result<Response<Body>, Problem> {
        let (caller, mut form) = self.intake.act(request, Scope::Gateways, fields).await?;
        let name = gateway_name(&text(name)).ok_or_else(|| Problem::new(Code::GatewayNotFound))?;
        let reason = form.reason()?;
        // What is not there has no rate to be set either.
        self.standing(&name).await?;
        let what = read(&mut form, self.profile_of(&name).map(|profile| profile.calls_per_second))?;
        let order = GatewayOrder { name: name.clone(), what, by: caller.operator, reason };
        let answer = self.intake.schedule().order_gateway(&order).await.map_err(trouble)?;
        metrics::OPERATOR_ACTS.add(1, [act, if answer == GatewayAnswer::Done { "done" } else { "refused" }]);
        Ok(json(StatusCode::OK, shapes::bytes(&shown(&self.standing(&name).await?, self))))
    }

    async fn standing(&self, name: &GatewayName) -> Result<GatewayStanding, Problem> {
        let standings = self.intake.schedule().gateways().await.map_err(trouble)?;
        let found = standings.into_iter().find(|standing| standing.name == *name);
        found.ok_or_else(|| Problem::new(Code::GatewayNotFound))
    }

    fn profile_of(&self, name: &GatewayName) -> Option<&Profile> {
        self.profile.as_ref().as_ref().filter(|profile| profile.gateway == *name)
    }
}

fn shown(standing: &GatewayStanding, desk: &Desk) -> Value {
    let profile = desk.profile_of(&standing.name);
    let pace = standing.pace.as_ref();
    let (calls, failed) = pace.map_or((0, 0), |pace| pace.window.sums(standing.now));
    let paused = standing.paused.as_ref();
    let paused = paused.map(|it| object!({"by": it.by, "reason": it.reason, "since": utc(it.at)}));
    let configured = profile.map(|profile| profile.calls_per_second).filter(|rate| *rate > 0);
    object!({
        "gateway": standing.name,
        "account": standing.account,
        "status": status(standing),
        "paused": paused,
        "killSwitches": switches(standing),
        "breaker": breaker(pace),
        "askedToWaitUntil": pace.and_then(|pace| pace.paused_until).map(utc),
        "rate": configured.map(|configured| rate_of(configured, standing)),
        "calls": {"lastTenSeconds": calls, "failed": failed},
        "inFlight": standing.in_flight,
        "workers": pace.map(workers).unwrap_or_default(),
        "voidsByKey": standing.voids_by_key,
        "refunds": standing.offers_refunds,
        "profile": profile,
    })
}

/// What keeps it from being called, the strongest first.
fn status(standing: &GatewayStanding) -> &'static str {
    let pause = if standing.paused.is_some() { Pause::Held } else { Pause::None };
    match Orders::of(&standing.name, pause, standing.switches.clone()).closed {
        Some(Closed::Killed) => return "killed",
        Some(Closed::Paused) => return "paused",
        None => {}
    }
    let Some(pace) = &standing.pace else { return "open" };
    match &pace.breaker {
        Breaker::Open { .. } => "broken",
        Breaker::Probing { .. } => "probing",
        Breaker::Closed if pace.paused_until.is_some_and(|until| until > standing.now) => "asked_to_wait",
        Breaker::Closed => "open",
    }
}

/// Those that stop all of it or some of it: a currency's or an actor's stops at every gateway.
fn switches(standing: &GatewayStanding) -> Vec<Value> {
    let mut shown = Vec::new();
    for kind in SwitchKind::ALL {
        let values = standing.switches.values(kind);
        let concerns = values.into_iter().filter(|it| kind != SwitchKind::Gateway || *it == standing.name.0);
        shown.extend(concerns.map(|value| object!({"kind": kind.as_str(), "value": value})));
    }
    shown
}

fn breaker(pace: Option<&Pace>) -> Value {
    let Some(pace) = pace else {
        return object!({"state": "closed", "until": null, "cause": null, "trips": 0});
    };
    let until = match &pace.breaker {
        Breaker::Closed => None,
        Breaker::Open { until } | Breaker::Probing { until, .. } => Some(*until),
    };
    object!({"state": pace.breaker.kind(), "until": until.map(utc), "cause": pace.cause, "trips": pace.trips})
}

/// Calls a second of all workers together, and from when on permits are free.
fn rate_of(configured: u32, standing: &GatewayStanding) -> Value {
    let most = standing.rate_limit.map_or(configured, |limit| limit.min(configured));
    let (now, pace) = (standing.now, standing.pace.as_ref());
    object!({
        "configured": configured,
        "limit": standing.rate_limit,
        "heldNow": pace.map_or(most, |pace| pace.held_to(most, now)),
        "chargesFreeAt": utc(pace.map_or(now, |pace| pace.charges_free_at)),
        "lookupsFreeAt": utc(pace.map_or(now, |pace| pace.lookups_free_at)),
    })
}

fn workers(pace: &Pace) -> Vec<Value> {
    let shown = pace.lanes.iter().map(|(worker, lane)| {
        object!({"worker": worker, "heardAt": utc(lane.heard_at), "demand": lane.demand, "slots": lane.slots})
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_set_only_where_one_is_configured_and_never_above_it() {
        let set = |asked, configured| limit(asked, configured).map_err(|problem| problem.code.as_str());
        assert_eq!(set(Some(1), Some(40)), Ok(GatewayChange::Limit(Some(1))));
        assert_eq!(set(Some(40), Some(40)), Ok(GatewayChange::Limit(Some(40))));
        assert_eq!(set(None, Some(40)), Ok(GatewayChange::Limit(None)));
        assert_eq!(set(None, None), Ok(GatewayChange::Limit(None)));
        for (asked, configured) in
            [(0, Some(40)), (41, Some(40)), (-1, Some(40)), (i64::MAX, Some(40)), (1, Some(0)), (1, None)]
        {
            assert_eq!(set(Some(asked), configured), Err("rate_not_settable"), "{asked} of {configured:?}");
        }
    }
}
