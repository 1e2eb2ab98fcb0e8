//! Wall clocks of workers and relays that are wrong by seconds and by minutes, side by side in
//! installations of their own: nothing is early, and whoever is right pays.

use crate::figures::{Figures, Holds};
use crate::support::audit::{Audited, audit};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use std::time::Duration;

/// How far off, in seconds.
const SHIFTS: [i64; 4] = [-90, -5, 5, 90];
/// Payments of each installation, due over ten seconds.
const PAYMENTS: i64 = 200;

/// What came of one.
struct Outcome {
    shift_s: i64,
    charged: i64,
    twice: i64,
    early: i64,
    requests_early: usize,
    by_the_wrong: i64,
    is_told: bool,
    late_ms: i64,
    audited: Audited,
}

/// All of them at once.
pub async fn wrong_clocks_charge_nothing_early(figures: &mut Figures) {
    figures.part(&format!(
        "Worker and relay off by ±5 s and ±90 s, beside one worker that is right; {PAYMENTS} payments each"
    ));
    let outcomes = futures_util::future::join_all(SHIFTS.map(one)).await;
    for outcome in outcomes {
        let name = format!("{:+} s: charged, twice, early", outcome.shift_s);
        let shown = format!(
            "{}, {}, {}; {} requests early; latest {} ms",
            outcome.charged, outcome.twice, outcome.early, outcome.requests_early, outcome.late_ms
        );
        let holds =
            outcome.charged == PAYMENTS && outcome.twice + outcome.early == 0 && outcome.requests_early == 0;
        figures.holds(&name, shown, &format!("{PAYMENTS}, 0, 0"), Holds(holds));
        figures.holds(
            &format!("{:+} s: claims of the worker that is wrong", outcome.shift_s),
            format!("{}; it says so: {}", outcome.by_the_wrong, outcome.is_told),
            "0; true",
            Holds(outcome.by_the_wrong == 0 && outcome.is_told),
        );
        let shown = format!("{} promises, {} looked at", outcome.audited.promises, outcome.audited.looked_at);
        let name = format!("{:+} s: audit check", outcome.shift_s);
        figures.holds(&name, shown, "none broken", Holds(outcome.audited.holds()));
        outcome.audited.broken.iter().for_each(|broken| println!("      {broken}"));
    }
}

async fn one(shift_s: i64) -> Outcome {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    site.start("keeper", "keeper-1", &[]).await;
    site.start_shifted("relay", "relay-wrong", shift_s).await;
    site.start_shifted("worker", "wrong", shift_s).await;
    let is_told = tells(&site).await;
    site.start("worker", "right", &[]).await;
    eventually("the one that is right is a member", Duration::from_secs(60), || async {
        site.roles["right"].log_text().contains("partitions assigned").then_some(())
    })
    .await;
    let first = Utc::now() + TimeDelta::seconds(8);
    for number in 0..PAYMENTS {
        let due_at = first + TimeDelta::milliseconds(number * 10_000 / PAYMENTS);
        site.create(&format!("clock-{number}"), "sim_ok", due_at).await;
    }
    let mut database = look(&site.database.url).await;
    eventually("all are charged", Duration::from_secs(90), || async {
        let done = "SELECT count(*) FROM payments WHERE status = 'COMPLETED'";
        let done: i64 = sqlx::query_scalar(done).fetch_one(&mut look(&site.database.url).await).await.ok()?;
        (done == PAYMENTS).then_some(())
    })
    .await;
    let by_the_wrong = "SELECT count(*) FROM attempts WHERE split_part(worker, '/', 1) = 'wrong'";
    let by_the_wrong: i64 = sqlx::query_scalar(by_the_wrong).fetch_one(&mut database).await.expect("a count");
    let late = "SELECT max((extract(epoch FROM a.claimed_at - p.due_at) * 1000)::bigint)
        FROM payments p JOIN attempts a ON a.due_day = p.due_day AND a.payment_id = p.id";
    let late_ms: i64 = sqlx::query_scalar(late).fetch_one(&mut database).await.expect("a lateness");
    let summary = site.text("sandbox-1", "/ledger/summary").await.expect("the sandbox answers");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let of = |name: &str| summary[name].as_i64().unwrap_or(-1);
    let instant =
        |line: &Value, field: &str| line[field].as_str().and_then(|at| at.parse::<DateTime<Utc>>().ok());
    let is_early = |line: &&Value| instant(line, "at") < instant(line, "dueAt");
    Outcome {
        shift_s,
        charged: of("paymentsCharged"),
        twice: of("paymentsChargedMoreThanOnce"),
        early: of("early"),
        requests_early: site.ledger().await.iter().filter(is_early).count(),
        by_the_wrong,
        is_told,
        late_ms,
        audited: audit(&site, None),
    }
}

/// Waits until the one that is wrong says so.
async fn tells(site: &Installation) -> bool {
    eventually("it says that its clock is wrong", Duration::from_secs(30), || async {
        let said = site.text("wrong", "/readyz").await.ok()?;
        said.contains("host and database clock are too far apart").then_some(true)
    })
    .await
}
