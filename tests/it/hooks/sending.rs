//! The whole way, to receivers that answer and to those that do not.

use super::{SOON, Site, Wanted, secret, settings, until_taken};
use crate::schedule::world::ACTOR;
use crate::support::eventually;
use crate::support::hooks::{Hook, Says};
use punctual::platform::config;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use uuid::Uuid;

#[tokio::test]
async fn every_event_arrives_signed_in_the_form_that_everybody_else_gets() {
    let site = Site::new().await;
    let hook = Hook::always(Says::Status(204)).await;
    let endpoint = site.endpoint(Wanted::all(&hook.url())).await;
    let delivering = site.deliver("p1", settings());
    let notice = site.world.due("one").await;
    site.world.claim_one(&notice).await;
    until_taken(&hook, 2).await;
    delivering.stop().await;
    let page = site.world.api.events(ACTOR, None, 10).await.expect("an answer");
    let events: BTreeMap<String, Vec<u8>> = page
        .events
        .iter()
        .map(|(_, event)| (punctual::domain::event::id(&event.row), punctual::domain::event::json(event)))
        .collect();
    let secret = secret(endpoint).text();
    for got in hook.got() {
        assert!(got.is_signed(&secret), "{got:?}");
        assert_eq!(Some(&got.body), events.get(got.id()), "the same bytes as everywhere");
        assert_eq!(got.headers["content-type"], "application/cloudevents+json; charset=UTF-8");
    }
    assert_eq!(hook.count(), 2);
    assert_eq!(site.count("status = 'delivered'").await, 2);
}

#[tokio::test]
async fn a_third_of_failures_of_every_kind_delays_and_loses_nothing() {
    let site = Site::new().await;
    let kinds =
        [Says::Status(500), Says::Reset, Says::Garbage, Says::Status(302), Says::Status(404), Says::Nothing];
    let hook = Hook::new(move |got, before| {
        let drawn =
            got.id().bytes().fold(before * 31, |sum, byte| (sum * 7 + usize::from(byte)) % 10_007) % 100;
        if drawn < 33 { kinds[drawn % kinds.len()] } else { Says::Status(200) }
    })
    .await;
    let endpoint = site.endpoint(Wanted::all(&hook.url())).await;
    site.events("one", 60).await;
    let fast = config::Webhooks {
        timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(300),
        ..settings()
    };
    // What is owed before anybody delivers is owed all the same.
    let (first, second) = (site.deliver("p1", fast.clone()), site.deliver("p2", fast));
    until_taken(&hook, 60).await;
    first.stop().await;
    second.stop().await;
    assert_eq!(site.count("status = 'delivered'").await, 60);
    let secret = secret(endpoint).text();
    assert!(hook.got().iter().all(|got| got.is_signed(&secret)));
    let log: i64 = site.world.one("SELECT count(*) FROM webhook_tries").await;
    assert_eq!(log, i64::try_from(hook.count()).expect("few"), "every try is in the log");
    assert!(hook.most_open() <= 10, "{}", hook.most_open());
}

#[tokio::test]
async fn neither_a_silent_nor_a_dead_endpoint_keeps_another_waiting() {
    let site = Site::new().await;
    let fast = Hook::always(Says::Status(200)).await;
    let silent = Hook::always(Says::Nothing).await;
    site.endpoint(Wanted { most: 100, ..Wanted::all(&silent.url()) }).await;
    site.endpoint(Wanted { most: 100, ..Wanted::all("http://127.0.0.1:9/dead") }).await;
    let quick = site.endpoint(Wanted::all(&fast.url())).await;
    // Few places: the silent one would take them all.
    let delivering = site.deliver("p1", config::Webhooks { max_in_flight: 8, ..settings() });
    site.events("one", 40).await;
    let began = Instant::now();
    eventually("the fast one has everything", SOON, || async { (fast.taken().len() == 40).then_some(()) })
        .await;
    // Two time-outs of the silent one at most; its forty one after the other would take five.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    delivering.stop().await;
    assert_eq!(site.count(&format!("endpoint_id = '{quick}' AND status <> 'delivered'")).await, 0);
}

#[tokio::test]
async fn a_sender_that_is_asked_to_stop_finishes_and_notes_what_is_under_way() {
    let site = Site::new().await;
    let hook = Hook::always(Says::Late(200, 500)).await;
    site.endpoint(Wanted::all(&hook.url())).await;
    let delivering = site.deliver("p1", settings());
    site.events("one", 3).await;
    eventually("a request is under way", SOON, || async { (hook.count() > 0).then_some(()) }).await;
    delivering.stop().await;
    let under_way = i64::try_from(hook.count()).expect("few");
    assert_eq!(site.count("status = 'delivered'").await, under_way);
    assert_eq!(site.count("lease_until IS NOT NULL").await, 0, "nothing is left to a lease");
    let free = site.world.worker.acquire_fan_out("p2", SOON).await.expect("an answer");
    assert!(free.is_some(), "the lane was given back");
}

#[tokio::test]
async fn the_end_of_the_ladder_is_a_failure_that_its_owner_sees() {
    let site = Site::new().await;
    let hook = Hook::always(Says::Status(500)).await;
    site.endpoint(Wanted::all(&hook.url())).await;
    let short = config::Webhooks { ladder: vec![Duration::from_millis(10); 2], ..settings() };
    let delivering = site.deliver("p1", short);
    site.events("one", 1).await;
    eventually("it is given up", SOON, || async {
        (site.count("status = 'failed'").await == 1).then_some(())
    })
    .await;
    delivering.stop().await;
    assert_eq!(hook.count(), 3, "the first try and two rungs");
    let log: String = site
        .world
        .one("SELECT string_agg(number || ':' || status, ',' ORDER BY number) FROM webhook_tries")
        .await;
    assert_eq!(log, "1:500,2:500,3:500");
}

#[tokio::test]
async fn gone_is_gone_at_once() {
    let site = Site::new().await;
    let hook = Hook::always(Says::Status(410)).await;
    let endpoint = site.endpoint(Wanted { most: 1, ..Wanted::all(&hook.url()) }).await;
    let delivering = site.deliver("p1", settings());
    site.events("one", 5).await;
    let reason =
        format!("SELECT coalesce(disabled_reason, '') FROM webhook_endpoints WHERE id = '{endpoint}'");
    eventually("it is disabled", SOON, || async {
        (site.world.one::<String>(&reason).await == "gone").then_some(())
    })
    .await;
    delivering.stop().await;
    assert!(hook.count() <= 2, "one may have been under way: {}", hook.count());
}

#[tokio::test]
async fn a_test_message_arrives_like_an_event() {
    let site = Site::new().await;
    let hook = Hook::always(Says::Status(200)).await;
    let endpoint = site.endpoint(Wanted::all(&hook.url())).await;
    let delivering = site.deliver("p1", settings());
    let chance = Uuid::new_v8(super::rand_bytes());
    site.world.api.send_webhook_test(ACTOR, endpoint, chance).await.expect("an answer");
    until_taken(&hook, 1).await;
    delivering.stop().await;
    let got = hook.got().remove(0);
    assert!(got.is_signed(&secret(endpoint).text()));
    assert_eq!(got.event()["type"], "webhook.test");
    assert_eq!(got.event()["id"], got.id());
    assert!(got.id().ends_with("/0"), "{}", got.id());
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_not_called_and_its_owner_reads_why() {
    let site = Site::new().await;
    let hook = Hook::always(Says::Status(200)).await;
    // Taken in when loopback was allowed; it is no more.
    site.endpoint(Wanted::all(&hook.url())).await;
    let closed = config::Webhooks { allow: Vec::new(), ladder: vec![Duration::from_secs(60)], ..settings() };
    let delivering = site.deliver("p1", closed);
    site.events("one", 1).await;
    let error = "SELECT coalesce(max(last_error), '') FROM webhook_deliveries";
    eventually("it was refused", SOON, || async {
        (site.world.one::<String>(error).await == "the url leads to an address that is not called")
            .then_some(())
    })
    .await;
    delivering.stop().await;
    assert_eq!(hook.count(), 0);
}
