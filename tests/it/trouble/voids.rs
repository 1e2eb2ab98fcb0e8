//! Clients that wish to cancel what is unknown, at gateways that void by key and at one that does not.

use super::{history, in_ms, requests_and_charges, running, seconds};
use crate::support::installation::Installation;
use serde_json::{Value, json};

/// Calls that are given up after a second, and a re-ask ladder that nobody waits for: what happens soon
/// happens because of a wish.
const VOIDING: [(&str, &str); 6] = [
    ("gateway.voids_by_key", "true"),
    ("sandbox.voids_by_key", "true"),
    ("gateway.connect_timeout", "1s"),
    ("gateway.total_timeout", "1s"),
    ("ladder.reask", "10m"),
    ("worker.late_by", "1s"),
];

async fn voiding(settings: &[(&str, &str)]) -> Installation {
    let settings: Vec<_> = VOIDING.iter().chain(settings).copied().collect();
    running(&settings).await
}

/// A payment due at once whose outcome is unknown.
async fn unknown(site: &Installation, key: &str, payee: &str) -> String {
    let id = site.create(key, payee, in_ms(500)).await;
    site.settled(&id, &["UNKNOWN"], seconds(30)).await;
    id
}

/// A cancel that is answered 202 with the wish.
async fn wished(site: &Installation, id: &str) -> Value {
    let (status, body) = site.cancel(id).await.expect("an answer");
    assert_eq!(status, 202, "{body}");
    assert!(body["cancelRequestedAt"].is_string(), "{body}");
    body
}

/// The verdicts of the voids of this payment that arrived.
async fn voids(site: &Installation, id: &str) -> Vec<Value> {
    let is_void = |line: &&Value| line["request"] == "void" && line["paymentId"] == id;
    site.ledger().await.iter().filter(is_void).map(|line| line["verdict"].clone()).collect()
}

/// Every promise that ledger and database can break, by the checker.
fn all_promises_hold(site: &Installation) {
    let ledger = format!("{}/ledger", site.url("sandbox-1"));
    let (code, text) = site.tell(&["audit", "check", "--ledger", &ledger, "--require", "voids"]);
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn a_wish_cancels_what_was_not_charged_and_the_late_charge_is_refused_by_the_tombstone() {
    let site = voiding(&[]).await;
    let lost = unknown(&site, "lost", "sim_timeout_not_charged").await;
    let charged = unknown(&site, "charged", "sim_timeout_charged").await;
    let twice = unknown(&site, "twice", "sim_void_lost").await;

    let first = wished(&site, &lost).await;
    let done = site.settled(&lost, &["CANCELLED"], seconds(30)).await;
    assert_eq!(
        (&done["statusReason"], &done["cancelRequestedAt"]),
        (&"void_proven".into(), &first["cancelRequestedAt"])
    );
    assert_eq!(site.cancel(&lost).await.expect("an answer").0, 200);
    let told = history(&site, &lost).await;
    assert!(told.contains(&"UNKNOWN cancel_wished UNKNOWN".to_owned()), "{told:?}");
    // As a packet that was long on its way.
    let body = json!({"paymentId": lost, "amount": 1_250, "currency": "EUR", "payee": "sim_ok"});
    let late = site.http.post(format!("{}/charges", site.url("sandbox-1"))).bearer_auth("sandbox-secret");
    let late = late.header("Idempotency-Key", &lost).body(body.to_string()).send().await.expect("an answer");
    assert_eq!(late.status(), 409);
    assert!(late.text().await.expect("a body").contains("voided"));

    wished(&site, &charged).await;
    site.settled(&charged, &["COMPLETED"], seconds(30)).await;
    let (status, refused) = site.cancel(&charged).await.expect("an answer");
    assert_eq!((status, &refused["code"]), (409, &"ALREADY_FINAL".into()));

    assert_eq!(requests_and_charges(&site, &lost).await, (3, 0), "a charge, a void, and the late one");
    assert_eq!(requests_and_charges(&site, &charged).await, (2, 1), "no charge was sent after the wish");
    assert_eq!(
        (voids(&site, &lost).await, voids(&site, &charged).await),
        (vec!["voided".into()], vec!["replayed".into()])
    );
    the_lost_answer_is_asked_for_again(&site, &twice).await;
}

/// The wish makes the payment due at once, and the ladder's next rung lies ten minutes ahead.
async fn the_lost_answer_is_asked_for_again(site: &Installation, id: &str) {
    wished(site, id).await;
    let asked = crate::support::eventually("the first void", seconds(30), || async {
        let (_, payment) = site.get(id).await.ok()?;
        let voided = payment["attempts"].as_array()?.iter().filter(|it| it["outcome"] == "unknown").count();
        (payment["status"] == "UNKNOWN" && voided == 2).then_some(payment)
    });
    let asked = asked.await;
    let (status, again) = site.cancel(id).await.expect("an answer");
    assert_eq!((status, &again["cancelRequestedAt"]), (202, &asked["cancelRequestedAt"]), "the same wish");
    assert_eq!(again["version"], asked["version"], "recorded once");
    due_now(site, id).await;
    site.settled(id, &["CANCELLED"], seconds(60)).await;
    assert_eq!(voids(site, id).await, ["voided"], "a look-up showed the tombstone");
    assert_eq!(requests_and_charges(site, id).await.1, 0);
}

#[tokio::test]
async fn a_wish_during_a_re_ask_is_honoured_by_the_next_claim_whatever_the_ladder_says() {
    let site = voiding(&[("ladder.reask", "500ms,10m"), ("gateway.total_timeout", "3s")]).await;
    let payee = "sim_timeout_not_charged|sim_timeout_not_charged|sim_ok";
    let id = site.create("asked", payee, in_ms(500)).await;
    // Of the second claim: it asks, finds nothing, and sends under the same key.
    let held = crate::support::eventually("the re-ask", seconds(30), || async {
        let (_, payment) = site.get(&id).await.ok()?;
        let attempts = payment["attempts"].as_array()?.len();
        (payment["status"] == "PROCESSING" && attempts == 2).then_some(())
    });
    held.await;
    let answer = wished(&site, &id).await;
    assert_eq!(answer["status"], "PROCESSING");
    site.settled(&id, &["CANCELLED"], seconds(30)).await;
    let told = history(&site, &id).await;
    assert!(told.contains(&"PROCESSING cancel_wished PROCESSING".to_owned()), "{told:?}");
    assert_eq!((requests_and_charges(&site, &id).await.1, voids(&site, &id).await.len()), (0, 1));
    all_promises_hold(&site);
}

#[tokio::test]
async fn a_wish_after_the_key_s_cut_off_is_looked_up_and_parked_and_no_void_is_sent() {
    let site = voiding(&[]).await;
    let id = unknown(&site, "late", "sim_timeout_not_charged").await;
    // Of a key that lives for a day, less an hour.
    key_is(&site, &id, "23.5 hours").await;
    wished(&site, &id).await;
    crate::support::eventually("it was asked about", seconds(30), || async {
        let (_, payment) = site.get(&id).await.ok()?;
        let asked = payment["attempts"].as_array()?.iter().any(|it| it["code"] == "only_asked");
        (payment["status"] == "UNKNOWN" && asked).then_some(())
    })
    .await;
    key_is(&site, &id, "25 hours").await;
    due_now(&site, &id).await;
    let parked = site.settled(&id, &["PARKED"], seconds(60)).await;
    assert_eq!(parked["statusReason"], "key_expired_undecided");
    let (status, refused) = site.cancel(&id).await.expect("an answer");
    assert_eq!((status, &refused["code"]), (409, &"PARKED".into()));
    assert_eq!(voids(&site, &id).await, Vec::<Value>::new());
    assert_eq!(requests_and_charges(&site, &id).await, (1, 0));
}

/// Makes the key of an unknown payment this old.
async fn key_is(site: &Installation, id: &str, age: &str) {
    let query =
        "UPDATE payments SET epoch_first_sent_at = now() - $2::interval WHERE id = $1 AND status = 'UNKNOWN'";
    let age = sqlx::query(query).bind(super::uuid(id)).bind(age).execute(&mut super::sql(site).await).await;
    assert_eq!(age.expect("aged").rows_affected(), 1);
}

/// As if the next rung of its ladder had come.
async fn due_now(site: &Installation, id: &str) {
    let query = "UPDATE payments SET next_attempt_at = now() WHERE id = $1";
    let due = sqlx::query(query).bind(super::uuid(id)).execute(&mut super::sql(site).await).await;
    assert_eq!(due.expect("due").rows_affected(), 1);
}

#[tokio::test]
async fn a_deadline_that_passes_with_a_send_open_ends_in_a_void_and_failed() {
    let site = voiding(&[("ladder.reask", "6s")]).await;
    let text = |ms| in_ms(ms).to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let body = json!({"payee": "sim_timeout_not_charged", "amount": 1_250, "currency": "EUR",
        "dueAt": text(1_500), "executeBefore": text(5_000)});
    let (status, created) = site.post("deadline", &body).await.expect("an answer");
    assert_eq!(status, 201, "{created}");
    let id = created["paymentId"].as_str().expect("an id").to_owned();
    let failed = site.settled(&id, &["FAILED"], seconds(40)).await;
    assert_eq!(failed["statusReason"], "deadline_passed");
    assert_eq!(voids(&site, &id).await, ["voided"]);
    all_promises_hold(&site);
}

#[tokio::test]
async fn a_gateway_without_voids_answers_409_and_records_nothing() {
    let site = voiding(&[("gateway.voids_by_key", "false")]).await;
    let id = unknown(&site, "open", "sim_timeout_charged").await;
    let (status, refused) = site.cancel(&id).await.expect("an answer");
    assert_eq!((status, &refused["code"]), (409, &"OUTCOME_UNKNOWN".into()), "{refused}");
    let (_, shown) = site.get(&id).await.expect("an answer");
    assert_eq!((&shown["status"], &shown["cancelRequestedAt"]), (&"UNKNOWN".into(), &Value::Null));
}
