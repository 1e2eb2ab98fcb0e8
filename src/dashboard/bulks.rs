//! Bulk re-drives: what each was made for, how far it is, and the switch. The server works them off, whoever looks.

use super::act::{Said, Told};
use super::api::{Listed, way};
use super::show::{self, Shown};
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer};
use crate::domain::ids::PaymentId;
use crate::intake::{Code, Pairs, Problem};
use crate::schedule::Preview;
use askama::Template;
use axum::extract::{Path, State};
use axum::http::{Method, Uri};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The title of a form that says nothing that could be made.
const NOTHING_MADE: &str = "Nothing was made.";
/// Bytes of an address that leads back with what was typed: one of 8 KiB is refused.
const LONGEST_WAY: usize = 6_000;

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bulk {
    bulk_id: Uuid,
    status: String,
    asked_by: String,
    reason: String,
    filter: BTreeMap<String, Value>,
    rate_per_s: i64,
    preview: Preview,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    outcomes: BTreeMap<String, i64>,
}

/// For the templates.
impl Bulk {
    fn looked_at(&self) -> i64 {
        self.outcomes.values().sum()
    }

    /// Some may have been released by others since it was made.
    fn most(&self) -> i64 {
        self.preview.count.max(self.looked_at()).max(1)
    }

    /// Of those that it was made for, so many were released or decided by others before it came to them.
    fn gone_meanwhile(&self) -> i64 {
        if self.is_done() { (self.preview.count - self.looked_at()).max(0) } else { 0 }
    }

    fn asked_for(&self) -> String {
        if self.filter.is_empty() {
            return "everything that is parked".to_owned();
        }
        let term = |(name, value): (&String, &Value)| match (name.as_str(), value.as_str()) {
            ("q", Some(text)) => text.to_owned(),
            (_, Some(text)) => format!("{name}:{text}"),
            (_, None) => format!("{name}:{value}"),
        };
        self.filter.iter().map(term).collect::<Vec<_>>().join(" ")
    }

    /// Of an act on it.
    fn way(&self, verb: &str) -> String {
        format!("/ui/bulks/{}/{verb}", self.bulk_id)
    }

    /// An outcome in words: the release, or why the guard refused it.
    fn told(outcome: &str) -> &'static str {
        let refused = Code::ALL.iter().find(|code| code.as_str() == outcome);
        refused.map_or("", |code| code.title())
    }

    fn is_running(&self) -> bool {
        self.status == "running"
    }

    fn is_done(&self) -> bool {
        self.status == "done"
    }
}

#[derive(Template)]
#[template(path = "bulks.html")]
struct List {
    frame: Frame,
    bulks: Vec<Bulk>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "bulk.html")]
struct One {
    frame: Frame,
    bulk: Bulk,
}

pub(super) async fn list(State(ui): State<Ui>, viewer: Viewer, uri: Uri) -> Shown {
    let pairs = Pairs::read(&uri, &["cursor"])?;
    let path = way("/v1/ops/bulk-redrives", &[("cursor", pairs.text("cursor"))]);
    let listed: Listed<Bulk> = ui.look(&viewer, &path).await?;
    show::page(&List {
        frame: ui.frame(&viewer, Place::Bulks).await,
        bulks: listed.data,
        next: listed.next_cursor.as_deref().map(|cursor| way("/ui/bulks", &[("cursor", Some(cursor))])),
    })
}

/// An id in a path; what is none names nothing.
fn named(id: &str) -> Result<Uuid, Problem> {
    id.parse().map_err(|_| Problem::new(Code::BulkNotFound))
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, Path(id): Path<String>) -> Shown {
    let bulk: Bulk = ui.look(&viewer, &format!("/v1/ops/bulk-redrives/{}", named(&id)?)).await?;
    show::page(&One { frame: ui.frame(&viewer, Place::Bulks).await, bulk })
}

/// What a form asks a bulk action to be made of, as a filter; else why it says nothing that can be made.
///
/// Whatever is not exactly one of the two choices is refused: an empty filter would be everything that is parked.
fn chosen(sent: &Sent) -> Result<String, (&'static str, &'static str)> {
    let ticked: Vec<&str> = sent.all("id").collect();
    match (sent.only("which"), ticked.as_slice()) {
        (Some("ticked"), []) => Err((
            "Nothing was ticked, so nothing was made.",
            "Tick those that are meant, or choose all that the filter passes.",
        )),
        (Some("ticked"), ids) if ids.iter().all(|id| id.parse::<PaymentId>().is_ok()) => {
            Ok(format!("id:{}", ids.join(",")))
        }
        (Some("ticked"), _) => Err((NOTHING_MADE, "What was ticked is no payment's id.")),
        (Some("all"), []) => {
            sent.only("q").map(str::to_owned).ok_or((NOTHING_MADE, "The form came without its filter."))
        }
        (Some("all"), _) => Err((
            NOTHING_MADE,
            "Some are ticked, and all that the filter passes were chosen: choose those that are ticked, or untick them.",
        )),
        (_, _) => Err((NOTHING_MADE, "The form does not say which: those that are ticked, or all.")),
    }
}

/// The page that a form came from, with what was typed into it as far as an address holds that.
fn back(sent: &Sent) -> String {
    let q = ("q", sent.text("q"));
    let typed = [q, ("reason", sent.text("reason")), ("ratePerS", sent.text("ratePerS"))];
    let ways = [way("/ui/parked", &typed), way("/ui/parked", &[q])];
    ways.into_iter().find(|way| way.len() <= LONGEST_WAY).unwrap_or_else(|| "/ui/parked".to_owned())
}

/// Makes one, stopped, of what a filter of parked payments passes or of those that were ticked.
pub(super) async fn make(State(ui): State<Ui>, viewer: Viewer, sent: Sent) -> Shown {
    let q = match chosen(&sent) {
        Ok(q) => q,
        Err((title, detail)) => return ui.said(&back(&sent), &Said::refused(title, detail)),
    };
    let filter = if q.is_empty() { json!({}) } else { json!({"q": q}) };
    // What is no number is refused by the route, as a field that is missing.
    let rate = sent.text("ratePerS").and_then(|text| text.parse::<i64>().ok());
    let mut body = json!({"filter": filter, "reason": sent.text("reason").unwrap_or_default()});
    if let Some(rate) = rate {
        body["ratePerS"] = rate.into();
    }
    let told = ui.ask(&viewer, Method::POST, "/v1/ops/bulk-redrives", Some(body)).await;
    let made = match &told {
        Told::Done(made) | Told::Asked(made) => made.get("bulkId").and_then(Value::as_str),
        Told::Refused(_) => None,
    };
    let page = made.map_or_else(|| back(&sent), |id| format!("/ui/bulks/{id}"));
    ui.said(&page, &Said::of(&told, "It is made, and nothing is released before somebody starts it."))
}

pub(super) async fn start(ui: State<Ui>, viewer: Viewer, id: Path<String>, sent: Sent) -> Shown {
    turn(ui, viewer, id, sent, ("start", "It runs.")).await
}

pub(super) async fn stop(ui: State<Ui>, viewer: Viewer, id: Path<String>, sent: Sent) -> Shown {
    turn(ui, viewer, id, sent, ("stop", "It is stopped: nothing follows.")).await
}

async fn turn(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(id): Path<String>,
    sent: Sent,
    (verb, done): (&str, &str),
) -> Shown {
    let id = named(&id)?;
    let page = format!("/ui/bulks/{id}");
    ui.act(&viewer, &format!("/v1/ops/bulk-redrives/{id}/{verb}"), &sent, (&page, done)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a2283e-8820-8aaa-9bbb-0123456789ab";

    fn form(pairs: &[(&str, &str)]) -> Sent {
        Sent(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_form_that_does_not_say_which_makes_nothing() {
        let of = |pairs: &[(&str, &str)]| chosen(&form(pairs));
        assert_eq!(of(&[("which", "ticked"), ("id", ID), ("q", "")]), Ok(format!("id:{ID}")));
        assert_eq!(of(&[("which", "all"), ("q", "reason:x")]), Ok("reason:x".to_owned()));
        assert_eq!(of(&[("which", "all"), ("q", "")]), Ok(String::new()), "everything, as the page says");
        for refused in [
            &[("q", ""), ("id", ID)][..],
            &[("which", "x"), ("q", ""), ("id", ID)],
            &[("which", ""), ("q", "")],
            &[("which", "all"), ("which", "ticked"), ("q", ""), ("id", ID)],
            &[("which", "all"), ("q", ""), ("id", ID)],
            &[("which", "all")],
            &[("which", "all"), ("q", "reason:x"), ("q", "")],
            &[("which", "ticked"), ("id", "x"), ("q", "")],
            &[("which", "ticked"), ("q", "")],
        ] {
            assert!(of(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn those_that_others_dealt_with_are_counted_once_it_is_done() {
        let of = |status: &str, outcomes: Value| {
            let bulk = json!({"bulkId": ID, "status": status, "askedBy": "key:bo", "reason": "back", "filter": {},
                "ratePerS": 5, "preview": {"count": 263, "byReason": {}, "amounts": {}, "needsApproval": 0},
                "createdAt": "2030-01-31T09:00:00Z", "startedAt": null, "finishedAt": null, "outcomes": outcomes});
            serde_json::from_value::<Bulk>(bulk).unwrap().gone_meanwhile()
        };
        assert_eq!(of("done", json!({"redriven": 80, "needs_approval": 3})), 180);
        assert_eq!(of("running", json!({"redriven": 80})), 0, "it goes on");
        assert_eq!(of("done", json!({"redriven": 264})), 0, "one was parked since");
    }

    #[test]
    fn the_way_back_has_what_was_typed() {
        let typed = [("q", "reason:x"), ("ratePerS", "5"), ("reason", "the gateway is back"), ("id", ID)];
        assert_eq!(back(&form(&typed)), "/ui/parked?q=reason%3Ax&reason=the+gateway+is+back&ratePerS=5");
        let long = "ü".repeat(2_000);
        assert_eq!(back(&form(&[("q", "reason:x"), ("reason", &long)])), "/ui/parked?q=reason%3Ax");
        assert_eq!(back(&form(&[("q", &long)])), "/ui/parked");
    }
}
