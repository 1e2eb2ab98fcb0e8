//! A rolling restart of every role while payments are due and clients create more: nobody is met by a
//! closed door, nobody's work is cut off, nothing is lost or doubled, and the ring does not stop.

use super::crowd::{Crowd, Rate, Stretch, audited, charged_once, lateness, longest_gap, on_own_ring, remove};
use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::{Client, Installation};
use crate::support::records::look;
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A build that is not optimised is shown less.
const RATE: Rate = if cfg!(debug_assertions) {
    Rate { wanted: 50, least: 25, over_s: 60 }
} else {
    Rate { wanted: 500, least: 350, over_s: 60 }
};
/// As long as the load may be prepared.
const PREPARED_WITHIN_S: i64 = 55;
/// Between two creates of one client.
const THINKS: Duration = Duration::from_millis(100);
/// Clients that create while everything is restarted.
const CLIENTS: usize = 4;
/// How often the balancer asks whether an API is ready.
const ASKS_EVERY: Duration = Duration::from_millis(250);

/// Two or three of each; every one in turn.
const CREW: [(&str, usize); 5] = [("api", 2), ("relay", 2), ("worker", 3), ("publisher", 2), ("keeper", 2)];

/// What a balancer knows, and what its clients met.
#[derive(Debug, Default)]
struct Balancer {
    ready: Mutex<Vec<String>>,
    turn: AtomicUsize,
    created: AtomicUsize,
    refused: AtomicUsize,
    cut_off: AtomicUsize,
    unready_seen: AtomicUsize,
    other: Mutex<BTreeMap<u16, usize>>,
    ends: AtomicBool,
}

impl Balancer {
    fn next(&self) -> Option<String> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (!ready.is_empty()).then(|| ready[turn % ready.len()].clone())
    }

    fn answered(&self, status: u16) {
        *self.other.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
    }

    /// Asks each API again and again, on connections of its own, until told to end.
    async fn watch(self: Arc<Self>, apis: Vec<String>) {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        while !self.ends.load(Ordering::Relaxed) {
            let mut ready = Vec::new();
            for api in &apis {
                match http.get(format!("{api}/readyz")).send().await {
                    Ok(answer) if answer.status().is_success() => ready.push(api.clone()),
                    Ok(_) => drop(self.unready_seen.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => {}
                }
            }
            *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = ready;
            tokio::time::sleep(ASKS_EVERY).await;
        }
    }

    /// Creates one payment after the other at whoever is ready, due three seconds later. An attempt that
    /// fails is counted and made again elsewhere under its key.
    async fn create(self: Arc<Self>, client: Client, name: String) {
        for number in 0.. {
            let due_at = (Utc::now() + TimeDelta::seconds(3)).to_rfc3339_opts(SecondsFormat::Micros, true);
            let body = json!({"payee": "sim_ok", "amount": 900, "currency": "EUR", "dueAt": due_at});
            loop {
                if self.ends.load(Ordering::Relaxed) {
                    return;
                }
                let Some(api) = self.next() else {
                    tokio::time::sleep(THINKS).await;
                    continue;
                };
                match client.post_to(&api, &format!("{name}-{number}"), &body).await {
                    Ok((201, _)) => {
                        self.created.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    Ok((status, _)) => {
                        self.answered(status);
                        tokio::time::sleep(THINKS).await;
                    }
                    Err(error) if error.is_connect() => drop(self.refused.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => drop(self.cut_off.fetch_add(1, Ordering::Relaxed)),
                }
            }
            tokio::time::sleep(THINKS).await;
        }
    }
}

/// Every role, one process after the other.
pub async fn every_role_is_restarted_in_turn(figures: &mut Figures) {
    figures.part(&format!(
        "Rolling restart of 2 APIs, 2 relays, 3 workers, 2 publishers, 2 keepers at {} payments a second",
        RATE.wanted
    ));
    let settings = [("api.drain_grace", "3s"), ("sandbox.latency", "20ms")];
    let mut site = on_own_ring("restarts", &settings).await;
    let began = Utc::now();
    for (role, count) in CREW {
        for number in 1..=count {
            site.start(role, &format!("{role}-{number}"), &[]).await;
        }
    }
    eventually("every worker is a member", Duration::from_secs(120), || async {
        (1..=3).all(|n| said(&site, &format!("worker-{n}"), "partitions assigned") > 0).then_some(())
    })
    .await;
    let crowd = Crowd::create(figures, &site, RATE, PREPARED_WITHIN_S, 5).await;
    let apis: Vec<String> = ["api-1", "api-2"].map(|name| site.url(name).to_owned()).into();
    let balancer = Arc::new(Balancer::default());
    let watching = tokio::spawn(Arc::clone(&balancer).watch(apis));
    let clients: Vec<JoinHandle<()>> = (0..CLIENTS)
        .map(|n| tokio::spawn(Arc::clone(&balancer).create(site.client(), format!("during-{n}"))))
        .collect();
    let from = crowd.reached(4).await;
    let revoked = |site: &Installation| said(site, "worker-", "partitions revoked");
    let revoked_before = revoked(&site);
    let mut codes = Vec::new();
    for (role, count) in CREW {
        for number in 1..=count {
            codes.push(restarted(&mut site, role, &format!("{role}-{number}")).await);
        }
    }
    let until = Utc::now();
    println!("  all restarted within {} s", (until - from).num_seconds());
    figures.met("payments due after the last restart", usize::from(until < crowd.last));
    crowd.reached((crowd.last - crowd.first).num_seconds()).await;
    balancer.ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client");
    }
    watching.await.expect("a balancer");
    crowd.over(&site, Duration::from_secs(60)).await;
    doors(figures, &balancer);
    let clean = codes.iter().filter(|code| **code == 0).count();
    figures.holds(
        "exit codes",
        format!("0 from {clean} of {}", codes.len()),
        "all 0",
        Holds(clean == codes.len()),
    );
    let moved = revoked(&site) - revoked_before;
    figures.holds("workers whose partitions were moved", moved, "0", Holds(moved == 0));
    nothing_cut_off(figures, &site).await;
    let during = Stretch { from, to: until };
    longest_gap(figures, &site, "longest time without a claim", during, 3_000).await;
    lateness(figures, &site, "lateness while everything was restarted", during, 5_000).await;
    charged_once(figures, &site).await;
    everything_is_published(&site).await;
    audited(figures, &site, began);
    remove(site).await;
}

/// SIGTERM, its end, the same name and address anew, and ready again.
async fn restarted(site: &mut Installation, role: &str, name: &str) -> i32 {
    let url = site.url(name).to_owned();
    let assigned = said(site, name, "partitions assigned");
    let code = site.role(name).drain(Duration::from_secs(30)).await;
    let listen = if role == "api" { "api.listen" } else { "metrics.listen" };
    site.start(role, name, &[(listen, url.trim_start_matches("http://"))]).await;
    eventually(&format!("{name} is ready"), Duration::from_secs(30), || async {
        let ready = site.http.get(format!("{url}/readyz")).send().await;
        let has_work = role != "worker" || said(site, name, "partitions assigned") > assigned;
        (ready.is_ok_and(|answer| answer.status().is_success()) && has_work).then_some(())
    })
    .await;
    code
}

/// How often the logs of these say this.
fn said(site: &Installation, names: &str, words: &str) -> usize {
    let logs = site.roles.iter().filter(|(name, _)| name.starts_with(names));
    logs.map(|(_, role)| role.log_text().matches(words).count()).sum()
}

fn doors(figures: &mut Figures, balancer: &Balancer) {
    let count = |what: &AtomicUsize| what.load(Ordering::Relaxed);
    let created = count(&balancer.created);
    figures.met("payments created by clients meanwhile", created);
    figures.met("times that an API said that it is not ready", count(&balancer.unready_seen));
    let shown = format!("{} refused, {} cut off", count(&balancer.refused), count(&balancer.cut_off));
    let none = count(&balancer.refused) + count(&balancer.cut_off) == 0;
    figures.holds("requests that met a closed door", shown, "none", Holds(none && created > 0));
    let other = balancer.other.lock().unwrap_or_else(PoisonError::into_inner);
    figures.holds("answers other than 201", format!("{other:?}"), "none", Holds(other.is_empty()));
}

async fn nothing_cut_off(figures: &mut Figures, site: &Installation) {
    let mut database = look(&site.database.url).await;
    let expired = "SELECT count(*) FROM payment_history WHERE cause = 'lease_expired'";
    let expired: i64 = sqlx::query_scalar(expired).fetch_one(&mut database).await.expect("a count");
    figures.holds("leases expired", expired, "0", Holds(expired == 0));
    let again = "SELECT count(*) FROM attempts WHERE attempt > 1";
    let again: i64 = sqlx::query_scalar(again).fetch_one(&mut database).await.expect("a count");
    println!("  {:<58} {again}", "payments claimed again (given back unsent by a drain)");
    let claimed = "SELECT count(DISTINCT worker) FROM attempts";
    let claimed: i64 = sqlx::query_scalar(claimed).fetch_one(&mut database).await.expect("a count");
    figures.holds("workers that claimed, before and after", claimed, "6", Holds(claimed == 6));
}

async fn everything_is_published(site: &Installation) {
    eventually("every event is published", Duration::from_secs(60), || async {
        let left = "SELECT count(*) FROM payment_history h, publisher_cursor c
            WHERE c.lane = 'events' AND (h.xid, h.seq) > (c.xid, c.seq)";
        let left: i64 = sqlx::query_scalar(left).fetch_one(&mut look(&site.database.url).await).await.ok()?;
        (left == 0).then_some(())
    })
    .await;
}
