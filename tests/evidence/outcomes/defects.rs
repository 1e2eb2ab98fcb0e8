//! Injected defects of a settlement report: all found, classed right, and no false alarm.
//!
//! The sandbox writes the report and says itself what is wrong with it; nothing here knows how anything is
//! found. Around the defects lies what must not be mistaken for one: payments of equal amounts, charges under a
//! later key, refunds in part and whole, charges on either side of midnight, payments that were cancelled. What
//! the payers' banks took back is told in the report, and is the one thing that is not injected and must be found.

use super::day::{ACROSS_MIDNIGHT, Day};
use crate::figures::{Figures, Holds};
use crate::support::installation::Installation;
use crate::support::watched::{Watched, watched};
use chrono::{NaiveDate, TimeDelta, Utc};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Lines of charges in the report.
const CHARGES: u64 = 100_000;
/// Of each kind.
const EACH: usize = 200;
const KINDS: [&str; 8] = ["missing", "doubled", "amount", "currency", "unknown", "late", "orphan", "refund"];
/// One fetch and comparison, from the command's start to its end.
const LONGEST: Duration = Duration::from_secs(15);
/// Witnesses printed of what was not right.
const WITNESSES: usize = 5;

/// A difference as it should be found or was: class, field, subject, ours, theirs.
type Found = (String, String, String, Option<String>, Option<String>);

/// Compares the day when its report came, when the next one came, and when no more can come.
pub async fn every_defect_is_found_and_nothing_else(figures: &mut Figures) {
    figures.part(&format!(
        "{} kinds of defects, {EACH} of each, in a report of {CHARGES} charges; {ACROSS_MIDNIGHT} at midnight",
        KINDS.len()
    ));
    let date = Utc::now().date_naive() - TimeDelta::days(3);
    let day = Day { date, charges: CHARGES, seed: 7 };
    let mut site = Installation::new(&[("gateway.settlement_url", "settlement")]).await;
    day.write(&site.database.url).await;
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger.ndjson");
    day.ledger(&ledger);
    site.start("sandbox", "sandbox-2", &[("sandbox.ledger", &ledger.display().to_string())]).await;
    let wrong = Wrong::of(&site, date).await;
    for kind in KINDS {
        let count = wrong.list.iter().filter(|item| item["defect"] == kind).count();
        figures.holds(&format!("injected: {kind}"), count, &EACH.to_string(), Holds(count == EACH));
    }

    println!("  The day's own report, while charges may still come");
    let first = wrong.reconcile(&site, date, "5").await;
    told(figures, &first);
    let charged_back: BTreeSet<String> =
        day.all().filter(|charge| charge.is_charged_back).map(|charge| charge.id.to_string()).collect();
    let open = wrong.expected(&["missing", "late"], "late", &charged_back);
    held_against(figures, &wrong, &open, &items(&site, date).await);

    println!("  The next day's report, which has what came late");
    let next = date + TimeDelta::days(1);
    told(figures, &wrong.reconcile(&site, next, "5").await);
    let of_next = items(&site, next).await;
    figures.violations(
        "items of the next day: none is wrong",
        CHARGES as usize,
        of_next.len(),
        &named(&of_next),
    );
    wrong.reconcile(&site, date, "5").await;
    let open = wrong.expected(&["missing"], "late", &charged_back);
    held_against(figures, &wrong, &open, &items(&site, date).await);

    println!("  No more charges can come");
    wrong.reconcile(&site, date, "1").await;
    let open = wrong.expected(&["missing"], "missing_there", &charged_back);
    held_against(figures, &wrong, &open, &items(&site, date).await);
}

fn told(figures: &mut Figures, ran: &Watched) {
    let shown = format!("{:?} in {} ms, {} KiB", ran.code, ran.took.as_millis(), ran.peak_kib);
    let ends = matches!(ran.code, Some(0 | 10)) && ran.took <= LONGEST;
    figures.holds(
        "reconcile run: exit code, time, memory at its peak",
        shown,
        &format!("Some(0) or Some(10), ≤ {} s", LONGEST.as_secs()),
        Holds(ends),
    );
    if !ends {
        println!("      {}", ran.last_words());
    }
}

/// What is wrong, as the sandbox says it.
struct Wrong {
    url: String,
    list: Vec<Value>,
}

impl Wrong {
    async fn of(site: &Installation, date: NaiveDate) -> Self {
        let defects = KINDS.map(|kind| format!("{kind}:{EACH}")).join(",");
        let url = site.url("sandbox-2").to_owned();
        let query = format!("defects={defects}&seed=7");
        let asked = format!("{url}/settlement/defects?day={date}&{query}");
        let answer = site.http.get(asked).bearer_auth("sandbox-secret").send().await.expect("an answer");
        let text = answer.text().await.expect("a list");
        let list = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        Self { url: format!("{url}/settlement?{query}"), list }
    }

    /// The product's own command, which fetches the report.
    async fn reconcile(&self, site: &Installation, date: NaiveDate, grace_days: &str) -> Watched {
        let settings = [
            ("gateway.settlement_url", self.url.as_str()),
            ("gateway.total_timeout", "20s"),
            ("reconcile.grace_days", grace_days),
        ];
        let day = date.to_string();
        watched(site, &["reconcile", "run", "--gateway", "sandbox", "--day", &day, "-o", "json"], &settings)
            .await
    }

    /// Every difference that there is, by the defect that made it. `absent` are those kinds whose charge no report
    /// has yet, and their class.
    fn expected(
        &self,
        absent: &[&str],
        class: &str,
        charged_back: &BTreeSet<String>,
    ) -> BTreeMap<&'static str, BTreeSet<Found>> {
        let mut all: BTreeMap<&'static str, BTreeSet<Found>> =
            KINDS.map(|kind| (kind, BTreeSet::new())).into();
        for item in &self.list {
            let kind = KINDS.into_iter().find(|kind| item["defect"] == *kind).expect("a kind");
            if let Some(found) = difference(kind, item, absent, class) {
                all.get_mut(kind).expect("each kind").insert(found);
            }
        }
        let back = charged_back.iter().map(|id| {
            let theirs = Some("charged back".to_owned());
            ("refund_mismatch".to_owned(), "chargeback".to_owned(), id.clone(), None, theirs)
        });
        all.insert("charged back", back.collect());
        all
    }
}

/// What one defect must be found as; nothing where a later report made it right.
fn difference(kind: &str, item: &Value, absent: &[&str], class: &str) -> Option<Found> {
    let (is, reported) = (&item["is"], item["reported"].as_array().expect("lines"));
    let payment = payment_of(&is["key"]);
    let of = |line: &Value, field: &str| match &line[field] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let named = |class: &str, field: &str, subject: String, ours: Option<String>, theirs: Option<String>| {
        Some((class.to_owned(), field.to_owned(), subject, ours, theirs))
    };
    let both = |field: &str| (Some(of(is, field)), Some(of(&reported[0], field)));
    match kind {
        "missing" | "late" if absent.contains(&kind) => {
            named(class, "line", payment, Some("charged".into()), None)
        }
        "doubled" => named("duplicate_charge", "charge", payment, Some("1".into()), Some("2".into())),
        "amount" => {
            let (ours, theirs) = both("gross");
            named("amount_mismatch", "amount", payment, ours, theirs)
        }
        "currency" => {
            let (ours, theirs) = both("currency");
            named("currency_mismatch", "currency", payment, ours, theirs)
        }
        "unknown" => named("foreign", "key", of(&reported[1], "key"), None, Some("charge".into())),
        "orphan" => named("missing_here", "payment", of(&reported[1], "key"), None, Some("charged".into())),
        "refund" => {
            let (ours, theirs) = both("gross");
            named("refund_mismatch", "amount", of(is, "key"), ours, theirs)
        }
        _ => None,
    }
}

/// The key without its epoch.
fn payment_of(key: &Value) -> String {
    key.as_str().expect("a key").split(':').next().unwrap_or_default().to_owned()
}

/// Everything of the day that somebody would have to look at, or that waits.
async fn items(site: &Installation, date: NaiveDate) -> Vec<Found> {
    let mut database = PgConnection::connect(&site.database.url).await.expect("a connection");
    sqlx::query_as(
        "SELECT class, field, CASE WHEN class = 'refund_mismatch' AND field <> 'chargeback' THEN refund_id::text
                                   WHEN class = 'foreign' THEN key ELSE payment_id::text END, ours, theirs
         FROM reconciliation_items
         WHERE gateway = 'sandbox' AND day = $1 AND status IN ('open', 'waiting')",
    )
    .bind(date)
    .fetch_all(&mut database)
    .await
    .expect("items")
}

fn named(found: &[Found]) -> Vec<String> {
    found.iter().take(WITNESSES).map(|it| format!("{it:?}")).collect()
}

/// Recall for each kind, and whatever else was found.
fn held_against(
    figures: &mut Figures,
    wrong: &Wrong,
    expected: &BTreeMap<&'static str, BTreeSet<Found>>,
    found: &[Found],
) {
    let mut left: BTreeMap<&Found, usize> = BTreeMap::new();
    found.iter().for_each(|it| *left.entry(it).or_default() += 1);
    for (kind, all) in expected {
        let missed: Vec<Found> = all.iter().filter(|it| left.remove(it) != Some(1)).cloned().collect();
        let name = format!("{kind}: found, classed, with both values");
        if all.is_empty() {
            println!("  {name:<58} made right by the next report");
        } else {
            figures.violations(&name, all.len(), missed.len(), &named(&missed));
        }
    }
    let alarms: Vec<Found> = left.into_keys().cloned().collect();
    let lines = usize::try_from(CHARGES).expect("fits") + wrong.list.len();
    figures.violations("false alarms, among so many lines", lines, alarms.len(), &named(&alarms));
}
