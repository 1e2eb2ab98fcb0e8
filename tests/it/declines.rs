//! The cap on declines of one destination, whole: two clients, one card.

use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};
use std::time::Duration;

const SECONDS: Duration = Duration::from_secs(1);

const CARD: &str = "sim_decline_insufficient_funds";
/// The same behaviour under another name.
const ANOTHER_CARD: &str = "sim_decline_insufficient_funds|sim_decline_insufficient_funds";

#[tokio::test]
async fn the_third_soft_decline_of_one_card_is_final_whoever_asked_and_another_card_is_untouched() {
    let mut site =
        Installation::new(&[("gateway.declines_per_day", "3"), ("ladder.retry", "100ms,1h,1h,1h,1h")]).await;
    for (role, name) in [("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")] {
        site.start(role, name, &[]).await;
    }
    let (ours, theirs) = (site.client(), site.client().with_key(&site.new_api_key("another")));
    let body = |payee: &str| {
        let due_at = (Utc::now() + SECONDS).to_rfc3339_opts(SecondsFormat::Micros, true);
        json!({"payee": payee, "amount": 1_250, "currency": "EUR", "dueAt": due_at})
    };
    let id = |(status, created): (u16, Value)| {
        assert_eq!(status, 201, "{created}");
        created["paymentId"].as_str().expect("an id").to_owned()
    };
    // Two declines: the first one, and the retry after 100 ms; the next is an hour away.
    let first = id(ours.post(0, "first", &body(CARD)).await.expect("an answer"));
    eventually("the first payment was declined twice", 40 * SECONDS, || async {
        let (_, payment) = ours.get(0, &first).await.ok()?;
        let declines =
            payment["attempts"].as_array()?.iter().filter(|it| it["outcome"] == "declined").count();
        (payment["status"] == "PENDING" && declines == 2).then_some(())
    })
    .await;
    // The third is the second payment's first, and another client's.
    let second = id(theirs.post(0, "second", &body(CARD)).await.expect("an answer"));
    let failed = eventually("the second payment is over", 40 * SECONDS, || async {
        let (_, payment) = theirs.get(0, &second).await.ok()?;
        (payment["status"] == "FAILED").then_some(payment)
    })
    .await;
    assert_eq!(failed["statusReason"], "declined_too_often", "{failed}");
    assert_eq!(failed["attempts"].as_array().map(Vec::len), Some(1), "{failed}");

    let other = id(theirs.post(0, "third", &body(ANOTHER_CARD)).await.expect("an answer"));
    eventually("the other card's payment waits for its next try", 40 * SECONDS, || async {
        let (_, payment) = theirs.get(0, &other).await.ok()?;
        let declines =
            payment["attempts"].as_array()?.iter().filter(|it| it["outcome"] == "declined").count();
        (payment["status"] == "PENDING" && declines == 2).then_some(())
    })
    .await;
    let capped = "punctual_declines_capped_total{gateway=\"sandbox\"} 1";
    eventually("the cap is told", 10 * SECONDS, || async {
        let answer = site.http.get(format!("{}/metrics", site.url("worker-1"))).send().await.ok()?;
        answer.text().await.ok()?.lines().any(|line| line == capped).then_some(())
    })
    .await;
    assert!(site.ledger().await.iter().all(|line| line["charged"] == false));
}
