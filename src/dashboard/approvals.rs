//! What waits for a second person, and their word on it. Whoever asked is refused by the route, not by this page.

use super::api::{Listed, way};
use super::show::{self, Shown};
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer};
use crate::domain::ids::PaymentId;
use crate::intake::{Code, Pairs, Problem};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::Uri;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    approval_id: Uuid,
    kind: String,
    /// None: of a report, which the request names.
    payment_id: Option<PaymentId>,
    status: String,
    asked_by: String,
    reason: String,
    request: BTreeMap<String, Value>,
    asked_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    decided_by: Option<String>,
    decided_reason: Option<String>,
    decided_at: Option<DateTime<Utc>>,
}

/// For the templates.
impl Approval {
    fn waits(&self) -> bool {
        self.status == "pending"
    }

    /// Of a word on it.
    fn way(&self, verb: &str) -> String {
        format!("/ui/approvals/{}/{verb}", self.approval_id)
    }

    /// What would be carried out, but for its amount.
    fn terms(&self) -> Vec<(&str, String)> {
        let others = self.request.iter().filter(|(name, _)| !matches!(name.as_str(), "amount" | "currency"));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        others.map(|(name, value)| (name.as_str(), text(value))).collect()
    }

    fn minor(&self) -> Option<i64> {
        self.request.get("amount").and_then(Value::as_i64)
    }

    fn currency(&self) -> &str {
        self.request.get("currency").and_then(Value::as_str).unwrap_or("")
    }
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct List {
    frame: Frame,
    status: String,
    approvals: Vec<Approval>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "approval.html")]
struct One {
    frame: Frame,
    approval: Approval,
}

pub(super) async fn list(State(ui): State<Ui>, viewer: Viewer, uri: Uri) -> Shown {
    let pairs = Pairs::read(&uri, &["status", "cursor"])?;
    let status = pairs.text("status").unwrap_or("pending");
    let query = |cursor| [("status", Some(status)), ("cursor", cursor)];
    let path = way("/v1/ops/approvals", &query(pairs.text("cursor")));
    let listed: Listed<Approval> = ui.look(&viewer, &path).await?;
    show::page(&List {
        frame: ui.frame(&viewer, Place::Approvals).await,
        status: status.to_owned(),
        approvals: listed.data,
        next: listed.next_cursor.as_deref().map(|cursor| way("/ui/approvals", &query(Some(cursor)))),
    })
}

/// An id in a path; what is none names nothing.
fn named(id: &str) -> Result<Uuid, Problem> {
    id.parse().map_err(|_| Problem::new(Code::ApprovalNotFound))
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, Path(id): Path<String>) -> Shown {
    let approval: Approval = ui.look(&viewer, &format!("/v1/ops/approvals/{}", named(&id)?)).await?;
    show::page(&One { frame: ui.frame(&viewer, Place::Approvals).await, approval })
}

pub(super) async fn approve(ui: State<Ui>, viewer: Viewer, id: Path<String>, sent: Sent) -> Shown {
    decide(ui, viewer, id, sent, ("approve", "It is approved and carried out.")).await
}

pub(super) async fn reject(ui: State<Ui>, viewer: Viewer, id: Path<String>, sent: Sent) -> Shown {
    decide(ui, viewer, id, sent, ("reject", "It is rejected.")).await
}

async fn decide(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(id): Path<String>,
    sent: Sent,
    (verb, done): (&str, &str),
) -> Shown {
    let id = named(&id)?;
    let page = format!("/ui/approvals/{id}");
    ui.act(&viewer, &format!("/v1/ops/approvals/{id}/{verb}"), &sent, (&page, done)).await
}
