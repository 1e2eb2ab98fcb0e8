//! What operators order over the REST interface: gateways and kill switches.

use crate::support::api::{Answer, Api, send};
use punctual::domain::facts::VoidSupport;
use punctual::domain::ids::GatewayName;
use punctual::schedule::{Access, Postgres, connect};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

struct Site {
    api: Api,
    key: String,
    worker: Postgres,
}

impl Site {
    async fn start(scopes: &[&str]) -> Self {
        let api = Api::start(|_| {}).await;
        let key = api.new_key("operator", scopes).await;
        let settings = punctual::platform::config::Database {
            url: api.database.url.as_str().into(),
            pool: 2,
            ..Default::default()
        };
        let worker = connect(&settings, Access::Worker).await.expect("a worker connects");
        let name = GatewayName("sandbox".into());
        worker.register_gateway(&name, "sandbox-1", VoidSupport::None).await.expect("registered");
        Self { api, key, worker }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        send(self.api.anonymous(method, path).bearer_auth(&self.key), body.as_ref()).await
    }
}

#[tokio::test]
async fn a_gateway_is_paused_and_resumed_with_a_reason_by_who_may() {
    let site = Site::start(&["ops:read", "gateways:write"]).await;
    let pause = "/v1/ops/gateways/sandbox/pause";
    let refused = send(site.api.request("POST", pause), Some(&json!({"reason": "x"}))).await;
    assert_eq!(refused.refusal(), (403, "missing_scope".into()));
    assert_eq!(site.ask("POST", pause, Some(json!({}))).await.refusal(), (400, "missing_field".into()));
    let nowhere = site.ask("POST", "/v1/ops/gateways/nowhere/pause", Some(json!({"reason": "x"}))).await;
    assert_eq!(nowhere.refusal(), (404, "gateway_not_found".into()));

    let paused = site.ask("POST", pause, Some(json!({"reason": "they asked us to"}))).await;
    assert_eq!(paused.status, 200, "{}", paused.text);
    let told = paused.json();
    assert_eq!(
        (&told["status"], &told["paused"]["by"]),
        (&json!("paused"), &json!("key:operator")),
        "{told}"
    );
    assert_eq!(told["paused"]["reason"], json!("they asked us to"));
    let listed = site.ask("GET", "/v1/ops/gateways", None).await.json();
    assert_eq!(listed["data"][0], told);

    let resumed =
        site.ask("POST", "/v1/ops/gateways/sandbox/resume", Some(json!({"reason": "they are back"}))).await;
    assert_eq!(
        (resumed.json()["status"].clone(), resumed.json()["paused"].clone()),
        (json!("open"), Value::Null)
    );

    let rate = json!({"callsPerSecond": 5, "reason": "slowly"});
    let unpaced = site.ask("PUT", "/v1/ops/gateways/sandbox/rate", Some(rate)).await;
    assert_eq!(unpaced.refusal(), (409, "rate_not_settable".into()), "no rate is configured");
    let rate = json!({"callsPerSecond": 5, "reason": "slowly"});
    let nowhere = site.ask("PUT", "/v1/ops/gateways/nowhere/rate", Some(rate)).await;
    assert_eq!(nowhere.refusal(), (404, "gateway_not_found".into()));
    let back = json!({"reason": "as configured"});
    assert_eq!(site.ask("PUT", "/v1/ops/gateways/sandbox/rate", Some(back)).await.status, 200);
}

#[tokio::test]
async fn a_kill_switch_is_thrown_and_released_by_who_may_and_is_shown_while_it_is_thrown() {
    let site = Site::start(&["ops:read", "gateways:write"]).await;
    let switch = async |key: &str, path: &str, on: bool| {
        let body = json!({"on": on, "reason": "something is wrong"});
        let path = format!("/v1/ops/kill-switches/{path}");
        send(site.api.anonymous("PUT", &path).bearer_auth(key), Some(&body)).await
    };
    for path in ["global/all", "actor/tester"] {
        assert_eq!(switch(&site.key, path, true).await.refusal(), (403, "missing_scope".into()), "{path}");
    }
    for path in ["gateway/nowhere", "currency/eur", "payment/7", "global/some"] {
        let admin = site.api.new_key("boss", &["gateways:write", "admin"]).await;
        assert_eq!(switch(&admin, path, true).await.refusal(), (404, "nothing_to_switch".into()), "{path}");
    }
    let thrown = switch(&site.key, "gateway/sandbox", true).await;
    assert_eq!(thrown.status, 200, "{}", thrown.text);
    assert_eq!((&thrown.json()["on"], &thrown.json()["by"]), (&json!(true), &json!("key:operator")));
    let admin = site.api.new_key("chief", &["gateways:write", "admin"]).await;
    let actor = switch(&admin, "actor/tester", true).await;
    assert_eq!(actor.status, 200, "{}", actor.text);

    let listed = site.ask("GET", "/v1/ops/kill-switches", None).await.json();
    let kinds: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, [&json!("gateway"), &json!("actor")]);
    assert_eq!(listed["data"][1]["actor"], json!("tester"));
    let gateways = site.ask("GET", "/v1/ops/gateways", None).await.json();
    assert_eq!(gateways["data"][0]["status"], json!("killed"), "{gateways}");

    for (key, path) in [(&site.key, "gateway/sandbox"), (&admin, "actor/tester")] {
        let released = switch(key, path, false).await;
        assert_eq!((released.status, &released.json()["on"]), (200, &json!(false)), "{path}");
    }
    let listed = site.ask("GET", "/v1/ops/kill-switches", None).await.json();
    assert_eq!(listed["data"], json!([]));
    drop(site.worker);
}

/// A payment of the tester's, charged as far as the database knows.
async fn charged(site: &Site) -> String {
    let due_at = (chrono::Utc::now() + chrono::TimeDelta::seconds(3_600)).to_rfc3339();
    let body = json!({"payee": "sim_ok", "amount": 1_000, "currency": "EUR", "dueAt": due_at});
    let created = site.api.post("paid", &body).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let id = created.json()["paymentId"].as_str().expect("an id").to_owned();
    let mut sql = PgConnection::connect(&site.api.database.url).await.expect("a connection");
    let paid = format!("UPDATE payments SET status = 'COMPLETED', gateway_ref = 'ch_1' WHERE id = '{id}'");
    sqlx::query(AssertSqlSafe(paid)).execute(&mut sql).await.expect("paid");
    id
}

#[tokio::test]
async fn a_refund_is_asked_for_once_a_key_and_allowed_by_another_person() {
    let site = Site::start(&["ops:refund"]).await;
    site.worker.register_refunds(&GatewayName("sandbox".into()), true).await.expect("registered");
    let id = charged(&site).await;
    let ask = async |key: &str, body: Value| {
        let request = site.api.anonymous("POST", "/v1/ops/refunds").bearer_auth(&site.key);
        let request = if key.is_empty() { request } else { request.header("Idempotency-Key", key) };
        send(request, Some(&body)).await
    };
    let body = json!({"paymentId": id, "gatewayReference": "ch_1", "amount": 400, "reason": "sent back"});
    let with = |name: &str, value: Value| {
        let mut other = body.clone();
        other[name] = value;
        other
    };
    for (key, body, refusal) in [
        ("", body.clone(), (400, "missing_idempotency_key")),
        ("r0", with("amount", json!(0)), (422, "amount_not_positive")),
        ("r0", with("amount", json!(1.5)), (400, "wrong_type")),
        ("r0", with("amount", json!(1_001)), (409, "refund_above_charge")),
        ("r0", with("gatewayReference", json!("ch_2")), (409, "reference_unknown")),
        ("r0", with("paymentId", json!("nobody's")), (404, "payment_not_found")),
        ("r0", with("reason", json!("")), (422, "empty")),
        ("r0", with("more", json!(1)), (400, "unknown_field")),
    ] {
        let (status, code) = ask(key, body.clone()).await.refusal();
        assert_eq!((status, code.as_str()), refusal, "{body}");
    }
    let asked = ask("r1", body.clone()).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    let told = asked.json();
    assert_eq!(
        (&told["status"], &told["amount"], &told["askedBy"]),
        (&json!("asked"), &json!(400), &json!("key:operator"))
    );
    let refund = told["refundId"].as_str().expect("an id").to_owned();
    assert_eq!(asked.header("location"), format!("/v1/ops/refunds/{refund}"));
    let again = ask("r1", with("reason", json!("in other words"))).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (202, "true"));
    assert_eq!(again.json(), told);
    assert_eq!(ask("r1", with("amount", json!(401))).await.refusal(), (409, "idempotency_key_reused".into()));

    let approve = format!("/v1/ops/approvals/{}/approve", told["approvalId"].as_str().expect("an id"));
    let decide = async |key: &str| {
        let request = site.api.anonymous("POST", &approve).bearer_auth(key);
        send(request, Some(&json!({"reason": "seen the parcel"}))).await
    };
    // Another key of the same client is the same person.
    let same = site.api.new_key("operator", &["ops:approve"]).await;
    assert_eq!(decide(&same).await.refusal(), (403, "same_person".into()));
    let other = site.api.new_key("boss", &["ops:approve"]).await;
    let allowed = decide(&other).await;
    assert_eq!(allowed.status, 200, "{}", allowed.text);

    let shown = site.ask("GET", &format!("/v1/ops/refunds/{refund}"), None).await.json();
    assert_eq!((&shown["status"], &shown["approvedBy"]), (&json!("approved"), &json!("key:boss")), "{shown}");
    let listed = site.ask("GET", &format!("/v1/ops/refunds?paymentId={id}"), None).await.json();
    assert_eq!(listed["data"], json!([shown]));
    let nowhere = site.ask("GET", "/v1/ops/refunds/0190f3c1-0000-7000-8000-0000000000ab", None).await;
    assert_eq!(nowhere.refusal(), (404, "refund_not_found".into()));
    assert_eq!(decide(&other).await.refusal(), (409, "approval_decided".into()));
}
