//! What waits for a second person, and their word on it. Whoever asked is refused by the route, not by this page.
//!
//! A refund is the one that is not carried out with the word: a worker sends it, later, and the page says how it stands.

use super::act::{Said, Told};
use super::api::{Listed, way};
use super::show::{self, Shown};
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer};
use crate::domain::ids::PaymentId;
use crate::intake::{Code, Pairs, Problem};
use crate::schedule::ApprovalKind;
use askama::Template;
use axum::extract::{Path, State};
use axum::http::{Method, Uri};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
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

    fn is_refund(&self) -> bool {
        self.kind == ApprovalKind::Refund.as_str()
    }

    /// What is said with the button that allows it.
    fn about_approving(&self) -> &'static str {
        if self.is_refund() {
            "A worker sends it then, exactly as it was asked for; the payment's page says what became of it."
        } else {
            "It is carried out in the same moment, exactly as it was asked for, or not at all."
        }
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
    /// How the refund stands that was allowed.
    refund: Option<Stands>,
}

/// How a refund stands, in a sentence.
struct Stands {
    explanation: String,
    /// Its gateway's refunds are held.
    is_held: bool,
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
    let refund = if approval.is_refund() { ui.refund_of(&viewer, &approval).await } else { None };
    show::page(&One { frame: ui.frame(&viewer, Place::Approvals).await, approval, refund })
}

pub(super) async fn approve(ui: State<Ui>, viewer: Viewer, id: Path<String>, sent: Sent) -> Shown {
    decide(ui, viewer, id, sent, "approve", approved).await
}

pub(super) async fn reject(ui: State<Ui>, viewer: Viewer, id: Path<String>, sent: Sent) -> Shown {
    decide(ui, viewer, id, sent, "reject", |told| Said::of(told, "It is rejected.")).await
}

/// What is said of an answer to a word that allows.
fn approved(told: &Told) -> Said {
    match told {
        Told::Done(approval) if approval["kind"] == ApprovalKind::Refund.as_str() => {
            let way = approval["paymentId"].as_str().map(|id| format!("/ui/payments/{id}"));
            Said {
                detail: "Nothing has gone out yet; the payment's page says what became of it.".to_owned(),
                way: way.map(|way| (way, "Show the payment".to_owned())),
                ..Said::of(told, "It is approved: a worker sends it.")
            }
        }
        told => Said::of(told, "It is approved and carried out."),
    }
}

async fn decide(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(id): Path<String>,
    sent: Sent,
    verb: &str,
    say: fn(&Told) -> Said,
) -> Shown {
    let id = named(&id)?;
    let body = json!({"reason": sent.text("reason").unwrap_or_default()});
    let told = ui.ask(&viewer, Method::POST, &format!("/v1/ops/approvals/{id}/{verb}"), Some(body)).await;
    ui.said(&format!("/ui/approvals/{id}"), &say(&told))
}

impl Ui {
    /// How the refund of this approval stands once it is decided; `None` also where that may not be seen.
    async fn refund_of(&self, viewer: &Viewer, approval: &Approval) -> Option<Stands> {
        let (id, payment) = (approval.request.get("refund")?, approval.payment_id?);
        if approval.waits() {
            return None;
        }
        let path = format!("/v1/ops/refunds?paymentId={payment}");
        let listed: Listed<Value> = self.look(viewer, &path).await.ok()?;
        let refund = listed.data.into_iter().find(|refund| refund["refundId"] == *id)?;
        let explanation = refund["explanation"].as_str()?.to_owned();
        Some(Stands { is_held: self.holds(viewer, &[refund]).await, explanation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_refund_is_not_called_carried_out() {
        let of = |kind: &str| approved(&Told::Done(json!({"kind": kind, "paymentId": "7"})));
        let refund = of("refund");
        assert_eq!(refund.title, "It is approved: a worker sends it.");
        assert_eq!(refund.way.map(|(way, _)| way).as_deref(), Some("/ui/payments/7"));
        for kind in ["redrive", "new_epoch", "resolve_refund", "repair", "withdraw"] {
            assert_eq!(of(kind).title, "It is approved and carried out.", "{kind}");
        }
        let refused = approved(&Told::Refused(Problem::new(Code::ApprovalExpired)));
        assert_ne!(refused.title, "It is approved and carried out.");
    }
}
