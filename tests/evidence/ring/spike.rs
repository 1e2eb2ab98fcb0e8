//! The midnight of the 1st: everything due within one second, and a gateway that takes a hundredth of it a
//! second. Then the same with a gateway that takes half of what was agreed, and says so with 429.

use super::crowd::{charged_once, remove};
use super::paced::{create, created_by, older_waiting, rate_held, requests};
use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Payments due within one second.
const PAYMENTS: i64 = if cfg!(debug_assertions) { 2_000 } else { 50_000 };
/// Calls a second of the account.
const RATE: i64 = if cfg!(debug_assertions) { 60 } else { 500 };
/// Payments for the gateway at half its rate: about two minutes of them.
const HALF: i64 = if cfg!(debug_assertions) { 1_000 } else { 28_000 };
/// Workers.
const WORKERS: usize = 3;

/// See the module's head.
pub async fn a_spike_is_bounded_lateness(figures: &mut Figures) {
    at_the_agreed_rate(figures).await;
    at_half_of_it(figures).await;
}

async fn site(taken: i64) -> Installation {
    let prefix = format!("spike-{taken}-{}.payments.", std::process::id());
    let (rate, taken) = (RATE.to_string(), taken.to_string());
    let settings = [
        ("kafka.topic_prefix", prefix.as_str()),
        ("kafka.partitions", "12"),
        ("gateway.rate", &rate),
        ("sandbox.rate", &taken),
        ("sandbox.latency", "20ms"),
    ];
    let mut site = Installation::new(&settings).await;
    for (role, name) in [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1")] {
        site.start(role, name, &[]).await;
    }
    for number in 1..=WORKERS {
        site.start("worker", &format!("worker-{number}"), &[]).await;
    }
    site
}

/// `count` payments, all due within one second.
async fn spike(site: &Installation, count: i64) -> DateTime<Utc> {
    let due = created_by(count, 12);
    create(site, count, |number| due + TimeDelta::microseconds(number * 1_000_000 / count)).await;
    due
}

async fn over(site: &Installation, within: Duration) {
    eventually("no payment is open", within, || async {
        let open =
            "SELECT EXISTS (SELECT FROM payments WHERE status IN ('PENDING', 'UNKNOWN', 'PROCESSING'))";
        let mut database = look(&site.database.url).await;
        let open: bool = sqlx::query_scalar(open).fetch_one(&mut database).await.ok()?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        (!open).then_some(())
    })
    .await;
}

async fn at_the_agreed_rate(figures: &mut Figures) {
    figures.part(&format!("A spike: {PAYMENTS} payments due within one second, {RATE} a second are taken"));
    let site = site(RATE).await;
    let due = spike(&site, PAYMENTS).await;
    let left = (due - Utc::now()).to_std().unwrap_or_default();
    tokio::time::sleep(left).await;
    let memory_at_due = memory(&site).await;
    let computed = TimeDelta::milliseconds(PAYMENTS * 1_000 / RATE);
    let mut most_memory = 0;
    let within = computed.to_std().expect("a length") * 2 + Duration::from_secs(60);
    {
        let drained = over(&site, within);
        tokio::pin!(drained);
        loop {
            tokio::select! {
                () = &mut drained => break,
                () = tokio::time::sleep(Duration::from_secs(2)) => {
                    most_memory = memory(&site).await.max(most_memory);
                }
            }
        }
    }
    let all = requests(&site).await;
    let (first, last) = (all[0].at, all[all.len() - 1].at);
    // From a second on, and until the last of it: there is always more to do.
    let span = (first + TimeDelta::seconds(1), last - TimeDelta::seconds(2));
    rate_held(figures, "requests in any 10 s", &all, RATE, span);
    let took = last - due;
    let bound = computed * 105 / 100 + TimeDelta::seconds(2);
    let shown = format!("{} ms", took.num_milliseconds());
    let said = format!("at most {} ms", bound.num_milliseconds());
    figures.holds("from due to the last request", shown, &said, Holds(took <= bound));
    let (p99, most) = older_waiting(&all);
    let bound = usize::try_from(PAYMENTS / 20).expect("small");
    let shown = format!("p99 {p99}, at most {most}");
    figures.holds(
        "older payments waiting at a request",
        shown,
        &format!("at most {bound}"),
        Holds(most <= bound),
    );
    let refused = all.iter().filter(|request| request.is_refused).count();
    figures.holds("refused by the gateway for its rate (429)", refused, "0", Holds(refused == 0));
    let (at_due, most) = (memory_at_due / 1_024, most_memory / 1_024);
    let bound = at_due * 5 / 4 + 32;
    let holds = Holds(most <= bound && at_due > 0);
    let shown = format!("{at_due} MiB when due, {most} MiB at most");
    figures.holds("memory of a worker, the largest", shown, &format!("at most {bound} MiB"), holds);
    charged_once(figures, &site).await;
    remove(site).await;
}

async fn at_half_of_it(figures: &mut Figures) {
    let taken = RATE / 2;
    figures.part(&format!("The same with a gateway that takes {taken} of the agreed {RATE} a second"));
    let site = site(taken).await;
    let due = spike(&site, HALF).await;
    let computed = TimeDelta::milliseconds(HALF * 1_000 / taken);
    let ahead = (due - Utc::now()).to_std().unwrap_or_default();
    over(&site, ahead + computed.to_std().expect("a length") * 2 + Duration::from_secs(60)).await;
    let all = requests(&site).await;
    let refused = all.iter().filter(|request| request.is_refused).count();
    figures.met("requests refused with 429", refused);
    let limit = all.len() / 10;
    let shown = format!("{refused} of {}", all.len());
    figures.holds("refused of all requests", shown, &format!("at most {limit}"), Holds(refused <= limit));
    let took = all[all.len() - 1].at - due;
    let bound = computed * 100 / 75;
    let shown =
        format!("{} ms; {} ms at {taken} a second", took.num_milliseconds(), computed.num_milliseconds());
    let said = format!("at most {} ms", bound.num_milliseconds());
    figures.holds("from due to the last request", shown, &said, Holds(took <= bound));
    let spent = "SELECT count(*) FROM payments WHERE sends <> 1 OR status <> 'COMPLETED'";
    let spent: i64 =
        sqlx::query_scalar(spent).fetch_one(&mut look(&site.database.url).await).await.expect("a count");
    figures.holds("payments that a 429 cost a send, or parked", spent, "0", Holds(spent == 0));
    charged_once(figures, &site).await;
    remove(site).await;
}

/// Resident memory of the largest worker, in KiB, as its process tells.
async fn memory(site: &Installation) -> u64 {
    let mut most = 0;
    for number in 1..=WORKERS {
        let pid = site.roles[&format!("worker-{number}")].pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
        most = most.max(kib);
    }
    most
}
