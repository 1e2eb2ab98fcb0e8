//! Members that come and go under load: each minute stays spread over all workers, work goes on, and what
//! is committed never runs ahead of what was written.

use super::crowd::{
    Crowd, PARTITIONS, Rate, Stretch, audited, charged_once, lateness, longest_gap, on_own_ring, remove,
};
use super::group::{Group, Sample};
use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use chrono::{DateTime, Utc};
use punctual::domain::ids::PaymentId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// A build that is not optimised is shown less.
const RATE: Rate = if cfg!(debug_assertions) {
    Rate { wanted: 60, least: 30, over_s: 90 }
} else {
    Rate { wanted: 400, least: 300, over_s: 90 }
};
/// As long as the load may be prepared.
const PREPARED_WITHIN_S: i64 = 60;
/// `kafka.session_timeout`, as in production.
const SESSION_S: i64 = 15;
/// What a change may take beside the session: a heartbeat tells the members, they join, and fetch anew.
const CHANGE_MS: i64 = 5_000;
/// Between two looks at the committed offsets.
const SAMPLE_EVERY: Duration = Duration::from_millis(1_500);

/// Relays first, without load; then workers.
pub async fn members_come_and_go(figures: &mut Figures) {
    relays_take_over(figures).await;
    workers_share(figures).await;
}

/// How long until this relay alone holds so many shards.
async fn takes(site: &Installation, holder: &str, shards: i64) -> Duration {
    let start = Instant::now();
    eventually(&format!("{holder} holds {shards} shards"), Duration::from_secs(60), || async {
        let held = "SELECT count(*) FROM relay_shards WHERE until > clock_timestamp() AND holder = $1";
        let held = sqlx::query_scalar(held).bind(holder);
        let held: i64 = held.fetch_one(&mut look(&site.database.url).await).await.expect("a count");
        (held == shards).then_some(())
    })
    .await;
    start.elapsed()
}

/// With the lease of production.
async fn relays_take_over(figures: &mut Figures) {
    figures.part("Relays: 12 shards, lease 10 s");
    let mut site = on_own_ring("relays", &[]).await;
    let all = i64::try_from(PARTITIONS).expect("few");
    let mut told = |what: &str, took: Duration, bound_ms: u64| {
        let holds = Holds(took <= Duration::from_millis(bound_ms));
        figures.holds(what, format!("{} ms", took.as_millis()), &format!("at most {bound_ms} ms"), holds);
    };
    site.start("relay", "relay-1", &[]).await;
    takes(&site, "relay-1", all).await;
    site.start("relay", "relay-2", &[]).await;
    told("a second relay has its half", takes(&site, "relay-2", all / 2).await, 5_000);
    site.role("relay-1").drain(Duration::from_secs(15)).await;
    told("one that is drained: the other has all", takes(&site, "relay-2", all).await, 5_000);
    site.start("relay", "relay-1", &[]).await;
    takes(&site, "relay-1", all / 2).await;
    site.role("relay-2").kill();
    // The lease, and the other's next look.
    told("one that is killed: the other has all", takes(&site, "relay-1", all).await, 10_000 + 2_000);
    remove(site).await;
}

/// The members at one moment of the run, and who should be there.
struct Change {
    name: &'static str,
    at: DateTime<Utc>,
    is_kill: bool,
}

/// Waits until so many workers have everything; says how long it took and how it is shared.
async fn shared(figures: &mut Figures, group: &Group, name: &str, workers: usize, bound_s: i64) {
    let start = Instant::now();
    let shares = group.is_shared_by(workers).await;
    let took = start.elapsed();
    let fair = PARTITIONS.div_ceil(workers);
    let shown = format!("{} of {PARTITIONS} partitions, after {} ms", shares.largest, took.as_millis());
    let in_time = took.as_millis() <= u128::try_from(bound_s * 1_000).expect("positive");
    figures.holds(
        &format!("{name}: largest share of any minute on one worker"),
        shown,
        &format!("{fair} of {PARTITIONS}, within {bound_s} s"),
        Holds(shares.largest == fair && in_time),
    );
}

/// Looks at the committed offsets until told to end.
fn sampled(group: &Group, url: &str, go_on: &Arc<AtomicBool>) -> JoinHandle<Vec<Sample>> {
    let (group, url, go_on) = (group.clone(), url.to_owned(), Arc::clone(go_on));
    tokio::spawn(async move {
        let mut database = look(&url).await;
        let mut samples = Vec::new();
        while go_on.load(Ordering::Relaxed) {
            samples.push(group.sample(&mut database).await);
            tokio::time::sleep(SAMPLE_EVERY).await;
        }
        samples
    })
}

async fn workers_share(figures: &mut Figures) {
    figures.part(&format!(
        "Workers 3, 4, 3, 5, 4 at {} payments a second; {PARTITIONS} partitions a topic",
        RATE.wanted
    ));
    let settings = [("worker.slot", ""), ("sandbox.latency", "20ms")];
    let mut site = on_own_ring("members", &settings).await;
    let began = Utc::now();
    for (role, name) in [("api", "api-1"), ("keeper", "keeper-1"), ("relay", "relay-1")] {
        site.start(role, name, &[]).await;
    }
    let crowd = Crowd::create(figures, &site, RATE, PREPARED_WITHIN_S, 15).await;
    // Without lasting names: the group forgets a member that leaves, as it should one that is not to return.
    let nameless = [("worker.slot", "")];
    for number in 1..=3 {
        site.spawn("worker", &format!("worker-{number}"), &nameless);
    }
    let group = Group::of(&site);
    shared(figures, &group, "three begin", 3, 60).await;
    let go_on = Arc::new(AtomicBool::new(true));
    let sampling = sampled(&group, &site.database.url, &go_on);

    let mut changes = Vec::new();
    let mut change = |name, at, is_kill| changes.push(Change { name, at, is_kill });
    change("a fourth comes", crowd.reached(12).await, false);
    site.spawn("worker", "worker-4", &nameless);
    shared(figures, &group, "a fourth comes", 4, 10).await;
    change("one is killed", crowd.reached(30).await, true);
    site.role("worker-2").kill();
    shared(figures, &group, "one is killed", 3, SESSION_S + 5).await;
    change("two more come", crowd.reached(57).await, false);
    site.spawn("worker", "worker-5", &nameless);
    site.spawn("worker", "worker-6", &nameless);
    shared(figures, &group, "two more come", 5, 15).await;
    change("one is drained", crowd.reached(76).await, false);
    let code = site.role("worker-1").drain(Duration::from_secs(25)).await;
    figures.holds("exit code of the one that is drained", code, "0", Holds(code == 0));
    shared(figures, &group, "one is drained", 4, 10).await;

    crowd.over(&site, Duration::from_secs(90)).await;
    go_on.store(false, Ordering::Relaxed);
    let samples = sampling.await.expect("samples");
    told(figures, &site, &crowd, &changes).await;
    never_ahead(figures, &site, &group, &samples).await;
    charged_once(figures, &site).await;
    audited(figures, &site, began);
    remove(site).await;
}

async fn told(figures: &mut Figures, site: &Installation, crowd: &Crowd, changes: &[Change]) {
    let calm = Stretch { from: crowd.first, to: changes[0].at };
    lateness(figures, site, "lateness before any change", calm, 2_000).await;
    for change in changes {
        let (session_s, length) = if change.is_kill { (SESSION_S, SESSION_S + 7) } else { (0, 12) };
        let stretch = Stretch::after(change.at, length);
        let name = format!("{}: longest time without a claim", change.name);
        longest_gap(figures, site, &name, stretch, 3_000).await;
        let bound_ms = session_s * 1_000 + CHANGE_MS;
        lateness(
            figures,
            site,
            &format!("{}: lateness of the next {length} s", change.name),
            stretch,
            bound_ms,
        )
        .await;
    }
    let all = Stretch { from: crowd.first, to: crowd.last };
    lateness(figures, site, "lateness of all", all, SESSION_S * 1_000 + CHANGE_MS).await;
}

/// K1, all the time: below an offset that was seen committed, every notice had been claimed.
async fn never_ahead(figures: &mut Figures, site: &Installation, group: &Group, samples: &[Sample]) {
    let claims: Vec<(uuid::Uuid, i32, DateTime<Utc>)> =
        sqlx::query_as("SELECT payment_id, attempt, claimed_at FROM attempts")
            .fetch_all(&mut look(&site.database.url).await)
            .await
            .expect("claims");
    let claimed: BTreeMap<(PaymentId, i32), DateTime<Utc>> = claims
        .into_iter()
        .map(|(id, attempt, at)| ((id.to_string().parse().expect("an id"), attempt), at))
        .collect();
    let (group, count) = (group.clone(), samples.len());
    let (below, ahead) = tokio::task::block_in_place(|| group.ahead_of_outcomes(samples, &claimed));
    let name = format!("notices below offsets that were committed, {count} looks");
    figures.violations(&name, below, ahead.len(), &ahead[..ahead.len().min(3)]);
}
