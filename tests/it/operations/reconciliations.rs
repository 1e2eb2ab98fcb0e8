//! The routes of reconciliation on a real database: reports are loaded and compared by the schedule's own verbs, and
//! people look, repair, dismiss and withdraw through the interface.

use super::http::Site;
use crate::schedule::world::{answer, decision, declined};
use chrono::{NaiveDate, Utc};
use punctual::domain::decision::Decision;
use punctual::domain::ids::{GatewayName, Operator};
use punctual::domain::money::Currency;
use punctual::domain::reason::Reason;
use punctual::domain::settlement::{Kind, Line};
use punctual::domain::state::Status;
use punctual::domain::verdict::DeclineClass;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{CompareOrder, NewReport, Purpose, ReportBegun, Schedule, Shorter, Withdrawn};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn euros() -> Currency {
    Currency::from_code("EUR").expect("a currency")
}

/// The line of a charge under this key.
pub fn line(number: u64, key: &str, reference: &str, minor: i64) -> Line {
    Line {
        number,
        at_line: number + 1,
        key: Some(key.to_owned()),
        gateway_ref: Some(reference.to_owned()),
        charge_ref: None,
        kind: Kind::Charge,
        gross_minor: minor,
        currency: euros(),
        fee_minor: 0,
        net_minor: minor,
        net_currency: euros(),
        booked_on: today(),
        executed_on: Some(today()),
        raw_hash: Sha256::digest(format!("{key} {reference} {minor}")).into(),
    }
}

fn today() -> NaiveDate {
    Utc::now().date_naive()
}

impl Site {
    /// Loads and compares a report of today; its id. The day goes on, so what differs waits: it may settle by itself.
    pub async fn reported(&self, lines: Vec<Line>) -> String {
        let id = Os.claim_id().0;
        let report = NewReport {
            id,
            gateway: GatewayName("sandbox".into()),
            day: today(),
            format: "sandbox".into(),
            options: String::new(),
            source: String::new(),
            sha256: Sha256::digest(format!("{lines:?}")).into(),
            asked_by: Operator("test".into()),
            lines: u64::try_from(lines.len()).expect("few"),
            is_complete: false,
            seen_at: Utc::now(),
            sums: Vec::new(),
            purpose: Purpose::Count,
            if_withdrawn: Withdrawn::Accept,
        };
        let begun = self.worker.begin_report(&report, Shorter::Accept).await.expect("an answer");
        assert_eq!(begun, ReportBegun::Begun);
        self.worker.load_lines(&report, lines).await.expect("loaded");
        self.worker.finish_report(&report).await.expect("finished");
        let order =
            CompareOrder { gateway: report.gateway.clone(), day: report.day, trial: None, grace_days: 2 };
        self.worker.compare_day(&order).await.expect("compared");
        id.to_string()
    }

    /// The only difference of this payment.
    pub async fn item_of(&self, payment: &str) -> Value {
        let page = self.get(&format!("/v1/ops/reconciliation-items?paymentId={payment}")).await.json();
        let found = page["data"].as_array().expect("a list");
        assert_eq!(found.len(), 1, "{page}");
        found[0].clone()
    }

    async fn act(&self, item: &Value, verb: &str) -> crate::support::api::Answer {
        let path = format!("/v1/ops/reconciliation-items/{}/{verb}", item["itemId"]);
        self.post(&path, &json!({"reason": "line 2 of the report"})).await
    }

    /// A payment that the gateway declined for good, as far as anybody knew.
    pub async fn failed(&self, key: &str, amount: i64) -> String {
        let claimed = self.claimed(key, amount).await;
        let id = claimed.payment().id.to_string();
        let failed = Decision { reason: Some(Reason::DeclinedHard), ..decision(Status::Failed) };
        let outcome = (claimed.answered(answer(declined(DeclineClass::Hard))), failed);
        self.worker.settle(vec![outcome]).await.map_err(|failed| failed.error).expect("failed");
        id
    }

    pub async fn status(&self, payment: &str) -> String {
        let query = format!("SELECT status FROM payments WHERE id = '{payment}'");
        self.api.one::<String>(&query).await
    }
}

#[tokio::test]
async fn a_charge_that_nobody_learned_of_is_shown_with_its_line_and_repaired_by_it() {
    let site = Site::new().await;
    let payment = site.parked("k1", 1_250).await;
    let report = site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let item = site.item_of(&payment).await;
    assert_eq!(
        (&item["class"], &item["field"], &item["ours"], &item["status"], &item["reconciliationId"]),
        (&json!("missing_here"), &json!("status"), &json!("PARKED"), &json!("waiting"), &json!(report))
    );
    assert_eq!(
        (&item["amount"], &item["currency"], &item["gatewayReference"]),
        (&json!(1_250), &json!("EUR"), &json!("ch_7"))
    );
    assert!(item["line"] == 2 && item["lineSha256"].as_str().is_some_and(|hash| hash.len() == 64), "{item}");

    let repaired = site.act(&item, "repair").await;
    assert_eq!((repaired.status, &repaired.json()["status"]), (200, &json!("repaired")), "{}", repaired.text);
    assert_eq!(site.status(&payment).await, "COMPLETED");
    let again = site.act(&item, "repair").await;
    assert_eq!(again.refusal(), (409, "item_decided".to_owned()));
    let stands = site.get(&format!("/v1/ops/reconciliation-items/{}", item["itemId"])).await.json();
    assert_eq!(
        (&stands["decidedBy"], &stands["reason"]),
        (&json!("key:alice"), &json!("line 2 of the report"))
    );
    let acts = site.get(&format!("/v1/ops/acts?subject={payment}")).await.json();
    assert_eq!(
        (&acts["data"][0]["act"], &acts["data"][0]["operator"]),
        (&json!("repair"), &json!("key:alice"))
    );
    let history = site.api.payment("GET", &format!("{payment}/history")).await.json();
    let last = history["data"].as_array().and_then(|rows| rows.last()).cloned().expect("a row");
    assert_eq!((&last["cause"], &last["by"]), (&json!("reconciled"), &json!("key:alice")));
    assert_eq!(last["detail"]["reference"], "ch_7");
}

#[tokio::test]
async fn what_a_client_was_told_had_failed_is_completed_by_two_people_or_not_at_all() {
    let site = Site::new().await;
    let payment = site.failed("k1", 1_250).await;
    site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let item = site.item_of(&payment).await;
    let asked = site.act(&item, "repair").await;
    let approval = asked.json();
    assert_eq!(
        (asked.status, &approval["kind"], &approval["status"]),
        (202, &json!("repair"), &json!("pending")),
        "{approval}"
    );
    assert_eq!(site.status(&payment).await, "FAILED", "one person is not enough");
    let again = site.act(&item, "repair").await;
    assert_eq!(again.json()["approvalId"], approval["approvalId"], "it is asked for once");
    let path = format!("/v1/ops/approvals/{}/approve", approval["approvalId"].as_str().expect("an id"));
    let alone = site.post(&path, &json!({"reason": "me again"})).await;
    assert_eq!(alone.refusal(), (403, "same_person".to_owned()));
    let allowed = site.post_as(&site.bob, &path, &json!({"reason": "seen it too"})).await;
    assert_eq!(allowed.status, 200, "{}", allowed.text);
    assert_eq!(site.status(&payment).await, "COMPLETED");
    assert_eq!(site.item_of(&payment).await["status"], "repaired");
}

#[tokio::test]
async fn a_dismissed_difference_keeps_its_reason_and_is_the_same_when_it_is_found_again() {
    let site = Site::new().await;
    let foreign = line(1, "another-system-7", "ch_8", 500);
    site.reported(vec![foreign.clone()]).await;
    let page = site.get("/v1/ops/reconciliation-items?class=foreign").await.json();
    let item = page["data"][0].clone();
    let refused = site.act(&item, "repair").await;
    assert_eq!(refused.refusal(), (409, "nothing_to_repair".to_owned()));
    let dismissed = site.act(&item, "dismiss").await;
    assert_eq!((dismissed.status, &dismissed.json()["status"]), (200, &json!("dismissed")));
    assert_eq!(site.act(&item, "dismiss").await.refusal(), (409, "item_decided".to_owned()));
    site.reported(vec![foreign, line(2, "another-system-8", "ch_9", 500)]).await;
    let page = site.get("/v1/ops/reconciliation-items?class=foreign").await.json();
    let found: Vec<(&Value, &Value)> =
        page["data"].as_array().expect("a list").iter().map(|it| (&it["status"], &it["reason"])).collect();
    assert_eq!(
        found,
        [(&json!("dismissed"), &json!("line 2 of the report")), (&json!("waiting"), &Value::Null)],
        "{page}"
    );
}

#[tokio::test]
async fn lists_have_pages_and_filters_and_refuse_what_they_cannot_read() {
    let site = Site::new().await;
    let lines = (1..=5).map(|number| line(number, &format!("other-{number}"), &format!("ch_{number}"), 100));
    let report = site.reported(lines.collect()).await;
    let mut path = "/v1/ops/reconciliation-items?limit=2&status=waiting".to_owned();
    let mut walked = Vec::new();
    loop {
        let page = site.get(&path).await.json();
        walked.extend(page["data"].as_array().expect("a list").iter().map(|item| item["key"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/ops/reconciliation-items?limit=2&status=waiting&cursor={cursor}");
    }
    walked.sort_by_key(ToString::to_string);
    assert_eq!(walked, ["other-1", "other-2", "other-3", "other-4", "other-5"]);
    let day = today();
    for (query, count) in [
        (format!("items?gateway=sandbox&day={day}"), 5),
        ("items?gateway=bank".to_owned(), 0),
        ("items?day=2030-01-31".to_owned(), 0),
        ("items?class=missing_there".to_owned(), 0),
        ("items?status=dismissed".to_owned(), 0),
    ] {
        let page = site.get(&format!("/v1/ops/reconciliation-{query}")).await.json();
        assert_eq!(page["data"].as_array().expect("a list").len(), count, "{query}: {page}");
    }
    let runs = site.get(&format!("/v1/ops/reconciliations?gateway=sandbox&from={day}&to={day}")).await.json();
    let run = &runs["data"][0];
    assert_eq!(
        (&run["reconciliationId"], &run["lines"], &run["status"], &run["complete"]),
        (&json!(report), &json!(5), &json!("compared"), &json!(false))
    );
    assert_eq!(site.get(&format!("/v1/ops/reconciliations/{report}")).await.json(), *run);
    for (path, code) in [
        ("reconciliations?day=2030-01-31", "unknown_parameter"),
        ("reconciliations?from=today", "invalid_parameter"),
        ("reconciliations?from=2030-1-31", "invalid_parameter"),
        ("reconciliations?status=done", "invalid_parameter"),
        ("reconciliations?cursor=x", "invalid_cursor"),
        ("reconciliation-items?class=wrong", "invalid_parameter"),
        ("reconciliation-items?status=wrong", "invalid_parameter"),
        ("reconciliation-items?paymentId=x", "invalid_parameter"),
        ("reconciliation-items?cursor=x", "invalid_parameter"),
        ("reconciliation-sums", "invalid_parameter"),
        ("reconciliation-sums?from=2030-01-31&to=2030-01-30", "invalid_parameter"),
        ("reconciliation-sums?from=2030-01-01&to=2030-02-01", "invalid_parameter"),
    ] {
        assert_eq!(site.get(&format!("/v1/ops/{path}")).await.refusal(), (400, code.to_owned()), "{path}");
    }
    for path in ["reconciliation-items/0", "reconciliation-items/x", "reconciliation-items/99999999"] {
        let refusal = (404, "reconciliation_item_not_found".to_owned());
        assert_eq!(site.get(&format!("/v1/ops/{path}")).await.refusal(), refusal, "{path}");
    }
}

#[tokio::test]
async fn a_wrong_report_is_withdrawn_once_and_counts_no_more() {
    let site = Site::new().await;
    let report = site.reported(vec![line(1, "other-1", "ch_1", 100)]).await;
    let path = format!("/v1/ops/reconciliations/{report}/withdraw");
    let why = json!({"reason": "the report of another account"});
    let withdrawn = site.post(&path, &why).await;
    assert_eq!(
        (withdrawn.status, &withdrawn.json()["status"]),
        (200, &json!("superseded")),
        "{}",
        withdrawn.text
    );
    assert_eq!(site.post(&path, &why).await.refusal(), (409, "report_does_not_count".to_owned()));
    // Somebody says that it is right after all: nothing of it counts twice.
    site.reported(vec![line(1, "other-1", "ch_1", 100)]).await;
}

#[tokio::test]
async fn a_report_that_explains_money_is_withdrawn_by_two_people_or_not_at_all() {
    let site = Site::new().await;
    let payment = site.parked("k1", 1_250).await;
    let report = site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let repaired = site.act(&site.item_of(&payment).await, "repair").await;
    assert_eq!(repaired.status, 200, "{}", repaired.text);
    let path = format!("/v1/ops/reconciliations/{report}/withdraw");
    let why = json!({"reason": "the report of another account"});
    let asked = site.post(&path, &why).await;
    let approval = asked.json();
    assert_eq!(
        (asked.status, &approval["kind"], &approval["paymentId"], &approval["request"]["report"]),
        (202, &json!("withdraw"), &Value::Null, &json!(report)),
        "{approval}"
    );
    assert_eq!(
        site.post(&path, &why).await.json()["approvalId"],
        approval["approvalId"],
        "it is asked for once"
    );
    let listed = site.get("/v1/ops/approvals").await.json();
    assert_eq!(listed["data"][0]["approvalId"], approval["approvalId"], "{listed}");
    let shown = format!("/v1/ops/reconciliations/{report}");
    assert_eq!(site.get(&shown).await.json()["status"], "compared", "one person is not enough");
    let decision = format!("/v1/ops/approvals/{}/approve", approval["approvalId"].as_str().expect("an id"));
    let alone = site.post(&decision, &json!({"reason": "me again"})).await;
    assert_eq!(alone.refusal(), (403, "same_person".to_owned()));
    let allowed = site.post_as(&site.bob, &decision, &json!({"reason": "seen it too"})).await;
    assert_eq!(allowed.status, 200, "{}", allowed.text);
    let stands = site.get(&shown).await.json();
    assert_eq!(stands["status"], "superseded");
    assert!(stands["withdrawnAt"].is_string(), "{stands}");
    let acts = site.get(&format!("/v1/ops/acts?subject={report}")).await.json();
    let acts: Vec<_> = acts["data"].as_array().expect("a list").iter().map(|act| &act["act"]).collect();
    assert!(
        ["ask_approval", "withdraw_report", "approve"].iter().all(|act| acts.contains(&&json!(act))),
        "{acts:?}"
    );
    assert_eq!(site.status(&payment).await, "COMPLETED", "money may have moved: nothing of it is undone");
}

#[tokio::test]
async fn sums_stand_side_by_side_and_say_where_they_are_apart() {
    let site = Site::new().await;
    let day = today();
    let path = format!("/v1/ops/reconciliation-sums?from={day}&gateway=sandbox");
    let payment = site.parked("k1", 1_250).await;
    site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let before = site.get(&path).await.json();
    assert_eq!(
        (&before["data"][0]["settlement"]["amount"], &before["data"][0]["ledger"]["amount"]),
        (&json!(1_250), &json!(0)),
        "{before}"
    );
    assert_eq!(before["data"][0]["apart"], true);
    site.act(&site.item_of(&payment).await, "repair").await;
    let after = site.get(&path).await.json();
    let sum = &after["data"][0];
    let side = json!({"count": 1, "amount": 1_250});
    assert_eq!(
        (&sum["payments"], &sum["ledger"], &sum["settlement"], &sum["byWord"], &sum["apart"]),
        (&side, &side, &side, &side, &json!(false)),
        "{after}"
    );
}
