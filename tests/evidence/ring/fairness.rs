//! One actor's thousands and another's ten at a gateway that takes less than is due: with Kafka, where the
//! hold lets lanes leave in turns, and without, where the late scan does.

use crate::figures::{Figures, Holds};
use crate::support::crowds::{One, create, first_requests, lateness, spread, time_to_create, until};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{TimeDelta, Utc};
use std::time::Duration;

/// Payments of the crowd, all due at one instant.
const CROWD: i32 = 3_000;
/// Due this long after them.
const LATER: TimeDelta = TimeDelta::seconds(5);
/// How late the ten may be, in ms.
const BOUND_MS: i64 = 2_000;
/// Four calls at once, of 25 ms: 160 a second at most, so the crowd takes nineteen seconds.
const SETTINGS: [(&str, &str); 2] = [("gateway.max_in_flight", "4"), ("sandbox.latency", "25ms")];

/// The same with Kafka and without.
pub async fn an_actor_s_crowd_keeps_nobody_waiting(figures: &mut Figures) {
    figures.part("Two actors at one gateway: 3,000 of one due at once, ten of another five seconds later");
    asked(figures, "notices through Kafka", &[]).await;
    asked(figures, "late scan alone, Kafka away", &[("kafka.bootstrap_servers", "127.0.0.1:1")]).await;
}

async fn asked(figures: &mut Figures, how: &str, of_worker: &[(&str, &str)]) {
    let mut site = Installation::new(&SETTINGS).await;
    site.start("keeper", "keeper-1", &[]).await;
    site.start("api", "api-1", &[]).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", of_worker).await;
    let (many, few) = (site.client(), site.client().with_key(&site.new_api_key("another")));
    let ahead = time_to_create(&many, CROWD).await;
    let due = Utc::now() + ahead;
    let few = create(&few, "few", vec![due + LATER; 10]).await;
    let crowd = create(&many, "crowd", spread(due, CROWD, TimeDelta::zero())).await;
    let all: Vec<One> = crowd.iter().chain(&few).cloned().collect();
    let first = eventually("all are asked for", until(due, Duration::from_secs(120)), || async {
        let first = first_requests(&site.ledger().await);
        lateness(&first, &all).map(|_| first)
    })
    .await;
    let late = lateness(&first, &few).unwrap_or_default();
    let last = few.iter().filter_map(|one| first.get(&one.id)).max().copied().unwrap_or_default();
    let before = crowd.iter().filter(|one| first[&one.id] < last).count();
    let shown = format!("{} to {} ms, {before} of the crowd before them", late[0], late[9]);
    let holds = Holds(late[0] >= 0 && late[9] <= BOUND_MS);
    figures.holds(&format!("{how}: lateness of the ten"), shown, "0 to 2,000 ms", holds);
    let shown = format!("{} of {CROWD} were left", crowd.len() - before);
    let contended = Holds(before < crowd.len() * 3 / 4);
    figures.holds(&format!("{how}: the crowd was there"), shown, "more than a quarter", contended);
}
