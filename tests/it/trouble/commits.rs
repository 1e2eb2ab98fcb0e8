//! A COMMIT that happened and whose answer was lost (rule R3), on each of the worker's three.

use super::{address, history, in_ms, joined, requests_and_charges, seconds, site, through};
use crate::support::installation::Installation;
use crate::support::proxy::{Fault, Proxy};

/// An installation whose worker reaches its database through a proxy.
async fn behind_a_proxy(worker: &[(&str, &str)], settings: &[(&str, &str)]) -> (Installation, Proxy) {
    let mut site = site(settings).await;
    let url = site.database.url.clone();
    let proxy = Proxy::start(address(&url).await).await;
    let proxied = through(&url, proxy.address.port());
    let worker: Vec<_> = worker.iter().copied().chain([("database.url", proxied.as_str())]).collect();
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &worker).await;
    (site, proxy)
}

/// Of all that a worker sends, only a claim of something names it.
fn a_claims_commit() -> Fault {
    Fault::CutAfterAll(vec![b"worker-1/".to_vec(), b"COMMIT".to_vec()])
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_recovered_and_sent_once() {
    let (site, proxy) = behind_a_proxy(&[], &[]).await;
    joined(&site, "worker-1").await;
    proxy.set(a_claims_commit()).await;
    let id = site.create("claim", "sim_ok", in_ms(2_000)).await;
    let paid = site.settled(&id, &["COMPLETED"], seconds(30)).await;
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(paid["attempts"].as_array().expect("attempts").len(), 1, "the claim itself goes on: {paid}");
    assert_eq!(requests_and_charges(&site, &id).await, (1, 1));
}

#[tokio::test]
async fn a_late_claim_whose_answer_was_lost_runs_out_and_is_asked_about() {
    let elsewhere = format!("absent-{}.payments.", std::process::id());
    let (site, proxy) = behind_a_proxy(&[("kafka.topic_prefix", &elsewhere)], &[]).await;
    proxy.set(a_claims_commit()).await;
    let id = site.create("late", "sim_ok", in_ms(1_000)).await;
    site.settled(&id, &["COMPLETED"], seconds(30)).await;
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(requests_and_charges(&site, &id).await, (1, 1));
    let steps = history(&site, &id).await;
    assert!(steps.contains(&"PROCESSING lease_expired UNKNOWN".to_owned()), "{steps:?}");
}

#[tokio::test]
async fn an_outcome_whose_answer_was_lost_is_written_once_and_not_taken_for_fenced() {
    // With its one slot taken the worker scans nothing: its next COMMIT is the outcome's.
    let (site, proxy) = behind_a_proxy(&[], &[("gateway.max_in_flight", "1")]).await;
    joined(&site, "worker-1").await;
    let id = site.create("settle", "sim_slow_2000", in_ms(2_000)).await;
    site.settled(&id, &["PROCESSING"], seconds(15)).await;
    proxy.set(Fault::CutAfter(b"COMMIT".to_vec())).await;
    let paid = site.settled(&id, &["COMPLETED"], seconds(30)).await;
    assert_eq!(paid["attempts"].as_array().expect("attempts").len(), 1, "{paid}");
    // The worker's second try has been answered when it claims again.
    let next = site.create("next", "sim_ok", in_ms(500)).await;
    site.settled(&next, &["COMPLETED"], seconds(20)).await;
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(requests_and_charges(&site, &id).await, (1, 1));
    let steps = history(&site, &id).await;
    assert!(!steps.iter().any(|step| step.contains("fenced")), "{steps:?}");
}
