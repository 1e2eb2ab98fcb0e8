//! `GET /v1/forecast`: what falls due in the next hour and month, for all clients together.
//!
//! It needs the scope `ops:read`, because counts over all actors are none of a client's business. The
//! counts are kept for [`KEPT`], and only one request counts at a time: however many screens show it, the
//! index is read a few times a minute.

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
    rate: Option<u32>,
}

impl Account {
    /// As configured: the gateway's rate less what is kept for look-ups; a rate of 0 is none.
    #[must_use]
    pub fn of(gateway: &config::Gateway) -> Self {
        let share = u64::from(100_u32.saturating_sub(gateway.lookup_share));
        let charges = u64::from(gateway.rate) * share / 100;
        let rate = u32::try_from(charges).ok().filter(|rate| *rate > 0);
        Self { gateway: Some(GatewayName(gateway.name.clone())), rate }
    }

    /// Charges a second that the gateway may be sent; `None`: no limit, or not known here.
    #[must_use]
    pub fn rate_of(&self, gateway: &GatewayName) -> Option<u32> {
        self.rate.filter(|_| self.gateway.as_ref() == Some(gateway))
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
    let forecast = counted(&intake).await?;
    // A value of texts and numbers: it cannot fail to be written.
    let body = serde_json::to_vec(&forecast_as_json(&forecast, &intake.account)).unwrap_or_default();
    let mut response = json(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

async fn counted(intake: &Intake) -> Result<Arc<Forecast>, Problem> {
    // Whoever waits here finds the answer of the one before.
    let mut last = intake.counted.lock().await;
    let now = intake.clock.mono();
    if let Some((asked_at, forecast)) = last.as_ref()
        && now.0.saturating_sub(asked_at.0) < KEPT
    {
        return Ok(Arc::clone(forecast));
    }
    let forecast = Arc::new(intake.schedule.forecast(&intake.terms.gateways).await.map_err(limits::trouble)?);
    *last = Some((now, Arc::clone(&forecast)));
    Ok(forecast)
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
    let rate = account.rate_of(&of.gateway);
    let drained = |spans| drain(forecast.taken_at, of.overdue.count, spans, rate);
    let shown = |all: Vec<Drained>| all.iter().map(|one| span(one, rate)).collect();
    ShownGateway {
        gateway: of.gateway.clone(),
        charges_per_second: rate,
        overdue: of.overdue.count,
        overdue_precision: of.overdue.precision,
        minutes: shown(drained(&of.minutes)),
        days: shown(drained(&of.days)),
    }
}

fn span(one: &Drained, rate: Option<u32>) -> ShownSpan {
    ShownSpan {
        from: utc(one.due.from),
        due: one.due.count,
        precision: one.due.precision,
        left_at_end: rate.map(|_| one.left_at_end),
        drained_at: one.drained_at.map(utc),
    }
}
