//! A gateway slower than the lease: the lease is renewed while the call is healthy, and only then.

use super::{history, in_ms, joined, requests_and_charges, seconds, site};
use crate::support::eventually;
use crate::support::installation::Installation;

/// Calls of 9 s under leases of 4 s.
const SLOW: [(&str, &str); 6] = [
    ("gateway.renew_lease", "true"),
    ("gateway.total_timeout", "30s"),
    ("worker.lease", "4s"),
    ("worker.margin", "1s"),
    ("worker.drain", "20s"),
    ("worker.late_by", "1s"),
];
const PAYEE: &str = "sim_slow_9000";

const CREATED: &str = "- created PENDING";
const CLAIMED: &str = "PENDING claimed PROCESSING";
const PAID: &str = "PROCESSING settled COMPLETED";

async fn at_work() -> Installation {
    let mut site = site(&SLOW).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &[]).await;
    joined(&site, "worker-1").await;
    site
}

/// Waits until its one request has reached the gateway.
async fn asked(site: &Installation, id: &str) {
    eventually("the gateway has its request", seconds(30), || async {
        (requests_and_charges(site, id).await.0 == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_call_longer_than_two_leases_is_one_attempt_and_nobody_takes_the_payment_away() {
    let site = at_work().await;
    let id = site.create("slow", PAYEE, in_ms(1_000)).await;
    site.settled(&id, &["COMPLETED"], seconds(60)).await;
    assert_eq!(history(&site, &id).await, [CREATED, CLAIMED, PAID]);
    assert_eq!(requests_and_charges(&site, &id).await, (1, 1));
    let answer = site.http.get(format!("{}/metrics", site.url("worker-1"))).send().await;
    let told = answer.expect("the worker serves").text().await.expect("a body");
    let renewed = "punctual_leases_renewed_total{result=\"renewed\"} ";
    let count = told.lines().find_map(|line| line.strip_prefix(renewed)?.parse::<u32>().ok());
    // Every 1.33 s for 9 s; on a busy machine some come late.
    assert!(count.is_some_and(|count| (3..=8).contains(&count)), "{count:?} renewals");
}

#[tokio::test]
async fn a_worker_that_stands_still_loses_the_payment_and_it_is_asked_about_and_charged_once() {
    let mut site = at_work().await;
    let id = site.create("frozen", PAYEE, in_ms(1_000)).await;
    asked(&site, &id).await;
    site.role("worker-1").freeze();
    site.start("worker", "worker-2", &[]).await;
    site.settled(&id, &["COMPLETED"], seconds(60)).await;
    let before = history(&site, &id).await;
    assert_eq!(before[..3], [CREATED, CLAIMED, "PROCESSING lease_expired UNKNOWN"], "{before:?}");
    assert_eq!(before.last().map(String::as_str), Some(PAID));
    assert_eq!(requests_and_charges(&site, &id).await.1, 1);

    site.role("worker-1").thaw();
    eventually("the late answer is kept as evidence", seconds(30), || async {
        history(&site, &id).await.contains(&"COMPLETED fenced COMPLETED".to_owned()).then_some(())
    })
    .await;
    assert_ne!(site.role("worker-1").ended(seconds(30)).await, 0, "it knows that it was frozen");
    assert_eq!(requests_and_charges(&site, &id).await.1, 1);
    site.settled(&id, &["COMPLETED"], seconds(1)).await;
}
