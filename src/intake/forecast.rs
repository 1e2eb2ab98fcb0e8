//! `GET /v1/forecast`: what falls due in the next hour and month, for all clients together.
//!
//! It needs the scope `ops:read`, because counts over all actors are none of a client's business. The
//! counts are kept for [`KEPT`], and only one request counts at a time: however many screens show it, the
//! index is read a few times a minute. Days are as old as they say: the keeper counts them.

use super::actor::Scope;
use super::openapi::{Answer, Operation};
use super::problem::Problem;
use super::wire::utc;
use super::{Intake, headers, json, limits};
use crate::domain::forecast::{Drained, Precision, drain};
use crate::domain::ids::GatewayName;
use crate::domain::lease::Mono;
use crate::platform::config;
use crate::schedule::{Forecast, GatewayForecast};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How old an answer may be.
const KEPT: Duration = Duration::from_secs(10);

/// The last count, with the instant at which it was asked for.
pub(super) type Counted = Mutex<Option<(Mono, Arc<Forecast>)>>;

/// The gateway account that this process knows the permitted rate of.
#[derive(Debug, Clone, Default)]
pub struct Account {
    gateway: Option<GatewayName>,
    calls_per_second: u32,
    lookup_share: u32,
}

impl Account {
    /// As configured; a rate of 0 is none.
    #[must_use]
    pub fn of(gateway: &config::Gateway) -> Self {
        Self {
            gateway: Some(GatewayName(gateway.name.clone())),
            calls_per_second: gateway.rate,
            lookup_share: gateway.lookup_share,
        }
    }

    /// Charges a second that the gateway may be sent: its rate, or what a person holds it to if that is less, without
    /// what is kept for look-ups. `None`: no limit, or not known here.
    #[must_use]
    pub fn rate_of(&self, of: &GatewayForecast) -> Option<u32> {
        if self.gateway.as_ref() != Some(&of.gateway) || self.calls_per_second == 0 {
            return None;
        }
        let calls = of.rate_limit.map_or(self.calls_per_second, |limit| limit.min(self.calls_per_second));
        let share = u64::from(100_u32.saturating_sub(self.lookup_share));
        // Less than `calls`, so that it fits; a share that leaves less than one leaves one.
        Some(u32::try_from(u64::from(calls) * share / 100).unwrap_or(calls).max(1))
    }
}

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/forecast",
    id: "forecast",
    tag: "operations",
    summary: "What falls due in the next hour and month",
    scope: Some(Scope::Operate),
    answers: &[Answer::ok("Forecast", "Counted at most 10 seconds ago.")],
    ..Operation::BARE
}];

pub(super) async fn get(State(intake): State<Intake>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    intake.authorise(&headers, Scope::Operate).await?;
    headers::accepts_json(&headers)?;
    let forecast = intake.forecast().await?;
    // A value of texts and numbers: it cannot fail to be written.
    let body = serde_json::to_vec(&forecast_as_json(&forecast, &intake.account)).unwrap_or_default();
    let mut response = json(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

impl Intake {
    /// What falls due, as it was counted a moment ago or is counted now.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn forecast(&self) -> Result<Arc<Forecast>, Problem> {
        // Whoever waits here finds the answer of the one before.
        let mut last = self.counted.lock().await;
        let now = self.clock.mono();
        if let Some((asked_at, forecast)) = last.as_ref()
            && now.0.saturating_sub(asked_at.0) < KEPT
        {
            return Ok(Arc::clone(forecast));
        }
        let forecast = Arc::new(self.schedule.forecast(&self.terms.gateways).await.map_err(limits::trouble)?);
        *last = Some((now, Arc::clone(&forecast)));
        Ok(forecast)
    }

    /// The gateway account whose permitted rate this process knows.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }
}

/// The order of fields is the order on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    taken_at: String,
    gateways: Vec<ShownGateway>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownGateway {
    gateway: GatewayName,
    charges_per_second: Option<u32>,
    overdue: i64,
    overdue_precision: Precision,
    minutes: Vec<ShownSpan>,
    days: Vec<ShownSpan>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownSpan {
    from: String,
    due: i64,
    precision: Precision,
    left_at_end: Option<i64>,
    drained_at: Option<String>,
    /// Of a day; minutes are of `taken_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted_at: Option<String>,
}

/// The forecast as the interface and `punctual forecast -o json` show it.
#[must_use]
pub fn forecast_as_json(forecast: &Forecast, account: &Account) -> serde_json::Value {
    let shown = Shown {
        taken_at: utc(forecast.taken_at),
        gateways: forecast.gateways.iter().map(|it| gateway(forecast, it, account)).collect(),
    };
    // As above.
    serde_json::to_value(shown).unwrap_or_default()
}

fn gateway(forecast: &Forecast, of: &GatewayForecast, account: &Account) -> ShownGateway {
    let rate = account.rate_of(of);
    let drained = |spans| drain(forecast.taken_at, of.overdue.count, spans, rate);
    let shown = |all: Vec<Drained>, when: fn(&Drained) -> Option<String>| {
        all.iter().map(|one| span(one, rate, when(one))).collect()
    };
    ShownGateway {
        gateway: of.gateway.clone(),
        charges_per_second: rate,
        overdue: of.overdue.count,
        overdue_precision: of.overdue.precision,
        minutes: shown(drained(&of.minutes), |_| None),
        days: shown(drained(&of.days), |one| Some(utc(one.due.counted_at))),
    }
}

fn span(one: &Drained, rate: Option<u32>, counted_at: Option<String>) -> ShownSpan {
    ShownSpan {
        from: utc(one.due.from),
        due: one.due.count,
        precision: one.due.precision,
        left_at_end: rate.map(|_| one.left_at_end),
        drained_at: one.drained_at.map(utc),
        counted_at,
    }
}
