//! Quarantine (rule R17): whether claims go on, what is missing before they may, and two people's word that they do.
//!
//! While one is open the page is the way out of it, step by step, each with how it stands: since when commits may be
//! missing, whose reports are still to be compared, what differs, and the two words. The sentences are the API's
//! (`advice`, and one for each thing that is missing), so that page, command and runbook say the same.

use super::act::Said;
use super::show::{self, Shown};
use super::text::{self, Html};
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer};
use crate::domain::refund::RefundStatus;
use crate::schedule::LackKind;
use askama::Template;
use axum::extract::State;
use axum::http::Method;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

const PAGE: &str = "/ui/quarantine";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    quarantined: bool,
    advice: String,
    /// Nothing has to be waited for from then on.
    releasable_from: Option<DateTime<Utc>>,
    /// Gateways whose refunds wait until all days are compared.
    refunds_held: Vec<String>,
    lacks: Vec<Lack>,
    evidence: Vec<Evidence>,
    data: Vec<Quarantine>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lack {
    lack: String,
    gateway: String,
    day: String,
    /// Its report can be had from then on.
    askable_from: Option<DateTime<Utc>>,
    partly_seen_at: Option<DateTime<Utc>>,
    explanation: String,
}

/// For the template.
impl Lack {
    /// A difference to be decided about, rather than a report to be compared.
    fn is_difference(&self) -> bool {
        self.lack == LackKind::OpenRepairs.as_str()
    }
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
    /// Who said so; else it was computed.
    lost_from_by: Option<String>,
    /// Something from then is proven to be missing: it cannot be later.
    proven_from: Option<DateTime<Utc>>,
    evidence_count: i64,
    asked: Option<Asked>,
    released: Option<Released>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    by: String,
    at: DateTime<Utc>,
    stands_until: DateTime<Utc>,
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
    /// The one that holds claims now.
    fn open(&self) -> Option<&Quarantine> {
        self.found.data.first().filter(|_| self.found.quarantined)
    }

    /// A step of the way out that is behind us.
    fn done(&self) -> Html {
        text::chip("good", "✓", "done")
    }

    /// One that is before us.
    fn to_do(&self) -> Html {
        text::chip("look", "△", "to do")
    }

    /// Reports that are still to be compared.
    fn uncompared(&self) -> Vec<&Lack> {
        self.found.lacks.iter().filter(|lack| !lack.is_difference()).collect()
    }

    /// Days on which something differs that nobody has decided about.
    fn undecided(&self) -> Vec<&Lack> {
        self.found.lacks.iter().filter(|lack| lack.is_difference()).collect()
    }
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let found: Found = ui.read(&viewer, "/v1/ops/quarantine").await?;
    show::page(&Page { frame: ui.frame(&viewer, Place::Quarantine).await, found })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Held {
    refunds_held: Vec<String>,
}

impl Ui {
    /// Does one of these refunds wait because its gateway's days are not compared since a release in spite of what was
    /// missing? Asked only where one is allowed and not yet sent; what cannot be asked is not said.
    pub(super) async fn holds(&self, viewer: &Viewer, refunds: &[Value]) -> bool {
        let waiting: Vec<&str> = refunds
            .iter()
            .filter(|refund| refund["status"] == RefundStatus::Approved.as_str())
            .filter_map(|refund| refund["gateway"].as_str())
            .collect();
        if waiting.is_empty() {
            return false;
        }
        let found: Result<Held, _> = self.look(viewer, "/v1/ops/quarantine").await;
        found.is_ok_and(|found| found.refunds_held.iter().any(|held| waiting.contains(&held.as_str())))
    }
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
    let done = if sent.text("alters").is_some() {
        "The instant is changed. What is missing follows from it; a word that somebody gave before is void."
    } else {
        "The database is quarantined: nothing is claimed."
    };
    let told = ui.ask(&viewer, Method::POST, "/v1/ops/quarantine", Some(body)).await;
    ui.said(PAGE, &Said::of(&told, done))
}
