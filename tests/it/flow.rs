//! The main job, whole: processes, real Kafka, real Postgres, one payment after another.

use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{TimeDelta, Utc};
use std::time::Duration;

const SECONDS: Duration = Duration::from_secs(1);

async fn running() -> Installation {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &[]).await;
    site.start("keeper", "keeper-1", &[]).await;
    site
}

#[tokio::test]
async fn a_payment_posted_for_three_seconds_from_now_is_charged_once_and_not_before() {
    let site = running().await;
    let id = site.create("first", "sim_ok", Utc::now() + TimeDelta::seconds(3)).await;
    let paid = site.settled(&id, &["COMPLETED"], 30 * SECONDS).await;
    assert_eq!(paid["attempts"].as_array().expect("attempts").len(), 1, "{paid}");
    let ledger = site.ledger().await;
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!(ledger[0]["paymentId"], id.as_str());
    assert_eq!(ledger[0]["charged"], true);
    assert!(ledger[0]["at"].as_str() >= ledger[0]["dueAt"].as_str(), "{ledger:?}");
}

#[tokio::test]
async fn a_charge_of_another_amount_is_parked_and_counted_as_a_broken_promise() {
    let site = running().await;
    let metrics = || async { site.text("worker-1", "/metrics").await.expect("the worker serves") };
    let counts = |text: &str, count: u32| {
        let series = format!("punctual_invariant_violations_total{{invariant=\"M4\"}} {count}");
        text.lines().any(|line| line == series)
    };
    let before = metrics().await;
    assert!(counts(&before, 0), "{before}");
    let id = site.create("first", "sim_wrong_amount", Utc::now() + TimeDelta::seconds(1)).await;
    site.settled(&id, &["PARKED"], 30 * SECONDS).await;
    // The row is there a moment before its count.
    eventually("the charge is counted", 10 * SECONDS, || async { counts(&metrics().await, 1).then_some(()) })
        .await;
}
