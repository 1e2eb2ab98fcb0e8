//! Kafka lost while payments fall due all the time: stopped for minutes, erased, frozen, its records
//! deleted, the group's offsets set to the end; and hours of backlog without it. The schedule is in
//! Postgres: nothing is lost, nothing is doubled, and what is late is late by less than a minute.

use super::brokers::{SETTINGS, crew, ends_well, offsets_are_behind, passed, span};
use crate::figures::{Figures, Holds};
use crate::support::audit::audit;
use crate::support::brokers::{Brokers, erase, retire, skip_all};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::steady::{
    Load, Pace, REFUSED, caught_up, charges, claims, committed, created, kafka_is, told,
};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use std::time::Duration;

const RATE: usize = if cfg!(debug_assertions) { 50 } else { 150 };
/// How long Kafka is stopped.
const STOPPED: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 300 });
/// Payments whose due instants have passed, over hours, when workers come.
const OVERDUE: usize = if cfg!(debug_assertions) { 1_000 } else { 5_000 };
const PARTITIONS: i32 = 3;
const MINUTE: TimeDelta = TimeDelta::seconds(60);
const WORKERS: [&str; 2] = ["worker-1", "worker-2"];

/// All of it, on one broker.
pub async fn kafka_is_lost_and_no_payment_with_it(figures: &mut Figures) {
    figures.part(&format!(
        "Loss of Kafka: {RATE} payments a second, two workers; stopped for {} s",
        STOPPED.as_secs()
    ));
    let mut brokers = Brokers::start(1).await;
    let (servers, partitions) = (brokers.servers(), PARTITIONS.to_string());
    let prefix = format!("lost-{}.payments.", std::process::id());
    let own = [
        ("kafka.bootstrap_servers", servers.as_str()),
        ("kafka.partitions", &partitions),
        ("kafka.topic_prefix", &prefix),
    ];
    let mut site = crew(&[&SETTINGS[..], &own].concat()).await;
    let elsewhere = format!("backlog-{}.payments.", std::process::id());
    let other = [("kafka.topic_prefix", elsewhere.as_str()), ("api.due_grace", "6h")];
    let mut overdue = Installation::new(&[&SETTINGS[..], &own, &other].concat()).await;
    all_are(&site, "up").await;
    let began = Utc::now();
    let load = Load::start(site.client(), Pace { rate: RATE, ahead_s: (2, 20) });
    passed(began, Duration::from_secs(15)).await;
    span(figures, &site, "before anything", began, TimeDelta::seconds(2)).await;

    stopped(figures, &mut brokers, &site, &mut overdue).await;
    drop(overdue);
    frozen(figures, &mut brokers, &site).await;
    retired(figures, &site, &servers, &prefix).await;
    skipped(figures, &mut site, &servers, &prefix).await;
    let since = erased(figures, &site, &servers, &prefix).await.to_rfc3339();
    ends_well(figures, &site, load, began, &["--topics", "--since", &since]).await;
}

async fn all_are(site: &Installation, word: &str) {
    for worker in WORKERS {
        kafka_is(site, worker, word, Duration::from_secs(90)).await;
    }
}

/// Killed, and nothing there for minutes; meanwhile hours of backlog elsewhere without it.
async fn stopped(
    figures: &mut Figures,
    brokers: &mut Brokers,
    site: &Installation,
    overdue: &mut Installation,
) {
    let from = Utc::now();
    brokers.broker(1).kill();
    all_are(site, "away").await;
    noticed(figures, "stopped", from);
    backlog(figures, overdue).await;
    passed(from, STOPPED).await;
    let until = Utc::now();
    let refused = claims(site, &REFUSED).await;
    brokers.restart(&[1]).await;
    all_are(site, "up").await;
    // What lay in the outbox and in the producer's queue is out by now, and refused where it was paid.
    passed(Utc::now(), Duration::from_secs(15)).await;
    let meanwhile = told(site, from, until).await.late.len();
    let refused = claims(site, &REFUSED).await - refused;
    // What the producer still held, for 10 s at most; what was not yet 5 s old when it was staged; and what was
    // paid without Kafka until workers had their parts again, for 20 s at most: later their clients are replaced.
    let bound = 35 * RATE;
    figures.holds(
        "claims refused after the return",
        format!("{refused} of {meanwhile} paid meanwhile"),
        &format!("at most {bound}: 35 s of the load"),
        Holds(refused <= u64::try_from(bound).expect("small")),
    );
    ended(figures, site, "Kafka stopped", from).await;
}

async fn frozen(figures: &mut Figures, brokers: &mut Brokers, site: &Installation) {
    let from = Utc::now();
    brokers.broker(1).freeze();
    all_are(site, "away").await;
    noticed(figures, "frozen", from);
    passed(from, Duration::from_secs(20)).await;
    brokers.broker(1).thaw();
    all_are(site, "up").await;
    ended(figures, site, "broker frozen for 20 s", from).await;
}

/// Every record is deleted, those of the coming minutes too, while workers read.
async fn retired(figures: &mut Figures, site: &Installation, servers: &str, prefix: &str) {
    let from = Utc::now();
    let records = retire(servers, prefix).await;
    figures.met("records deleted, as by a retention that passed", usize::try_from(records).expect("a count"));
    passed(from, Duration::from_secs(10)).await;
    ended(figures, site, "retention passed", from).await;
}

/// The workers stop; the group is set past everything that was published meanwhile; workers come.
async fn skipped(figures: &mut Figures, site: &mut Installation, servers: &str, prefix: &str) {
    let (from, group) = (Utc::now(), site.setting("kafka.group").to_owned());
    for worker in WORKERS {
        site.role(worker).ask_to_stop();
    }
    for worker in WORKERS {
        site.role(worker).ended(Duration::from_secs(40)).await;
    }
    eventually("the group has no member and is set to the end", Duration::from_secs(60), || async {
        skip_all(servers, prefix, &group).await.then_some(())
    })
    .await;
    println!("  the group's offsets set to the end after {} ms without workers", since(from));
    for worker in WORKERS {
        site.start("worker", worker, &[]).await;
    }
    all_are(site, "up").await;
    passed(Utc::now(), Duration::from_secs(5)).await;
    let by_scan = claims(site, &["claimed_late"]).await;
    figures.holds("carried by the late scan", by_scan, "more than 0", Holds(by_scan > 0));
    caught_up(site, Utc::now() - TimeDelta::seconds(1), Duration::from_secs(90)).await;
    span(figures, site, "offsets set to the end", from, MINUTE).await;
    // Whoever moves offsets commits for others: what was staged and is not due yet is passed over as well.
    let nothing_is_ahead = || async {
        let (looked_at, ahead) = committed(site, PARTITIONS).await?;
        (looked_at > 0 && ahead.is_empty()).then_some(looked_at)
    };
    let what = "all that was passed over has been claimed";
    let looked_at = eventually(what, Duration::from_secs(180), nothing_is_ahead).await;
    let took = since(from);
    let shown = format!("after {took} ms, {looked_at} looked at");
    figures.holds(what, shown, "at most 180,000 ms", Holds(took <= 180_000));
}

/// Every topic is deleted, made anew 20 s later, and nobody is started anew. Gives an instant from which the
/// topics have everything.
async fn erased(figures: &mut Figures, site: &Installation, servers: &str, prefix: &str) -> DateTime<Utc> {
    let (from, before) = (Utc::now(), clients_replaced(site));
    figures.holds("clients replaced before", before, "none", Holds(before == 0));
    erase(servers, prefix).await;
    // Brokers drop a deleted topic a moment after the answer.
    let complete_from = Utc::now() + TimeDelta::seconds(3);
    all_are(site, "away").await;
    noticed(figures, "erased", from);
    passed(from, Duration::from_secs(20)).await;
    site.run(&["topics", "apply"]);
    let by_notice = claims(site, &["claimed"]).await;
    all_are(site, "up").await;
    eventually("notices come through the new topics", Duration::from_secs(120), || async {
        (claims(site, &["claimed"]).await > by_notice + 10).then_some(())
    })
    .await;
    println!("  notices come through the new topics {} ms after the erasure", since(from));
    let replaced = clients_replaced(site) - before;
    // None where the client library noticed in time that the old topics are gone.
    let bound = format!("at most {}, one a worker", WORKERS.len());
    figures.holds(
        "clients that brought nothing and were replaced",
        replaced,
        &bound,
        Holds(replaced <= WORKERS.len()),
    );
    ended(figures, site, "every topic deleted", from).await;
    complete_from
}

/// Hours of due instants that have passed, two workers, no Kafka.
async fn backlog(figures: &mut Figures, site: &mut Installation) {
    site.start("keeper", "keeper-1", &[]).await;
    site.start("api", "api-1", &[]).await;
    let (client, began) = (site.client(), Utc::now());
    let step_ms = 5 * 3_600_000 / i64::try_from(OVERDUE).expect("few");
    let posts = (0..OVERDUE).map(|number| {
        let ago = TimeDelta::milliseconds(step_ms * i64::try_from(number + 1).expect("few"));
        created(&client, number, began - ago)
    });
    let made: Vec<_> = futures_util::stream::iter(posts).buffered(8).collect().await;
    let came_at = Utc::now();
    for worker in WORKERS {
        site.spawn("worker", worker, &[]);
    }
    caught_up(site, came_at, Duration::from_secs(120)).await;
    let took = since(came_at);
    let name = format!("{OVERDUE} overdue over five hours, without Kafka: paid within");
    figures.holds(&name, format!("{took} ms"), "at most 60,000 ms", Holds(took <= 60_000));
    let charges = charges(site, &made).await;
    let shown = format!("{} once, {} twice, {} early", charges.once, charges.twice, charges.early);
    let holds = Holds((charges.once, charges.twice, charges.early) == (made.len(), 0, 0) && !made.is_empty());
    figures.holds("of the backlog charged", shown, &format!("{} once", made.len()), holds);
    let audited = audit(site, None);
    let shown = format!("{} promises, {} looked at", audited.promises, audited.looked_at);
    figures.holds("of the backlog: audit check", shown, "none broken", Holds(audited.holds()));
}

fn clients_replaced(site: &Installation) -> usize {
    WORKERS.iter().map(|worker| site.roles[*worker].log_text().matches("lie unread").count()).sum()
}

fn noticed(figures: &mut Figures, what: &str, from: DateTime<Utc>) {
    let noticed = since(from);
    let name = format!("Kafka {what}: every worker in direct mode after");
    figures.holds(&name, format!("{noticed} ms"), "at most 10,000 ms", Holds(noticed <= 10_000));
}

async fn ended(figures: &mut Figures, site: &Installation, what: &str, from: DateTime<Utc>) {
    caught_up(site, Utc::now() - TimeDelta::seconds(1), Duration::from_secs(90)).await;
    span(figures, site, what, from, MINUTE).await;
    offsets_are_behind(figures, site, what, PARTITIONS).await;
}

fn since(from: DateTime<Utc>) -> i64 {
    (Utc::now() - from).num_milliseconds()
}
