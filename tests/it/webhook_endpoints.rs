//! Endpoints of webhooks as their owners have them: made, turned, shown to nobody else, and their log.

#[path = "webhook_endpoints/log.rs"]
mod log;
#[path = "webhook_endpoints/verified.rs"]
mod verified;

use crate::support::api::{Answer, Api, send};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PATH: &str = "/v1/webhook-endpoints";

/// Asks with the tester's key.
async fn ask(api: &Api, method: &str, path: &str, body: Option<Value>) -> Answer {
    send(api.request(method, &format!("{PATH}{path}")), body.as_ref()).await
}

/// An endpoint of the tester; its answer has the secret.
async fn made(api: &Api, url: &str) -> Value {
    let answer = ask(api, "POST", "", Some(json!({"url": url}))).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()
}

fn id(endpoint: &Value) -> String {
    endpoint["endpointId"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn an_endpoint_is_made_shown_changed_and_deleted_and_every_act_is_written_down() {
    let api = Api::start(|_| {}).await;
    let wanted = json!({"url": "https://Shop.example:443/hook", "description": "ours", "maxConcurrency": 7,
        "eventTypes": ["payment.refunded", "payment.completed", "payment.refunded"]});
    let answer = ask(&api, "POST", "", Some(wanted)).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(answer.header("cache-control"), "no-store");
    let made = answer.json();
    let id = id(&made);
    assert_eq!(answer.header("location"), format!("{PATH}/{id}"));
    assert_eq!(made["url"], "https://shop.example/hook", "in the one form in which it is compared");
    assert_eq!(made["eventTypes"], json!(["payment.completed", "payment.refunded"]));
    assert_eq!((&made["maxConcurrency"], &made["version"]), (&json!(7), &json!(1)));

    let change =
        json!({"version": 1, "description": "", "eventTypes": [], "url": "https://shop.example/other"});
    let changed = ask(&api, "PATCH", &format!("/{id}"), Some(change.clone())).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let changed = changed.json();
    assert_eq!((&changed["description"], &changed["eventTypes"]), (&json!(""), &json!([])));
    assert_eq!(
        (&changed["url"], &changed["maxConcurrency"]),
        (&json!("https://shop.example/other"), &json!(7))
    );
    let late = ask(&api, "PATCH", &format!("/{id}"), Some(change)).await;
    assert_eq!(late.refusal(), (409, "webhook_endpoint_changed".into()));

    for (act, disabled) in [("disable", true), ("disable", true), ("enable", false), ("enable", false)] {
        let turned = ask(&api, "POST", &format!("/{id}/{act}"), None).await.json();
        assert_eq!(turned["disabledReason"].is_string(), disabled, "{act}");
    }
    let shown = ask(&api, "GET", &format!("/{id}"), None).await.json();
    let acts: Vec<&str> =
        shown["acts"].as_array().expect("acts").iter().filter_map(|it| it["act"].as_str()).collect();
    assert_eq!(acts, ["enabled", "disabled", "changed", "created"], "a repeated act is done once");
    assert_eq!(ask(&api, "DELETE", &format!("/{id}"), None).await.status, 200);
    for (method, rest) in [("GET", ""), ("DELETE", ""), ("GET", "/deliveries"), ("POST", "/test")] {
        let gone = ask(&api, method, &format!("/{id}{rest}"), None).await;
        assert_eq!(gone.refusal(), (404, "webhook_endpoint_not_found".into()), "{method} {rest}");
    }
    assert_eq!(ask(&api, "GET", "", None).await.json()["data"], json!([]));
    // The address is free again.
    assert_eq!(made_again(&api).await, 201);
}

async fn made_again(api: &Api) -> u16 {
    ask(api, "POST", "", Some(json!({"url": "https://shop.example/other"}))).await.status
}

#[tokio::test]
async fn a_secret_is_shown_once_and_for_an_overlap_there_are_two_and_never_three() {
    let api = Api::start(|_| {}).await;
    let first = made(&api, "https://shop.example/hook").await;
    let (id, secret) = (id(&first), first["secret"].as_str().expect("a secret").to_owned());
    let stored = |column: &str| {
        format!(
            "SELECT 'whsec_' || encode({column}, 'base64') FROM webhook_endpoints WHERE {column} IS NOT NULL"
        )
    };
    assert_eq!(api.one::<String>(&stored("secret")).await, secret);
    for (method, path) in
        [("GET", String::new()), ("GET", format!("/{id}")), ("POST", format!("/{id}/disable"))]
    {
        let answer = ask(&api, method, &path, None).await;
        assert!(answer.status == 200 && !answer.text.contains("whsec_"), "{method} {path}: {}", answer.text);
    }
    let path = format!("/{id}/rotate");
    let rotate = |body: Value| ask(&api, "POST", &path, Some(body));
    let second = rotate(json!({"overlapSeconds": 3_600})).await;
    assert_eq!((second.status, second.header("cache-control")), (201, "no-store"), "{}", second.text);
    let second = second.json();
    assert_ne!(second["secret"], json!(secret));
    assert!(second["previousSecretUntil"].is_string());
    assert_eq!(api.one::<String>(&stored("previous_secret")).await, secret);
    assert_eq!(rotate(json!({})).await.refusal(), (409, "webhook_secret_rotating".into()));

    let third = rotate(json!({"overlapSeconds": 0})).await.json();
    assert_eq!(third["previousSecretUntil"], Value::Null, "one that got out ends at once");
    let previous = "SELECT count(*) FROM webhook_endpoints WHERE previous_secret IS NOT NULL";
    assert_eq!(api.one::<i64>(previous).await, 0);
    assert_eq!(json!(api.one::<String>(&stored("secret")).await), third["secret"]);

    assert_eq!(ask(&api, "DELETE", &format!("/{id}"), None).await.status, 200);
    let left =
        "SELECT count(*) FROM webhook_endpoints WHERE secret IS NOT NULL OR previous_secret IS NOT NULL";
    assert_eq!(api.one::<i64>(left).await, 0, "a deleted endpoint keeps no secret");
}

#[tokio::test]
async fn a_stranger_s_endpoint_is_answered_exactly_like_one_that_does_not_exist() {
    let api = Api::start(|_| {}).await;
    let endpoint = id(&made(&api, "https://shop.example/hook").await);
    let event = ask(&api, "POST", &format!("/{endpoint}/test"), None).await.json();
    let event = event["eventId"].as_str().expect("an event").to_owned();
    let stranger = api.new_key("stranger", &["payments:read", "payments:write"]).await;
    let nobodys = "01a2283e-8820-4aaa-9bbb-0123456789ab";
    let before: String = api.one("SELECT md5(string_agg(e::text, ',')) FROM webhook_endpoints e").await;
    for (method, rest, body) in [
        ("GET", String::new(), None),
        ("PATCH", String::new(), Some(json!({"description": "mine"}))),
        ("DELETE", String::new(), None),
        ("POST", "/rotate".into(), Some(json!({}))),
        ("POST", "/disable".into(), None),
        ("POST", "/enable".into(), None),
        ("POST", "/test".into(), None),
        ("GET", "/deliveries".into(), None),
        ("GET", format!("/deliveries/{event}"), None),
        ("POST", format!("/deliveries/{event}/resend"), None),
        ("POST", "/resend".into(), Some(json!({"since": "2026-01-01T00:00:00Z"}))),
    ] {
        let mut told = BTreeSet::new();
        for whose in [endpoint.as_str(), nobodys] {
            let request = api.anonymous(method, &format!("{PATH}/{whose}{rest}")).bearer_auth(&stranger);
            let answer = send(request, body.as_ref()).await;
            assert_eq!(answer.status, 404, "{method} {rest}: {}", answer.text);
            told.insert(answer.text.replace(answer.header("request-id"), "-").replace(whose, "ID"));
        }
        assert_eq!(told.len(), 1, "{method} {rest}: {told:?}");
    }
    let list = send(api.anonymous("GET", PATH).bearer_auth(&stranger), None).await;
    assert_eq!(list.json()["data"], json!([]));
    let after: String = api.one("SELECT md5(string_agg(e::text, ',')) FROM webhook_endpoints e").await;
    assert_eq!(before, after);
    // One address each, but nobody's address is another's.
    let same = api.anonymous("POST", PATH).bearer_auth(&stranger);
    assert_eq!(send(same, Some(&json!({"url": "https://shop.example/hook"}))).await.status, 201);
}

#[tokio::test]
async fn an_actor_that_asks_for_many_at_once_has_as_many_as_allowed_and_no_address_twice() {
    let api = Api::start(|_| {}).await;
    let same = (0..6).map(|_| ask(&api, "POST", "", Some(json!({"url": "https://shop.example/one"}))));
    let mut answers: Vec<u16> = join_all(same).await.iter().map(|answer| answer.status).collect();
    answers.sort_unstable();
    assert_eq!(answers, [201, 409, 409, 409, 409, 409]);
    let many =
        (0..30).map(|n| ask(&api, "POST", "", Some(json!({"url": format!("https://shop.example/{n}")}))));
    let answers = join_all(many).await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status != 201).map(Answer::refusal).collect();
    assert_eq!(refused, vec![(409, "too_many_webhook_endpoints".to_owned()); 11]);
    assert_eq!(api.one::<i64>("SELECT count(*) FROM webhook_endpoints").await, 20);
    // Two that change to one address: one of them gets it.
    let list = ask(&api, "GET", "", None).await.json();
    let ids: Vec<String> = list["data"].as_array().expect("a list").iter().take(5).map(id).collect();
    let change = json!({"url": "https://shop.example/changed"});
    let changes = ids.iter().map(|id| {
        let (path, change) = (format!("/{id}"), change.clone());
        let api = &api;
        async move { ask(api, "PATCH", &path, Some(change)).await }
    });
    let mut answers: Vec<u16> = join_all(changes).await.iter().map(|answer| answer.status).collect();
    answers.sort_unstable();
    assert_eq!(answers, [200, 409, 409, 409, 409]);
}

#[tokio::test]
async fn what_cannot_be_an_endpoint_is_refused_at_its_place_and_nothing_is_kept() {
    let api = Api::start(|_| {}).await;
    let url = "https://shop.example/hook";
    for (body, status, code, pointer) in [
        (json!({}), 400, "missing_field", "/url"),
        (json!({"url": 7}), 400, "wrong_type", "/url"),
        (json!({"url": url, "eventType": []}), 400, "unknown_field", "/eventType"),
        (json!({"url": url, "description": null}), 400, "wrong_type", "/description"),
        (json!({"url": "http://shop.example/hook"}), 422, "invalid_webhook_url", "/url"),
        (json!({"url": "https://user:pass@shop.example/"}), 422, "invalid_webhook_url", "/url"),
        (json!({"url": "https://2852039166/"}), 422, "forbidden_webhook_address", "/url"),
        (json!({"url": "https://[::ffff:10.0.0.1]/"}), 422, "forbidden_webhook_address", "/url"),
        (json!({"url": "https://vault.internal/"}), 422, "forbidden_webhook_address", "/url"),
        (
            json!({"url": url, "eventTypes": ["payment.completed", "webhook.test"]}),
            422,
            "unknown_event_type",
            "/eventTypes/1",
        ),
        (json!({"url": url, "maxConcurrency": 0}), 422, "out_of_range", "/maxConcurrency"),
        (json!({"url": url, "maxConcurrency": 70_000}), 422, "out_of_range", "/maxConcurrency"),
        (json!({"url": url, "description": "a\nb"}), 422, "invalid_character", "/description"),
        (json!({"url": url, "description": "4111 1111 1111 1111"}), 422, "raw_card_number", "/description"),
    ] {
        let answer = ask(&api, "POST", "", Some(body.clone())).await;
        assert_eq!(answer.refusal(), (status, code.into()), "{body}");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{body}");
    }
    assert_eq!(api.one::<i64>("SELECT count(*) FROM webhook_endpoints").await, 0);
}
