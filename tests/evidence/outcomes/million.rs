//! A day of a million lines, both ways: loaded, compared with a million payments, and what differs named.
//!
//! The time is that of the product's own command from its start to its end, its memory the peak that the system
//! counts for the process. A few hundred lines are wrong, so that a comparison that looked at nothing is seen.

use super::day::{Charge, Day};
use crate::figures::{Figures, Holds};
use crate::support::installation::Installation;
use crate::support::watched::{Watched, watched};
use chrono::{TimeDelta, Utc};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use std::time::{Duration, Instant};

/// Longest from the command's start to its end, for a million lines.
const LONGEST: Duration = Duration::from_secs(15);
/// Most memory, whatever the number of lines, in KiB.
const MOST_KIB: u64 = 256 * 1024;
/// One charge in so many is missing in the report, and one has another amount.
const WRONG_EVERY: u64 = 10_007;

/// Times a day of a million charges, or of `PUNCTUAL_REPORT_LINES`.
pub async fn a_million_lines_are_compared_in_seconds(figures: &mut Figures) {
    let asked = std::env::var("PUNCTUAL_REPORT_LINES").ok().and_then(|lines| lines.parse().ok());
    let charges = asked.unwrap_or(1_000_000);
    figures.part(&format!("A report of {charges} charges against as many payments"));
    let date = Utc::now().date_naive() - TimeDelta::days(3);
    let day = Day { date, charges, seed: 11 };
    let site = Installation::new(&[]).await;
    let began = Instant::now();
    day.write(&site.database.url).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.ndjson");
    let lines = day.report(&path, wrong);
    println!("  made in {} s", began.elapsed().as_secs());
    let of =
        |rest: u64| i64::try_from((0..charges).filter(|it| it % WRONG_EVERY == rest).count()).expect("few");

    let (file, date_text) = (path.display().to_string(), date.to_string());
    let day_of = ["reconcile", "run", "--gateway", "sandbox", "--day", &date_text];
    let arguments = [&day_of[..], &["--file", &file, "--format", "sandbox", "-o", "json"]].concat();
    let grace = [("reconcile.grace_days", "1")];
    let ran = watched(&site, &arguments, &grace).await;
    let ended = ran.code == Some(10);
    figures.holds("exit code", format!("{:?}", ran.code), "Some(10): some differ", Holds(ended));
    if !ended {
        println!("      {}", ran.last_words());
    }
    timed(figures, &ran, lines);

    let mut database = PgConnection::connect(&site.database.url).await.expect("a connection");
    // What this report lacks may still stand in the next day's.
    found(figures, &mut database, "what it found", [("amount_mismatch", of(5)), ("late", of(3))]).await;

    let next = Day { date: date + TimeDelta::days(1), charges: 0, seed: 12 };
    let empty = folder.path().join("next.ndjson");
    next.report(&empty, |_, line| vec![line]);
    let (empty, next_text) = (empty.display().to_string(), next.date.to_string());
    let of_next = ["reconcile", "run", "--gateway", "sandbox", "--day", &next_text];
    let of_next = [&of_next[..], &["--file", &empty, "--format", "sandbox", "-o", "json"]].concat();
    let ran = watched(&site, &of_next, &grace).await;
    figures.holds(
        "the next day's report, without lines",
        format!("{:?}", ran.code),
        "Some(0)",
        Holds(ran.code == Some(0)),
    );
    let again = watched(&site, &arguments, &grace).await;
    let shown = format!("{:?}, {} ms", again.code, again.took.as_millis());
    let holds = Holds(again.code == Some(10) && again.took <= LONGEST);
    figures.holds("compared again", shown, &format!("Some(10), ≤ {} s", LONGEST.as_secs()), holds);
    found(
        figures,
        &mut database,
        "what it found then",
        [("amount_mismatch", of(5)), ("missing_there", of(3))],
    )
    .await;
    let loaded: i64 = sqlx::query_scalar("SELECT count(*) FROM settlement_lines")
        .fetch_one(&mut database)
        .await
        .expect("a count");
    figures.holds("lines kept", loaded, &lines.to_string(), Holds(u64::try_from(loaded) == Ok(lines)));
}

/// Some lines are missing, some say another amount.
fn wrong(charge: &Charge, line: Value) -> Vec<Value> {
    match charge.number % WRONG_EVERY {
        3 => Vec::new(),
        5 => {
            let mut other = line;
            other["gross"] = (charge.amount + 1).into();
            other["net"] = (charge.amount - 24).into();
            vec![other]
        }
        _ => vec![line],
    }
}

/// How long it took and what it held.
fn timed(figures: &mut Figures, ran: &Watched, lines: u64) {
    let per_s = u128::from(lines) * 1_000 / ran.took.as_millis().max(1);
    let shown = format!("{} ms for {lines} lines, {per_s} a second", ran.took.as_millis());
    let bound = format!("≤ {} s", LONGEST.as_secs());
    let is_quick = ran.code == Some(10) && ran.took <= LONGEST;
    figures.holds("loaded and compared, both ways", shown, &bound, Holds(is_quick));
    let is_small = (1..=MOST_KIB).contains(&ran.peak_kib);
    figures.holds(
        "memory at its peak",
        format!("{} KiB", ran.peak_kib),
        &format!("≤ {MOST_KIB} KiB"),
        Holds(is_small),
    );
}

/// Holds what is open of each class against what there must be.
async fn found(figures: &mut Figures, database: &mut PgConnection, name: &str, wanted: [(&str, i64); 2]) {
    let found: Vec<(String, i64)> = sqlx::query_as(
        "SELECT class, count(*) FROM reconciliation_items WHERE status IN ('open', 'waiting') GROUP BY 1 ORDER BY 1",
    )
    .fetch_all(database)
    .await
    .expect("items");
    let wanted = wanted.map(|(class, count)| (class.to_owned(), count));
    figures.holds(name, format!("{found:?}"), &format!("{wanted:?}"), Holds(found == wanted));
}
