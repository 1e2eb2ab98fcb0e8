//! A day without workers, scaled to seconds: what is overdue goes oldest first, what has a deadline fails
//! by it, and nothing goes early.

use crate::figures::{Figures, Holds};
use crate::support::audit::audit;
use crate::support::cells::{Outcome, rest};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

/// Payments that wait.
const PAYMENTS: usize = 2_000;
/// One in so many has a deadline that passes meanwhile.
const WITH_DEADLINE: usize = 10;
/// Calls that one worker has in flight at once: its batch.
const BATCH: usize = 50;
/// Workers that come back together.
const WORKERS: usize = 2;

const SETTINGS: [(&str, &str); 10] = [
    // A day of backlog to its fifteen seconds.
    ("worker.late_by", "1s"),
    ("worker.lease", "20s"),
    ("worker.margin", "2s"),
    ("worker.claim_batch", "50"),
    ("gateway.max_in_flight", "50"),
    ("gateway.total_timeout", "5s"),
    ("gateway.connect_timeout", "1s"),
    ("kafka.session_timeout", "6s"),
    ("keeper.reap_every", "500ms"),
    ("ladder.reask", "1s"),
];

/// One payment that waits.
struct Waiting {
    id: String,
    due_at: DateTime<Utc>,
    has_deadline: bool,
}

/// Everything overdue, then workers.
pub async fn a_backlog_goes_oldest_first(figures: &mut Figures) {
    figures.part("A day without workers, scaled: 2,000 payments overdue when two workers come");
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1")] {
        site.start(role, name, &[]).await;
    }
    let waiting = create_all(&site).await;
    let last = waiting.iter().map(|one| one.due_at).max().unwrap_or_default();
    let overdue = last + TimeDelta::seconds(4);
    let bound = (overdue - Utc::now()).to_std().unwrap_or_default() + Duration::from_secs(5);
    eventually("everything is overdue", bound, || async { (Utc::now() > overdue).then_some(()) }).await;
    figures.holds(
        "requests before the workers came",
        site.ledger().await.len(),
        "0",
        Holds(site.ledger().await.is_empty()),
    );
    for number in 1..=WORKERS {
        site.spawn("worker", &format!("worker-{number}"), &[]);
    }
    let came_at = Utc::now();
    let ids: Vec<String> = waiting.iter().map(|one| one.id.clone()).collect();
    let ends = rest(&site, &ids, |_, end| end.is_at_rest(), Duration::from_secs(90)).await;
    println!("  all at rest {} ms after the workers were started", (Utc::now() - came_at).num_milliseconds());
    told(figures, &waiting, &ends);
    ordered(figures, &waiting, &site.ledger().await);
    let audited = audit(&site, None);
    let shown = format!("{} promises, {} looked at", audited.promises, audited.looked_at);
    figures.holds("audit check", shown, "none broken", Holds(audited.holds()));
    audited.broken.iter().for_each(|broken| println!("      {broken}"));
}

/// Due in an order that has nothing to do with that of their creation.
async fn create_all(site: &Installation) -> Vec<Waiting> {
    let mut dice = StdRng::seed_from_u64(7);
    let offs: Vec<i64> = (0..PAYMENTS).map(|_| dice.random_range(0..15_000)).collect();
    let posts = offs.into_iter().enumerate().map(|(number, off_ms)| async move {
        let due_at =
            chrono::SubsecRound::trunc_subsecs(Utc::now() + TimeDelta::milliseconds(3_000 + off_ms), 6);
        let text = |at: DateTime<Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let mut body = json!({"payee": "sim_ok", "amount": 700, "currency": "EUR", "dueAt": text(due_at)});
        let has_deadline = number % WITH_DEADLINE == 0;
        if has_deadline {
            body["executeBefore"] = json!(text(due_at + TimeDelta::seconds(1)));
        }
        let (status, created) =
            site.post(&format!("backlog-{number}"), &body).await.expect("the API answers");
        assert_eq!(status, 201, "{created}");
        let id = created["paymentId"].as_str().expect("an id").to_owned();
        Waiting { id, due_at, has_deadline }
    });
    futures_util::stream::iter(posts).buffered(8).collect().await
}

fn told(figures: &mut Figures, waiting: &[Waiting], ends: &[Outcome]) {
    let all = || waiting.iter().zip(ends);
    let deadlines = all().filter(|(one, _)| one.has_deadline).count();
    let failed = all().filter(|(one, end)| {
        one.has_deadline && end.end == "failed deadline_passed" && (end.requests, end.charges) == (0, 0)
    });
    let failed = failed.count();
    let bound = "all, more than 0";
    let holds = Holds(failed == deadlines && failed > 0);
    figures.holds(
        "with a deadline: failed by it, and never asked for",
        format!("{failed} of {deadlines}"),
        bound,
        holds,
    );
    let paid =
        all().filter(|(one, end)| !one.has_deadline && end.end == "completed" && end.charges == 1).count();
    let wanted = waiting.len() - deadlines;
    let holds = Holds(paid == wanted && paid > 0);
    figures.holds("without one: paid once", format!("{paid} of {wanted}"), bound, holds);
}

/// First requests against due instants. A request goes ahead of its turn where more older payments wait
/// than all workers together may have in their batches.
fn ordered(figures: &mut Figures, waiting: &[Waiting], ledger: &[Value]) {
    let mut by_due: Vec<&Waiting> = waiting.iter().filter(|one| !one.has_deadline).collect();
    by_due.sort_by_key(|one| one.due_at);
    let mut asked: HashSet<&str> = HashSet::new();
    let (mut early, mut ahead, mut most) = (0, 0, 0);
    let mut oldest = 0;
    for line in ledger {
        let id = line["paymentId"].as_str().unwrap_or("");
        let Some(rank) = by_due.iter().position(|one| one.id == id) else { continue };
        let at: DateTime<Utc> = line["at"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
        early += usize::from(at < by_due[rank].due_at);
        if !asked.insert(&by_due[rank].id) {
            continue;
        }
        while by_due.get(oldest).is_some_and(|one| asked.contains(one.id.as_str())) {
            oldest += 1;
        }
        let passed =
            by_due[oldest.min(rank)..rank].iter().filter(|one| !asked.contains(one.id.as_str())).count();
        most = most.max(passed);
        ahead += usize::from(passed > BATCH * WORKERS);
    }
    let bound = format!("0, at most {} older ones waiting", BATCH * WORKERS);
    let shown = format!("{ahead} of {}, at most {most} older ones waiting", asked.len());
    figures.holds(
        "first requests ahead of their turn",
        shown,
        &bound,
        Holds(ahead == 0 && !asked.is_empty()),
    );
    figures.violations("requests before their due instant", ledger.len(), early, &[]);
}
