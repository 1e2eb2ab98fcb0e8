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
use std::time::Duration;
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

/// How many races, how many a second, and how long at most.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Decides the instants.
    pub seed: u64,
    /// Payments, each cancelled once.
    pub races: usize,
    /// Due instants a second, where the machine keeps up.
    pub a_second: u32,
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
}

/// All races with the installation that they ran in.
#[derive(Debug)]
pub struct Raced {
    /// Still running.
    pub site: Installation,
    /// In the order of their due instants.
    pub races: Vec<Race>,
    /// Answers cut off: of cancels on their way to the client; of the API's COMMITs; of the worker's.
    pub cuts: [u64; 3],
}

/// Runs them.
pub async fn race(plan: &Plan) -> Raced {
    let mut site = Installation::new(&SETTINGS).await;
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

/// Creates payments a few seconds ahead and cancels each at its instant.
async fn all(site: &Installation, plan: &Plan, cancel_url: &str) -> Vec<Race> {
    let ahead = TimeDelta::seconds(4);
    let started = Utc::now();
    let between = TimeDelta::microseconds(1_000_000 / i64::from(plan.a_second));
    let mut dice = StdRng::seed_from_u64(plan.seed);
    let mut due_at = started + ahead;
    let mut wanted = Vec::with_capacity(plan.races);
    for number in 0..plan.races {
        wanted.push((number, due_at, TimeDelta::microseconds(dice.random_range(-5_000..=5_000))));
        due_at += between;
    }
    let until = started + TimeDelta::from_std(plan.within).expect("short");
    // As many at once as keep the pace; each is made `ahead` of its instant, or not at all where there is
    // no time left.
    let races = wanted.into_iter().map(|(number, due_at, off)| async move {
        sleep_until(due_at - ahead).await;
        let late = Utc::now() > due_at - ahead / 2;
        let due_at = if late { Utc::now() + ahead } else { due_at };
        if Utc::now() > until {
            return None;
        }
        Some(one(site, number, due_at, off, cancel_url).await)
    });
    let at_once = usize::try_from(plan.a_second).expect("small") * 12;
    let races: Vec<Option<Race>> = futures_util::stream::iter(races).buffered(at_once).collect().await;
    races.into_iter().flatten().collect()
}

async fn one(
    site: &Installation,
    number: usize,
    due_at: DateTime<Utc>,
    off: TimeDelta,
    cancel_url: &str,
) -> Race {
    let key = format!("race-{number}");
    let asked = Asked {
        payee: "sim_ok".to_owned(),
        amount: 1_250,
        currency: "EUR".to_owned(),
        due_at: micros(due_at),
    };
    let text = asked.due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let body =
        json!({"payee": asked.payee, "amount": asked.amount, "currency": asked.currency, "dueAt": text});
    let at = Utc::now();
    let (status, created) = site.post(&key, &body).await.expect("the API that nobody cuts answers");
    assert_eq!(status, 201, "{created}");
    let id = created["paymentId"].as_str().expect("an id").to_owned();
    let payment_id = Some(id.parse().expect("a payment's id"));
    let create = Operation {
        op: Op::Create,
        actor: Some("tester".to_owned()),
        key: Some(key),
        at,
        answered_at: Some(Utc::now()),
        status: Some(status),
        payment_id,
        asked: Some(asked),
        state: None,
    };
    // Not a wait for a condition: the instant is the test.
    sleep_until(due_at + off).await;
    let at = Utc::now();
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
    let cancel = Operation {
        op: Op::Cancel,
        key: None,
        asked: None,
        at,
        answered_at: status.map(|_| Utc::now()),
        status,
        ..create.clone()
    };
    Race { id, operations: [create, cancel], status }
}

/// The database's and the API's microseconds.
fn micros(at: DateTime<Utc>) -> DateTime<Utc> {
    chrono::SubsecRound::trunc_subsecs(at, 6)
}

async fn sleep_until(at: DateTime<Utc>) {
    tokio::time::sleep((at - Utc::now()).to_std().unwrap_or_default()).await;
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
