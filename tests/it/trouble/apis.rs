//! Two APIs before one database: to a client they are one.

use super::{in_ms, seconds, site, sql};
use crate::support::installation::Installation;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const APIS: [&str; 2] = ["api-1", "api-2"];

struct Answered {
    status: u16,
    text: String,
    is_replay: bool,
}

async fn ask(site: &Installation, request: reqwest::RequestBuilder) -> Answered {
    let answer = request.bearer_auth(&site.api_key).send().await.expect("the API answers");
    let is_replay = answer.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
    let status = answer.status().as_u16();
    Answered { status, text: answer.text().await.expect("a body"), is_replay }
}

async fn post(site: &Installation, api: &str, key: &str, body: &Value) -> Answered {
    let url = format!("{}/v1/scheduled-payments", site.url(api));
    let request = site.http.post(url).header("Idempotency-Key", key);
    ask(site, request.header("Content-Type", "application/json").body(body.to_string())).await
}

async fn get(site: &Installation, api: &str, id: &str) -> Answered {
    ask(site, site.http.get(format!("{}/v1/scheduled-payments/{id}", site.url(api)))).await
}

async fn cancel(site: &Installation, api: &str, id: &str) -> Answered {
    ask(site, site.http.delete(format!("{}/v1/scheduled-payments/{id}", site.url(api)))).await
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn body(amount: usize) -> Value {
    let due_at = in_ms(3_600_000).to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    json!({"payee": "sim_ok", "amount": amount, "currency": "EUR", "dueAt": due_at})
}

async fn two() -> Installation {
    let mut site = site(&[]).await;
    site.start("api", "api-2", &[]).await;
    site
}

async fn payments(site: &Installation) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM payments");
    count.fetch_one(&mut sql(site).await).await.expect("a count")
}

#[tokio::test]
async fn fifty_clients_at_two_apis_with_one_key_make_one_payment_and_hear_the_same() {
    let site = two().await;
    let body = body(1_250);
    let asked = (0..50).map(|n| post(&site, APIS[n % 2], "one-key", &body));
    let answers = join_all(asked).await;
    let texts: BTreeSet<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(answers.iter().all(|answer| answer.status == 201));
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay).count(), 1, "one of them made it");
    assert_eq!(payments(&site).await, 1);
}

#[tokio::test]
async fn of_fifty_bodies_under_one_key_at_two_apis_one_wins_and_the_others_are_told_which() {
    let site = two().await;
    for round in 1..=4 {
        let key = format!("key-{round}");
        let bodies: Vec<Value> = (1..=50).map(body).collect();
        let asked = bodies.iter().enumerate().map(|(n, body)| post(&site, APIS[n % 2], &key, body));
        let answers = join_all(asked).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
        let [won] = won.as_slice() else { panic!("{} were created", won.len()) };
        let id = json_of(&won.text)["paymentId"].clone();
        for answer in lost {
            let problem = json_of(&answer.text);
            assert_eq!(
                (answer.status, &problem["code"]),
                (409, &json!("idempotency_key_reused")),
                "{problem}"
            );
            assert_eq!(problem["paymentId"], id, "{problem}");
        }
        assert_eq!(payments(&site).await, round);
    }
}

#[tokio::test]
async fn what_one_api_made_the_other_shows_lists_and_cancels() {
    let mut site = two().await;
    let body = body(1_250);
    let made = post(&site, "api-1", "made", &body).await;
    let id = json_of(&made.text)["paymentId"].as_str().expect("an id").to_owned();
    let (here, there) = (get(&site, "api-1", &id).await, get(&site, "api-2", &id).await);
    assert_eq!((there.status, &there.text), (200, &here.text));
    let list = format!("{}/v1/scheduled-payments", site.url("api-2"));
    let listed = ask(&site, site.http.get(list)).await;
    assert!(listed.status == 200 && listed.text.contains(&id), "{}", listed.text);

    let cancels = join_all((0..10).map(|n| cancel(&site, APIS[n % 2], &id))).await;
    let texts: BTreeSet<&str> = cancels.iter().map(|answer| answer.text.as_str()).collect();
    assert!(cancels.iter().all(|answer| answer.status == 200) && texts.len() == 1, "{texts:?}");
    for api in APIS {
        assert_eq!(json_of(&get(&site, api, &id).await.text)["status"], "CANCELLED", "{api}");
    }
    assert_eq!(site.role("api-1").drain(seconds(15)).await, 0);
    let again = post(&site, "api-2", "made", &body).await;
    assert_eq!(
        (again.status, again.is_replay, &again.text),
        (201, true, &made.text),
        "one that stays serves on"
    );
}
