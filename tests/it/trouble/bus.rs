//! A broker that is frozen, or has lost every topic: how soon a worker does without it, and how quietly it
//! returns to it.

use super::{running, seconds};
use crate::support::brokers::{Brokers, erase};
use crate::support::eventually;
use crate::support::steady::{Load, Pace, REFUSED, caught_up, charges, claims, kafka_is, told};
use chrono::{TimeDelta, Utc};
use std::time::Instant;

#[tokio::test]
async fn a_frozen_broker_is_done_without_after_ten_seconds_and_returned_to_without_a_storm() {
    let mut brokers = Brokers::start(1).await;
    let site = running(&[("kafka.bootstrap_servers", &brokers.servers())]).await;
    kafka_is(&site, "worker-1", "up", seconds(20)).await;
    let began = Utc::now();
    let load = Load::start(site.client(), Pace { rate: 20, ahead_s: (2, 6) });
    caught_up(&site, began + TimeDelta::seconds(3), seconds(30)).await;
    let (frozen_at, since) = (Utc::now(), Instant::now());
    brokers.broker(1).freeze();
    kafka_is(&site, "worker-1", "away", seconds(10)).await;
    println!("noticed after {:?}", since.elapsed());
    // What nobody can have published.
    caught_up(&site, frozen_at + TimeDelta::seconds(14), seconds(40)).await;
    let carried = claims(&site, &["claimed_late"]).await;
    brokers.broker(1).thaw();
    // The client library's clients do not always find back: those that do not are replaced, after 20 s.
    kafka_is(&site, "worker-1", "up", seconds(40)).await;
    let (by_notice, since) = (claims(&site, &["claimed"]).await, Instant::now());
    eventually("notices bring payments again", seconds(60), || async {
        (claims(&site, &["claimed"]).await > by_notice).then_some(())
    })
    .await;
    println!("notices again after {:?}", since.elapsed());
    let made = load.stop().await;
    let last = made.iter().map(|(_, due)| *due).max().expect("some payments");
    caught_up(&site, last, seconds(40)).await;
    let all = told(&site, began, last + TimeDelta::seconds(1)).await;
    let refused = claims(&site, &REFUSED).await;
    println!("all: {}; {carried} carried by the scan, {refused} claims refused", all.shown());
    assert_eq!((all.unpaid, all.late.len()), (0, made.len()));
    assert!(all.rank(0) >= TimeDelta::zero() && all.rank(100) < TimeDelta::seconds(20), "{}", all.shown());
    // One notice of each that the scan paid, and at most one more where a time-out hid its delivery.
    let by_scan = claims(&site, &["claimed_late"]).await;
    assert!(carried > 0 && refused <= 2 * by_scan, "{refused} refused, {by_scan} carried by the scan");
    let charges = charges(&site, &made).await;
    assert_eq!((charges.once, charges.twice, charges.early), (made.len(), 0, 0));
}

/// The broker's restarts give the old topics a leader epoch that the new ones do not have: the client library
/// takes their leaders for old ones.
#[tokio::test]
async fn notices_come_again_through_topics_that_were_made_anew_after_their_broker_was_restarted() {
    let mut brokers = Brokers::start(1).await;
    let site = running(&[("kafka.bootstrap_servers", &brokers.servers())]).await;
    kafka_is(&site, "worker-1", "up", seconds(20)).await;
    let load = Load::start(site.client(), Pace { rate: 10, ahead_s: (2, 6) });
    for _ in 0..2 {
        brokers.broker(1).kill();
        kafka_is(&site, "worker-1", "away", seconds(20)).await;
        brokers.restart(&[1]).await;
        kafka_is(&site, "worker-1", "up", seconds(40)).await;
    }
    let by_notice = async || claims(&site, &["claimed"]).await;
    let before = by_notice().await;
    eventually("notices bring payments", seconds(40), async || (by_notice().await > before).then_some(()))
        .await;
    erase(&brokers.servers(), site.setting("kafka.topic_prefix")).await;
    kafka_is(&site, "worker-1", "away", seconds(20)).await;
    site.run(&["topics", "apply"]);
    let (since, before) = (Instant::now(), by_notice().await);
    eventually("notices bring payments again", seconds(90), async || {
        (by_notice().await > before + 5).then_some(())
    })
    .await;
    println!("through the new topics after {:?}", since.elapsed());
    let left = site.roles["worker-1"].log_text().matches("lie unread").count();
    // None where the client library noticed in time that the old topics are gone.
    assert!(left <= 1, "the client was replaced {left} times");
    let made = load.stop().await;
    let last = made.iter().map(|(_, due)| *due).max().expect("some payments");
    caught_up(&site, last, seconds(40)).await;
    let charges = charges(&site, &made).await;
    assert_eq!((charges.once, charges.twice, charges.early), (made.len(), 0, 0));
}
