//! Whole: processes, real Kafka, the sandbox's own ledger. What a person releases is looked up before anything is
//! sent, and nothing is ever charged twice for it.

use crate::support::audit::audit;
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::Duration;

const SECONDS: Duration = Duration::from_secs(1);

/// A gateway that answers within a second, or not at all.
const QUICK: [(&str, &str); 3] =
    [("gateway.total_timeout", "1s"), ("gateway.connect_timeout", "1s"), ("ladder.reask", "3s")];

/// People and what they say.
struct People {
    alice: String,
    bob: String,
}

impl People {
    fn of(site: &Installation) -> Self {
        let key = |actor: &str| {
            let scopes = ["--scope", "ops:read", "--scope", "ops:redrive", "--scope", "ops:approve"];
            let command = [&["keys", "create", "--actor", actor, "-o", "json"], &scopes[..]].concat();
            let made: Value = serde_json::from_str(&site.run(&command)).expect("JSON of the key");
            made["apiKey"].as_str().expect("the key's text").to_owned()
        };
        Self { alice: key("alice"), bob: key("bob") }
    }
}

async fn post(site: &Installation, key: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = site.http.post(format!("{}{path}", site.url("api-1"))).bearer_auth(key);
    let request = request.header("Content-Type", "application/json").body(body.to_string());
    let answer = request.send().await.expect("the API answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn redrive(site: &Installation, people: &People, id: &str) -> Value {
    let path = format!("/v1/ops/parked/{id}/redrive");
    let (status, payment) = post(site, &people.alice, &path, &json!({"reason": "look again"})).await;
    assert_eq!(status, 200, "{payment}");
    payment
}

/// With everything but a worker.
async fn begun(settings: &[(&str, &str)]) -> Installation {
    let all: Vec<(&str, &str)> = QUICK.iter().chain(settings).copied().collect();
    let mut site = Installation::new(&all).await;
    site.start("api", "api-1", &[]).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("keeper", "keeper-1", &[]).await;
    site
}

/// Another worker in the place of the first: with a look-up that the first one had not.
async fn with_another_worker(site: &mut Installation) {
    site.role("worker-1").drain(20 * SECONDS).await;
    site.start("worker", "worker-2", &[]).await;
}

/// Every promise, asked of the ledger and the database.
fn keeps_its_promises(site: &Installation) {
    let audited = audit(site, None);
    assert!(audited.holds(), "{audited:?}");
}

async fn charges(site: &Installation) -> (usize, usize) {
    let ledger = site.ledger().await;
    let asked = ledger.iter().filter(|line| line["request"].is_null() || line["request"] == "charge").count();
    (asked, ledger.iter().filter(|line| line["charged"] == true).count())
}

#[tokio::test]
async fn a_charge_that_nobody_learned_of_is_found_and_not_repeated() {
    let mut site = begun(&[]).await;
    let people = People::of(&site);
    // This worker cannot look up, and past the deadline it may not send: all it can do is to park.
    site.start("worker", "worker-1", &[("gateway.lookup", "false")]).await;
    let at =
        |seconds| (Utc::now() + TimeDelta::seconds(seconds)).to_rfc3339_opts(SecondsFormat::Micros, true);
    let body = json!({
        "payee": "sim_timeout_charged", "amount": 1_250, "currency": "EUR", "dueAt": at(1), "executeBefore": at(4),
    });
    let (status, created) = site.post("first", &body).await.expect("the API answers");
    assert_eq!(status, 201, "{created}");
    let id = created["paymentId"].as_str().expect("an id").to_owned();
    site.settled(&id, &["PARKED"], 60 * SECONDS).await;
    with_another_worker(&mut site).await;
    assert_eq!(redrive(&site, &people, &id).await["status"], "UNKNOWN");
    let paid = site.settled(&id, &["COMPLETED", "FAILED", "PARKED"], 60 * SECONDS).await;
    assert_eq!(paid["status"], "COMPLETED", "{paid}");
    assert_eq!(charges(&site).await, (1, 1), "{:?}", site.ledger().await);
    keeps_its_promises(&site);
}

#[tokio::test]
async fn past_its_key_a_payment_is_looked_up_and_parked_again_and_never_charged() {
    // The key is over before the first question.
    let site = begun(&[
        ("gateway.key_ttl", "4s"),
        ("gateway.key_margin", "2s"),
        ("gateway.not_found_horizon", "1s"),
        ("ladder.reask", "5s"),
    ]);
    let mut site = site.await;
    let people = People::of(&site);
    site.start("worker", "worker-1", &[("gateway.lookup", "false")]).await;
    let id = site.create("first", "sim_timeout_not_charged|sim_ok", Utc::now() + TimeDelta::seconds(1)).await;
    let parked = site.settled(&id, &["PARKED"], 60 * SECONDS).await;
    assert_eq!(parked["statusReason"], "key_expired_undecided", "{parked}");
    with_another_worker(&mut site).await;
    let released = redrive(&site, &people, &id).await;
    let version = released["version"].as_i64().expect("a version");
    let again = eventually("it is parked again", 60 * SECONDS, || async {
        let (_, payment) = site.get(&id).await.ok()?;
        (payment["status"] == "PARKED" && payment["version"].as_i64()? > version).then_some(payment)
    })
    .await;
    assert_eq!(again["statusReason"], "key_expired_undecided", "{again}");
    assert_eq!(charges(&site).await, (1, 0), "{:?}", site.ledger().await);
    keeps_its_promises(&site);
}

#[tokio::test]
async fn a_stored_decline_is_charged_once_under_a_new_key_that_two_people_wanted() {
    let mut site = begun(&[]).await;
    let people = People::of(&site);
    site.start("worker", "worker-1", &[]).await;
    let payee = "sim_timeout_not_charged|sim_decline_insufficient_funds|sim_ok";
    let id = site.create("first", payee, Utc::now() + TimeDelta::seconds(1)).await;
    let parked = site.settled(&id, &["PARKED"], 60 * SECONDS).await;
    assert_eq!(parked["statusReason"], "unproven_decline", "{parked}");
    let path = format!("/v1/ops/parked/{id}/redrive");
    let new_epoch = json!({"reason": "the card is good again", "newEpoch": true});
    let (status, refused) = post(&site, &people.alice, &path, &new_epoch).await;
    assert_eq!((status, &refused["code"]), (409, &json!("open_send")), "{refused}");

    // As the late answer of the first send would: it was declined as well.
    let mut sql = PgConnection::connect(&site.database.url).await.expect("a connection");
    let answered = format!("UPDATE payments SET unanswered = 0 WHERE id = '{id}'");
    sqlx::query(AssertSqlSafe(answered)).execute(&mut sql).await.expect("answered");
    let (status, asked) = post(&site, &people.alice, &path, &new_epoch).await;
    assert_eq!((status, &asked["kind"]), (202, &json!("new_epoch")), "{asked}");
    let approve = format!("/v1/ops/approvals/{}/approve", asked["approvalId"].as_str().expect("an id"));
    let yes = json!({"reason": "spoke to the customer"});
    let (status, same) = post(&site, &people.alice, &approve, &yes).await;
    assert_eq!((status, &same["code"]), (403, &json!("same_person")), "{same}");
    let (status, approved) = post(&site, &people.bob, &approve, &yes).await;
    assert_eq!(status, 200, "{approved}");

    let paid = site.settled(&id, &["COMPLETED", "FAILED", "PARKED"], 60 * SECONDS).await;
    assert_eq!(paid["status"], "COMPLETED", "{paid}");
    let ledger = site.ledger().await;
    let charged: Vec<&Value> = ledger.iter().filter(|line| line["charged"] == true).collect();
    assert_eq!(charged.len(), 1, "{ledger:?}");
    assert_eq!(charged[0]["key"], format!("{id}:1"), "{ledger:?}");
    // Before the new key was sent it was looked up: what the gateway had seen of the payment came first.
    let attempts = paid["attempts"].as_array().expect("attempts").len();
    assert_eq!(attempts, 3, "{paid}");
    keeps_its_promises(&site);
}

#[tokio::test]
async fn many_are_released_by_the_keeper_and_each_is_charged_once() {
    let mut site = begun(&[("ladder.held_back", "100ms"), ("ladder.held_back_limit", "2")]).await;
    let people = People::of(&site);
    // A gateway where nobody listens; fewer calls than make a breaker open.
    let nowhere = [("gateway.url", "http://127.0.0.1:1")];
    site.start("worker", "worker-1", &nowhere).await;
    let due_at = Utc::now() + TimeDelta::seconds(1);
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(site.create(&format!("k{n}"), "sim_ok", due_at).await);
    }
    for id in &ids {
        let parked = site.settled(id, &["PARKED"], 60 * SECONDS).await;
        assert_eq!(parked["statusReason"], "held_back_too_long", "{parked}");
    }
    with_another_worker(&mut site).await;
    let bulk = json!({"reason": "back", "filter": {"reason": "held_back_too_long"}, "ratePerS": 100});
    let (status, made) = post(&site, &people.alice, "/v1/ops/bulk-redrives", &bulk).await;
    assert_eq!((status, &made["preview"]["count"]), (201, &json!(4)), "{made}");
    let start = format!("/v1/ops/bulk-redrives/{}/start", made["bulkId"].as_str().expect("an id"));
    assert_eq!(post(&site, &people.bob, &start, &json!({"reason": "go"})).await.0, 200);
    for id in &ids {
        site.settled(id, &["COMPLETED"], 60 * SECONDS).await;
    }
    assert_eq!(charges(&site).await, (4, 4), "{:?}", site.ledger().await);
    keeps_its_promises(&site);
}
