//! Payments of all clients, by the filter that the API and the command line take: a page at a time.
//!
//! Without a filter what was due until now is shown, the latest first. A filter that cannot be read is an answer on
//! the page, with its place; a count that does not go to the end says so.

use super::api::way;
use super::show::{self, Shown};
use super::{Frame, Place, Ui, Viewer};
use crate::domain::ids::PaymentId;
use crate::domain::state::Status;
use crate::intake::{Pairs, Problem, utc};
use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use chrono::{DateTime, Utc};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    payment_id: PaymentId,
    status: Status,
    status_reason: Option<String>,
    actor: Option<String>,
    gateway: String,
    amount: i64,
    currency: String,
    due_at: DateTime<Utc>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    data: Vec<Entry>,
    next_cursor: Option<String>,
    count: i64,
    count_is_all: bool,
}

#[derive(Template)]
#[template(path = "payments.html")]
struct Page {
    frame: Frame,
    q: String,
    is_first_due_first: bool,
    is_first_page: bool,
    refusal: Option<String>,
    found: Found,
    next: Option<String>,
}

/// Filters that are asked for often: words, filter, order.
const OFTEN: [(&str, &str, &str); 5] = [
    ("Parked", "status:PARKED", "due_first"),
    ("Unknown", "status:UNKNOWN", "due_first"),
    ("Under way", "status:PROCESSING", "due_first"),
    ("Failed", "status:FAILED", "due_last"),
    ("Waiting", "status:PENDING", "due_first"),
];

impl Page {
    /// Words and ways.
    fn often(&self) -> Vec<(&'static str, String)> {
        let ways = OFTEN.iter().map(|(words, q, order)| {
            (*words, way("/ui/payments", &[("q", Some(q)), ("order", Some(order))]))
        });
        ways.collect()
    }
}

/// What the page says of a refusal.
pub(super) fn told(problem: &Problem) -> String {
    let place = problem.errors.first().map(|error| error.detail.to_string());
    let detail = || problem.detail.as_deref().unwrap_or_else(|| problem.code.doc()).to_owned();
    place.unwrap_or_else(detail)
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, uri: Uri) -> Shown {
    let pairs = Pairs::read(&uri, &["q", "order", "cursor"])?;
    let q = pairs.text("q").unwrap_or_default().trim().to_owned();
    // Whoever has an id wants its page.
    if let Ok(id) = q.parse::<PaymentId>() {
        return Ok(show::other(&format!("/ui/payments/{id}")));
    }
    let (order, cursor) = (pairs.text("order"), pairs.text("cursor"));
    let until_now = format!("due:..{}", utc(viewer.now()));
    // Behind a first page of what was due until now, the walk goes on with the instant that it began with.
    let asked = if q.is_empty() && order.is_none() { until_now } else { q.clone() };
    let asked_q = Some(asked.as_str()).filter(|asked| !asked.is_empty());
    let path = way("/v1/ops/payments", &[("q", asked_q), ("order", order), ("cursor", cursor)]);
    let (found, refusal) = match ui.look::<Found>(&viewer, &path).await {
        Ok(found) => (found, None),
        Err(problem) if problem.code.http() == 400 => (Found::default(), Some(told(&problem))),
        Err(problem) => return Err(problem.into()),
    };
    let next = found.next_cursor.as_deref().map(|cursor| {
        let order = Some(order.unwrap_or("due_last"));
        way("/ui/payments", &[("q", asked_q), ("order", order), ("cursor", Some(cursor))])
    });
    show::page(&Page {
        frame: ui.frame(&viewer, Place::Payments).await,
        q,
        is_first_due_first: order == Some("due_first"),
        is_first_page: cursor.is_none(),
        refusal,
        found,
        next,
    })
}
