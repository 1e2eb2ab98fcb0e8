//! Notices that nobody will ever read: the group's offsets set to the end, and records deleted as when
//! their retention has passed. The rows are in Postgres, and the late scan has them.

use super::own_ring::{self, lag, remove};
use super::{all_paid_once, due_soon, joined, seconds, sql};
use crate::support::brokers::{retire, skip_all};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::steady::claims;

/// Waits until the relay has published everything.
async fn published(site: &Installation) {
    eventually("the outbox is empty", seconds(20), || async {
        let open: i64 = sqlx::query_scalar("SELECT count(*) FROM due_notices")
            .fetch_one(&mut sql(site).await)
            .await
            .expect("a count");
        (open == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn notices_that_were_skipped_or_deleted_before_anybody_read_them_are_paid_by_the_late_scan() {
    let mut site = own_ring::site("cut", &[("worker.late_by", "3s")]).await;
    site.start("keeper", "keeper-1", &[]).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &[("worker.slot", "")]).await;
    joined(&site, "worker-1").await;
    // So that there are offsets to be set, and to be behind.
    let first = due_soon(&site, "first", 1_000).await;
    all_paid_once(&site, &first, seconds(30)).await;
    let (servers, prefix, group) = (
        site.kafka().to_owned(),
        site.setting("kafka.topic_prefix").to_owned(),
        site.setting("kafka.group").to_owned(),
    );
    for (harm, worker) in [("skipped", "worker-2"), ("deleted", "worker-3")] {
        let before = format!("worker-{}", if harm == "skipped" { 1 } else { 2 });
        assert_eq!(site.role(&before).drain(seconds(15)).await, 0);
        site.roles.remove(&before);
        let ids = due_soon(&site, harm, 2_000).await;
        published(&site).await;
        if harm == "skipped" {
            eventually("the group has no member and is set to the end", seconds(40), || async {
                skip_all(&servers, &prefix, &group).await.then_some(())
            })
            .await;
        } else {
            assert!(retire(&servers, &prefix).await > 0);
        }
        site.start("worker", worker, &[("worker.slot", "")]).await;
        let late_ms = all_paid_once(&site, &ids, seconds(40)).await;
        assert!(late_ms < 25_000, "{harm}: {late_ms} ms");
        let by_scan = claims(&site, &["claimed_late"]).await;
        println!("{harm}: at most {late_ms} ms late, {by_scan} carried by the scan");
        assert!(by_scan >= 10, "{harm}: {by_scan} of {} were carried by the scan", ids.len());
        joined(&site, worker).await;
        assert_eq!(lag(&site).await, 0, "{harm}: nothing is left to be read");
        // And what is published from now on is read again.
        let after = due_soon(&site, &format!("after-{harm}"), 2_000).await;
        all_paid_once(&site, &after, seconds(30)).await;
        assert!(claims(&site, &["claimed"]).await >= 10, "{harm}: notices are read again");
    }
    remove(site).await;
}
