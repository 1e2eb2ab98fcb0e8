//! A broker that is gone and one that is frozen: how soon workers do without it, and how quietly they
//! return to it.

use super::{running, seconds};
use crate::support::brokers::Brokers;
use crate::support::steady::{Load, Pace, REFUSED, caught_up, charges, claims, kafka_is, told};
use chrono::{TimeDelta, Utc};
use std::time::Instant;

/// By then nobody may wait for Kafka any more.
const NOTICED_WITHIN: u64 = 10;

#[tokio::test]
async fn a_broker_that_is_gone_or_frozen_is_done_without_after_ten_seconds_and_returned_to_without_a_storm() {
    let mut brokers = Brokers::start(1).await;
    let site = running(&[("kafka.bootstrap_servers", &brokers.servers())]).await;
    kafka_is(&site, "worker-1", "up", seconds(20)).await;
    let (began, refused_before) = (Utc::now(), claims(&site, &REFUSED).await);
    let load = Load::start(site.client(), Pace { rate: 20, ahead_s: (2, 8) });
    caught_up(&site, began + TimeDelta::seconds(3), seconds(30)).await;
    let mut carried = 0.0;
    for is_frozen in [false, true] {
        let (at, since) = (Utc::now(), Instant::now());
        if is_frozen {
            brokers.broker(1).freeze();
        } else {
            brokers.broker(1).kill();
        }
        kafka_is(&site, "worker-1", "away", seconds(NOTICED_WITHIN)).await;
        println!("frozen {is_frozen}: noticed after {:?}", since.elapsed());
        let by_scan = claims(&site, &["claimed_late"]).await;
        // What was due before it was noticed, and what nobody can have published.
        caught_up(&site, at + TimeDelta::seconds(20), seconds(40)).await;
        carried += claims(&site, &["claimed_late"]).await - by_scan;
        if is_frozen {
            brokers.broker(1).thaw();
        } else {
            brokers.broker(1).restart().await.expect("it comes back");
        }
        kafka_is(&site, "worker-1", "up", seconds(40)).await;
        println!("while away: {}", told(&site, at, Utc::now()).await.shown());
    }
    let back = Utc::now();
    let by_notice = claims(&site, &["claimed"]).await;
    caught_up(&site, back + TimeDelta::seconds(10), seconds(40)).await;
    assert!(claims(&site, &["claimed"]).await > by_notice, "notices bring payments again");
    let made = load.stop().await;
    let last = made.iter().map(|(_, due)| *due).max().expect("some payments");
    caught_up(&site, last, seconds(40)).await;
    let all = told(&site, began, last + TimeDelta::seconds(1)).await;
    let refused = claims(&site, &REFUSED).await - refused_before;
    println!("all: {}; {carried} carried by the scan, {refused} claims refused", all.shown());
    assert_eq!((all.unpaid, all.late.len()), (0, made.len()));
    assert!(all.rank(0) >= TimeDelta::zero() && all.rank(100) < TimeDelta::seconds(20), "{}", all.shown());
    let charges = charges(&site, &made).await;
    assert_eq!((charges.once, charges.twice, charges.early), (made.len(), 0, 0));
}
