//! The mixed run: payments of every kind of luck, due close together, on a whole installation whose
//! workers are frozen and killed in the middle.
//!
//! What is asked for is decided by the seed alone; what the faults hit is not, and is therefore
//! looked up afterwards: a fault that hit nothing proved nothing. Waits are for conditions, with a
//! bound that fails.

use super::eventually;
use super::installation::Installation;
use super::records::{Acknowledged, Records, look, read};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use futures_util::StreamExt;
use punctual::domain::ids::PaymentId;
use punctual::domain::state::Status;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use sqlx::PgConnection;
use std::time::Duration;
use uuid::Uuid;

/// Destination references and how many of every sixty payments have them.
pub const MIX: &[(&str, usize)] = &[
    ("sim_ok", 34),
    ("sim_slow_1200", 6),
    ("sim_decline_insufficient_funds|sim_ok", 3),
    ("sim_decline_insufficient_funds", 2),
    ("sim_decline_stolen_card", 3),
    ("sim_429_2", 3),
    ("sim_500_charged", 3),
    ("sim_timeout_charged", 2),
    ("sim_timeout_not_charged", 2),
    ("sim_reset_after_write", 2),
];

/// Short times: what takes hours in production is over within the run.
pub const SETTINGS: &[(&str, &str)] = &[
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1s"),
    ("gateway.not_found_horizon", "3s"),
    ("worker.lease", "8s"),
    ("worker.margin", "2s"),
    ("kafka.session_timeout", "6s"),
    ("ladder.retry", "1s,2s,2s,3s,3s"),
    ("ladder.reask", "1s,2s,4s,8s"),
    ("ladder.held_back", "1s,2s,4s"),
];

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Decides kinds, amounts, currencies and due instants.
    pub seed: u64,
    /// Times sixty payments.
    pub sixties: usize,
    /// All are due within this.
    pub over: Duration,
    /// A worker is frozen past its lease this long after the first due instant, if at all.
    pub freeze_after: Option<Duration>,
    /// A worker is killed this long after the first due instant.
    pub kill_after: Duration,
}

/// What happened, beside what was recorded.
#[derive(Debug)]
pub struct Ran {
    /// Still running, but for the killed worker.
    pub site: Installation,
    /// What was recorded, at the end.
    pub records: Records,
    /// The instant of the freeze and of the thaw.
    pub frozen: Option<(DateTime<Utc>, DateTime<Utc>)>,
    /// The instant of the kill.
    pub killed_at: DateTime<Utc>,
    /// Claims that the killed worker left without an outcome.
    pub open_at_kill: usize,
    /// Payments due after the kill that its partitions still held notices of: at least this many were
    /// first claimed more than two seconds late.
    pub held_back_by_kill: usize,
    /// Neither final nor parked at the end; each waits for an instant of its ladder.
    pub waiting: usize,
}

/// Payments as the seed says; due instants count from `first`.
fn drawn(plan: &Plan, first: DateTime<Utc>) -> Vec<Acknowledged> {
    let mut dice = StdRng::seed_from_u64(plan.seed);
    let mut kinds: Vec<&str> =
        MIX.iter().flat_map(|(kind, count)| vec![*kind; count * plan.sixties]).collect();
    kinds.shuffle(&mut dice);
    let over = u64::try_from(plan.over.as_micros()).expect("a short run");
    let one = |kind: &str| Acknowledged {
        // Replaced by the API's answer.
        id: PaymentId::new(first, [0; 10]).expect("in range"),
        payee: kind.to_owned(),
        amount: dice.random_range(1..=99_999),
        currency: ["EUR", "USD", "JPY", "KWD"][dice.random_range(0..4)].to_owned(),
        due_at: first + TimeDelta::microseconds(i64::try_from(dice.random_range(0..over)).expect("short")),
    };
    kinds.into_iter().map(one).collect()
}

async fn create(site: &Installation, drawn: Vec<Acknowledged>) -> Vec<Acknowledged> {
    let posts = drawn.into_iter().enumerate().map(|(number, mut payment)| async move {
        let due_at = payment.due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let body = json!({"payee": payment.payee, "amount": payment.amount, "currency": payment.currency,
                          "dueAt": due_at});
        let (status, created) = site.post(&format!("mixed-{number}"), &body).await.expect("the API answers");
        assert_eq!(status, 201, "{created}");
        let id = created["paymentId"].as_str().expect("an id");
        payment.id = id.parse().expect("a payment id");
        payment
    });
    futures_util::stream::iter(posts).buffered(8).collect().await
}

/// Runs it all and reads everything that was recorded.
///
/// # Panics
/// Where a step of the run itself cannot be made; broken promises are for the checker.
pub async fn run(plan: &Plan) -> Ran {
    let mut site = Installation::new(SETTINGS).await;
    for (role, name) in [
        ("api", "api-1"),
        ("relay", "relay-1"),
        ("keeper", "keeper-1"),
        ("worker", "worker-1"),
        ("worker", "worker-2"),
    ] {
        site.start(role, name, &[]).await;
    }
    let first = Utc::now().trunc_subsecs(0) + TimeDelta::seconds(15);
    let acknowledged = create(&site, drawn(plan, first)).await;
    assert!(Utc::now() < first, "creating took longer than planned");
    let long: Vec<Uuid> = acknowledged
        .iter()
        .filter(|payment| payment.payee.starts_with("sim_slow") || payment.payee.starts_with("sim_timeout"))
        .map(|payment| payment.id.as_uuid())
        .collect();
    let mut database = look(&site.database.url).await;
    let mut frozen = None;
    if let Some(after) = plan.freeze_after {
        reached(first, after).await;
        frozen = Some(freeze(&mut site, &mut database, &long).await);
    }
    reached(first, plan.kill_after).await;
    in_a_call(&mut database, "worker-1", &long).await;
    site.role("worker-1").kill();
    let killed_at = Utc::now();
    let last = first + TimeDelta::from_std(plan.over).expect("short");
    reached(last, Duration::ZERO).await;
    let waiting = rest(&mut database, Duration::from_secs(90)).await;
    let records = read(&site.database.url, &site.ledger().await, acknowledged).await;
    let of_killed = |worker: &str| worker.starts_with("worker-1/");
    let open = records.attempts.iter().filter(|a| of_killed(&a.worker) && a.settled_at.is_none()).count();
    let late =
        lateness(&records).filter(|(due, late)| *due > killed_at && *late > TimeDelta::seconds(2)).count();
    Ran { site, records, frozen, killed_at, open_at_kill: open, held_back_by_kill: late, waiting }
}

/// Due instant and lateness of each payment's first claim.
pub fn lateness(records: &Records) -> impl Iterator<Item = (DateTime<Utc>, TimeDelta)> {
    let first = records.attempts.iter().filter(|attempt| attempt.attempt == 1);
    first.filter_map(|attempt| {
        let at = records.payments.binary_search_by_key(&attempt.payment, |payment| payment.id).ok()?;
        let due = records.payments[at].due_at;
        Some((due, attempt.claimed_at - due))
    })
}

async fn reached(first: DateTime<Utc>, after: Duration) {
    let at = first + TimeDelta::from_std(after).expect("a short run");
    let bound = (at - Utc::now()).to_std().unwrap_or_default() + Duration::from_secs(5);
    eventually("an instant of the plan", bound, || async { (Utc::now() >= at).then_some(()) }).await;
}

/// Waits until this worker is in the middle of a call that takes its time, and gives its claim.
async fn in_a_call(database: &mut PgConnection, worker: &str, long: &[Uuid]) -> Uuid {
    let database = tokio::sync::Mutex::new(database);
    eventually(&format!("{worker} is in a call"), Duration::from_secs(40), || async {
        sqlx::query_scalar(
            "SELECT p.claim_id FROM payments p
             JOIN attempts a ON a.due_day = p.due_day AND a.payment_id = p.id AND a.claim_id = p.claim_id
             WHERE p.status = 'PROCESSING' AND p.id = ANY ($1) AND a.worker LIKE $2 || '/%'
               AND a.claimed_at > clock_timestamp() - interval '500 milliseconds'",
        )
        .bind(long)
        .bind(worker)
        .fetch_optional(&mut **database.lock().await)
        .await
        .expect("the database answers")
    })
    .await
}

/// Freezes worker-2 in a call until the reaper has taken its claim away, thaws it, and starts it anew
/// once it has noticed and ended.
async fn freeze(
    site: &mut Installation,
    database: &mut PgConnection,
    long: &[Uuid],
) -> (DateTime<Utc>, DateTime<Utc>) {
    let claim = in_a_call(database, "worker-2", long).await;
    site.role("worker-2").freeze();
    let from = Utc::now();
    {
        let database = tokio::sync::Mutex::new(&mut *database);
        eventually("the frozen worker's lease has expired", Duration::from_secs(30), || async {
            let held: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM payments WHERE claim_id = $1)")
                .bind(claim)
                .fetch_one(&mut **database.lock().await)
                .await
                .expect("the database answers");
            (!held).then_some(())
        })
        .await;
    }
    site.role("worker-2").thaw();
    let until = Utc::now();
    let worker = std::cell::RefCell::new(site.role("worker-2"));
    let ended = || async { worker.borrow_mut().exit_code() };
    let code = eventually("a worker that was frozen ends", Duration::from_secs(40), ended).await;
    assert_ne!(code, 0, "it ends as a failure, so that it is started anew");
    site.start("worker", "worker-2", &[]).await;
    (from, until)
}

/// Waits until every payment is final or parked, or `within` is over and the rest wait for their
/// ladder; gives how many those are.
async fn rest(database: &mut PgConnection, within: Duration) -> usize {
    let until = Utc::now() + TimeDelta::from_std(within).expect("short");
    let settled = [Status::Completed, Status::Failed, Status::Cancelled, Status::Parked, Status::Refunded];
    let settled = settled.map(Status::as_str);
    let database = tokio::sync::Mutex::new(database);
    let what = "every payment is final, parked or waiting for its ladder";
    eventually(what, within + Duration::from_secs(15), || async {
        let (open, waiting): (i64, i64) = sqlx::query_as(
            "SELECT count(*), count(*) FILTER (WHERE status IN ('PENDING', 'UNKNOWN')
                AND next_attempt_at > clock_timestamp()) FROM payments WHERE status <> ALL ($1)",
        )
        .bind(settled)
        .fetch_one(&mut **database.lock().await)
        .await
        .expect("the database answers");
        let over = Utc::now() >= until && open == waiting;
        (open == 0 || over).then(|| usize::try_from(open).expect("a count"))
    })
    .await
}
