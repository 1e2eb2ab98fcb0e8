//! What is held for people: counted by reason, listed first due first, and released many at once.
//!
//! A bulk action is made of what is ticked, or of everything that the filter passes: it is an object of the server,
//! made stopped with its exact counts, and started on its own page.

use super::api::{Listed, way};
use super::payments::told;
use super::show::{self, Shown};
use super::{Frame, Place, Ui, Viewer};
use crate::domain::ids::PaymentId;
use crate::intake::Pairs;
use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use chrono::{DateTime, Utc};
use serde::Deserialize;

/// One reason at one gateway.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Count {
    parked_reason: String,
    explanation: Option<String>,
    gateway: Option<String>,
    count: i64,
    oldest_parked_at: DateTime<Utc>,
}

/// For the template.
impl Count {
    fn way(&self) -> String {
        let gateway = self.gateway.as_ref().map_or_else(String::new, |name| format!(" gateway:{name}"));
        way("/ui/parked", &[("q", Some(&format!("reason:{}{gateway}", self.parked_reason)))])
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    data: Vec<Count>,
    count: i64,
    count_is_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    payment_id: PaymentId,
    parked_reason: String,
    parked_at: DateTime<Utc>,
    actor: Option<String>,
    gateway: Option<String>,
    amount: Option<i64>,
    currency: Option<String>,
    due_day: String,
}

/// For the template.
impl Entry {
    fn code(&self) -> &str {
        self.currency.as_deref().unwrap_or("")
    }
}

#[derive(Template)]
#[template(path = "parked.html")]
struct Page {
    frame: Frame,
    counts: Counts,
    q: String,
    refusal: Option<String>,
    entries: Vec<Entry>,
    is_first_page: bool,
    /// What a form had that was refused, for another try.
    reason: String,
    rate: String,
    next: Option<String>,
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, uri: Uri) -> Shown {
    let pairs = Pairs::read(&uri, &["q", "cursor", "reason", "ratePerS"])?;
    let q = pairs.text("q").map(str::trim).filter(|q| !q.is_empty());
    let query = |cursor| [("q", q), ("cursor", cursor)];
    let path = way("/v1/ops/parked", &query(pairs.text("cursor")));
    let none = || Listed { data: Vec::new(), next_cursor: None };
    let (listed, refusal): (Listed<Entry>, _) = match ui.look(&viewer, &path).await {
        Ok(listed) => (listed, None),
        Err(problem) if problem.code.http() == 400 => (none(), Some(told(&problem))),
        Err(problem) => return Err(problem.into()),
    };
    show::page(&Page {
        frame: ui.frame(&viewer, Place::Parked).await,
        counts: ui.look(&viewer, "/v1/ops/parked-counts").await?,
        q: q.unwrap_or_default().to_owned(),
        refusal,
        entries: listed.data,
        is_first_page: pairs.text("cursor").is_none(),
        reason: pairs.text("reason").unwrap_or_default().to_owned(),
        rate: pairs.text("ratePerS").unwrap_or("10").to_owned(),
        next: listed.next_cursor.as_deref().map(|cursor| way("/ui/parked", &query(Some(cursor)))),
    })
}
