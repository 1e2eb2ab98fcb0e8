//! Three brokers that copy everything to each other, as in production: the group's coordinator, which leads
//! a third of the partitions too, is killed in the middle of a rebalance, and then two of three are gone.
//! Payments fall due all the time. A leader frozen, more load and the lateness of each span are in `make
//! evidence-ring`.

use super::{joined, running, seconds};
use crate::support::audit::audit_topics;
use crate::support::brokers::{Brokers, observer, sharing_out, state_of};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::steady::{Load, Pace, caught_up, charges, committed, kafka_is, told};
use chrono::{DateTime, TimeDelta, Utc};

/// The late scan looks at what is 15 s overdue; then a slow machine.
const LATEST: TimeDelta = TimeDelta::seconds(30);

/// Everything that fell due until a while from now is final, and nothing was committed ahead of it.
async fn settled_so_far(site: &Installation, when: &str) {
    caught_up(site, Utc::now() + TimeDelta::seconds(4), seconds(60)).await;
    no_offset_is_ahead(site, when).await;
}

async fn no_offset_is_ahead(site: &Installation, when: &str) {
    let ahead = eventually("something is committed, and can be read", seconds(60), || async {
        committed(site, 2).await.filter(|(looked_at, _)| *looked_at > 0)
    })
    .await
    .1;
    assert!(ahead.is_empty(), "{when}: committed ahead of the outcomes of {ahead:?}");
}

#[tokio::test]
async fn of_three_brokers_the_coordinator_and_then_two_are_lost_and_every_payment_is_paid_once() {
    let mut brokers = Brokers::start(3).await;
    let servers = brokers.servers();
    let copied = [
        ("kafka.bootstrap_servers", servers.as_str()),
        ("kafka.replication", "3"),
        ("kafka.min_insync_replicas", "2"),
    ];
    let mut site = running(&copied).await;
    site.start("publisher", "publisher-1", &[]).await;
    site.start("worker", "worker-2", &[]).await;
    joined(&site, "worker-2").await;
    let (group, prefix) =
        (site.setting("kafka.group").to_owned(), site.setting("kafka.topic_prefix").to_owned());
    let began = Utc::now();
    let load = Load::start(site.client(), Pace { rate: 15, ahead_s: (2, 8) });
    settled_so_far(&site, "nothing had happened").await;

    coordinator_is_killed_in_a_rebalance(&mut brokers, &mut site, &group).await;
    settled_so_far(&site, "a coordinator was killed in a rebalance").await;
    brokers.whole(&prefix).await;

    let gone_at = Utc::now();
    brokers.broker(1).kill();
    brokers.broker(2).kill();
    // No copy may be missing from what is acknowledged, so nothing is; the outbox waits.
    for worker in ["worker-1", "worker-2", "worker-3"] {
        kafka_is(&site, worker, "away", seconds(12)).await;
    }
    caught_up(&site, Utc::now(), seconds(60)).await;
    brokers.restart(&[1, 2]).await;
    brokers.whole(&prefix).await;
    for worker in ["worker-1", "worker-2", "worker-3"] {
        kafka_is(&site, worker, "up", seconds(60)).await;
    }
    no_offset_is_ahead(&site, "two brokers came back").await;
    ends_well(&site, load, began, gone_at).await;
}

/// Kills it while the group prepares to share its partitions with one more, and brings it back.
async fn coordinator_is_killed_in_a_rebalance(brokers: &mut Brokers, site: &mut Installation, group: &str) {
    let coordinator = brokers.coordinator(group).await;
    let watcher = observer(&brokers.servers(), group);
    eventually("the group is stable", seconds(30), || {
        std::future::ready((state_of(&watcher, group).as_deref() == Some("Stable")).then_some(()))
    })
    .await;
    site.spawn("worker", "worker-3", &[]);
    sharing_out(&watcher, group).await;
    brokers.broker(coordinator).kill();
    joined(site, "worker-3").await;
    brokers.restart(&[coordinator]).await;
}

async fn ends_well(site: &Installation, load: Load, began: DateTime<Utc>, gone_at: DateTime<Utc>) {
    let made = load.stop().await;
    let last = made.iter().map(|(_, due)| *due).max().expect("some payments");
    caught_up(site, last, seconds(60)).await;
    let all = told(site, began, last + TimeDelta::seconds(1)).await;
    println!("all: {}; while two were gone: {}", all.shown(), told(site, gone_at, last).await.shown());
    assert_eq!((all.unpaid, all.late.len()), (0, made.len()));
    assert!(all.rank(0) >= TimeDelta::zero() && all.rank(100) < LATEST, "{}", all.shown());
    let charges = charges(site, &made).await;
    assert_eq!((charges.once, charges.twice, charges.early), (made.len(), 0, 0));
    let audited = audit_topics(site);
    assert!(audited.holds(), "{audited:?}");
}
