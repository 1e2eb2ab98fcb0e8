//! Quarantine (rule R17): whether claims go on, what is missing before they may, and two people's word that they do.

use super::act::Said;
use super::show::{self, Shown};
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer};
use askama::Template;
use axum::extract::State;
use axum::http::Method;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::json;

const PAGE: &str = "/ui/quarantine";

#[derive(Deserialize)]
struct Found {
    quarantined: bool,
    lacks: Vec<Lack>,
    evidence: Vec<Evidence>,
    data: Vec<Quarantine>,
}

#[derive(Deserialize)]
struct Lack {
    gateway: String,
    day: String,
    explanation: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evidence {
    at: DateTime<Utc>,
    kind: String,
    payment_id: Option<crate::domain::ids::PaymentId>,
    what: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Quarantine {
    since: DateTime<Utc>,
    kind: String,
    reason: String,
    lost_from: DateTime<Utc>,
    evidence_count: i64,
    asked: Option<Asked>,
    released: Option<Released>,
}

#[derive(Deserialize)]
struct Asked {
    by: String,
    at: DateTime<Utc>,
    reason: String,
    anyway: bool,
}

#[derive(Deserialize)]
struct Released {
    by: String,
    at: DateTime<Utc>,
    reason: String,
    /// What was missing all the same.
    overridden: Option<Vec<serde_json::Value>>,
}

impl Released {
    fn was_lacking(&self) -> bool {
        self.overridden.as_ref().is_some_and(|lacks| !lacks.is_empty())
    }
}

#[derive(Template)]
#[template(path = "quarantine.html")]
struct Page {
    frame: Frame,
    found: Found,
}

impl Page {
    /// What somebody has asked for already, if the quarantine is open.
    fn asked(&self) -> Option<&Asked> {
        self.found.data.first().filter(|_| self.found.quarantined).and_then(|open| open.asked.as_ref())
    }
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let found: Found = ui.read(&viewer, "/v1/ops/quarantine").await?;
    show::page(&Page { frame: ui.frame(&viewer, Place::Quarantine).await, found })
}

/// The first person asks, the second releases: the API tells them apart.
pub(super) async fn release(State(ui): State<Ui>, viewer: Viewer, sent: Sent) -> Shown {
    let anyway = sent.text("anyway") == Some("true");
    let body = json!({"reason": sent.text("reason"), "anyway": anyway});
    let told = ui.ask(&viewer, Method::POST, "/v1/ops/quarantine/release", Some(body)).await;
    ui.said(PAGE, &Said::of(&told, "The database is released: claims go on."))
}

pub(super) async fn enter(State(ui): State<Ui>, viewer: Viewer, sent: Sent) -> Shown {
    let mut body = json!({"reason": sent.text("reason")});
    if let Some(from) = sent.text("lostFrom") {
        body["lostFrom"] = json!(from);
    }
    let told = ui.ask(&viewer, Method::POST, "/v1/ops/quarantine", Some(body)).await;
    ui.said(PAGE, &Said::of(&told, "The database is quarantined: nothing is claimed."))
}
