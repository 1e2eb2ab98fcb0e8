//! One payment: where it stands in its life, everything that happened, what happens next, and what may be done.
//!
//! The sentences are those of `punctual payment explain` ([`crate::story`]); what operators may do is what the API
//! says of it. Payee, description and metadata are the client's own: they are masked, and shown once by an act with a
//! reason that is on record before the page is made.

use super::acts::Act;
use super::api::Listed;
use super::payments::told;
use super::show::{self, Shown};
use super::text::Html;
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer, act, diagram};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::state::Status;
use crate::intake::{Code, Problem, standing_as_json};
use crate::story::{self, Operators, Story};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::Method;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What stands where something of the client's own is not shown.
const MASK: &str = "***";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    status: Status,
    status_reason: Option<String>,
    explanation: Option<String>,
    actor_id: Uuid,
    actor: Option<String>,
    external_id: Option<String>,
    gateway: String,
    gateway_reference: Option<String>,
    amount: i64,
    currency: String,
    due_at: DateTime<Utc>,
    execute_before: Option<DateTime<Utc>>,
    next_attempt_at: Option<DateTime<Utc>>,
    open_sends: i64,
    sends: i64,
    max_sends: i64,
    epoch: i64,
    version: i64,
    evidence: Value,
    attempts: Vec<Attempt>,
    may: Vec<May>,
    approval: Option<Waiting>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attempt {
    attempt: i64,
    epoch: i64,
    worker: String,
    claimed_at: DateTime<Utc>,
    outcome: Option<String>,
    code: Option<String>,
    http_status: Option<i64>,
    took_ms: Option<i64>,
    late: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct May {
    act: String,
    possible: bool,
    needs_approval: bool,
    explanation: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Offers {
    gateway: String,
    refunds: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    approval_id: Uuid,
}

#[derive(Debug, Deserialize)]
struct History {
    data: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    from: Option<Status>,
    to: Status,
    by: String,
    at: DateTime<Utc>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    url: String,
    sequence: i64,
    event_type: String,
    status: String,
    tries: i64,
    last_status: Option<i64>,
    last_error: Option<String>,
    delivered_at: Option<DateTime<Utc>>,
}

/// What is the client's own.
#[derive(Debug, Deserialize)]
struct Secrets {
    payee: String,
    description: Option<String>,
    metadata: BTreeMap<String, String>,
}

#[derive(Template)]
#[template(path = "payment.html")]
struct Page {
    frame: Frame,
    id: PaymentId,
    record: Record,
    life: Html,
    story: Story,
    /// Beside each happening: when, and by whom.
    rows: Vec<Row>,
    deliveries: Vec<Delivery>,
    acts: Vec<Act>,
    raw: String,
    secrets: Option<Secrets>,
    /// One of its refunds is allowed and waits for the days of its gateway to be compared.
    refund_is_held: bool,
    /// Workers of its gateway refund.
    offers_refunds: bool,
    /// Of a refund that is asked for from this page, however often its form is sent.
    key: Uuid,
}

/// For the template.
impl Page {
    fn way(&self, verb: &str) -> String {
        format!("/ui/payments/{}/{verb}", self.id)
    }

    /// Whether this act is possible now.
    fn may(&self, act: &str) -> bool {
        self.record.may.iter().any(|may| may.act == act && may.possible)
    }

    /// What is said with the button of a release.
    fn about_release(&self) -> &'static str {
        let needs_two =
            self.record.may.iter().any(|may| may.act == "redrive" && may.possible && may.needs_approval);
        if needs_two {
            "A second person decides: it is above what one may release. It keeps its gateway key and is looked up first."
        } else {
            "It keeps its gateway key, and is looked up before anything is sent."
        }
    }

    /// What may not be done, with why: acts that one reason forbids stand together.
    fn why_not(&self) -> Vec<(String, &str)> {
        let parked = self.record.status == Status::Parked;
        let mut reasons: Vec<(String, &str)> = Vec::new();
        for may in self.record.may.iter().filter(|may| parked && !may.possible) {
            let (act, why) = (may.words(), may.explanation.as_deref().unwrap_or(""));
            match reasons.iter_mut().find(|(_, other)| *other == why) {
                Some((acts, _)) => *acts = format!("{acts}, {act}"),
                None => reasons.push((act.to_owned(), why)),
            }
        }
        reasons
    }

    /// What is on record of its last answer, name by name.
    fn evidence(&self) -> Vec<(&str, String)> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let found = self.record.evidence.as_object();
        found.into_iter().flatten().map(|(name, value)| (name.as_str(), text(value))).collect()
    }

    fn can_be_cancelled(&self) -> bool {
        self.record.status.is_claimable()
    }

    fn may_be_refunded(&self) -> bool {
        matches!(self.record.status, Status::Completed | Status::Parked)
            && self.record.gateway_reference.is_some()
    }
}

impl May {
    /// As its button has it.
    fn words(&self) -> &str {
        match self.act.as_str() {
            "redrive" => "Release",
            "redrive_new_epoch" => "Release under a new key",
            "resolve_charged" => "Resolve as charged",
            "resolve_not_charged" => "Resolve as not charged",
            other => other,
        }
    }
}

/// For the template.
impl Delivery {
    /// Without its scheme, which is https.
    fn place(&self) -> &str {
        self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest)
    }
}

/// An id in a path.
pub(super) fn named(id: &str) -> Result<PaymentId, Problem> {
    id.parse().map_err(|_| Problem::new(Code::PaymentNotFound))
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, Path(id): Path<String>) -> Shown {
    ui.payment(&viewer, named(&id)?, None).await
}

/// The page with what is the client's own. It is not led to: a cookie must not carry that.
pub(super) async fn payee(State(ui): State<Ui>, viewer: Viewer, Path(id): Path<String>, sent: Sent) -> Shown {
    let id = named(&id)?;
    let body = json!({"reason": sent.text("reason").unwrap_or_default()});
    let path = format!("/v1/ops/payments/{id}/payee");
    match ui.ask(&viewer, Method::POST, &path, Some(body)).await {
        act::Told::Done(body) | act::Told::Asked(body) => {
            let secrets = serde_json::from_value(body).map_err(|_| Problem::new(Code::Internal))?;
            ui.payment(&viewer, id, Some(secrets)).await
        }
        refused @ act::Told::Refused(_) => {
            ui.said(&format!("/ui/payments/{id}"), &act::Said::of(&refused, ""))
        }
    }
}

impl Ui {
    async fn payment(&self, viewer: &Viewer, id: PaymentId, secrets: Option<Secrets>) -> Shown {
        let base = format!("/v1/ops/payments/{id}");
        let seen: Value = self.look(viewer, &base).await?;
        let record: Record =
            serde_json::from_value(seen.clone()).map_err(|_| Problem::new(Code::Internal))?;
        let history: Value = self.look(viewer, &format!("{base}/history")).await?;
        let rows: History =
            serde_json::from_value(history.clone()).map_err(|_| Problem::new(Code::Internal))?;
        let deliveries: Listed<Delivery> = self.look(viewer, &format!("{base}/deliveries")).await?;
        let acts: Listed<Act> = self.look(viewer, &format!("/v1/ops/acts?subject={id}")).await?;
        let standing = self.standing(ActorId(record.actor_id), id).await?;
        let payment = story::payment(standing.clone()).map_err(unreadable)?;
        let operators = self.operators(viewer, id, &payment, seen).await?;
        let refund_is_held = self.holds(viewer, &operators.refunds).await;
        let offers_refunds = self.offers_refunds(viewer, &record.gateway).await?;
        let story = Story::of(&payment, history, &operators, &self.0.config.kafka).map_err(unreadable)?;
        let made: Vec<(Option<Status>, Status)> = rows.data.iter().map(|row| (row.from, row.to)).collect();
        show::page(&Page {
            frame: self.frame(viewer, Place::Payments).await,
            id,
            life: diagram::of(record.status, &made),
            record,
            story,
            rows: rows.data,
            deliveries: deliveries.data,
            acts: acts.data,
            raw: serde_json::to_string_pretty(&standing).unwrap_or_default(),
            secrets,
            refund_is_held,
            offers_refunds,
            key: self.0.intake.fresh_id(),
        })
    }

    /// Do the workers of this gateway refund?
    async fn offers_refunds(&self, viewer: &Viewer, gateway: &str) -> Result<bool, Problem> {
        let listed: Listed<Offers> = self.look(viewer, "/v1/ops/gateways").await?;
        Ok(listed.data.iter().any(|one| one.gateway == gateway && one.refunds))
    }

    /// The payment as its client has it, without what is the client's own.
    async fn standing(&self, actor: ActorId, id: PaymentId) -> Result<Value, show::Trouble> {
        let found = self.schedule().find(actor, id).await?;
        let view = found.ok_or_else(|| Problem::new(Code::PaymentNotFound))?;
        let mut standing: Value =
            serde_json::from_slice(&standing_as_json(&view)).map_err(|_| Problem::new(Code::Internal))?;
        for name in ["payee", "description", "metadata"] {
            if let Some(own) = standing.get_mut(name).filter(|own| !own.is_null()) {
                *own = json!(MASK);
            }
        }
        Ok(standing)
    }

    /// What operators are shown of it, as far as this person may see it.
    async fn operators(
        &self,
        viewer: &Viewer,
        id: PaymentId,
        payment: &story::Payment,
        seen: Value,
    ) -> Result<Operators, Problem> {
        let listed = |found: Result<Listed<Value>, Problem>| match found {
            Ok(listed) => Ok(listed.data),
            Err(problem) if problem.code.http() == 403 => Ok(Vec::new()),
            Err(problem) => Err(problem),
        };
        let is_parked = seen.get("status").and_then(Value::as_str) == Some(Status::Parked.as_str());
        let items = if story::may_be_reported(payment) {
            listed(self.look(viewer, &format!("/v1/ops/reconciliation-items?paymentId={id}")).await)?
        } else {
            Vec::new()
        };
        Ok(Operators {
            parked: is_parked.then_some(seen),
            refunds: listed(self.look(viewer, &format!("/v1/ops/refunds?paymentId={id}")).await)?,
            items,
        })
    }
}

fn unreadable(why: String) -> Problem {
    let problem = Problem::new(Code::Internal).detail(why);
    tracing::error!(why = told(&problem), "a payment's story could not be told");
    problem
}
