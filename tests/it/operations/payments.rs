//! Payments of all clients through the interface: found, looked at, cancelled for a client, and their payee shown.

use super::http::Site;
use crate::support::api::send;
use serde_json::{Value, json};

const ALL: &str = "/v1/ops/payments";

/// A payment of this key's client, due in an hour.
async fn created(site: &Site, key: &str, idempotency_key: &str) -> String {
    let due_at = (chrono::Utc::now() + chrono::TimeDelta::hours(1)).to_rfc3339();
    let body = json!({"payee": "secret-payee", "amount": 1_050, "currency": "EUR", "dueAt": due_at,
        "description": "for Anna", "metadata": {"order": "77"}});
    let request = site.api.anonymous("POST", "/v1/scheduled-payments").bearer_auth(key);
    let made = send(request.header("Idempotency-Key", idempotency_key), Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["paymentId"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn whoever_operates_finds_the_payments_of_all_clients_and_no_payee() {
    let site = Site::new().await;
    let parked = site.parked("k1", 1_250).await;
    let other = site.api.new_key("other shop", &["payments:read", "payments:write"]).await;
    let theirs = created(&site, &other, "o1").await;
    let everything = site.get(&format!("{ALL}?limit=10")).await;
    assert!(!everything.text.contains("secret-payee") && !everything.text.contains("Anna"));
    let everything = everything.json();
    let ids = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().expect("a list");
        data.iter().map(|it| it["paymentId"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(&everything), [theirs.clone(), parked.clone()], "the latest due first");
    assert_eq!((&everything["count"], &everything["countIsAll"]), (&json!(2), &json!(true)));
    let first = site.get(&format!("{ALL}?order=due_first&limit=1")).await.json();
    assert_eq!(ids(&first), std::slice::from_ref(&parked));
    let cursor = first["nextCursor"].as_str().expect("there is more");
    let second = site.get(&format!("{ALL}?order=due_first&limit=1&cursor={cursor}")).await.json();
    assert_eq!((ids(&second), &second["nextCursor"]), (vec![theirs.clone()], &Value::Null));
    let elsewhere = site.get(&format!("{ALL}?limit=1&cursor={cursor}")).await;
    assert_eq!(elsewhere.refusal(), (400, "invalid_cursor".to_owned()), "a cursor belongs to its order");
    let quoted = "actor:%22other%20shop%22";
    for (q, wanted) in [
        (quoted.to_owned(), vec![theirs.clone()]),
        (format!("-{quoted}"), vec![parked.clone()]),
        ("actor:nobody".to_owned(), vec![]),
        ("status:PARKED".to_owned(), vec![parked.clone()]),
        (format!("id:{theirs}"), vec![theirs.clone()]),
        ("ref:ch_none".to_owned(), vec![]),
        ("amount:1251..".to_owned(), vec![]),
    ] {
        assert_eq!(ids(&site.get(&format!("{ALL}?q={q}")).await.json()), wanted, "{q}");
    }
    for (query, told) in [
        ("q=stauts:PARKED", "At character 1: no such name"),
        ("q=amount:1,2", "At character 10: a range takes no list"),
        ("order=newest", "Expected due_first or due_last."),
    ] {
        let refused = site.get(&format!("{ALL}?{query}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter".to_owned()), "{query}");
        let detail = refused.json()["errors"][0]["detail"].as_str().expect("a text").to_owned();
        assert!(detail.starts_with(told), "{query}: {detail}");
    }
}

#[tokio::test]
async fn one_payment_is_shown_whole_whatever_its_state_and_whoever_it_is_of() {
    let site = Site::new().await;
    let id = created(&site, &site.api.key, "k1").await;
    let record = site.get(&format!("{ALL}/{id}")).await;
    assert_eq!(record.status, 200, "{}", record.text);
    assert!(!record.text.contains("secret-payee"), "{}", record.text);
    let record = record.json();
    assert_eq!((&record["status"], &record["actor"]), (&json!("PENDING"), &json!("tester")));
    assert!(record["may"].as_array().expect("a list").iter().all(|may| may["whyNot"] == "not_parked"));
    let history = site.get(&format!("{ALL}/{id}/history")).await.json();
    let own = site.api.request("GET", &format!("/v1/scheduled-payments/{id}/history"));
    assert_eq!(history, send(own, None).await.json(), "as its client has it");
    let deliveries = site.get(&format!("{ALL}/{id}/deliveries")).await.json();
    assert_eq!(deliveries, json!({"data": [], "nextCursor": null}));
    let nobody = "01a2283e-8820-8aaa-9bbb-0123456789ab";
    for path in [format!("{ALL}/{nobody}"), format!("{ALL}/x"), format!("{ALL}/{nobody}/history")] {
        assert_eq!(site.get(&path).await.refusal(), (404, "payment_not_found".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn a_cancel_for_a_client_says_in_the_history_who_did_it_and_why() {
    let site = Site::new().await;
    let id = created(&site, &site.api.key, "k1").await;
    let cancel = format!("{ALL}/{id}/cancel");
    assert_eq!(site.post(&cancel, &json!({})).await.refusal(), (400, "missing_field".to_owned()));
    let why = json!({"reason": "the shop called"});
    let done = site.post(&cancel, &why).await;
    assert_eq!((done.status, &done.json()["status"]), (200, &json!("CANCELLED")), "{}", done.text);
    assert_eq!(done.json()["statusReason"], "cancelled_by_operator");
    let again = site.post(&cancel, &why).await;
    assert_eq!(again.status, 200, "a repeated cancel has the same answer: {}", again.text);
    let history = site.api.request("GET", &format!("/v1/scheduled-payments/{id}/history"));
    let history = send(history, None).await.json();
    let rows = history["data"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{history}");
    assert_eq!((&rows[1]["cause"], &rows[1]["by"]), (&json!("cancelled"), &json!("key:alice")));
    assert_eq!(rows[1]["detail"], json!({"reason": "the shop called"}));
    let acts = site.get(&format!("/v1/ops/acts?subject={id}")).await.json();
    let acts = acts["data"].as_array().expect("acts");
    assert_eq!((acts.len(), &acts[0]["act"]), (1, &json!("cancel")), "only what was done is on record");
    let parked = site.parked("k2", 1_250).await;
    let refused = site.post(&format!("{ALL}/{parked}/cancel"), &why).await;
    assert_eq!(refused.refusal(), (409, "PARKED".to_owned()));
    assert_eq!(refused.json()["paymentStatus"], "PARKED");
}

#[tokio::test]
async fn a_payee_is_shown_by_an_act_that_is_on_record_before_it_is_answered() {
    let site = Site::new().await;
    let id = created(&site, &site.api.key, "k1").await;
    let path = format!("{ALL}/{id}/payee");
    assert_eq!(site.post(&path, &json!({})).await.refusal(), (400, "missing_field".to_owned()));
    let shown = site.post(&path, &json!({"reason": "the bank asks who was paid"})).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    let wanted = json!({"paymentId": id, "payee": "secret-payee", "description": "for Anna",
        "metadata": {"order": "77"}});
    assert_eq!(shown.json(), wanted);
    let acts = site.get(&format!("/v1/ops/acts?subject={id}")).await;
    assert!(!acts.text.contains("secret-payee"), "{}", acts.text);
    let act = acts.json()["data"][0].clone();
    assert_eq!((&act["act"], &act["operator"]), (&json!("show_payee"), &json!("key:alice")));
    assert_eq!(act["reason"], "the bank asks who was paid");
    let nobody = format!("{ALL}/01a2283e-8820-8aaa-9bbb-0123456789ab/payee");
    let nobody = site.post(&nobody, &json!({"reason": "x"})).await;
    assert_eq!(nobody.refusal(), (404, "payment_not_found".to_owned()));
    let reader = site.api.new_key("reader", &["ops:read"]).await;
    let refused = site.post_as(&reader, &path, &json!({"reason": "curious"})).await;
    assert_eq!(refused.refusal(), (403, "missing_scope".to_owned()));
}

#[tokio::test]
async fn what_is_parked_is_counted_by_reason_and_gateway() {
    let site = Site::new().await;
    for key in ["k1", "k2", "k3"] {
        site.parked(key, 1_250).await;
    }
    let counts = site.get("/v1/ops/parked-counts").await.json();
    assert_eq!((&counts["count"], &counts["countIsAll"]), (&json!(3), &json!(true)));
    let only = &counts["data"][0];
    assert_eq!((&only["parkedReason"], &only["count"]), (&json!("outcome_unknown"), &json!(3)), "{counts}");
    assert!(only["explanation"].as_str().expect("a sentence").ends_with('.'), "{counts}");
    let q = "amount:..1249%20-reason:poisoned";
    assert_eq!(site.get(&format!("/v1/ops/parked?q={q}")).await.json()["data"], json!([]));
    let q = "amount:1250%20-reason:poisoned%20status:PARKED";
    assert_eq!(
        site.get(&format!("/v1/ops/parked?q={q}")).await.json()["data"].as_array().map(Vec::len),
        Some(3)
    );
    for q in ["ref:x", "status:FAILED", "stauts:PARKED"] {
        let refused = site.get(&format!("/v1/ops/parked?q={q}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter".to_owned()), "{q}");
    }
}
