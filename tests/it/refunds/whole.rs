//! Whole: processes, real Kafka, the sandbox's own ledger, everything ordered over the interface.

use crate::support::audit::audit;
use crate::support::installation::Installation;
use crate::support::people::{Console, DECIDES};
use crate::support::{eventually, records};
use chrono::{TimeDelta, Utc};
use punctual::audit::{Valid, check};
use serde_json::{Value, json};
use std::time::Duration;

const SECONDS: Duration = Duration::from_secs(1);

fn key(site: &Installation, actor: &str, scopes: &[&str]) -> String {
    let mut command = vec!["keys", "create", "--actor", actor, "-o", "json"];
    scopes.iter().for_each(|scope| command.extend(["--scope", scope]));
    let made: Value = serde_json::from_str(&site.run(&command)).expect("JSON of the key");
    made["apiKey"].as_str().expect("the key's text").to_owned()
}

async fn ask(site: &Installation, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let method = method.parse().expect("a method");
    let request = site.http.request(method, format!("{}{path}", site.url("api-1"))).bearer_auth(key);
    let request = request.header("Content-Type", "application/json").header("Idempotency-Key", "refund-1");
    let answer = request.body(body.to_string()).send().await.expect("the API answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn begun(settings: &[(&str, &str)]) -> Installation {
    let mut site = Installation::new(settings).await;
    for (role, name) in [("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")] {
        site.start(role, name, &[]).await;
    }
    site
}

#[tokio::test]
async fn a_refund_is_asked_for_allowed_and_given_back_by_processes_and_the_audit_agrees() {
    let settings =
        [("gateway.refunds", "true"), ("gateway.total_timeout", "1s"), ("gateway.connect_timeout", "1s")];
    let mut site = begun(&settings).await;
    let (alice, bob) =
        (key(&site, "alice", &["ops:refund"]), key(&site, "bob", &["ops:approve", "ops:read"]));
    // The first answer about the refund is lost.
    let id = site.create("paid", "sim_refund_timeout", Utc::now() + TimeDelta::seconds(1)).await;
    let paid = site.settled(&id, &["COMPLETED"], 60 * SECONDS).await;
    let body = json!({"paymentId": id, "gatewayReference": paid["gatewayReference"], "reason": "sent back"});
    let (status, asked) = ask(&site, &alice, "POST", "/v1/ops/refunds", &body).await;
    assert_eq!(status, 202, "{asked}");
    let approve = format!("/v1/ops/approvals/{}/approve", asked["approvalId"].as_str().expect("an id"));
    let (status, allowed) = ask(&site, &bob, "POST", &approve, &json!({"reason": "seen"})).await;
    assert_eq!(status, 200, "{allowed}");

    site.settled(&id, &["REFUNDED"], 60 * SECONDS).await;
    let path = format!("/v1/ops/refunds/{}", asked["refundId"].as_str().expect("an id"));
    let (_, refund) = ask(&site, &alice, "GET", &path, &Value::Null).await;
    assert_eq!((&refund["status"], &refund["openSends"]), (&json!("refunded"), &json!(0)), "{refund}");
    let ledger = site.ledger().await;
    let given = ledger.iter().filter(|line| line["verdict"] == "refunded").count();
    assert_eq!((given, ledger.iter().filter(|line| line["charged"] == true).count()), (1, 1), "{ledger:?}");

    site.role("worker-1").drain(20 * SECONDS).await;
    let read = records::read(&site.database, &ledger, Vec::new(), None).await;
    let config = records::config(settings);
    let checked = check(&read, &punctual::audit::Rules::of(&config, 60 * SECONDS));
    let broken: Vec<_> = checked.iter().filter(|it| it.valid() == Valid::False).collect();
    assert!(broken.is_empty(), "{broken:?}");
    let m10 = checked.iter().find(|it| it.invariant.id() == "M10").expect("asked");
    assert_eq!(m10.valid(), Valid::True, "{m10:?}");
}

/// What nobody may do about a charge of another amount.
async fn only_giving_it_back_is_left(alice: &Console, id: &str, reference: &str) {
    let shown = alice.get(&format!("/v1/ops/parked/{id}")).await;
    let evidence = &shown.body["evidence"];
    assert_eq!(
        (&evidence["reference"], &evidence["amountMinor"], &evidence["currency"]),
        (&json!(reference), &json!(1_251), &json!("EUR")),
        "{shown:?}"
    );
    let acts = shown.body["may"].as_array().expect("acts");
    assert!(acts.len() == 4 && acts.iter().all(|act| act["possible"] == false), "{acts:?}");
    let released = [alice.redrive(id).await, alice.new_epoch(id).await, alice.resolve_not_charged(id).await];
    assert!(released.iter().all(|said| said.is(409, "charge_on_record")), "{released:?}");
    for amount in [1_250, 1_251] {
        let said = alice.resolve_charged(id, reference, amount).await;
        assert!(said.is(422, "evidence_differs"), "{amount}: {said:?}");
    }
    let above = alice.refund("above", id, reference, Some(1_252)).await;
    assert!(above.is(409, "refund_above_charge"), "{above:?}");
    let unknown = alice.refund("unknown", id, "ch_0", None).await;
    assert!(unknown.body["code"] == "reference_unknown", "{unknown:?}");
}

#[tokio::test]
async fn a_charge_of_another_amount_is_held_with_what_it_took_and_two_people_give_all_of_it_back() {
    let mut site = begun(&[("gateway.refunds", "true")]).await;
    let (alice, bob) =
        (Console::of(&site, "alice", &DECIDES, "api-1"), Console::of(&site, "bob", &DECIDES, "api-1"));
    let id = site.create("paid", "sim_wrong_amount", Utc::now() + TimeDelta::seconds(1)).await;
    let parked = site.settled(&id, &["PARKED"], 60 * SECONDS).await;
    assert_eq!(parked["statusReason"], "contract_violation", "{parked}");
    let reference = parked["gatewayReference"].as_str().expect("the charge's name").to_owned();
    only_giving_it_back_is_left(&alice, &id, &reference).await;

    let asked = alice.refund("whole", &id, &reference, None).await;
    assert_eq!((asked.status, &asked.body["amount"]), (202, &json!(1_251)), "{asked:?}");
    let approval = asked.text("approvalId");
    let alone = alice.approve(&approval).await;
    assert!(alone.body["code"] == "same_person", "{alone:?}");
    let allowed = bob.approve(&approval).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    site.settled(&id, &["REFUNDED"], 60 * SECONDS).await;

    let ledger = site.ledger().await;
    let charged: Vec<_> = ledger.iter().filter(|line| line["charged"] == true).collect();
    assert_eq!(charged.len(), 1, "{ledger:?}");
    assert_eq!(
        (&charged[0]["amount"], &charged[0]["taken"]),
        (&json!(1_250), &json!({"amount": 1_251, "currency": "EUR"}))
    );
    let given: Vec<_> = ledger.iter().filter(|line| line["verdict"] == "refunded").collect();
    assert_eq!((given.len(), &given[0]["amount"]), (1, &json!(1_251)), "{ledger:?}");
    // After all of that it was seen once.
    let metrics = site.text("worker-1", "/metrics").await.expect("the worker serves");
    let series = "punctual_invariant_violations_total{invariant=\"M4\"} 1";
    assert!(metrics.lines().any(|line| line == series), "{metrics}");
    site.role("worker-1").drain(20 * SECONDS).await;
    let audited = audit(&site, None);
    assert!(audited.holds(), "{audited:?}");
}

#[tokio::test]
async fn a_kill_switch_stops_a_running_worker_and_all_of_it_is_paid_once_it_is_released() {
    let site = begun(&[]).await;
    let boss = key(&site, "boss", &["gateways:write", "admin", "ops:read"]);
    for path in ["gateway/sandbox", "currency/EUR", "actor/tester", "global/all"] {
        let path = format!("/v1/ops/kill-switches/{path}");
        let thrown = json!({"on": true, "reason": "a rehearsal"});
        let (status, answer) = ask(&site, &boss, "PUT", &path, &thrown).await;
        assert_eq!(status, 200, "{answer}");
        let soon = Utc::now() + TimeDelta::milliseconds(300);
        let ids = [
            site.create(&format!("{path}-1"), "sim_ok", soon).await,
            site.create(&format!("{path}-2"), "sim_ok", soon).await,
        ];
        tokio::time::sleep(3 * SECONDS).await;
        for id in &ids {
            let (_, stands) = site.get(id).await.expect("the API answers");
            assert_eq!(
                (&stands["status"], &stands["attempts"]),
                (&json!("PENDING"), &json!([])),
                "{path}: {stands}"
            );
        }
        let released = json!({"on": false, "reason": "over"});
        let (status, answer) = ask(&site, &boss, "PUT", &path, &released).await;
        assert_eq!(status, 200, "{answer}");
        for id in &ids {
            site.settled(id, &["COMPLETED"], 90 * SECONDS).await;
        }
    }
    eventually("the ledger", 10 * SECONDS, || async {
        (site.ledger().await.iter().filter(|line| line["charged"] == true).count() == 8).then_some(())
    })
    .await;
}
