//! Cancels within milliseconds of the due instant, with answers lost on the way: between client and API,
//! between API and Postgres, between worker and Postgres.
//!
//! What was lost is unknown to the client, as it is in life; afterwards it must be one of two things:
//! cancelled and never charged, or charged once.

use super::installation::Installation;
use super::proxy::Proxy;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use punctual::audit::{Asked, Op, Operation};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Short times, so that what a cut COMMIT leaves behind is over soon.
const SETTINGS: [(&str, &str); 10] = [
    ("worker.lease", "8s"),
    ("worker.margin", "1s"),
    ("worker.late_by", "5s"),
    ("gateway.total_timeout", "4s"),
    ("gateway.connect_timeout", "1s"),
    ("keeper.reap_every", "500ms"),
    ("ladder.reask", "1s"),
    ("ladder.held_back", "1s"),
    ("kafka.session_timeout", "6s"),
    ("relay.poll", "200ms"),
];

/// How many races, how many at once, and how long at most.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Decides the instants.
    pub seed: u64,
    /// Payments, each cancelled once.
    pub races: usize,
    /// Races at once: each takes a little more than two seconds.
    pub side_by_side: usize,
    /// No payment is made after this long.
    pub within: Duration,
}

/// One race.
#[derive(Debug, Clone)]
pub struct Race {
    /// The payment.
    pub id: String,
    /// What the client did and was told.
    pub operations: [Operation; 2],
    /// The cancel's status; `None`: no answer came.
    pub status: Option<u16>,
    /// When the cancel began, from the due instant.
    pub off: TimeDelta,
}

/// All races with the installation that they ran in.
#[derive(Debug)]
pub struct Raced {
    /// Still running.
    pub site: Installation,
    /// In the order in which they ended.
    pub races: Vec<Race>,
    /// Answers cut off: of cancels on their way to the client; of the API's COMMITs; of the worker's.
    pub cuts: [u64; 3],
}

/// Runs them.
pub async fn race(plan: &Plan) -> Raced {
    let mut site = Installation::new(&SETTINGS).await;
    // A line a request is a good part of what a request costs.
    site.environment.insert("PUNCTUAL_LOG".to_owned(), "warn".to_owned());
    for (role, name) in
        [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")]
    {
        site.start(role, name, &[]).await;
    }
    let database = site.database.url.clone();
    let (api_commits, proxied) = Proxy::before(&database).await;
    site.start("api", "api-2", &[("database.url", &proxied)]).await;
    let (worker_commits, proxied) = Proxy::before(&database).await;
    site.start("worker", "worker-2", &[("database.url", &proxied)]).await;
    let (answers, cancel_url) = Proxy::before(site.url("api-2")).await;
    let proxies = [Arc::new(answers), Arc::new(api_commits), Arc::new(worker_commits)];
    // A task each, so that a cut is never further away than its pause.
    let mut cutters = JoinSet::new();
    for (proxy, pattern, pause_ms) in
        [(0, &b"DELETE /v1"[..], 80), (1, &b"COMMIT"[..], 80), (2, &b"COMMIT"[..], 1_000)]
    {
        let proxy = Arc::clone(&proxies[proxy]);
        cutters.spawn(async move {
            loop {
                proxy.arm(pattern);
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
        });
    }
    let races = all(&site, plan, &cancel_url).await;
    cutters.shutdown().await;
    let cuts = proxies.each_ref().map(|proxy| proxy.cuts());
    Raced { site, races, cuts }
}

/// How far ahead of its instant a payment is made.
const AHEAD: TimeDelta = TimeDelta::milliseconds(2_000);
/// Payments made at once: each takes its instant when its turn comes, so that a slow machine makes fewer a
/// second and not later ones.
const MADE_AT_ONCE: usize = 6;

/// As many races side by side as keep the pace; a race begins when another has ended.
async fn all(site: &Installation, plan: &Plan, cancel_url: &str) -> Vec<Race> {
    let until = Utc::now() + TimeDelta::from_std(plan.within).expect("short");
    let mut dice = StdRng::seed_from_u64(plan.seed);
    let offs: Vec<i64> = (0..plan.races).map(|_| dice.random_range(-5_000..=5_000)).collect();
    let turns = Semaphore::new(MADE_AT_ONCE);
    let late = Late::default();
    let (turns, late) = (&turns, &late);
    let races = offs.into_iter().enumerate().map(|(number, off_us)| async move {
        let create = create(site, number, turns, until).await?;
        Some(cancel(site, create, TimeDelta::microseconds(off_us), cancel_url, late).await)
    });
    let races: Vec<Option<Race>> =
        futures_util::stream::iter(races).buffer_unordered(plan.side_by_side).collect().await;
    races.into_iter().flatten().collect()
}

/// How much later than asked for this process usually wakes: a busy machine would make every cancel late, and
/// no race of it.
#[derive(Debug, Default)]
struct Late(AtomicI64);

impl Late {
    /// At most 30 ms are made up for.
    fn usual(&self) -> TimeDelta {
        TimeDelta::microseconds(self.0.load(Ordering::Relaxed).clamp(0, 30_000))
    }

    fn seen(&self, by: TimeDelta) {
        let (usual_us, by_us) = (self.0.load(Ordering::Relaxed), by.num_microseconds().unwrap_or(0));
        self.0.store(usual_us + (by_us - usual_us) / 16, Ordering::Relaxed);
    }
}

/// Makes one payment due soon; `None` once the time for that is over.
async fn create(
    site: &Installation,
    number: usize,
    turns: &Semaphore,
    until: DateTime<Utc>,
) -> Option<Operation> {
    for again in 0.. {
        let turn = turns.acquire().await.expect("never closed");
        let at = Utc::now();
        if at > until {
            return None;
        }
        let key = format!("race-{number}-{again}");
        let due_at = chrono::SubsecRound::trunc_subsecs(at + AHEAD, 6);
        let asked = Asked { payee: "sim_ok".to_owned(), amount: 1_250, currency: "EUR".to_owned(), due_at };
        let text = due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let body = json!({"payee": asked.payee, "amount": asked.amount, "currency": asked.currency,
                          "dueAt": text});
        let (status, created) = site.post(&key, &body).await.expect("the API that nobody cuts answers");
        drop(turn);
        if status == 422 && created["code"] == "due_in_past" {
            // It took longer than that to be made: no race, and no payment.
            continue;
        }
        assert_eq!(status, 201, "{created}");
        return Some(Operation {
            op: Op::Create,
            actor: Some("tester".to_owned()),
            key: Some(key),
            at,
            answered_at: Some(Utc::now()),
            status: Some(status),
            payment_id: created["paymentId"].as_str().and_then(|id| id.parse().ok()),
            asked: Some(asked),
            state: None,
        });
    }
    None
}

/// Cancels it at its instant, through whatever cuts answers off.
async fn cancel(
    site: &Installation,
    create: Operation,
    off: TimeDelta,
    cancel_url: &str,
    late: &Late,
) -> Race {
    let id = create.payment_id.expect("a payment that was made").to_string();
    let due_at = create.asked.as_ref().expect("asked").due_at;
    // Not a wait for a condition: the instant is the test.
    let wake_at = due_at + off - late.usual();
    tokio::time::sleep((wake_at - Utc::now()).to_std().unwrap_or_default()).await;
    let at = Utc::now();
    late.seen(at - wake_at);
    let url = format!("{cancel_url}/v1/scheduled-payments/{id}");
    let answer = site.http.delete(url).bearer_auth(&site.api_key).send().await;
    let status = match answer {
        // An answer without its end is none.
        Ok(answer) => {
            let status = answer.status().as_u16();
            answer.text().await.is_ok().then_some(status)
        }
        Err(_) => None,
    };
    let answered_at = status.map(|_| Utc::now());
    let cancel =
        Operation { op: Op::Cancel, key: None, asked: None, at, answered_at, status, ..create.clone() };
    Race { id, operations: [create, cancel], status, off: at - due_at }
}

/// What the answers and the ends come to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Answered 200.
    pub granted: usize,
    /// Of these, charged, or not CANCELLED: must be none.
    pub granted_and_charged: usize,
    /// Answered 409.
    pub refused: usize,
    /// Of these, not COMPLETED with one charge: must be none unless another cancel of unknown outcome won.
    pub refused_and_not_paid: usize,
    /// Without an answer, or with 503: nobody told the client.
    pub unknown: usize,
    /// Of these, cancelled and never charged,
    pub unknown_cancelled: usize,
    /// and paid once; the rest is neither.
    pub unknown_paid: usize,
    /// Answered anything else.
    pub other: usize,
    /// Charged more than once.
    pub doubles: usize,
}

/// Holds each answer against where its payment ended.
pub fn tally(races: &[Race], ends: &[super::cells::Outcome]) -> Tally {
    let mut tally = Tally::default();
    for (race, end) in races.iter().zip(ends) {
        let cancelled = end.end.starts_with("cancelled") && (end.requests, end.charges) == (0, 0);
        let paid = end.end == "completed" && end.charges == 1;
        tally.doubles += usize::from(end.charges > 1);
        match race.status {
            Some(200) => {
                tally.granted += 1;
                tally.granted_and_charged += usize::from(!cancelled);
            }
            Some(409) => {
                tally.refused += 1;
                tally.refused_and_not_paid += usize::from(!paid);
            }
            None | Some(503) => {
                tally.unknown += 1;
                tally.unknown_cancelled += usize::from(cancelled);
                tally.unknown_paid += usize::from(paid);
            }
            Some(_) => tally.other += 1,
        }
    }
    tally
}
