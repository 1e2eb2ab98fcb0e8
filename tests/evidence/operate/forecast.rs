//! The forecast of an installation at work, held against what SQL counts: after payments are created, cancelled and
//! paid, minute by minute for the next hour and day by day for the next month; and what a look at it reads, with few
//! payments ahead and with a crowd.

use super::visitor::key_of;
use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use chrono::{DateTime, Days, TimeDelta, Utc};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use std::time::Duration;

/// A day is counted anew a minute after it was counted last.
const COUNTED: Duration = Duration::from_secs(180);
/// Payments of one day that come at once.
const CROWD: i64 = 120_000;
/// Index entries by which a look may cost more with them.
const MORE: i64 = 200;

/// Every span that differs from SQL's count, and how many payments all of them hold.
struct Held {
    spans: usize,
    payments: i64,
    differ: Vec<String>,
}

async fn forecast(site: &Installation, key: &str) -> Value {
    let asked = site.http.get(format!("{}/v1/forecast", site.url("api-1"))).bearer_auth(key);
    let text = asked.send().await.expect("an answer").text().await.expect("a body");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn instant(span: &Value) -> DateTime<Utc> {
    span["from"].as_str().and_then(|at| at.parse().ok()).expect("an instant")
}

/// Of the last span.
fn end_of(from: DateTime<Utc>, spans: &str) -> DateTime<Utc> {
    from + if spans == "minutes" { TimeDelta::minutes(1) } else { TimeDelta::days(1) }
}

async fn counted(session: &mut PgConnection, from: DateTime<Utc>, until: DateTime<Utc>) -> i64 {
    let (from, until) = (from.to_rfc3339(), until.to_rfc3339());
    let count = format!(
        "SELECT count(*) FROM payments WHERE gateway = 'sandbox' AND status IN ('PENDING', 'UNKNOWN')
             AND next_attempt_at >= '{from}' AND next_attempt_at < '{until}'"
    );
    sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(session).await.expect("a count")
}

/// The minutes and days of one answer against the database as it is now.
async fn held(site: &Installation, key: &str) -> Held {
    let answer = forecast(site, key).await;
    let mut session = look(&site.database.url).await;
    let mut held = Held { spans: 0, payments: 0, differ: Vec::new() };
    let of = answer["gateways"].as_array().into_iter().flatten().find(|of| of["gateway"] == "sandbox");
    let of = of.unwrap_or_else(|| panic!("no sandbox in {answer}"));
    for spans in ["minutes", "days"] {
        let spans_of = of[spans].as_array().expect("spans");
        for (number, span) in spans_of.iter().enumerate() {
            let from = instant(span);
            let until = spans_of.get(number + 1).map_or_else(|| end_of(from, spans), instant);
            let said = span["due"].as_i64().unwrap_or(-1);
            let by_sql = counted(&mut session, from, until).await;
            held.spans += 1;
            held.payments += said;
            if said != by_sql {
                held.differ.push(format!("{spans} from {from}: {said}, by SQL {by_sql}"));
            }
        }
    }
    held
}

/// Waits until all of it agrees.
async fn agrees(figures: &mut Figures, (site, key): (&Installation, &str), after: &str) {
    let mut last = held(site, key).await;
    let began = std::time::Instant::now();
    while !last.differ.is_empty() && began.elapsed() < COUNTED {
        tokio::time::sleep(Duration::from_secs(3)).await;
        last = held(site, key).await;
    }
    let name = format!("spans that SQL counts otherwise, {after}");
    figures.violations(&name, last.spans, last.differ.len(), &last.differ);
    println!("      {} payments in {} spans, {} s", last.payments, last.spans, began.elapsed().as_secs());
}

/// Index entries and rows of payments that were read since the statistics began.
async fn read(site: &Installation) -> i64 {
    let mut session = look(&site.database.url).await;
    let sum = "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint
                   + (SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes
                      WHERE relname LIKE 'payments%')
               FROM pg_stat_user_tables WHERE relname LIKE 'payments%'";
    sqlx::query_scalar(sum).fetch_one(&mut session).await.expect("a sum")
}

/// What one look at the forecast reads, with nobody else at work.
async fn a_look_reads(site: &Installation, key: &str) -> i64 {
    // An answer is kept for ten seconds, and statistics are told within ten.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let before = read(site).await;
    for _ in 0..2 {
        forecast(site, key).await;
        tokio::time::sleep(Duration::from_secs(12)).await;
    }
    read(site).await - before
}

/// Equal to SQL, whatever happens, and no dearer with a crowd ahead.
pub(super) async fn the_forecast_is_what_sql_counts_and_a_look_reads_little(figures: &mut Figures) {
    figures.part("The forecast against SQL's counts, and what a look at it reads");
    let mut site = Installation::new(&[]).await;
    for role in ["api", "relay", "worker", "keeper"] {
        site.start(role, &format!("{role}-1"), &[]).await;
    }
    let key = key_of(&site, "duty");
    let now = Utc::now();
    let (mut soon, mut later) = (Vec::new(), Vec::new());
    for number in 0..60 {
        let at = now + TimeDelta::seconds(200 + number * 50);
        soon.push(site.create(&format!("soon-{number}"), "sim_ok", at).await);
        let at = now + TimeDelta::hours(2 + number * 2);
        later.push(site.create(&format!("later-{number}"), "sim_ok", at).await);
    }
    agrees(figures, (&site, &key), "after 120 creates").await;
    for id in soon.iter().chain(&later).step_by(3) {
        let (status, _) = site.cancel(id).await.expect("an answer");
        assert_eq!(status, 200, "{id} is cancelled");
    }
    agrees(figures, (&site, &key), "after 40 cancels").await;
    let mut paid = Vec::new();
    for number in 0..30 {
        paid.push(site.create(&format!("paid-{number}"), "sim_ok", Utc::now() + TimeDelta::seconds(2)).await);
    }
    for id in &paid {
        site.settled(id, &["COMPLETED"], Duration::from_secs(60)).await;
    }
    agrees(figures, (&site, &key), "after 30 came due and were paid").await;
    a_crowd_ahead(figures, &mut site, &key).await;
}

async fn a_crowd_ahead(figures: &mut Figures, site: &mut Installation, key: &str) {
    for name in ["worker-1", "relay-1", "keeper-1"] {
        site.role(name).drain(Duration::from_secs(60)).await;
    }
    let few = a_look_reads(site, key).await;
    let day = Utc::now().date_naive() + Days::new(3);
    crowd(site, day.and_time(chrono::NaiveTime::MIN).and_utc()).await;
    site.start("keeper", "keeper-2", &[]).await;
    let seen = eventually("the keeper has counted the crowd", COUNTED, || async {
        let due = "SELECT due FROM forecast_days WHERE gateway = 'sandbox' AND day = current_date + 3";
        let due = sqlx::query_scalar::<_, i64>(due).fetch_one(&mut look(&site.database.url).await).await;
        due.ok().filter(|due| *due >= CROWD)
    })
    .await;
    figures.holds("a day that the keeper has counted whole", seen, "≥ 120000", Holds(seen >= CROWD));
    site.role("keeper-2").drain(Duration::from_secs(60)).await;
    let many = a_look_reads(site, key).await;
    let shown = format!("{few}, and {many} with {CROWD} more");
    let bound = format!("{MORE} more at most");
    figures.holds("index entries and rows that two looks read", shown, &bound, Holds(many <= few + MORE));
}

/// Behind the interface's back: through it a payment takes a millisecond.
async fn crowd(site: &Installation, midnight: DateTime<Utc>) {
    let filled = format!(
        "INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
            max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
         SELECT '{day}', gen_random_uuid(), gen_random_uuid(), 'PENDING', at, at, 'sandbox', 1, 'EUR', 6, 'retry',
                'park', 1, now(), now(), 1, '', '1'
         FROM generate_series(1, {CROWD}) AS n
         CROSS JOIN LATERAL (SELECT '{midnight}'::timestamptz + n * interval '0.5 s' AS at) AS t",
        day = midnight.date_naive(),
        midnight = midnight.to_rfc3339()
    );
    let mut session = look(&site.database.url).await;
    session.execute(AssertSqlSafe(filled)).await.expect("filled");
    session.execute("VACUUM ANALYZE payments").await.expect("analysed");
}
