//! The people's routes on a real database: scopes, pages, records, refusals, approvals, bulk re-drives.

use super::parks;
use crate::schedule::world::{fresh, settings, terms};
use crate::support::api::{Answer, Api, send};
use crate::support::proxy::Fault;
use punctual::domain::reason::Reason;
use punctual::schedule::{Access, BulkTerms, Claimed, Postgres, Schedule, connect};
use serde_json::{Value, json};
use std::time::Duration;

/// An interface whose payments a test parks, and two people.
pub(crate) struct Site {
    pub(crate) api: Api,
    pub(crate) worker: Postgres,
    pub(crate) alice: String,
    pub(crate) bob: String,
}

const PEOPLE: [&str; 3] = ["ops:read", "ops:redrive", "ops:approve"];

impl Site {
    pub(crate) async fn new() -> Self {
        let api = Api::start(|api| api.due_grace = Duration::from_secs(3_600)).await;
        let worker = connect(&settings(&api.database.url), Access::Worker).await.expect("a worker connects");
        let (alice, bob) = (api.new_key("alice", &PEOPLE).await, api.new_key("bob", &PEOPLE).await);
        Self { api, worker, alice, bob }
    }

    pub(crate) async fn claimed(&self, key: &str, amount: i64) -> Claimed {
        let due_at = (chrono::Utc::now() - chrono::TimeDelta::seconds(5)).to_rfc3339();
        let body = json!({"payee": "secret-payee", "amount": amount, "currency": "EUR", "dueAt": due_at});
        let created = self.api.post(key, &body).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let mut late =
            self.worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(1)).await.expect("an answer");
        late.remove(0)
    }

    /// A payment that is parked with an open send; its id.
    pub(crate) async fn parked(&self, key: &str, amount: i64) -> String {
        let claimed = self.claimed(key, amount).await;
        let id = claimed.payment().id.to_string();
        let settled = self.worker.settle(vec![parks(claimed, Reason::OutcomeUnknown)]).await;
        settled.map_err(|failed| failed.error).expect("parked");
        id
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.api.anonymous("GET", path).bearer_auth(&self.alice), None).await
    }

    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value) -> Answer {
        send(self.api.anonymous("POST", path).bearer_auth(key), Some(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_as(&self.alice, path, body).await
    }
}

fn redrive(id: &str) -> String {
    format!("/v1/ops/parked/{id}/redrive")
}

fn resolve(id: &str) -> String {
    format!("/v1/ops/parked/{id}/resolve")
}

fn why() -> Value {
    json!({"reason": "the gateway is back"})
}

#[tokio::test]
async fn every_route_needs_the_scope_of_its_kind() {
    let site = Site::new().await;
    let id = site.parked("k1", 1_250).await;
    let bulk = "/v1/ops/bulk-redrives/00000000-0000-4000-8000-000000000000";
    let approval = "/v1/ops/approvals/00000000-0000-4000-8000-000000000000";
    for (method, path, scope) in [
        ("GET", "/v1/ops/parked".to_owned(), "ops:read"),
        ("GET", format!("/v1/ops/parked/{id}"), "ops:read"),
        ("GET", bulk.to_owned(), "ops:read"),
        ("GET", "/v1/ops/bulk-redrives".to_owned(), "ops:read"),
        ("GET", "/v1/ops/parked-counts".to_owned(), "ops:read"),
        ("GET", "/v1/ops/payments".to_owned(), "ops:read"),
        ("GET", format!("/v1/ops/payments/{id}"), "ops:read"),
        ("GET", format!("/v1/ops/payments/{id}/history"), "ops:read"),
        ("GET", format!("/v1/ops/payments/{id}/deliveries"), "ops:read"),
        ("POST", format!("/v1/ops/payments/{id}/cancel"), "ops:redrive"),
        ("POST", format!("/v1/ops/payments/{id}/payee"), "ops:redrive"),
        ("GET", "/v1/ops/approvals".to_owned(), "ops:read"),
        ("GET", approval.to_owned(), "ops:read"),
        ("GET", "/v1/ops/acts".to_owned(), "ops:read"),
        ("POST", redrive(&id), "ops:redrive"),
        ("POST", resolve(&id), "ops:redrive"),
        ("POST", "/v1/ops/bulk-redrives".to_owned(), "ops:redrive"),
        ("POST", format!("{bulk}/start"), "ops:redrive"),
        ("POST", format!("{bulk}/stop"), "ops:redrive"),
        ("POST", format!("{approval}/approve"), "ops:approve"),
        ("POST", format!("{approval}/reject"), "ops:approve"),
    ] {
        let all = ["payments:read", "payments:write", "ops:read", "ops:redrive", "ops:approve", "admin"];
        let but: Vec<&str> = all.into_iter().filter(|held| *held != scope).collect();
        let key = site.api.new_key(&format!("without {scope}"), &but).await;
        let body = (method == "POST").then(why);
        let refused = send(site.api.anonymous(method, &path).bearer_auth(&key), body.as_ref()).await;
        assert_eq!(refused.refusal(), (403, "missing_scope".to_owned()), "{method} {path}");
        assert!(refused.header("www-authenticate").contains(scope), "{method} {path}");
        let stranger = send(site.api.anonymous(method, &path), body.as_ref()).await;
        assert_eq!(stranger.status, 401, "{method} {path}");
    }
    let stands = site.get(&format!("/v1/ops/parked/{id}")).await;
    assert_eq!(stands.status, 200, "nothing of that happened: {}", stands.text);
}

#[tokio::test]
async fn the_list_has_pages_and_filters_and_one_record_has_all_that_is_known() {
    let site = Site::new().await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(site.parked(&format!("k{n}"), 1_250).await);
    }
    ids.sort();
    let mut walked = Vec::new();
    let mut path = "/v1/ops/parked?limit=2&actor=tester&reason=outcome_unknown".to_owned();
    loop {
        let page = site.get(&path).await.json();
        walked.extend(page["data"].as_array().expect("a list").iter().cloned());
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/ops/parked?limit=2&actor=tester&reason=outcome_unknown&cursor={cursor}");
        let elsewhere = site.get(&format!("/v1/ops/parked?limit=2&cursor={cursor}")).await;
        assert_eq!(elsewhere.refusal(), (400, "invalid_cursor".to_owned()));
    }
    let found: Vec<&str> = walked.iter().filter_map(|entry| entry["paymentId"].as_str()).collect();
    assert_eq!(found, ids);
    assert_eq!((&walked[0]["actor"], &walked[0]["amount"]), (&json!("tester"), &json!(1_250)));
    for (query, code) in [
        ("?raeson=x", "unknown_parameter"),
        ("?reason=x", "invalid_parameter"),
        ("?gateway=A", "invalid_parameter"),
        ("?dueFrom=today", "invalid_time"),
        ("?limit=0", "invalid_parameter"),
    ] {
        assert_eq!(
            site.get(&format!("/v1/ops/parked{query}")).await.refusal(),
            (400, code.to_owned()),
            "{query}"
        );
    }
    assert_eq!(site.get("/v1/ops/parked?actor=nobody").await.json()["data"], json!([]));

    let record = site.get(&format!("/v1/ops/parked/{}", ids[0])).await;
    assert!(!record.text.contains("secret-payee"), "{}", record.text);
    let record = record.json();
    assert_eq!((&record["parkedReason"], &record["openSends"]), (&json!("outcome_unknown"), &json!(1)));
    assert_eq!(record["evidence"]["code"], "timed_out", "{record}");
    assert_eq!(record["attempts"][0]["outcome"], "unknown", "{record}");
    let may: Vec<(bool, &str)> = record["may"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|may| (may["possible"].as_bool().expect("a word"), may["whyNot"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(may, [(true, ""), (false, "open_send"), (true, ""), (false, "open_send")]);
    let unknown = site.get("/v1/ops/parked/01a2283e-8820-8aaa-9bbb-0123456789ab").await;
    assert_eq!(unknown.refusal(), (404, "payment_not_found".to_owned()));
}

#[tokio::test]
async fn a_redrive_answers_with_the_payment_and_a_second_one_with_what_it_lost_to() {
    let site = Site::new().await;
    let id = site.parked("k1", 1_250).await;
    for (body, refusal) in [
        (json!({}), (400, "missing_field")),
        (json!({"reason": "x", "force": true}), (400, "unknown_field")),
        (json!({"reason": "4111 1111 1111 1111"}), (422, "raw_card_number")),
        (json!({"reason": "x", "newEpoch": "yes"}), (400, "wrong_type")),
        (json!({"reason": "x", "newEpoch": true}), (409, "open_send")),
        (json!({"reason": "x", "version": 1}), (409, "payment_changed")),
    ] {
        let refused = site.post(&redrive(&id), &body).await.refusal();
        assert_eq!(refused, (refusal.0, refusal.1.to_owned()), "{body}");
    }
    let done = site.post(&redrive(&id), &why()).await;
    assert_eq!((done.status, &done.json()["status"]), (200, &json!("UNKNOWN")), "{}", done.text);
    let again = site.post(&redrive(&id), &why()).await;
    assert_eq!(again.refusal(), (409, "not_parked".to_owned()));
    assert_eq!(again.json()["paymentStatus"], "UNKNOWN");
    assert_eq!(site.get(&format!("/v1/ops/parked/{id}")).await.refusal(), (409, "not_parked".to_owned()));
    let acts = site.get(&format!("/v1/ops/acts?subject={id}")).await.json();
    assert_eq!(acts["data"][0]["operator"], "key:alice", "{acts}");
    assert_eq!(acts["data"][0]["reason"], "the gateway is back", "{acts}");
    // The client sees it in its own history, and who did it.
    let history = site.api.request("GET", &format!("/v1/scheduled-payments/{id}/history"));
    let history = send(history, None).await.json();
    let last = history["data"].as_array().expect("rows").last().expect("a row").clone();
    assert_eq!((&last["cause"], &last["by"]), (&json!("redriven"), &json!("key:alice")));
}

#[tokio::test]
async fn a_large_amount_waits_for_a_second_person_who_decides_once() {
    let site = Site::new().await;
    let id = site.parked("k1", 100_001).await;
    let may = site.get(&format!("/v1/ops/parked/{id}")).await.json()["may"][0].clone();
    assert_eq!((&may["possible"], &may["needsApproval"]), (&json!(true), &json!(true)));
    let asked = site.post(&redrive(&id), &why()).await;
    assert_eq!((asked.status, &asked.json()["kind"]), (202, &json!("redrive")), "{}", asked.text);
    let asked = asked.json();
    let again = site.post_as(&site.bob, &redrive(&id), &why()).await;
    assert_eq!((again.status, &again.json()["approvalId"]), (202, &asked["approvalId"]), "asked once");
    let waiting = site.get("/v1/ops/approvals?status=pending").await.json();
    assert_eq!(waiting["data"][0]["approvalId"], asked["approvalId"], "{waiting}");
    assert_eq!(
        site.get(&format!("/v1/ops/parked/{id}")).await.json()["approval"]["approvalId"],
        asked["approvalId"]
    );

    let approval = format!("/v1/ops/approvals/{}", asked["approvalId"].as_str().expect("an id"));
    let (approve, reject) = (format!("{approval}/approve"), format!("{approval}/reject"));
    // Another key of the same client is the same person.
    let second_key = site.api.new_key("alice", &PEOPLE).await;
    for key in [&site.alice, &second_key] {
        let same = site.post_as(key, &approve, &json!({"reason": "yes"})).await;
        assert_eq!(same.refusal(), (403, "same_person".to_owned()));
    }
    let done = site.post_as(&site.bob, &approve, &json!({"reason": "looked at"})).await;
    assert_eq!((done.status, &done.json()["status"]), (200, &json!("approved")), "{}", done.text);
    let over = site.post_as(&site.bob, &reject, &json!({"reason": "no"})).await;
    assert_eq!(over.refusal(), (409, "approval_decided".to_owned()));
    assert_eq!(site.get(&approval).await.json()["decidedBy"], "key:bob");
    let payment = site.api.payment("GET", &id).await.json();
    assert_eq!((&payment["status"], &payment["statusReason"]), (&json!("UNKNOWN"), &json!("redriven")));
    let nothing = "/v1/ops/approvals/nothing/approve";
    assert_eq!(site.post(nothing, &why()).await.refusal(), (404, "approval_not_found".to_owned()));
}

#[tokio::test]
async fn a_list_whose_cursor_cannot_be_looked_up_says_so_and_does_not_call_it_wrong() {
    let site = Site::new().await;
    let behind = "/v1/ops/approvals?cursor=00000000-0000-4000-8000-000000000000";
    for cursor in [behind, "/v1/ops/approvals?cursor=x"] {
        assert_eq!(site.get(cursor).await.refusal(), (400, "invalid_cursor".to_owned()));
    }
    site.api.proxy.set(Fault::Reset).await;
    let away = site.get(behind).await;
    assert_eq!(away.refusal(), (503, "database_unavailable".to_owned()));
}

#[tokio::test]
async fn a_resolution_needs_evidence_that_fits() {
    let site = Site::new().await;
    let id = site.parked("k1", 1_250).await;
    let charged = |evidence: Value| json!({"reason": "seen", "as": "charged", "evidence": evidence});
    for (body, refusal) in [
        (json!({"reason": "seen"}), (400, "missing_field")),
        (
            json!({"reason": "seen", "as": "lost", "evidence": {"source": "dashboard"}}),
            (422, "unknown_choice"),
        ),
        (json!({"reason": "seen", "as": "charged"}), (400, "missing_field")),
        (
            charged(json!({"gatewayReference": "ch_1", "amount": 1_250, "currency": "EUR"})),
            (400, "missing_field"),
        ),
        (charged(json!({"source": "dashboard", "amount": 1_250, "currency": "EUR"})), (400, "missing_field")),
        (
            charged(
                json!({"source": "dashboard", "gatewayReference": "ch_1", "amount": 1_251, "currency": "EUR"}),
            ),
            (422, "evidence_differs"),
        ),
        (
            charged(
                json!({"source": "dashboard", "gatewayReference": "ch_1", "amount": 1_250, "currency": "USD"}),
            ),
            (422, "evidence_differs"),
        ),
        (
            charged(
                json!({"source": "dashboard", "gatewayReference": "ch_1 ", "amount": 1_250, "currency": "EUR"}),
            ),
            (422, "invalid_character"),
        ),
        (
            json!({"reason": "seen", "as": "not_charged", "evidence": {"source": "dashboard"}}),
            (409, "open_send"),
        ),
    ] {
        let refused = site.post(&resolve(&id), &body).await.refusal();
        assert_eq!(refused, (refusal.0, refusal.1.to_owned()), "{body}");
    }
    let fits = json!({"source": "dashboard", "gatewayReference": "ch_1", "amount": 1_250, "currency": "EUR"});
    let done = site.post(&resolve(&id), &charged(fits.clone())).await;
    assert_eq!((done.status, &done.json()["status"]), (200, &json!("COMPLETED")), "{}", done.text);
    assert_eq!(site.api.payment("GET", &id).await.json()["gatewayReference"], "ch_1");
    let other = site.parked("k2", 1_250).await;
    let taken = site.post(&resolve(&other), &charged(fits)).await;
    assert_eq!(taken.refusal(), (409, "reference_taken".to_owned()));
}

#[tokio::test]
async fn a_bulk_redrive_is_made_stopped_started_and_counted() {
    let site = Site::new().await;
    for (key, amount) in [("k1", 1_250), ("k2", 1_250), ("k3", 100_001)] {
        site.parked(key, amount).await;
    }
    let bulks = "/v1/ops/bulk-redrives";
    for (body, refusal) in [
        (json!({"reason": "x", "ratePerS": 5}), (400, "missing_field")),
        (json!({"reason": "x", "filter": {"raeson": "x"}, "ratePerS": 5}), (400, "unknown_field")),
        (json!({"reason": "x", "filter": {"reason": "x"}, "ratePerS": 5}), (422, "unknown_choice")),
        (json!({"reason": "x", "filter": {}, "ratePerS": 0}), (422, "out_of_range")),
        (json!({"filter": {}, "ratePerS": 5}), (400, "missing_field")),
        // What can match nothing is not what was meant.
        (json!({"reason": "x", "filter": {"gateway": "nope"}, "ratePerS": 5}), (422, "unknown_choice")),
        (json!({"reason": "x", "filter": {"actor": "nobody"}, "ratePerS": 5}), (422, "unknown_choice")),
        (json!({"reason": "x", "filter": {"q": "actor:nobody"}, "ratePerS": 5}), (422, "unknown_choice")),
        (json!({"reason": "x", "filter": {"q": "-gateway:nope"}, "ratePerS": 5}), (422, "unknown_choice")),
        (json!({"reason": "x", "filter": {"q": "stauts:PARKED"}, "ratePerS": 5}), (400, "invalid_parameter")),
        (json!({"reason": "x", "filter": {"q": "status:FAILED"}, "ratePerS": 5}), (400, "invalid_parameter")),
        (json!({"reason": "x", "filter": {"q": "ref:ch_1"}, "ratePerS": 5}), (400, "invalid_parameter")),
        (
            json!({"reason": "x", "filter": {"dueFrom": "2027-01-01T00:00:00Z", "dueTo": "2026-01-01T00:00:00Z"}, "ratePerS": 5}),
            (422, "out_of_range"),
        ),
    ] {
        let refused = site.post(bulks, &body).await.refusal();
        assert_eq!(refused, (refusal.0, refusal.1.to_owned()), "{body}");
    }
    let filter =
        json!({"reason": "outcome_unknown", "actor": "tester", "q": "actor:tester due:2020-01-01.."});
    let made = site.post(bulks, &json!({"reason": "back", "filter": filter, "ratePerS": 100})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made = made.json();
    let preview = json!({
        "count": 3, "byReason": {"outcome_unknown": 3}, "amounts": {"EUR": 102_501}, "needsApproval": 1,
    });
    assert_eq!((&made["status"], &made["preview"]), (&json!("stopped"), &preview));
    let bulk = format!("{bulks}/{}", made["bulkId"].as_str().expect("an id"));
    let started = site.post(&format!("{bulk}/start"), &why()).await;
    assert_eq!(started.json()["status"], "running", "{}", started.text);
    let terms = BulkTerms { retryable_codes: Vec::new(), approve_above_minor: 100_000 };
    site.worker.step_bulk(&terms).await.expect("a step");
    let done = site.get(&bulk).await.json();
    assert_eq!(
        (&done["status"], &done["outcomes"]),
        (&json!("done"), &json!({"redriven": 2, "needs_approval": 1}))
    );
    assert_eq!(site.post(&format!("{bulk}/stop"), &why()).await.refusal(), (409, "bulk_done".to_owned()));
    assert_eq!(site.get(&format!("{bulks}/x")).await.refusal(), (404, "bulk_not_found".to_owned()));
    let listed = site.get(&format!("{bulks}?limit=1")).await.json();
    assert_eq!((&listed["data"][0], &listed["nextCursor"]), (&done, &done["bulkId"]));
    let behind = format!("{bulks}?limit=1&cursor={}", done["bulkId"].as_str().expect("an id"));
    assert_eq!(site.get(&behind).await.json(), json!({"data": [], "nextCursor": null}));
    let none = site.get(&format!("{bulks}?cursor=00000000-0000-4000-8000-000000000000")).await;
    assert_eq!(none.refusal(), (400, "invalid_cursor".to_owned()));
}
