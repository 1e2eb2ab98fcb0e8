//! Processes that die, freeze, or are asked to go, at the worst moment.

use super::{
    address, all_paid_once, history, in_ms, requests_and_charges, running, seconds, site, sql, through,
};
use crate::support::eventually;
use crate::support::proxy::{Fault, Proxy};

#[tokio::test]
async fn a_worker_killed_with_a_call_in_flight_leaves_an_unknown_outcome_that_is_asked_about() {
    let mut site = running(&[]).await;
    let id = site.create("killed", "sim_slow_3000", in_ms(1_000)).await;
    site.settled(&id, &["PROCESSING"], seconds(15)).await;
    eventually("the request is at the gateway", seconds(5), || async {
        (requests_and_charges(&site, &id).await.0 == 1).then_some(())
    })
    .await;
    site.role("worker-1").kill();
    site.start("worker", "worker-2", &[]).await;

    let paid = site.settled(&id, &["COMPLETED"], seconds(30)).await;
    assert_eq!(paid["attempts"].as_array().expect("attempts").len(), 2, "{paid}");
    assert_eq!(requests_and_charges(&site, &id).await, (1, 1), "a look-up decides; nothing is sent again");
    let steps = history(&site, &id).await;
    assert!(steps.contains(&"PROCESSING lease_expired UNKNOWN".to_owned()), "{steps:?}");
}

#[tokio::test]
async fn a_worker_frozen_past_its_lease_writes_nothing_when_it_wakes() {
    let mut site = running(&[]).await;
    let id = site.create("frozen", "sim_slow_3000", in_ms(1_000)).await;
    site.settled(&id, &["PROCESSING"], seconds(15)).await;
    site.role("worker-1").freeze();
    site.start("worker", "worker-2", &[]).await;
    site.settled(&id, &["COMPLETED"], seconds(30)).await;

    site.role("worker-1").thaw();
    let code = eventually("the frozen worker ends", seconds(20), || {
        let code = site.role("worker-1").exit_code();
        async move { code }
    })
    .await;
    assert_eq!(code, 1, "it must be started anew");
    let steps = history(&site, &id).await;
    assert_eq!(steps.iter().filter(|step| step.contains("fenced")).count(), 1, "{steps:?}");
    assert_eq!(steps.last().map(String::as_str), Some("COMPLETED fenced COMPLETED"), "{steps:?}");
    let (_, charges) = requests_and_charges(&site, &id).await;
    assert_eq!(charges, 1);
}

#[tokio::test]
async fn what_a_relay_published_and_could_not_mark_is_published_again_and_refused() {
    let mut site = site(&[]).await;
    let url = site.database.url.clone();
    let proxy = Proxy::start(address(&url).await).await;
    let proxied = through(&url, proxy.address.port());
    // The statement's text travels once, before its first execution: published, and not marked.
    proxy.set(Fault::CutAfter(b"Called by mark".to_vec())).await;
    site.start("worker", "worker-1", &[]).await;
    let mut ids = Vec::new();
    for n in 0..40 {
        ids.push(site.create(&format!("relay-{n}"), "sim_ok", in_ms(2_500 + 100 * n)).await);
    }
    for life in 1..=3 {
        let name = format!("relay-{life}");
        site.start("relay", &name, &[("database.url", &proxied)]).await;
        let left = 40 - 10 * life;
        let marked = eventually("some notices are marked", seconds(20), || async {
            let open: i64 = sqlx::query_scalar("SELECT count(*) FROM due_notices")
                .fetch_one(&mut sql(&site).await)
                .await
                .expect("a count");
            (open <= left).then_some(())
        });
        marked.await;
        if life < 3 {
            site.role(&name).kill();
        }
    }
    assert_eq!(proxy.cuts(), 1);
    all_paid_once(&site, &ids, seconds(30)).await;
    assert_eq!(site.ledger().await.len(), ids.len(), "a duplicate asks the gateway for nothing");
    let metrics = site.text("worker-1", "/metrics").await.expect("metrics");
    let refused: f64 = metrics
        .lines()
        .filter(|line| line.starts_with("punctual_claims_total"))
        .filter(|line| ["completed", "held", "stale"].iter().any(|why| line.contains(why)))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    assert!(refused >= 1.0, "{metrics}");
}

#[tokio::test]
async fn a_worker_asked_to_stop_ends_its_call_and_writes_the_outcome() {
    let mut site = running(&[]).await;
    let id = site.create("drained", "sim_slow_2000", in_ms(1_000)).await;
    site.settled(&id, &["PROCESSING"], seconds(15)).await;
    let code = site.role("worker-1").drain(seconds(15)).await;
    let said = site.role("worker-1").log_text();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("drained 1, abandoned 0"), "{said}");
    let (status, payment) = site.get(&id).await.expect("an answer");
    assert_eq!((status, payment["status"].as_str()), (200, Some("COMPLETED")), "{payment}");
    assert_eq!(requests_and_charges(&site, &id).await, (1, 1));
    for role in ["api-1", "relay-1", "keeper-1"] {
        assert_eq!(site.role(role).drain(seconds(15)).await, 0, "{role}");
    }
}
