//! Many payments in one request, as a client sees them, on a real database.

use crate::support::api::{Answer, Api, send};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};
use std::collections::BTreeSet;
use std::time::Duration;

const BATCH: &str = "/v1/scheduled-payments/batch";

fn text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn item(key: &str) -> Value {
    let due_at = text(Utc::now() + TimeDelta::hours(1));
    json!({"idempotencyKey": key, "payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": due_at})
}

fn with(mut item: Value, name: &str, value: Value) -> Value {
    item[name] = value;
    item
}

async fn post(api: &Api, body: &Value) -> Answer {
    send(api.request("POST", BATCH), Some(body)).await
}

async fn each(api: &Api, items: &[Value]) -> Value {
    let answer = post(api, &json!({"payments": items})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

/// `201`, `201 replayed` or status and code of each.
fn told(answer: &Value) -> Vec<String> {
    let one = |item: &Value| match item["problem"]["code"].as_str() {
        Some(code) => format!("{} {code}", item["status"]),
        None if item["replayed"] == json!(true) => "201 replayed".to_owned(),
        None => item["status"].to_string(),
    };
    answer["data"].as_array().expect("a list").iter().map(one).collect()
}

async fn count(api: &Api) -> usize {
    let page = send(api.request("GET", "/v1/scheduled-payments?limit=200"), None).await.json();
    assert_eq!(page["nextCursor"], Value::Null);
    page["data"].as_array().expect("a list").len()
}

#[tokio::test]
async fn each_payment_has_its_own_answer_in_the_order_of_the_request() {
    let api = Api::start(|_| {}).await;
    let old = item("old");
    let single = old.as_object().expect("an object").iter().filter(|(name, _)| *name != "idempotencyKey");
    let single: Value = Value::Object(single.map(|(name, value)| (name.clone(), value.clone())).collect());
    let made = api.post("old", &single).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let taken = with(item("taken"), "externalId", json!("inv-0"));
    let items = [
        taken.clone(),
        with(item("z"), "externalId", json!("inv-1")),
        with(item("wrong"), "amount", json!("10")),
        old.clone(),
        with(item("rule"), "gateway", json!("nowhere")),
        with(item("twice"), "externalId", json!("inv-1")),
        with(with(item("a"), "metadata", json!({"n": "1"})), "executeWithin", json!(60)),
        with(item("past"), "dueAt", json!(text(Utc::now() - TimeDelta::hours(1)))),
        with(old, "amount", json!(7)),
        json!({"payee": "x"}),
        json!(5),
        with(item("large"), "description", json!("x".repeat(17_000))),
    ];
    // The old key stands twice, so that is told first.
    let twice = post(&api, &json!({"payments": items})).await;
    assert_eq!(twice.refusal(), (422, "duplicate_item_key".into()));
    assert_eq!(twice.json()["errors"][0]["pointer"], "/payments/8/idempotencyKey");
    let mut items = items.to_vec();
    let other = items.remove(8);
    let answer = each(&api, &items).await;
    assert_eq!(
        told(&answer),
        [
            "201",
            "201",
            "400 wrong_type",
            "201 replayed",
            "422 unknown_gateway",
            "409 external_id_conflict",
            "201",
            "422 due_in_past",
            "400 missing_idempotency_key",
            "400 wrong_type",
            "413 body_too_large",
        ]
    );
    assert_eq!(
        (&answer["created"], &answer["replayed"], &answer["refused"]),
        (&json!(3), &json!(1), &json!(7))
    );
    let old_text = answer["data"][3]["payment"].to_string();
    assert_eq!(serde_json::from_str::<Value>(&old_text).unwrap(), made.json());
    let reused = each(&api, &[other]).await;
    assert_eq!(told(&reused), ["409 idempotency_key_reused"]);
    assert_eq!(reused["data"][0]["problem"]["differs"], json!(["/amount"]));
    assert_eq!(reused["data"][0]["problem"]["instance"], format!("{BATCH}#/payments/0"));
    assert_eq!(count(&api).await, 4);

    // A payment of a batch is like any other: read, replayed by a single create, cancelled.
    let id = answer["data"][6]["payment"]["paymentId"].as_str().expect("an id").to_owned();
    let found = api.payment("GET", &id).await.json();
    assert_eq!((&found["metadata"], &found["executeWithin"]), (&json!({"n": "1"}), &json!(60)));
    assert_eq!(api.payment("DELETE", &id).await.status, 200);
}

#[tokio::test]
async fn a_thousand_payments_are_created_once_however_often_they_are_sent() {
    let api = Api::start(|_| {}).await;
    let items: Vec<Value> = (0..1_000)
        .map(|n| with(item(&format!("key-{n}")), "externalId", json!(format!("inv-{n}"))))
        .collect();
    let first = each(&api, &items).await;
    assert_eq!((&first["created"], &first["refused"]), (&json!(1_000), &json!(0)));
    let again = each(&api, &items).await;
    assert_eq!((&again["created"], &again["replayed"]), (&json!(0), &json!(1_000)));
    for n in [0, 500, 999] {
        assert_eq!(first["data"][n]["payment"], again["data"][n]["payment"]);
    }
    let ids: BTreeSet<&str> = first["data"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|item| item["payment"]["paymentId"].as_str())
        .collect();
    assert_eq!(ids.len(), 1_000);
    let mut more = items.clone();
    more.push(item("one too many"));
    assert_eq!(post(&api, &json!({"payments": more})).await.refusal(), (422, "too_many_items".into()));
    assert_eq!(told(&each(&api, &[]).await), [""; 0]);
}

#[tokio::test]
async fn all_or_nothing_is_all_or_nothing() {
    let api = Api::start(|_| {}).await;
    let atomic = async |items: &[Value]| post(&api, &json!({"atomic": true, "payments": items})).await;
    let good = [with(item("a"), "externalId", json!("inv-1")), item("b"), item("c")];
    for (bad, code, pointer) in [
        (with(item("d"), "amount", json!(0)), "amount_not_positive", "/payments/3/amount"),
        (with(item("d"), "amount", json!("1")), "wrong_type", "/payments/3/amount"),
        (with(item("d"), "externalId", json!("inv-1")), "external_id_conflict", "/payments/3/externalId"),
        (
            with(item("d"), "dueAt", json!(text(Utc::now() - TimeDelta::hours(1)))),
            "due_in_past",
            "/payments/3/dueAt",
        ),
    ] {
        let mut items = good.to_vec();
        items.push(bad);
        let refused = atomic(&items).await;
        assert_eq!(refused.refusal(), (422, "batch_refused".into()));
        let error = &refused.json()["errors"][0];
        assert_eq!((&error["code"], &error["pointer"]), (&json!(code), &json!(pointer)));
        assert_eq!(count(&api).await, 0, "{code}");
    }
    let made = atomic(&good).await;
    assert_eq!(told(&made.json()), ["201", "201", "201"], "{}", made.text);
    let again = atomic(&good).await;
    assert_eq!(told(&again.json()), ["201 replayed", "201 replayed", "201 replayed"], "{}", again.text);

    // What another request holds is found in the schedule, and nothing of the batch stays.
    for (bad, code) in [
        (with(item("e"), "externalId", json!("inv-1")), "external_id_conflict"),
        (with(good[1].clone(), "amount", json!(1)), "idempotency_key_reused"),
    ] {
        let refused = atomic(&[item("new"), bad]).await;
        assert_eq!(refused.refusal(), (422, "batch_refused".into()));
        assert_eq!(refused.json()["errors"][0]["code"], json!(code));
        assert_eq!(count(&api).await, 3, "{code}");
    }
    let mixed = atomic(&[item("new"), good[2].clone()]).await;
    assert_eq!(told(&mixed.json()), ["201", "201 replayed"], "{}", mixed.text);
}

#[tokio::test]
async fn a_day_without_a_partition_stops_its_own_payments_only() {
    let api = Api::start(|api| api.horizon = Duration::from_secs(60 * 86_400)).await;
    let far = |key: &str| with(item(key), "dueAt", json!(text(Utc::now() + TimeDelta::days(40))));
    let items = [item("a"), far("b"), item("c"), far("d"), item("e")];
    let answer = each(&api, &items).await;
    let not_ready = "503 schedule_not_ready";
    assert_eq!(told(&answer), ["201", not_ready, "201", not_ready, "201"]);
    let refused = post(&api, &json!({"atomic": true, "payments": [item("f"), far("g")]})).await;
    assert_eq!(refused.refusal(), (503, "schedule_not_ready".into()));
    assert_eq!(count(&api).await, 3);
    // Beside it, a key that was used is answered as ever, whatever day it names now.
    let reused = "409 idempotency_key_reused";
    assert_eq!(
        told(&each(&api, &[far("h"), far("a"), items[2].clone()]).await),
        [not_ready, reused, "201 replayed"]
    );
    let atomic = json!({"atomic": true, "payments": [far("h"), far("a")]});
    assert_eq!(post(&api, &atomic).await.refusal(), (422, "batch_refused".into()));
}

#[tokio::test]
async fn a_key_is_the_same_key_bare_and_quoted_wherever_it_stands() {
    let api = Api::start(|_| {}).await;
    let body = item("zz");
    let single = body.as_object().expect("an object").iter().filter(|(name, _)| *name != "idempotencyKey");
    let single: Value = Value::Object(single.map(|(name, value)| (name.clone(), value.clone())).collect());
    assert_eq!(api.post("\"zz\"", &single).await.status, 201);
    let quoted = with(body.clone(), "idempotencyKey", json!("\"zz\""));
    assert_eq!(told(&each(&api, std::slice::from_ref(&quoted)).await), ["201 replayed"]);
    let both = post(&api, &json!({"payments": [body, quoted]})).await;
    assert_eq!(both.refusal(), (422, "duplicate_item_key".into()));
    let broken = each(&api, &[item("\"zz")]).await;
    assert_eq!(told(&broken), ["400 invalid_idempotency_key"]);
    let listed =
        send(api.request("GET", "/v1/scheduled-payments?idempotencyKey=%22zz%22"), None).await.json();
    assert_eq!((listed["data"].as_array().map(Vec::len), count(&api).await), (Some(1), 1));
}

#[tokio::test]
async fn a_missing_day_costs_a_question_and_not_one_for_each_of_its_payments() {
    let api = Api::start(|api| api.horizon = Duration::from_secs(60 * 86_400)).await;
    let far = |n: usize| with(item(&format!("k{n}")), "dueAt", json!(text(Utc::now() + TimeDelta::days(40))));
    let items: Vec<Value> = (0..400).map(far).collect();
    // What a sequence gave is not rolled back: each statement that creates draws a number.
    let draw = "CREATE SEQUENCE tries;
                CREATE FUNCTION count_tries() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
                $$ BEGIN PERFORM nextval('public.tries'); RETURN NULL; END $$;
                CREATE TRIGGER count_tries BEFORE INSERT ON payments
                FOR EACH STATEMENT EXECUTE FUNCTION count_tries()";
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    sql.execute(draw).await.expect("made");
    let answer = each(&api, &items).await;
    assert!(told(&answer).iter().all(|one| one == "503 schedule_not_ready"));
    let tries: i64 = api.one("SELECT last_value FROM tries").await;
    assert!(tries <= 2, "{tries} statements for one day");
}

#[tokio::test]
async fn batches_that_meet_make_each_payment_once() {
    let api = Api::start(|_| {}).await;
    let items: Vec<Value> = (0..200).map(|n| item(&format!("key-{n}"))).collect();
    let backwards: Vec<Value> = items.iter().rev().cloned().collect();
    let both = [&items, &backwards, &items, &backwards];
    let answers = futures_util::future::join_all(both.map(|items| each(&api, items))).await;
    let created: u64 = answers.iter().filter_map(|answer| answer["created"].as_u64()).sum();
    let replayed: u64 = answers.iter().filter_map(|answer| answer["replayed"].as_u64()).sum();
    assert_eq!((created, replayed), (200, 600));
    assert_eq!(answers[0]["data"][0]["payment"], answers[1]["data"][199]["payment"]);
}

#[tokio::test]
async fn a_batch_is_refused_for_its_own_shape_and_takes_no_key() {
    let api = Api::start(|_| {}).await;
    let keyed = api.request("POST", BATCH).header("Idempotency-Key", "k");
    let refused = send(keyed, Some(&json!({"payments": []}))).await;
    assert_eq!(refused.refusal(), (400, "invalid_idempotency_key".into()));
    for method in ["GET", "DELETE"] {
        let other = send(api.request(method, BATCH), None).await;
        assert_eq!(other.refusal(), (405, "method_not_allowed".into()), "{method}");
        assert_eq!(other.header("allow"), "POST", "{method}");
    }
    let reader = api.new_key("tester", &["payments:read"]).await;
    let request = api.anonymous("POST", BATCH).bearer_auth(reader);
    assert_eq!(send(request, Some(&json!({"payments": []}))).await.refusal(), (403, "missing_scope".into()));
    let large = json!({"payments": [{"description": "x".repeat(8 << 20)}]});
    assert_eq!(post(&api, &large).await.refusal(), (413, "body_too_large".into()));
}
