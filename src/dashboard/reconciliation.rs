//! Reconciliation: how each gateway's books stand against ours, what differs, and what people do about it.
//!
//! What a day adds up to in every book is read from all of its payments, so the page does that only for a day that
//! somebody asked for, and for one at a time.

use super::api::Listed;
use super::gateways::segment;
use super::show::{self, Shown};
use super::text::{self, Html};
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer};
use crate::domain::ids::PaymentId;
use crate::domain::matching::Class;
use crate::domain::repair::NotRepaired;
use askama::Template;
use axum::extract::{Path, Query, State};
use chrono::{DateTime, Days, NaiveDate, Utc};
use serde::Deserialize;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Differences of a page, and reports shown.
const MOST: u32 = 50;
/// How far back the days reach that are offered to be added up, today among them: each is a scan of its day.
const OFFERED: u64 = 7;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Standing {
    gateway: String,
    last_day: Option<String>,
    last_success_at: Option<DateTime<Utc>>,
    open: BTreeMap<String, i64>,
    waiting: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    gateway: String,
    day: String,
    format: String,
    source: String,
    status: String,
    complete: bool,
    lines: i64,
    asked_by: String,
    started_at: DateTime<Utc>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    item_id: i64,
    gateway: String,
    day: String,
    class: String,
    explanation: String,
    advice: String,
    status: String,
    payment_id: Option<PaymentId>,
    refund_id: Option<Uuid>,
    gateway_reference: Option<String>,
    field: Option<String>,
    ours: Option<String>,
    theirs: Option<String>,
    amount: Option<i64>,
    currency: Option<String>,
    line: Option<i64>,
    first_seen_at: DateTime<Utc>,
    last_seen_at: DateTime<Utc>,
    not_repaired: Option<String>,
    decided_by: Option<String>,
    decided_at: Option<DateTime<Utc>>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sum {
    gateway: String,
    currency: String,
    attempts: Book,
    ledger: Book,
    settlement: Book,
    given_back: Book,
    apart: bool,
}

#[derive(Deserialize)]
struct Book {
    count: i64,
    amount: i64,
}

#[derive(Template)]
#[template(path = "reconciliation.html")]
struct Page {
    frame: Frame,
    standings: Vec<Standing>,
    items: Listed<Item>,
    /// Which of them are listed.
    status: String,
    runs: Vec<Run>,
    /// Days that may be added up, the newest first.
    offered: Vec<String>,
    books: Option<Books>,
}

/// A day that was added up.
struct Books {
    day: String,
    sums: Vec<Sum>,
}

#[derive(Template)]
#[template(path = "reconciliation_item.html")]
struct ItemPage {
    frame: Frame,
    item: Item,
}

/// What may stand behind the question mark.
#[derive(Deserialize, Default)]
pub(super) struct Asked {
    status: Option<String>,
    cursor: Option<String>,
    /// A due day whose books are added up.
    books: Option<String>,
}

impl Item {
    fn chip(&self) -> Html {
        let (tone, shape) = match self.status.as_str() {
            "open" => ("failed", "!"),
            "waiting" => ("pending", "○"),
            "repaired" => ("completed", "✓"),
            _ => ("cancelled", "⊘"),
        };
        text::chip(tone, shape, &self.status)
    }

    fn amount(&self) -> Html {
        match (self.amount, self.currency.as_deref()) {
            (Some(minor), Some(currency)) => text::amount(minor, currency),
            _ => text::nothing(),
        }
    }

    /// One side of what differs, where that is an amount: in minor units.
    fn minor(&self, side: &Option<String>) -> Option<i64> {
        let is_amount = matches!(self.field.as_deref(), Some("amount" | "net"));
        side.as_deref().filter(|_| is_amount && self.currency.is_some())?.parse().ok()
    }

    fn code(&self) -> &str {
        self.currency.as_deref().unwrap_or("")
    }

    fn why_not(&self) -> Option<NotRepaired> {
        self.not_repaired.as_deref().and_then(NotRepaired::from_text)
    }

    /// Why its line repaired nothing, in a sentence.
    fn not_repaired_words(&self) -> &str {
        match self.why_not() {
            Some(why) => why.explanation(),
            None => self.not_repaired.as_deref().unwrap_or(""),
        }
    }

    /// No repair by this line ever succeeds: there is no payment of ours, or the line moves none.
    fn is_beyond_repair(&self) -> bool {
        let never = match self.why_not() {
            Some(NotRepaired::NothingToRepair | NotRepaired::OtherGateway | NotRepaired::OnRecord) => true,
            Some(
                NotRepaired::NoSuchItem
                | NotRepaired::NotOpen
                | NotRepaired::NoSuchPayment
                | NotRepaired::Changed
                | NotRepaired::InFlight
                | NotRepaired::ReferenceMissing
                | NotRepaired::ReferenceTaken
                | NotRepaired::AboveCharge
                | NotRepaired::NeedsPerson
                | NotRepaired::NeedsApproval,
            )
            | None => false,
        };
        never || self.payment_id.is_none()
    }

    /// What is left to do about it is to give money back from the payment's page.
    fn is_to_refund(&self) -> bool {
        self.why_not() == Some(NotRepaired::OnRecord) || self.class == Class::DuplicateCharge.as_str()
    }

    /// Where an act on it is sent.
    fn way(&self, act: &str) -> String {
        format!("/ui/reconciliation/items/{}/{act}", self.item_id)
    }

    /// What waits may settle by itself, and people need not wait for that.
    fn is_undecided(&self) -> bool {
        matches!(self.status.as_str(), "open" | "waiting")
    }
}

impl Page {
    /// The way to the next page of differences.
    fn next(&self) -> Option<String> {
        let cursor = segment(self.items.next_cursor.as_deref()?);
        Some(format!("/ui/reconciliation?status={}&cursor={cursor}", segment(&self.status)))
    }

    fn is_added_up(&self, day: &str) -> bool {
        self.books.as_ref().is_some_and(|books| books.day == day)
    }

    fn kinds(&self) -> [&'static str; 4] {
        ["open", "waiting", "repaired", "dismissed"]
    }
}

/// The days that may be added up. What is due today is charged today, and whoever tries it out wants to see it.
fn offered(today: NaiveDate) -> Vec<String> {
    (0..=OFFERED).map(|days| (today - Days::new(days)).to_string()).collect()
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, Query(asked): Query<Asked>) -> Shown {
    let status = asked.status.unwrap_or_else(|| "open".to_owned());
    let mut path = format!("/v1/ops/reconciliation-items?limit={MOST}&status={}", segment(&status));
    if let Some(cursor) = asked.cursor {
        path.push_str(&format!("&cursor={}", segment(&cursor)));
    }
    let items = ui.read(&viewer, &path).await?;
    let standings: Listed<Standing> = ui.read(&viewer, "/v1/ops/reconciliation-standing").await?;
    let runs: Listed<Run> = ui.read(&viewer, &format!("/v1/ops/reconciliations?limit={MOST}")).await?;
    let books = match asked.books {
        Some(day) => {
            let path = format!("/v1/ops/reconciliation-sums?from={}", segment(&day));
            let sums: Listed<Sum> = ui.read(&viewer, &path).await?;
            Some(Books { day, sums: sums.data })
        }
        None => None,
    };
    let offered = offered(viewer.now().date_naive());
    let frame = ui.frame(&viewer, Place::Reconciliation).await;
    show::page(&Page { frame, standings: standings.data, items, status, runs: runs.data, offered, books })
}

pub(super) async fn item(State(ui): State<Ui>, viewer: Viewer, Path(id): Path<String>) -> Shown {
    let item = ui.read(&viewer, &format!("/v1/ops/reconciliation-items/{}", segment(&id))).await?;
    show::page(&ItemPage { frame: ui.frame(&viewer, Place::Reconciliation).await, item })
}

pub(super) async fn repair(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(id): Path<String>,
    sent: Sent,
) -> Shown {
    ui.decide(&viewer, &id, ("repair", "The payment is repaired by the gateway's own record."), &sent).await
}

pub(super) async fn dismiss(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(id): Path<String>,
    sent: Sent,
) -> Shown {
    ui.decide(&viewer, &id, ("dismiss", "The difference is dismissed."), &sent).await
}

impl Ui {
    async fn decide(&self, viewer: &Viewer, id: &str, (act, done): (&str, &str), sent: &Sent) -> Shown {
        let id = segment(id);
        let page = format!("/ui/reconciliation/items/{id}");
        self.act(viewer, &format!("/v1/ops/reconciliation-items/{id}/{act}"), sent, (&page, done)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn today_and_the_seven_days_before_it_are_offered_to_be_added_up() {
        let days = offered(NaiveDate::from_ymd_opt(2026, 12, 1).unwrap());
        assert_eq!(days.len(), 8);
        assert_eq!((days[0].as_str(), days[1].as_str()), ("2026-12-01", "2026-11-30"));
        assert_eq!(days[7], "2026-11-24");
    }
}
