//! A crowd of payments at an even rate, and what is asked of every run with one: lateness, gaps between
//! claims, the gateway's own ledger, and the product's own audit.

use crate::figures::{Figures, Holds, Verdict};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use std::time::{Duration, Instant};

/// Requests in flight while creating.
const CLIENTS: usize = 64;

/// Of each topic, as in production.
pub const PARTITIONS: usize = 12;

/// An installation on a ring of its own with production's partitions, to be given to [`remove`].
pub async fn on_own_ring(name: &str, settings: &[(&str, &str)]) -> Installation {
    let (prefix, partitions) = (format!("{name}-{}.payments.", std::process::id()), PARTITIONS.to_string());
    let own = [("kafka.topic_prefix", prefix.as_str()), ("kafka.partitions", &partitions)];
    let settings: Vec<_> = own.into_iter().chain(settings.iter().copied()).collect();
    Installation::new(&settings).await
}

/// Payments due at an even rate.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// The first due instant.
    pub first: DateTime<Utc>,
    /// The last one.
    pub last: DateTime<Utc>,
}

/// How many are due a second, for how long, and how many of them a slow machine may leave out.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Due a second.
    pub wanted: i64,
    /// The least that shows anything.
    pub least: i64,
    /// For so many seconds.
    pub over_s: i64,
}

impl Crowd {
    /// Creates as many as it can within `within_s` at `api-1`, spread evenly however many they are; the
    /// first is due `ahead_s` after that. A machine that is slow at it gets a smaller crowd, not another plan.
    pub async fn create(
        figures: &mut Figures,
        site: &Installation,
        rate: Rate,
        within_s: i64,
        ahead_s: i64,
    ) -> Self {
        let began = Instant::now();
        let first = Utc::now().trunc_subsecs(0) + TimeDelta::seconds(1 + within_s + ahead_s);
        let mut open = FuturesUnordered::new();
        let mut count = 0;
        while count < rate.wanted * rate.over_s && began.elapsed().as_secs().cast_signed() < within_s {
            if open.len() >= CLIENTS {
                open.next().await;
            }
            // One in every second before the next in any.
            let in_second_us = halved_us(count / rate.over_s);
            let due_at = first + TimeDelta::microseconds(count % rate.over_s * 1_000_000 + in_second_us);
            open.push(async move { site.create(&format!("crowd-{count}"), "sim_ok", due_at).await });
            count += 1;
        }
        while open.next().await.is_some() {}
        let shown = format!("{} a second, {count} in {} s", count / rate.over_s, began.elapsed().as_secs());
        let bound = format!("{} wanted, {} at least", rate.wanted, rate.least);
        figures.holds("payments due", shown, &bound, Holds(count >= rate.least * rate.over_s));
        Self { first, last: first + TimeDelta::seconds(rate.over_s) }
    }

    /// Waits for an instant of its plan; instants are the plan here, not conditions.
    pub async fn reached(&self, after_s: i64) -> DateTime<Utc> {
        let at = self.first + TimeDelta::seconds(after_s);
        tokio::time::sleep((at - Utc::now()).to_std().unwrap_or_default()).await;
        Utc::now()
    }

    /// Waits until no payment is open.
    pub async fn over(&self, site: &Installation, within: Duration) {
        let within = within + (self.last - Utc::now()).to_std().unwrap_or_default();
        eventually("no payment is open", within, || async {
            let open =
                "SELECT EXISTS (SELECT FROM payments WHERE status IN ('PENDING', 'UNKNOWN', 'PROCESSING'))";
            let mut database = PgConnection::connect(&site.database.url).await.ok()?;
            let open: bool = sqlx::query_scalar(open).fetch_one(&mut database).await.ok()?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            (!open).then_some(())
        })
        .await;
    }
}

/// 0, 1/2, 1/4, 3/4, 1/8, … of a second in microseconds: even, wherever one stops.
fn halved_us(number: i64) -> i64 {
    let bits = u32::try_from(number).expect("a small rate").reverse_bits();
    (i64::from(bits) * 1_000_000) >> 32
}

/// What happened between two instants.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    /// Payments due from here.
    pub from: DateTime<Utc>,
    /// To here.
    pub to: DateTime<Utc>,
}

impl Stretch {
    /// So long from an instant on.
    pub fn after(from: DateTime<Utc>, seconds: i64) -> Self {
        Self { from, to: from + TimeDelta::seconds(seconds) }
    }
}

/// Lateness of the first claims of what was due in the stretch, by the database's clock; the bound is on
/// the 99th percentile.
pub async fn lateness(
    figures: &mut Figures,
    site: &Installation,
    name: &str,
    stretch: Stretch,
    bound_ms: i64,
) {
    let query = "SELECT count(*), min(late), percentile_disc(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY late)
         FROM (SELECT (extract(epoch FROM a.claimed_at - p.due_at) * 1000)::bigint AS late
               FROM payments p JOIN attempts a ON a.due_day = p.due_day AND a.payment_id = p.id AND a.attempt = 1
               WHERE p.due_at >= $1 AND p.due_at < $2) AS claims";
    let (count, least, late): (i64, Option<i64>, Option<Vec<i64>>) = sqlx::query_as(query)
        .bind(stretch.from)
        .bind(stretch.to)
        .fetch_one(&mut look(&site.database.url).await)
        .await
        .expect("percentiles");
    let late = late.unwrap_or_default();
    let [p50, p99, most] = late[..] else {
        figures.line(name, "nothing was due", &format!("p99 at most {bound_ms} ms"), Verdict::Unknown);
        return;
    };
    let shown = format!("p50 {p50} p99 {p99} max {most} ms, {count} of them");
    let holds = p99 <= bound_ms && least >= Some(0);
    figures.holds(name, shown, &format!("p99 at most {bound_ms} ms"), Holds(holds));
}

/// The longest time without a claim by any worker in a stretch in which work was due all the time.
pub async fn longest_gap(
    figures: &mut Figures,
    site: &Installation,
    name: &str,
    stretch: Stretch,
    bound_ms: i64,
) {
    let query = "SELECT count(*), coalesce(max((extract(epoch FROM claimed_at - before) * 1000)::bigint), 0)
         FROM (SELECT claimed_at, lag(claimed_at) OVER (ORDER BY claimed_at) AS before FROM attempts) AS claims
         WHERE claimed_at >= $1 AND before < $2";
    let (count, gap): (i64, i64) = sqlx::query_as(query)
        .bind(stretch.from)
        .bind(stretch.to)
        .fetch_one(&mut look(&site.database.url).await)
        .await
        .expect("a gap");
    let shown = format!("{gap} ms, of {count} claims");
    figures.holds(name, shown, &format!("at most {bound_ms} ms"), Holds(gap <= bound_ms && count > 0));
}

/// The gateway's own ledger: as many charges as payments, none twice, none early.
pub async fn charged_once(figures: &mut Figures, site: &Installation) {
    let count = "SELECT count(*) FROM payments";
    let payments: i64 =
        sqlx::query_scalar(count).fetch_one(&mut look(&site.database.url).await).await.expect("a count");
    let text = site.text("sandbox-1", "/ledger/summary").await.expect("the sandbox answers");
    let summary: Value = serde_json::from_str(&text).expect("JSON");
    let of = |name: &str| summary[name].as_i64().unwrap_or(-1);
    let shown = format!("{} of {payments}", of("paymentsCharged"));
    let all = of("paymentsCharged") == payments && of("charges") == payments && payments > 0;
    figures.holds("payments charged, by the gateway's ledger", shown, "all, each once", Holds(all));
    let twice = of("paymentsChargedMoreThanOnce");
    figures.holds("charged more than once", twice, "0", Holds(twice == 0));
    figures.holds("charged before the due instant", of("early"), "0", Holds(of("early") == 0));
}

/// Every promise that ledger, database and topics can tell of, by `punctual audit check`.
pub fn audited(figures: &mut Figures, site: &Installation, since: DateTime<Utc>) {
    let (ledger, since) = (format!("{}/ledger", site.url("sandbox-1")), since.to_rfc3339());
    let output =
        site.output(&["audit", "check", "--ledger", &ledger, "--topics", "--since", &since, "-o", "json"]);
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        figures.holds("audit check", said, "a report", Holds(false));
        return;
    };
    let lines = report["invariants"].as_array().expect("a line a promise");
    let looked_at: u64 = lines.iter().filter_map(|line| line["lookedAt"].as_u64()).sum();
    let broken: Vec<&Value> = lines.iter().filter(|line| line["broken"] != 0).collect();
    let holds = output.status.code() == Some(0) && broken.is_empty() && looked_at > 0;
    let promises = lines.iter().filter(|line| line["lookedAt"].as_u64() > Some(0)).count();
    let shown = format!("{} broken of {promises} promises, {looked_at} looked at", broken.len());
    figures.holds("audit check: ledger, database, topics", shown, "0 broken", Holds(holds));
    broken.iter().for_each(|line| println!("      {}: {}", line["invariant"], line["witnesses"]));
}

/// Ends every process and deletes the ring that was made for it.
pub async fn remove(mut site: Installation) {
    site.roles.clear();
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", site.kafka()).create().expect("settings");
    let metadata = admin.inner().fetch_metadata(None, Duration::from_secs(10)).expect("metadata");
    let prefix = site.setting("kafka.topic_prefix");
    let topics: Vec<&str> =
        metadata.topics().iter().map(|topic| topic.name()).filter(|name| name.starts_with(prefix)).collect();
    for deleted in admin.delete_topics(&topics, &AdminOptions::new()).await.expect("an answer") {
        deleted.expect("deleted");
    }
}
