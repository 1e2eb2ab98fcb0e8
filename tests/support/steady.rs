//! A steady load: payments that are created all the time, each due a few seconds later, until told to stop;
//! and what became of those that were due in a span of time.

use super::eventually;
use super::installation::{Client, Installation};
use super::records::look;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use futures_util::StreamExt;
use punctual::bucket::dump::Span;
use punctual::domain::ids::PaymentId;
use punctual::platform::config::Kafka;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Between two handfuls of payments.
const PACE: Duration = Duration::from_millis(100);

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Payments a second.
    pub rate: usize,
    /// Each is due so many seconds after it was asked for, evenly spread.
    pub ahead_s: (i64, i64),
}

/// The load, running.
#[derive(Debug)]
pub struct Load {
    goes_on: Arc<AtomicBool>,
    made: JoinHandle<Vec<(Uuid, DateTime<Utc>)>>,
}

impl Load {
    /// Begins.
    pub fn start(client: Client, pace: Pace) -> Self {
        let goes_on = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&goes_on);
        Self { goes_on, made: tokio::spawn(make(client, pace, asked)) }
    }

    /// Ends it; every payment that was created, with its due instant.
    pub async fn stop(self) -> Vec<(Uuid, DateTime<Utc>)> {
        self.goes_on.store(false, Ordering::Relaxed);
        self.made.await.expect("every payment was created")
    }
}

async fn make(client: Client, pace: Pace, goes_on: Arc<AtomicBool>) -> Vec<(Uuid, DateTime<Utc>)> {
    let mut dice = StdRng::seed_from_u64(11);
    let mut made = Vec::new();
    let began = tokio::time::Instant::now();
    let mut turns = 0_u32;
    while goes_on.load(Ordering::Relaxed) {
        turns += 1;
        // As many as the clock says, so that a slow turn is made good by the next.
        let until = usize::try_from(u128::from(turns) * PACE.as_millis()).expect("small") * pace.rate / 1_000;
        let dues: Vec<_> = (made.len()..until)
            .map(|number| (number, dice.random_range(pace.ahead_s.0 * 1_000..pace.ahead_s.1 * 1_000)))
            .collect();
        let posts = dues.into_iter().map(|(number, ahead_ms)| {
            let due_at = (Utc::now() + TimeDelta::milliseconds(ahead_ms)).trunc_subsecs(6);
            created(&client, number, due_at)
        });
        made.extend(futures_util::stream::iter(posts).buffered(8).collect::<Vec<_>>().await);
        tokio::time::sleep_until(began + PACE * turns).await;
    }
    made
}

/// Creates one, due then, and gives its id.
pub async fn created(client: &Client, number: usize, due_at: DateTime<Utc>) -> (Uuid, DateTime<Utc>) {
    let text = due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let body = json!({"payee": "sim_ok", "amount": 1_250, "currency": "EUR", "dueAt": text});
    let answer = client.post(number, &format!("steady-{number}"), &body).await;
    let (status, created) = answer.expect("the API answers");
    assert_eq!(status, 201, "{created}");
    (created["paymentId"].as_str().expect("an id").parse().expect("a UUID"), due_at)
}

/// Waits until no payment that was due by then is open.
pub async fn caught_up(site: &Installation, due_by: DateTime<Utc>, within: Duration) {
    let database = tokio::sync::Mutex::new(look(&site.database.url).await);
    eventually(&format!("everything due by {due_by} is final"), within, || async {
        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM payments WHERE due_at <= $1
             AND status IN ('PENDING', 'PROCESSING', 'UNKNOWN')",
        )
        .bind(due_by)
        .fetch_one(&mut *database.lock().await)
        .await
        .expect("a count");
        (open == 0).then_some(())
    })
    .await;
}

/// What the schedule says of the payments that were due from `from` until `until`.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// From due instant to first claim, sorted.
    pub late: Vec<TimeDelta>,
    /// Not COMPLETED.
    pub unpaid: usize,
    /// Claimed more than once.
    pub claimed_again: usize,
}

impl Told {
    /// The rank of this many of a hundred, nearest; zero of none.
    pub fn rank(&self, per_cent: usize) -> TimeDelta {
        let place = (self.late.len() * per_cent).div_ceil(100).saturating_sub(1);
        self.late.get(place).copied().unwrap_or_default()
    }

    /// `p50 … p99 … max … ms, … of them`.
    pub fn shown(&self) -> String {
        let ms = |per_cent| self.rank(per_cent).num_milliseconds();
        format!("p50 {} p99 {} max {} ms, {} of them", ms(50), ms(99), ms(100), self.late.len())
    }
}

/// Due instant, first claim, state, claims.
type Row = (DateTime<Utc>, Option<DateTime<Utc>>, String, i32);

/// Reads it.
pub async fn told(site: &Installation, from: DateTime<Utc>, until: DateTime<Utc>) -> Told {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT p.due_at, a.claimed_at, p.status, p.attempt FROM payments p
         LEFT JOIN attempts a ON a.due_day = p.due_day AND a.payment_id = p.id AND a.attempt = 1
         WHERE p.due_at >= $1 AND p.due_at < $2",
    )
    .bind(from)
    .bind(until)
    .fetch_all(&mut look(&site.database.url).await)
    .await
    .expect("rows");
    let mut told = Told::default();
    for (due_at, claimed_at, status, attempt) in rows {
        told.late.extend(claimed_at.map(|at| at - due_at));
        told.unpaid += usize::from(status != "COMPLETED");
        told.claimed_again += usize::from(attempt > 1);
    }
    told.late.sort();
    told
}

/// How often money moved, for each payment that the gateway heard of; and requests before a due instant.
pub async fn charges(site: &Installation, made: &[(Uuid, DateTime<Utc>)]) -> Charges {
    let due: BTreeMap<Uuid, DateTime<Utc>> = made.iter().copied().collect();
    let mut times: BTreeMap<Uuid, usize> = BTreeMap::new();
    let mut early = 0;
    for line in site.ledger().await {
        let Some(id) = line["paymentId"].as_str().and_then(|id| id.parse().ok()) else { continue };
        let at: DateTime<Utc> = line["at"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
        early += usize::from(due.get(&id).is_some_and(|due| at < *due));
        *times.entry(id).or_default() += usize::from(line["charged"] == true);
    }
    Charges {
        once: due.keys().filter(|id| times.get(id) == Some(&1)).count(),
        twice: times.values().filter(|times| **times > 1).count(),
        early,
    }
}

/// What the gateway's ledger says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charges {
    /// Of ours, charged once.
    pub once: usize,
    /// Charged more than once.
    pub twice: usize,
    /// Requests before the due instant.
    pub early: usize,
}

/// Claims that ended so (`claimed`, `claimed_late`, `completed`, `held`, `stale`, …), over all workers that
/// run.
pub async fn claims(site: &Installation, results: &[&str]) -> u64 {
    let workers: Vec<&String> = site.roles.keys().filter(|name| name.starts_with("worker")).collect();
    let mut sum = 0;
    for name in workers {
        let text = site.text(name, "/metrics").await.unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("punctual_claims_total"));
        let wanted = lines.filter(|line| results.iter().any(|it| line.contains(&format!("\"{it}\""))));
        sum += wanted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
    }
    sum
}

/// Notices that found their payment done or in another's hands.
pub const REFUSED: [&str; 3] = ["completed", "held", "stale"];

/// Waits until this worker says that Kafka brings notices, or that it does not.
pub async fn kafka_is(site: &Installation, worker: &str, word: &str, within: Duration) {
    let wanted = match word {
        "up" => "punctual_kafka_up 1",
        _ => "punctual_kafka_up 0",
    };
    eventually(&format!("{worker} knows that Kafka is {word}"), within, || async {
        let text = site.text(worker, "/metrics").await.ok()?;
        text.lines().any(|line| line == wanted).then_some(())
    })
    .await;
}

/// What lies below the committed offsets, held against the rows *afterwards*: how many notices were looked
/// at, and those whose payment is as the notice found it (promise K1). `None` while the topics cannot be
/// read.
pub async fn committed(site: &Installation, partitions: i32) -> Option<(usize, Vec<Uuid>)> {
    let kafka = Kafka {
        bootstrap_servers: site.kafka().to_owned(),
        topic_prefix: site.setting("kafka.topic_prefix").to_owned(),
        group: site.setting("kafka.group").to_owned(),
        partitions,
        ..Kafka::default()
    };
    let read = move || Span::take(&kafka, None).and_then(|span| span.read(|_| true));
    let dump = tokio::task::spawn_blocking(read).await.expect("it does not panic").ok()?;
    let complete: BTreeSet<(Uuid, i32)> = dump
        .notices
        .iter()
        .filter(|notice| notice.is_complete)
        .map(|notice| (PaymentId::as_uuid(notice.payment), notice.attempt))
        .collect();
    let mut database: PgConnection = look(&site.database.url).await;
    let (ids, attempts): (Vec<Uuid>, Vec<i32>) = complete.iter().copied().unzip();
    let ahead = sqlx::query_scalar(
        "SELECT n.id FROM unnest($1::uuid[], $2::integer[]) AS n (id, attempt)
         LEFT JOIN payments p ON p.id = n.id
         WHERE p.id IS NULL OR p.attempt = n.attempt AND p.status IN ('PENDING', 'UNKNOWN')
           AND p.next_attempt_at > clock_timestamp()",
    )
    .bind(ids)
    .bind(attempts)
    .fetch_all(&mut database)
    .await
    .expect("rows");
    Some((complete.len(), ahead))
}
