//! Webhooks to a receiver that fails three times in ten, in every way that receivers fail, with a publisher that is
//! killed in the middle: every event arrives, each is signed, their order can be told, and payments are as punctual
//! as without.

use crate::figures::{Figures, Holds};
use crate::support::crowds::{
    One, create, first_requests, lateness, percentile, spread, time_to_create, until,
};
use crate::support::eventually;
use crate::support::hooks::{Got, Hook, Says};
use crate::support::installation::{Client, Installation};
use crate::support::records::look;
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Payments of each turn; each makes three events or more.
const PAYMENTS: i32 = 300;
/// Within so long they fall due.
const OVER_MS: i64 = 15_000;
/// What the machine's own noise may add to the lateness that 99 of 100 do not exceed.
const NOISE_MS: i64 = 150;
/// Requests of a hundred that fail.
const FAILING: usize = 30;
/// How long what failed may take to arrive, once everything is due.
const ARRIVES: Duration = Duration::from_secs(120);

/// Receivers fail quickly here, and are asked again quickly.
const SETTINGS: [(&str, &str); 6] = [
    ("webhooks.allow", "127.0.0.0/8"),
    ("webhooks.timeout", "1s"),
    ("webhooks.connect_timeout", "500ms"),
    ("webhooks.poll", "100ms"),
    ("webhooks.rest_cap", "1s"),
    ("webhooks.ladder", "200ms,200ms,500ms,500ms,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s"),
];

/// Looks at every signature as it comes, since old ones are refused.
#[derive(Default)]
struct Signed {
    secret: OnceLock<String>,
    refused: AtomicUsize,
}

impl Signed {
    fn look(&self, got: &Got) {
        if !self.secret.get().is_some_and(|secret| got.is_signed(secret)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A receiver that fails as often as it should, and never in a way that can be foreseen from the event.
async fn failing(signed: &Arc<Signed>) -> Hook {
    let signed = Arc::clone(signed);
    let kinds =
        [Says::Status(500), Says::Status(503), Says::Nothing, Says::Reset, Says::Garbage, Says::Status(302)];
    Hook::new(move |got, before| {
        signed.look(got);
        let drawn = got.id().bytes().fold(17 + before * 7_919, |sum, byte| {
            sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(usize::from(byte)) ^ (sum >> 29)
        });
        if (drawn >> 16) % 100 < FAILING { kinds[(drawn >> 40) % kinds.len()] } else { Says::Status(200) }
    })
    .await
}

/// One crowd, due a while from now: how late each was asked for.
async fn crowd(client: &Client, name: &str) -> Vec<One> {
    let start = Utc::now() + time_to_create(client, PAYMENTS).await;
    let step = TimeDelta::milliseconds(OVER_MS / i64::from(PAYMENTS));
    create(client, name, spread(start, PAYMENTS, step)).await
}

async fn late(site: &Installation, of: &[One]) -> Vec<i64> {
    let last = of.last().expect("a crowd").due_at;
    eventually("all are asked for", until(last, Duration::from_secs(60)), || async {
        lateness(&first_requests(&site.ledger().await), of)
    })
    .await
}

async fn count(site: &Installation, query: &str) -> i64 {
    let counted = sqlx::query_scalar(AssertSqlSafe(query.to_owned()));
    counted.fetch_one(&mut look(&site.database.url).await).await.expect("a count")
}

/// The endpoint, by the interface; its id and its secret.
async fn endpoint(site: &Installation, url: &str) -> (String, String) {
    let body = json!({"url": url, "description": "evidence", "maxConcurrency": 16}).to_string();
    let request =
        site.http.post(format!("{}/v1/webhook-endpoints", site.url("api-1"))).bearer_auth(&site.api_key);
    let answer =
        request.header("Content-Type", "application/json").body(body).send().await.expect("an answer");
    let status = answer.status().as_u16();
    let made: Value = serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON");
    assert_eq!(status, 201, "{made}");
    let text = |name: &str| made[name].as_str().unwrap_or_else(|| panic!("{name} in {made}")).to_owned();
    (text("endpointId"), text("secret"))
}

/// Every event arrives at least once.
pub async fn nothing_is_lost_on_its_way_to_a_failing_receiver(figures: &mut Figures) {
    figures.part("Webhooks: a receiver that fails 30 of 100, a publisher killed with -9 in the middle");
    let mut site = Installation::new(&SETTINGS).await;
    for role in ["keeper", "relay", "worker", "api", "publisher"] {
        site.start(role, &format!("{role}-1"), &[]).await;
    }
    let client = site.client();
    // A worker that has just joined the group is not what is measured.
    let warm =
        create(&client, "warm", spread(Utc::now() + TimeDelta::seconds(5), 20, TimeDelta::milliseconds(50)))
            .await;
    late(&site, &warm).await;
    let without = crowd(&client, "without").await;
    let without = late(&site, &without).await;

    let signed = Arc::new(Signed::default());
    let hook = failing(&signed).await;
    let (endpoint, secret) = endpoint(&site, &hook.url()).await;
    signed.secret.set(secret).expect("set once");
    let with = crowd(&client, "with").await;
    site.start("publisher", "publisher-2", &[]).await;
    eventually("half is on its way", until(with[0].due_at, ARRIVES), || async {
        (hook.count() > 400).then_some(())
    })
    .await;
    site.role("publisher-1").kill();
    let with_late = late(&site, &with).await;
    let ids: Vec<&str> = with.iter().map(|one| one.id.as_str()).collect();
    for id in &ids {
        site.settled(id, &["COMPLETED"], Duration::from_secs(60)).await;
    }
    let owed = told(&site, &ids).await;
    let arrived = eventually("everything has arrived", ARRIVES, || async {
        let taken = hook.taken();
        owed.iter().all(|id| taken.contains_key(id)).then_some(taken)
    })
    .await;
    shown(figures, &hook.got(), &arrived, &owed, signed.refused.load(Ordering::Relaxed));
    let left = format!(
        "SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = '{endpoint}' AND status <> 'delivered'"
    );
    // A try that was under way when its publisher was killed is made again when its lease ends.
    let left = eventually("all of it is noted", ARRIVES, || async {
        let left = count(&site, &left).await;
        (left == 0).then_some(left)
    })
    .await;
    figures.holds("deliveries that are not noted as delivered", left, "0", Holds(left == 0));
    let (before, after) = (percentile(&without, 99), percentile(&with_late, 99));
    figures.holds(
        "lateness of 99 of 100 payments with the endpoint",
        format!("{after} ms"),
        &format!("≤ {} ms ({before} ms without, {NOISE_MS} ms of noise)", before + NOISE_MS),
        Holds(after <= before + NOISE_MS),
    );
}

/// The ids of every event of these payments, as the history has them.
async fn told(site: &Installation, ids: &[&str]) -> BTreeSet<String> {
    let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.parse().expect("an id")).collect();
    let query = sqlx::query_scalar(
        "SELECT payment_id::text || '/' || seq FROM payment_history WHERE payment_id = ANY ($1)",
    );
    let told: Vec<String> =
        query.bind(ids).fetch_all(&mut look(&site.database.url).await).await.expect("rows");
    told.into_iter().collect()
}

fn shown(
    figures: &mut Figures,
    got: &[Got],
    arrived: &BTreeMap<String, usize>,
    owed: &BTreeSet<String>,
    unsigned: usize,
) {
    figures.holds("events of the payments", owed.len(), "≥ 500", Holds(owed.len() >= 500));
    let lost = owed.iter().filter(|id| !arrived.contains_key(*id)).count();
    figures.holds("of these not arrived", lost, "0", Holds(lost == 0));
    let failed = got.iter().filter(|got| !got.said.is_success()).count();
    let share = failed * 100 / got.len().max(1);
    figures.holds(
        "requests that the receiver failed",
        format!("{failed} of {}, {share} of 100", got.len()),
        "20 to 40 of 100",
        Holds((20..=40).contains(&share)),
    );
    figures.holds("requests whose signature the library refuses", unsigned, "0", Holds(unsigned == 0));
    let mut bodies: BTreeMap<&str, &[u8]> = BTreeMap::new();
    let differing = got.iter().filter(|got| *bodies.entry(got.id()).or_insert(&got.body) != got.body).count();
    figures.holds("repetitions that differ from the first", differing, "0", Holds(differing == 0));
    let repeated = arrived.values().filter(|times| **times > 1).count();
    figures.met("events that came more than once", repeated);
    let broken = gaps(got, owed);
    figures.holds("payments whose order the numbers do not tell", broken, "0", Holds(broken == 0));
}

/// Payments whose events, put in the order of their numbers, have a gap or a step that the history did not make.
fn gaps(got: &[Got], owed: &BTreeSet<String>) -> usize {
    let mut stories: BTreeMap<String, BTreeMap<i64, Value>> = BTreeMap::new();
    for got in got.iter().filter(|got| owed.contains(got.id())) {
        let event = got.event();
        let number = event["sequence"].as_i64().unwrap_or_default();
        stories.entry(event["subject"].to_string()).or_default().insert(number, event);
    }
    let is_whole = |story: &BTreeMap<i64, Value>| {
        let mut status = Value::Null;
        story.iter().zip(1..).all(|((number, event), wanted)| {
            let follows = event["data"]["previousStatus"] == status;
            status = event["data"]["status"].clone();
            *number == wanted && follows
        })
    };
    stories.values().filter(|story| !is_whole(story)).count()
}
