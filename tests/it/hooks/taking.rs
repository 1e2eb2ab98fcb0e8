//! Who sends what: leases, fences, room and turns.

use super::{Site, Wanted, secret};
use crate::schedule::world::ACTOR;
use chrono::Utc;
use punctual::domain::ids::Operator;
use punctual::domain::webhook::{WebhookSecret, WhyDisabled};
use punctual::schedule::{
    Became, EndpointAnswer, EndpointChange, EndpointSwitch, OwedEvent, Stops, TakenWebhook, TryMet,
};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

const URL: &str = "http://127.0.0.1:9/hook";
const LEASE: Duration = Duration::from_secs(30);
const CAP: Duration = Duration::from_secs(300);
const DAYS: Duration = Duration::from_secs(5 * 86_400);

impl Site {
    async fn take(&self, holder: &str, most: usize) -> Vec<TakenWebhook> {
        self.world.worker.take_webhooks(holder, LEASE, most, Uuid::nil()).await.expect("an answer").taken
    }

    /// Notes it; whether it counted.
    async fn note(&self, holder: &str, met: TryMet) -> bool {
        let noted = self.world.worker.note_webhooks(holder, &[met], CAP, DAYS).await.expect("an answer");
        noted.noted.len() == 1
    }

    /// So many deliveries that are owed to an endpoint and due.
    async fn owed(&self, endpoint: Uuid, count: usize) {
        self.world
            .run(&format!(
                "INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status, next_try_at)
                 SELECT '{endpoint}', now(), gen_random_uuid(), 1, 'payment.scheduled', now(), 'pending', now() - interval '1 s'
                 FROM generate_series(1, {count})"
            ))
            .await;
    }
}

fn met(taken: &TakenWebhook, became: Became, status: u16) -> TryMet {
    TryMet {
        place: taken.place,
        receiver: taken.receiver.clone(),
        fence: taken.fence,
        became,
        endpoint: Some(Stops::Nothing),
        at: Utc::now(),
        took: Duration::from_millis(12),
        status: Some(status),
        error: None,
        excerpt: "said".into(),
    }
}

fn again(taken: &TakenWebhook, status: u16) -> TryMet {
    met(taken, Became::Owed(Duration::ZERO), status)
}

#[tokio::test]
async fn what_is_taken_is_nobody_elses_until_its_lease_ends_and_then_it_is_due_again() {
    let site = Site::new().await;
    let lease = site.lead().await;
    let endpoint = site.endpoint(Wanted::all(URL)).await;
    site.events("one", 1).await;
    site.owe(&lease, 1).await;
    let first = site.take("a", 10).await.remove(0);
    assert_eq!((first.number, first.rung, first.receiver.id), (1, 0, endpoint));
    let OwedEvent::Event(event) = &first.event else { panic!("{:?}", first.event) };
    assert_eq!((event.row.payment.as_uuid(), event.row.seq), (first.place.payment, 1));
    assert!(event.payment.is_some());
    assert_eq!(site.take("b", 10).await, [], "its lease holds");
    // The sender was killed between sending and noting.
    site.world.run("UPDATE webhook_deliveries SET lease_until = now() - interval '1 s', next_try_at = now() - interval '1 s'").await;
    let second = site.take("b", 10).await.remove(0);
    assert_eq!(second.place, first.place, "the same event, and so the same id");
    assert_eq!((second.number, second.fence), (2, first.fence + 1));
    assert!(!site.note("a", met(&first, Became::Delivered, 200)).await, "a zombie's word changes nothing");
    assert_eq!(site.count("status = 'pending' AND lease_holder = 'b'").await, 1);
    assert!(site.note("b", met(&second, Became::Delivered, 200)).await);
    assert!(!site.note("b", met(&second, Became::Delivered, 200)).await, "twice does no harm");
    assert_eq!(
        site.count("status = 'delivered' AND tries = 2 AND lease_until IS NULL AND last_status = 200").await,
        1
    );
    let log: String = site
        .world
        .one("SELECT string_agg(number || ':' || status || ':' || excerpt, ',') FROM webhook_tries")
        .await;
    assert_eq!(log, "2:200:said");
}

#[tokio::test]
async fn a_delivery_that_failed_is_tried_again_although_its_row_exists() {
    let site = Site::new().await;
    let lease = site.lead().await;
    site.endpoint(Wanted::all(URL)).await;
    site.events("one", 1).await;
    site.owe(&lease, 1).await;
    for number in 1..=3 {
        let taken = site.take("a", 1).await.remove(0);
        assert_eq!((taken.number, taken.rung), (number, number - 1));
        assert!(site.note("a", again(&taken, 500)).await);
        // The event is fanned out again: that is no reason to forget it, nor to owe it twice.
        site.world.run("UPDATE publisher_cursor SET xid = '0', seq = 0 WHERE lane = 'webhooks'").await;
        site.owe(&lease, 1).await;
        // A failing endpoint may rest; not in this test.
        site.world.run("UPDATE webhook_endpoints SET hold_until = NULL").await;
    }
    let taken = site.take("a", 1).await.remove(0);
    assert!(site.note("a", met(&taken, Became::Delivered, 204)).await);
    assert_eq!(site.take("a", 1).await, []);
    assert_eq!(site.count("status = 'delivered' AND tries = 4 AND rung = 3").await, 1);
    assert_eq!(site.world.one::<i64>("SELECT count(*) FROM webhook_tries").await, 4);
}

#[tokio::test]
async fn an_endpoint_has_no_more_under_way_than_it_takes_however_many_processes_take() {
    let site = Site::new().await;
    let endpoint = site.endpoint(Wanted { most: 3, ..Wanted::all(URL) }).await;
    site.owed(endpoint, 50).await;
    let takes = (0..8).map(|n| {
        let worker = site.world.worker.clone();
        async move {
            worker.take_webhooks(&format!("p{n}"), LEASE, 20, Uuid::nil()).await.expect("an answer").taken
        }
    });
    let taken: Vec<_> = futures_util::future::join_all(takes).await.into_iter().flatten().collect();
    assert_eq!(taken.len(), 3);
    assert_eq!(site.take("late", 20).await, []);
    assert!(site.note(&holder(&site, &taken[0]).await, met(&taken[0], Became::Delivered, 200)).await);
    assert_eq!(site.take("late", 20).await.len(), 1, "one ended, one more");
}

async fn holder(site: &Site, taken: &TakenWebhook) -> String {
    site.world
        .one(&format!(
            "SELECT lease_holder FROM webhook_deliveries WHERE payment_id = '{}'",
            taken.place.payment
        ))
        .await
}

#[tokio::test]
async fn many_processes_never_take_the_same() {
    let site = Site::new().await;
    for n in 0..5 {
        let endpoint = site.endpoint(Wanted { most: 100, ..Wanted::all(&format!("{URL}{n}")) }).await;
        site.owed(endpoint, 40).await;
    }
    let mut seen = BTreeSet::new();
    for _ in 0..40 {
        let takes = (0..4).map(|n| {
            let worker = site.world.worker.clone();
            async move {
                worker.take_webhooks(&format!("p{n}"), LEASE, 15, Uuid::nil()).await.expect("an answer").taken
            }
        });
        for taken in futures_util::future::join_all(takes).await.into_iter().flatten() {
            assert!(seen.insert(taken.place), "{:?}", taken.place);
        }
        if seen.len() == 200 {
            break;
        }
    }
    assert_eq!(seen.len(), 200);
}

#[tokio::test]
async fn an_endpoint_with_little_under_way_comes_before_one_with_much() {
    let site = Site::new().await;
    let busy = site.endpoint(Wanted { most: 100, ..Wanted::all(URL) }).await;
    site.owed(busy, 500).await;
    assert_eq!(site.take("a", 60).await.len(), 60);
    let quiet = site.endpoint(Wanted::all("http://127.0.0.1:9/quiet")).await;
    site.owed(quiet, 2).await;
    let taken = site.take("b", 3).await;
    let of_quiet = taken.iter().filter(|taken| taken.place.endpoint == quiet).count();
    assert_eq!((taken.len(), of_quiet), (3, 2));
}

#[tokio::test]
async fn the_walk_over_endpoints_goes_on_where_it_stopped() {
    let site = Site::new().await;
    for n in 0..205 {
        let endpoint = site.endpoint(Wanted::all(&format!("{URL}/{n}"))).await;
        site.owed(endpoint, 1).await;
    }
    let first = site.world.worker.take_webhooks("a", LEASE, 300, Uuid::nil()).await.expect("an answer");
    assert_eq!(first.taken.len(), 200);
    let rest = site.world.worker.take_webhooks("a", LEASE, 300, first.after).await.expect("an answer");
    assert_eq!((rest.taken.len(), rest.after), (5, Uuid::nil()));
}

#[tokio::test]
async fn an_endpoint_that_fails_rests_longer_and_longer_and_a_success_ends_it() {
    let site = Site::new().await;
    let endpoint = site.endpoint(Wanted::all(URL)).await;
    site.owed(endpoint, 20).await;
    let taken = site.take("a", 2).await;
    assert!(site.note("a", again(&taken[0], 500)).await);
    let rests = "SELECT hold_until IS NOT NULL FROM webhook_endpoints";
    assert!(!site.world.one::<bool>(rests).await, "once is nothing");
    site.world.run("UPDATE webhook_endpoints SET failing_since = now() - interval '40 s'").await;
    assert!(site.note("a", again(&taken[1], 500)).await);
    let rest: f64 =
        site.world.one("SELECT extract(epoch FROM hold_until - now())::float8 FROM webhook_endpoints").await;
    assert!((35.0..=41.0).contains(&rest), "{rest}");
    assert_eq!(site.take("a", 10).await, [], "it rests");
    assert_eq!(site.count("rung > 0").await, 2, "and the others keep their tries");
    site.world.run("UPDATE webhook_endpoints SET hold_until = now()").await;
    let probe = site.take("a", 10).await;
    assert_eq!(probe.len(), 1, "one finds out whether it is back");
    assert!(site.note("a", met(&probe[0], Became::Delivered, 200)).await);
    assert_eq!(site.take("a", 30).await.len(), 10, "and then as many as it takes");
    let well = "SELECT failing_since IS NULL AND hold_until IS NULL AND last_success_at IS NOT NULL FROM webhook_endpoints";
    assert!(site.world.one::<bool>(well).await);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_or_has_failed_for_days_is_disabled_and_its_owner_sees_why() {
    let site = Site::new().await;
    let gone = site.endpoint(Wanted::all(URL)).await;
    let failing = site.endpoint(Wanted::all("http://127.0.0.1:9/failing")).await;
    site.owed(gone, 3).await;
    site.owed(failing, 3).await;
    let failing_since = format!(
        "UPDATE webhook_endpoints SET failing_since = now() - interval '6 days' WHERE id = '{failing}'"
    );
    site.world.run(&failing_since).await;
    let taken = site.take("a", 10).await;
    let of = |endpoint| taken.iter().find(|taken| taken.place.endpoint == endpoint).expect("taken");
    let tries = [
        TryMet {
            became: Became::Failed,
            endpoint: Some(Stops::ForGood),
            ..met(of(gone), Became::Failed, 410)
        },
        TryMet { status: None, error: Some("no connection".into()), ..again(of(failing), 0) },
    ];
    site.world.worker.note_webhooks("a", &tries, CAP, DAYS).await.expect("an answer");
    for (endpoint, why, said) in [(gone, "gone", "HTTP 410"), (failing, "failing", "no connection")] {
        let act = format!("SELECT e.disabled_reason || '/' || a.done_by || '/' || (a.detail->>'met')
            FROM webhook_endpoints e JOIN webhook_endpoint_acts a ON a.endpoint_id = e.id AND a.version = e.version
            WHERE e.id = '{endpoint}' AND a.act = 'disabled'");
        assert_eq!(site.world.one::<String>(&act).await, format!("{why}/a/{said}"));
    }
    site.world.run("UPDATE webhook_deliveries SET lease_until = NULL, lease_holder = NULL, next_try_at = now() - interval '1 s' WHERE status = 'pending'").await;
    assert_eq!(site.take("a", 10).await, [], "nothing more is sent");
    let by = Operator("tester".into());
    let enabled = site.world.api.switch_webhook_endpoint(ACTOR, failing, EndpointSwitch::On, by).await;
    enabled.expect("an answer");
    assert_eq!(site.take("a", 10).await.len(), 3, "what is owed stays owed");
}

#[tokio::test]
async fn what_the_old_address_says_is_not_held_against_the_one_that_its_owner_gave_it_meanwhile() {
    let site = Site::new().await;
    let endpoint = site.endpoint(Wanted::all(URL)).await;
    site.owed(endpoint, 3).await;
    let taken = site.take("a", 2).await;
    let change = EndpointChange { url: Some("http://127.0.0.1:9/new".into()), ..Default::default() };
    let by = Operator("tester".into());
    let changed = site.world.api.change_webhook_endpoint(ACTOR, endpoint, change, by).await;
    assert_eq!(changed.expect("an answer"), EndpointAnswer::Done);
    let gone = TryMet { endpoint: Some(Stops::ForGood), ..met(&taken[0], Became::Failed, 410) };
    let tries = [gone, again(&taken[1], 500)];
    let noted = site.world.worker.note_webhooks("a", &tries, CAP, DAYS).await.expect("an answer");
    assert_eq!((noted.noted.len(), noted.disabled), (2, Vec::new()), "logged, and said of another");
    let well =
        "SELECT disabled_at IS NULL AND failing_since IS NULL AND hold_until IS NULL FROM webhook_endpoints";
    assert!(site.world.one::<bool>(well).await);
    assert_eq!(
        site.count("status = 'pending' AND rung = 0 AND last_status = 410").await,
        1,
        "the new one is owed it"
    );
    // Said of itself, it counts.
    let now = site.take("a", 1).await.remove(0);
    assert_eq!(now.receiver.url, "http://127.0.0.1:9/new");
    let gone = TryMet { endpoint: Some(Stops::ForGood), ..met(&now, Became::Failed, 410) };
    let noted = site.world.worker.note_webhooks("a", &[gone], CAP, DAYS).await.expect("an answer");
    assert_eq!(noted.disabled, [(endpoint, WhyDisabled::Gone)]);
    assert_eq!(site.count("status = 'failed'").await, 1);
}

#[tokio::test]
async fn a_busy_receiver_is_left_alone_for_as_long_as_it_asks() {
    let site = Site::new().await;
    let endpoint = site.endpoint(Wanted::all(URL)).await;
    site.owed(endpoint, 5).await;
    let taken = site.take("a", 1).await.remove(0);
    let wait = Stops::For(Duration::from_secs(90));
    assert!(site.note("a", TryMet { endpoint: Some(wait), ..again(&taken, 429) }).await);
    let held: f64 =
        site.world.one("SELECT extract(epoch FROM hold_until - now())::float8 FROM webhook_endpoints").await;
    assert!((85.0..=90.0).contains(&held), "{held}");
    assert_eq!(site.take("a", 10).await, []);
}

#[tokio::test]
async fn while_a_secret_is_rotated_both_are_at_hand_and_then_one() {
    let site = Site::new().await;
    let endpoint = site.endpoint(Wanted::all(URL)).await;
    site.owed(endpoint, 3).await;
    let next = WebhookSecret::new([9; 32]);
    let hour = Duration::from_secs(3_600);
    site.world
        .api
        .rotate_webhook_secret(ACTOR, endpoint, next.clone(), hour, Operator("tester".into()))
        .await
        .expect("an answer");
    let taken = site.take("a", 1).await.remove(0);
    assert_eq!(taken.receiver.secrets, [next.clone(), secret(endpoint)]);
    assert!(!format!("{taken:?}").contains("9, 9"), "no secret in a log");
    site.world.run("UPDATE webhook_endpoints SET previous_secret_until = now() - interval '1 s'").await;
    assert_eq!(site.take("a", 1).await.remove(0).receiver.secrets, [next]);
}

#[tokio::test]
async fn what_is_owed_is_counted_with_the_wait_of_the_oldest_that_is_due() {
    let site = Site::new().await;
    let live = site.endpoint(Wanted::all(URL)).await;
    let resting = site.endpoint(Wanted::all("http://127.0.0.1:9/resting")).await;
    let none = site.world.worker.webhook_backlog(100).await.expect("an answer");
    assert_eq!((none.owed, none.oldest_age), (0, Duration::ZERO));
    site.owed(live, 3).await;
    site.owed(resting, 4).await;
    site.world.run(&format!("UPDATE webhook_deliveries SET next_try_at = now() - interval '1 hour' WHERE endpoint_id = '{resting}'")).await;
    site.world
        .run(&format!(
            "UPDATE webhook_endpoints SET hold_until = now() + interval '1 hour' WHERE id = '{resting}'"
        ))
        .await;
    let backlog = site.world.worker.webhook_backlog(100).await.expect("an answer");
    assert_eq!(backlog.owed, 7);
    assert!((1..60).contains(&backlog.oldest_age.as_secs()), "{backlog:?}");
    assert_eq!(site.world.worker.webhook_backlog(5).await.expect("an answer").owed, 5);
}
