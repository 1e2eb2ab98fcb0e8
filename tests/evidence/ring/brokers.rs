//! Three brokers as in production (three copies, two of which must be in sync), and what they go through
//! while payments fall due all the time: a leader killed, a leader frozen, the group's coordinator killed in
//! the middle of a rebalance, two of three gone.

use crate::figures::{Figures, Holds};
use crate::support::audit::audit_of;
use crate::support::brokers::{Brokers, observer, sharing_out, state_of};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::steady::{Load, Pace, REFUSED, caught_up, charges, claims, committed, kafka_is, told};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Payments a second: three brokers and two workers share two cores.
const RATE: usize = if cfg!(debug_assertions) { 40 } else { 120 };
/// Of each topic.
const PARTITIONS: i32 = 3;
/// Of the 99th percentile, where Kafka is away or a part of it: a minute.
const MINUTE: TimeDelta = TimeDelta::seconds(60);
/// Of the 99th percentile where a member of the cluster is lost and the others go on: a new leader is
/// known within seconds, and what it does not bring the late scan has after 15 s.
const OTHERS_GO_ON: TimeDelta = TimeDelta::seconds(20);
/// How long a leader is frozen, and two of three are gone.
const FROZEN: Duration = Duration::from_secs(20);
const GONE: Duration = Duration::from_secs(30);
/// As long as traces may be seen after it was healed.
const TRACES: TimeDelta = TimeDelta::seconds(5);

pub const SETTINGS: [(&str, &str); 8] = [
    ("worker.lease", "20s"),
    ("worker.margin", "2s"),
    ("gateway.total_timeout", "5s"),
    ("gateway.connect_timeout", "1s"),
    ("kafka.session_timeout", "6s"),
    ("keeper.reap_every", "500ms"),
    ("relay.shard_lease", "4s"),
    ("ladder.reask", "1s"),
];

/// All of it.
pub async fn three_that_copy_each_other(figures: &mut Figures) {
    figures.part(&format!(
        "Three brokers, three copies, two in sync: {RATE} payments a second, two workers, one relay"
    ));
    let mut brokers = Brokers::start(3).await;
    let (servers, partitions) = (brokers.servers(), PARTITIONS.to_string());
    let own = [
        ("kafka.bootstrap_servers", servers.as_str()),
        ("kafka.replication", "3"),
        ("kafka.min_insync_replicas", "2"),
        ("kafka.partitions", &partitions),
    ];
    let mut site = crew(&[&SETTINGS[..], &own].concat()).await;
    for worker in ["worker-1", "worker-2"] {
        kafka_is(&site, worker, "up", Duration::from_secs(40)).await;
    }
    let prefix = site.setting("kafka.topic_prefix").to_owned();
    let began = Utc::now();
    let load = Load::start(site.client(), Pace { rate: RATE, ahead_s: (2, 20) });
    passed(began, Duration::from_secs(25)).await;
    span(figures, &site, "before anything", began, TimeDelta::seconds(2)).await;

    leader_is_killed(figures, &mut brokers, &site, &prefix).await;
    leader_is_frozen(figures, &mut brokers, &site, &prefix).await;
    coordinator_is_killed(figures, &mut brokers, &mut site, &prefix).await;
    two_are_gone(figures, &mut brokers, &site, &prefix).await;
    ends_well(figures, &site, load, began, &["--topics"]).await;
}

/// Keeper, API, relay, publisher and two workers.
pub async fn crew(settings: &[(&str, &str)]) -> Installation {
    let mut site = Installation::new(settings).await;
    for (role, name) in [
        ("keeper", "keeper-1"),
        ("api", "api-1"),
        ("relay", "relay-1"),
        ("publisher", "publisher-1"),
        ("worker", "worker-1"),
        ("worker", "worker-2"),
    ] {
        site.start(role, name, &[]).await;
    }
    site
}

async fn leader_is_killed(figures: &mut Figures, brokers: &mut Brokers, site: &Installation, prefix: &str) {
    let from = Utc::now();
    let topic = format!("{prefix}due.now");
    let leader = brokers.leader(&topic, 0).await;
    brokers.broker(leader).kill();
    let next = brokers.leader_but(leader, &topic, 0).await;
    println!(
        "  broker {leader}, leader of a due partition, killed; {next} leads it after {} ms",
        since(from)
    );
    passed(from, Duration::from_secs(10)).await;
    brokers.restart(&[leader]).await;
    brokers.whole(prefix).await;
    healed(figures, site, "leader of a due partition killed", from, OTHERS_GO_ON).await;
}

async fn leader_is_frozen(figures: &mut Figures, brokers: &mut Brokers, site: &Installation, prefix: &str) {
    let from = Utc::now();
    let leader = brokers.leader(&format!("{prefix}due.now"), 0).await;
    brokers.broker(leader).freeze();
    passed(from, FROZEN).await;
    brokers.broker(leader).thaw();
    brokers.whole(prefix).await;
    healed(figures, site, "leader frozen for 20 s", from, OTHERS_GO_ON).await;
}

async fn coordinator_is_killed(
    figures: &mut Figures,
    brokers: &mut Brokers,
    site: &mut Installation,
    prefix: &str,
) {
    let group = site.setting("kafka.group").to_owned();
    let coordinator = brokers.coordinator(&group).await;
    let watcher = observer(&brokers.servers(), &group);
    let state = || std::future::ready(state_of(&watcher, &group));
    let is_stable = || async { state().await.filter(|state| state == "Stable") };
    eventually("the group is stable", Duration::from_secs(40), is_stable).await;
    site.spawn("worker", "worker-3", &[]);
    let met = sharing_out(&watcher, &group).await;
    let from = Utc::now();
    brokers.broker(coordinator).kill();
    let has_its_own =
        || async { site.roles["worker-3"].log_text().contains("partitions assigned").then_some(()) };
    eventually("the newcomer has its partitions", Duration::from_secs(60), has_its_own).await;
    println!(
        "  coordinator {coordinator} killed while the group was {met}; shared out after {} ms",
        since(from)
    );
    brokers.restart(&[coordinator]).await;
    brokers.whole(prefix).await;
    healed(figures, site, "coordinator killed in a rebalance", from, OTHERS_GO_ON).await;
}

async fn two_are_gone(figures: &mut Figures, brokers: &mut Brokers, site: &Installation, prefix: &str) {
    let from = Utc::now();
    let (by_scan, refused) = (claims(site, &["claimed_late"]).await, claims(site, &REFUSED).await);
    brokers.broker(1).kill();
    brokers.broker(2).kill();
    for worker in ["worker-1", "worker-2", "worker-3"] {
        kafka_is(site, worker, "away", Duration::from_secs(20)).await;
    }
    let noticed = since(from);
    let bound = "at most 10,000 ms";
    figures.holds(
        "two of three gone: direct mode after",
        format!("{noticed} ms"),
        bound,
        Holds(noticed <= 10_000),
    );
    passed(from, GONE).await;
    let waits: i64 = sqlx::query_scalar("SELECT count(*) FROM due_notices")
        .fetch_one(&mut crate::support::records::look(&site.database.url).await)
        .await
        .expect("a count");
    figures.met("notices that wait in the outbox meanwhile", usize::try_from(waits).expect("a count"));
    let by_scan = claims(site, &["claimed_late"]).await - by_scan;
    figures.holds("carried by the late scan meanwhile", by_scan, "more than 0", Holds(by_scan > 0));
    brokers.restart(&[1, 2]).await;
    brokers.whole(prefix).await;
    for worker in ["worker-1", "worker-2", "worker-3"] {
        kafka_is(site, worker, "up", Duration::from_secs(60)).await;
    }
    healed(figures, site, "two of three gone for 30 s", from, MINUTE).await;
    println!("  claims refused over it: {}", claims(site, &REFUSED).await - refused);
}

/// The lateness of what was due over it, and that no offset is ahead of an outcome.
async fn healed(
    figures: &mut Figures,
    site: &Installation,
    what: &str,
    from: DateTime<Utc>,
    bound: TimeDelta,
) {
    passed(Utc::now(), TRACES.to_std().unwrap_or_default()).await;
    caught_up(site, Utc::now() - TimeDelta::seconds(1), Duration::from_secs(90)).await;
    span(figures, site, what, from, bound).await;
    offsets_are_behind(figures, site, what, PARTITIONS).await;
}

/// The lateness of what was due from then until now.
pub async fn span(
    figures: &mut Figures,
    site: &Installation,
    what: &str,
    from: DateTime<Utc>,
    bound: TimeDelta,
) {
    let told = told(site, from, Utc::now() - TimeDelta::seconds(1)).await;
    let holds = !told.late.is_empty() && told.rank(99) <= bound && told.rank(0) >= TimeDelta::zero();
    let bound = format!("p99 at most {} ms", bound.num_milliseconds());
    figures.holds(&format!("due meanwhile: {what}"), told.shown(), &bound, Holds(holds));
}

/// Promise K1, in the middle of it, once something is committed that can be read.
pub async fn offsets_are_behind(figures: &mut Figures, site: &Installation, what: &str, partitions: i32) {
    let readable = || async { committed(site, partitions).await.filter(|(looked_at, _)| *looked_at > 0) };
    let what_is = format!("something committed can be read: {what}");
    let (looked_at, ahead) = eventually(&what_is, Duration::from_secs(60), readable).await;
    let name = format!("committed and not claimed: {what}");
    let witnesses: Vec<String> = ahead.iter().take(3).map(ToString::to_string).collect();
    figures.violations(&name, looked_at, ahead.len(), &witnesses);
}

/// Everything final, charged once, not early; and what the checker says, over the ledger, the database and
/// what `more` names.
pub async fn ends_well(
    figures: &mut Figures,
    site: &Installation,
    load: Load,
    began: DateTime<Utc>,
    more: &[&str],
) {
    let made = load.stop().await;
    let last = made.iter().map(|(_, due)| *due).max().unwrap_or_default();
    let left = (last - Utc::now()).to_std().unwrap_or_default();
    caught_up(site, last, left + Duration::from_secs(60)).await;
    let all = told(site, began, last + TimeDelta::seconds(1)).await;
    println!("  all: {}; claimed more than once: {}", all.shown(), all.claimed_again);
    let paid = all.late.len() - all.unpaid;
    let holds = Holds(paid == made.len() && all.unpaid == 0 && !made.is_empty());
    figures.holds("completed", format!("{paid} of {}", made.len()), "all, more than 0", holds);
    let charges = charges(site, &made).await;
    figures.holds("charged once", charges.once, &made.len().to_string(), Holds(charges.once == made.len()));
    figures.violations("charged twice", made.len(), charges.twice, &[]);
    figures.violations("requests before their due instant", made.len(), charges.early, &[]);
    let audited = audit_of(site, more);
    let shown = format!("{} promises, {} looked at", audited.promises, audited.looked_at);
    figures.holds("audit check, with topics", shown, "none broken", Holds(audited.holds()));
    audited.broken.iter().for_each(|broken| println!("      {broken}"));
}

fn since(from: DateTime<Utc>) -> i64 {
    (Utc::now() - from).num_milliseconds()
}

/// Waits until so long after.
pub async fn passed(from: DateTime<Utc>, after: Duration) {
    let at = from + TimeDelta::from_std(after).unwrap_or_default();
    let bound = (at - Utc::now()).to_std().unwrap_or_default() + Duration::from_secs(5);
    eventually("an instant of the plan", bound, || async { (Utc::now() >= at).then_some(()) }).await;
}
