//! One account's rate, shared: one worker, then two, then four, then one of them killed, always with more to
//! do than the rate allows. Over any ten seconds of it, as the gateway's own ledger has them, the rate is kept
//! within a twentieth, and used as well.

use super::crowd::Stretch;
use super::paced::{PACE, create, created_by, fewest_and_most, rate_held, requests};
use crate::figures::{Figures, Holds};
use crate::support::installation::Installation;
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Calls a second of the account.
const RATE: i64 = if cfg!(debug_assertions) { 30 } else { 100 };
/// How long each number of workers is looked at.
const EACH_S: i64 = 22;

/// See the module's head.
pub async fn workers_share_one_rate(figures: &mut Figures) {
    figures.part("Permits: one rate shared by 1, 2 and 4 workers, and after one of four was killed");
    let rate = RATE.to_string();
    let settings = [
        ("gateway.rate", rate.as_str()),
        // Refuses what is beyond a second's worth ahead of the rate.
        ("sandbox.rate", &rate),
        ("sandbox.latency", "20ms"),
        ("worker.late_by", "5s"),
        ("kafka.session_timeout", "6s"),
    ];
    let mut site = Installation::new(&settings).await;
    for (role, name) in
        [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")]
    {
        site.start(role, name, &[]).await;
    }
    let count = RATE * (EACH_S * 4 + 12);
    let due = created_by(count, 5);
    println!("  creating {count} at {PACE} a second or more");
    create(&site, count, |number| due + TimeDelta::microseconds(number)).await;
    until(due + TimeDelta::seconds(1)).await;
    let began = Utc::now();
    let after = |phase: i64| began + TimeDelta::seconds(EACH_S * phase);
    until(after(1)).await;
    site.spawn("worker", "worker-2", &[]);
    until(after(2)).await;
    site.spawn("worker", "worker-3", &[]);
    site.spawn("worker", "worker-4", &[]);
    until(after(3)).await;
    site.role("worker-2").kill();
    until(after(4)).await;
    let all = requests(&site).await;
    let refused = all.iter().filter(|request| request.is_refused).count();
    let phases = ["1 worker", "2 workers", "4 workers", "3 of 4, after a SIGKILL"];
    for (phase, name) in (0..).zip(phases) {
        let stretch = Stretch { from: after(phase), to: after(phase + 1) };
        let (fewest, most) = fewest_and_most(&all, TimeDelta::seconds(10), stretch.from, stretch.to);
        println!("  {name}: {fewest} to {most} in any ten seconds");
    }
    rate_held(figures, "requests in any 10 s, changes of workers included", &all, RATE, (began, after(4)));
    figures.holds("refused by the gateway for its rate (429)", refused, "0", Holds(refused == 0));
    let early = all.iter().filter(|request| request.at < request.due_at).count();
    figures.violations("requests before their due instant", all.len(), early, &[]);
}

/// Instants are the plan here, not conditions.
async fn until(at: DateTime<Utc>) {
    let left = (at - Utc::now()).to_std().unwrap_or(Duration::ZERO);
    tokio::time::sleep(left).await;
}
