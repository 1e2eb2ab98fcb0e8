//! The REST interface as a client sees it, on a real database.

use crate::support::api::{Answer, Api, send};
use crate::support::eventually;
use crate::support::proxy::Fault;
use chrono::{DateTime, SecondsFormat, SubsecRound, TimeDelta, Utc};
use punctual::domain::bucket::minute_start;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// In the form that answers use: no digits after a whole second.
fn text(at: DateTime<Utc>) -> String {
    at.trunc_subsecs(3).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn due_in(seconds: i64) -> String {
    text(Utc::now() + TimeDelta::seconds(seconds))
}

fn payment(due_at: &str) -> Value {
    json!({"payee": "acct_canary_payee", "amount": 1050, "currency": "EUR", "dueAt": due_at})
}

fn id_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()["paymentId"].as_str().expect("an id").to_owned()
}

/// A refusal without what differs between any two requests.
fn without_instance(answer: &Answer) -> Value {
    let mut document = answer.json();
    for member in ["requestId", "instance"] {
        document.as_object_mut().expect("an object").remove(member);
    }
    document
}

#[tokio::test]
async fn a_created_payment_is_found_again() {
    let api = Api::start(|_| {}).await;
    let mut body = payment(&due_in(3_600));
    body["externalId"] = json!("inv-1");
    body["metadata"] = json!({"order": "77"});
    let created = api.post("key-1", &body).await;
    let id = id_of(&created);
    assert_eq!(created.header("location"), format!("/v1/scheduled-payments/{id}"));
    assert_eq!(created.header("idempotent-replayed"), "");
    assert_eq!(created.json()["status"], "PENDING");

    let found = api.payment("GET", &id).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let found_json = found.json();
    for field in ["payee", "amount", "currency", "dueAt", "externalId", "metadata"] {
        assert_eq!(found_json[field], body[field], "{field}");
    }
    assert_eq!(found_json["attempts"], json!([]));
    assert_eq!(found_json["nextAttemptAt"], body["dueAt"]);

    let request = api.request("GET", &format!("/v1/scheduled-payments/{id}"));
    let unchanged = send(request.header("If-None-Match", found.header("etag")), None).await;
    assert_eq!((unchanged.status, unchanged.text.as_str()), (304, ""));
}

#[tokio::test]
async fn a_window_is_shown_and_a_payment_without_one_has_no_such_name() {
    let api = Api::start(|_| {}).await;
    let mut body = payment(&due_in(3_600));
    let without = api.post("key-1", &body).await;
    assert_eq!((without.status, without.json().get("executeWithin")), (201, None), "{}", without.text);
    body["executeWithin"] = json!(600);
    let created = api.post("key-2", &body).await;
    let id = id_of(&created);
    assert_eq!(created.json()["executeWithin"], json!(600));
    assert_eq!(api.post("key-2", &body).await.text, created.text);
    let found = api.payment("GET", &id).await.json();
    assert_eq!((&found["dueAt"], &found["executeWithin"]), (&body["dueAt"], &json!(600)));
    let instant = |text: &Value| text.as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    let after = instant(&found["nextAttemptAt"]) - instant(&found["dueAt"]);
    assert!((TimeDelta::zero()..TimeDelta::seconds(600)).contains(&after), "{found}");
    body["executeWithin"] = json!(300);
    assert_eq!(api.post("key-2", &body).await.json()["differs"], json!(["/executeWithin"]));
}

#[tokio::test]
async fn the_forecast_is_for_operators_and_is_counted_at_most_every_ten_seconds() {
    let api = Api::start(|_| {}).await;
    assert_eq!(send(api.request("GET", "/v1/forecast"), None).await.refusal(), (403, "missing_scope".into()));
    let key = api.new_key("operator", &["ops:read"]).await;
    let forecast = async || send(api.anonymous("GET", "/v1/forecast").bearer_auth(&key), None).await;
    // In the minute after the next, whenever this runs.
    let due_at = Utc::now() + TimeDelta::seconds(100);
    id_of(&api.post("key-1", &payment(&text(due_at))).await);
    let first = forecast().await;
    assert_eq!(first.status, 200, "{}", first.text);
    let told = first.json();
    let sandbox = &told["gateways"][0];
    assert_eq!((&sandbox["gateway"], &sandbox["overdue"]), (&json!("sandbox"), &json!(0)), "{told}");
    assert_eq!(sandbox["chargesPerSecond"], Value::Null, "no rate is set");
    let minutes = sandbox["minutes"].as_array().unwrap();
    assert_eq!((minutes.len(), sandbox["days"].as_array().unwrap().len()), (60, 31));
    let due: Vec<&Value> = minutes.iter().filter(|minute| minute["due"] != json!(0)).collect();
    assert_eq!(due.len(), 1, "{told}");
    assert_eq!(due[0]["from"], json!(text(minute_start(due_at))));
    assert_eq!((&due[0]["due"], &due[0]["precision"]), (&json!(1), &json!("exact")));
    id_of(&api.post("key-2", &payment(&text(due_at))).await);
    assert_eq!(forecast().await.text, first.text, "looking again counts nothing");
}

#[tokio::test]
async fn the_same_key_and_body_get_the_same_bytes_even_after_a_cancel() {
    let api = Api::start(|_| {}).await;
    let body = payment(&due_in(3_600));
    let first = api.post("key-1", &body).await;
    let id = id_of(&first);
    for key in ["key-1", "\"key-1\""] {
        let again = api.post(key, &body).await;
        assert_eq!((again.status, again.text.as_str()), (201, first.text.as_str()));
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!(again.header("location"), first.header("location"));
    }
    assert_eq!(api.payment("DELETE", &id).await.status, 200);
    assert_eq!(api.post("key-1", &body).await.text, first.text);
}

#[tokio::test]
async fn the_same_key_with_another_body_names_what_differs() {
    let api = Api::start(|_| {}).await;
    let body = payment(&due_in(3_600));
    let id = id_of(&api.post("key-1", &body).await);
    let mut other = body.clone();
    other["amount"] = json!(1051);
    other["description"] = json!("new");
    let refused = api.post("key-1", &other).await;
    assert_eq!(refused.refusal(), (409, "idempotency_key_reused".into()));
    assert_eq!(refused.json()["paymentId"], json!(id));
    assert_eq!(refused.json()["differs"], json!(["/amount", "/description"]));
}

#[tokio::test]
async fn many_at_once_with_one_key_make_one_payment() {
    let api = Api::start(|_| {}).await;
    let body = payment(&due_in(3_600));
    let answers = futures_util::future::join_all((0..20).map(|_| api.post("key-1", &body))).await;
    let bodies: BTreeSet<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert!(answers.iter().all(|answer| answer.status == 201));
    let first = answers.iter().filter(|answer| answer.header("idempotent-replayed").is_empty()).count();
    assert_eq!(first, 1);
}

#[tokio::test]
async fn a_repetition_after_the_due_time_gets_the_payment_and_not_due_in_past() {
    let api = Api::start(|_| {}).await;
    let body = payment(&due_in(2));
    let first = api.post("key-1", &body).await;
    id_of(&first);
    eventually("a new payment for that time is refused", Duration::from_secs(10), || async {
        let other = api
            .post("key-2", &json!({"amount": 0, "payee": "x", "currency": "EUR", "dueAt": body["dueAt"]}))
            .await;
        let errors = other.json()["errors"].to_string();
        errors.contains("due_in_past").then_some(())
    })
    .await;
    assert_eq!(api.post("key-2", &body).await.refusal(), (422, "due_in_past".into()));
    let again = api.post("key-1", &body).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"), "{}", again.text);
    assert_eq!(again.text, first.text);
    let mut other = body.clone();
    other["amount"] = json!(1);
    assert_eq!(api.post("key-1", &other).await.refusal(), (409, "idempotency_key_reused".into()));
}

#[tokio::test]
async fn a_refused_request_leaves_its_key_free() {
    let api = Api::start(|_| {}).await;
    let mut body = payment(&due_in(3_600));
    body["gateway"] = json!("nowhere");
    assert_eq!(api.post("key-1", &body).await.refusal(), (422, "unknown_gateway".into()));
    body.as_object_mut().expect("an object").remove("gateway");
    id_of(&api.post("key-1", &body).await);
}

#[tokio::test]
async fn an_external_id_is_taken_until_its_payment_is_cancelled() {
    let api = Api::start(|_| {}).await;
    let mut body = payment(&due_in(3_600));
    body["externalId"] = json!("inv-1");
    let id = id_of(&api.post("key-1", &body).await);
    let refused = api.post("key-2", &body).await;
    assert_eq!(refused.refusal(), (409, "external_id_conflict".into()));
    assert_eq!(refused.json()["paymentId"], json!(id));
    assert_eq!(api.payment("DELETE", &id).await.status, 200);
    assert_ne!(id_of(&api.post("key-2", &body).await), id);
}

#[tokio::test]
async fn a_cancel_can_be_repeated_and_answers_the_same() {
    let api = Api::start(|_| {}).await;
    let id = id_of(&api.post("key-1", &payment(&due_in(3_600))).await);
    let first = api.payment("DELETE", &id).await;
    assert_eq!((first.status, &first.json()["status"]), (200, &json!("CANCELLED")), "{}", first.text);
    let again = api.payment("DELETE", &id).await;
    assert_eq!((again.status, again.text), (200, first.text));
    assert_eq!(api.payment("GET", &id).await.json()["status"], "CANCELLED");
}

#[tokio::test]
async fn actors_share_keys_and_see_nothing_of_each_other() {
    let api = Api::start(|_| {}).await;
    let body = payment(&due_in(3_600));
    let mine = id_of(&api.post("key-1", &body).await);
    let other_key = api.new_key("other", &["payments:read", "payments:write"]).await;
    let request = api.anonymous("POST", "/v1/scheduled-payments").bearer_auth(&other_key);
    let theirs = id_of(&send(request.header("Idempotency-Key", "key-1"), Some(&body)).await);
    assert_ne!(mine, theirs);

    let mut unknown = mine.clone();
    let last = if unknown.pop() == Some('0') { '1' } else { '0' };
    unknown.push(last);
    for method in ["GET", "DELETE"] {
        let foreign = api.payment(method, &theirs).await;
        assert_eq!(foreign.refusal(), (404, "payment_not_found".into()));
        for id in [unknown.as_str(), "nonsense", "8e03978e-40d5-43e8-bc93-6894a57f9324"] {
            assert_eq!(
                without_instance(&api.payment(method, id).await),
                without_instance(&foreign),
                "{method} {id}"
            );
        }
    }
    assert_eq!(api.payment("GET", &mine).await.json()["status"], "PENDING");
}

#[tokio::test]
async fn every_route_asks_for_a_key_and_its_scope() {
    let api = Api::start(|_| {}).await;
    let body = payment(&due_in(3_600));
    let id = id_of(&api.post("key-1", &body).await);
    let one = format!("/v1/scheduled-payments/{id}");
    let reader = api.new_key("tester", &["payments:read"]).await;
    let writer = api.new_key("tester", &["payments:write"]).await;
    for (method, path, lacking) in [
        ("POST", "/v1/scheduled-payments", &reader),
        ("GET", one.as_str(), &writer),
        ("DELETE", one.as_str(), &reader),
    ] {
        let with = |key: Option<&str>| {
            let request = api.anonymous(method, path).header("Idempotency-Key", "key-2");
            match key {
                Some(key) => request.bearer_auth(key),
                None => request,
            }
        };
        let never_made = "pk_live_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for key in [None, Some("nonsense"), Some(never_made)] {
            let refused = send(with(key), Some(&body)).await;
            assert_eq!(refused.refusal(), (401, "unauthenticated".into()), "{method} {key:?}");
            assert!(refused.header("www-authenticate").starts_with("Bearer"));
        }
        let refused = send(with(Some(lacking)), Some(&body)).await;
        assert_eq!(refused.refusal(), (403, "missing_scope".into()), "{method}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_as_what_it_is() {
    let api = Api::start(|_| {}).await;
    let good = payment(&due_in(3_600)).to_string();
    let post = || api.request("POST", "/v1/scheduled-payments").header("Idempotency-Key", "k");
    let json = |request: reqwest::RequestBuilder| request.header("Content-Type", "application/json");
    let large = format!("{good}{}", " ".repeat(16 * 1024));
    for (request, status, code) in [
        (json(post()).body(large), 413, "body_too_large"),
        (post().body(good.clone()), 415, "unsupported_media_type"),
        (post().header("Content-Type", "text/plain").body(good.clone()), 415, "unsupported_media_type"),
        (json(post()).body("{"), 400, "malformed_json"),
        (json(post()).header("Accept", "text/html").body(good.clone()), 406, "not_acceptable"),
        (
            json(api.request("POST", "/v1/scheduled-payments")).body(good.clone()),
            400,
            "missing_idempotency_key",
        ),
        (json(post()).header("Idempotency-Key", "twice").body(good.clone()), 400, "invalid_idempotency_key"),
        (api.request("PUT", "/v1/scheduled-payments"), 405, "method_not_allowed"),
        (api.request("GET", "/nowhere"), 404, "route_not_found"),
    ] {
        assert_eq!(send(request, None).await.refusal(), (status, code.to_owned()));
    }
    let documented = send(api.anonymous("GET", "/problems/due_in_past"), None).await;
    assert!(documented.status == 200 && documented.text.contains("dueAt"));
}

#[tokio::test]
async fn a_body_that_never_ends_is_408_and_nothing_was_created() {
    let api = Api::start(|api| api.request_timeout = Duration::from_millis(300)).await;
    let address = api.url.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the API listens");
    let head = format!(
        "POST /v1/scheduled-payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nIdempotency-Key: slow\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        api.key
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    // Returns, because the API closes the connection.
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"body_too_slow\""), "{answer}");
    id_of(&api.post("slow", &payment(&due_in(3_600))).await);
}

#[tokio::test]
async fn without_its_database_the_api_says_so_and_recovers() {
    let api = Api::start(|api| api.key_cache = Duration::from_secs(4)).await;
    let body = payment(&due_in(3_600));
    assert_eq!(send(api.anonymous("GET", "/readyz"), None).await.status, 200);
    // The key is in the cache from here on, so the refusals below are not about the key.
    let first = api.post("key-1", &body).await;
    api.proxy.set(Fault::Reset).await;
    let refused = api.post("key-2", &body).await;
    assert_eq!(refused.refusal(), (503, "database_unavailable".into()));
    assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    assert_eq!(refused.json()["retryable"], true);
    let ready = send(api.anonymous("GET", "/readyz"), None).await;
    assert_eq!(ready.status, 503);
    assert!(ready.text.contains("postgres"), "{}", ready.text);
    assert_eq!(send(api.anonymous("GET", "/livez"), None).await.status, 200);

    api.proxy.set(Fault::Pass).await;
    eventually("the API is ready again", Duration::from_secs(30), || async {
        (send(api.anonymous("GET", "/readyz"), None).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(api.post("key-1", &body).await.text, first.text);
    id_of(&api.post("key-2", &body).await);
}

#[tokio::test]
async fn a_create_whose_commit_was_not_answered_is_one_payment() {
    let api = Api::start(|_| {}).await;
    let body = payment(&due_in(3_600));
    id_of(&api.post("warm-up", &body).await);
    // The statement that carries the key is its own transaction: its answer is COMMIT's answer.
    api.proxy.set(Fault::CutAfter(b"key-1".to_vec())).await;
    let first = api.post("key-1", &body).await;
    assert_eq!(api.proxy.cuts(), 1, "the answer to the create was not cut");
    id_of(&first);
    let again = api.post("key-1", &body).await;
    assert_eq!(again.text, first.text);
    assert_eq!(again.header("idempotent-replayed"), "true", "the commit had happened");
}

#[tokio::test]
async fn a_create_whose_request_ran_out_of_time_goes_on_and_is_found_by_its_key() {
    let api = Api::start(|api| api.request_timeout = Duration::from_millis(400)).await;
    let body = payment(&due_in(3_600));
    // Fills the key cache and opens a connection, so that the delay below falls on the create.
    id_of(&api.post("warm-up", &body).await);
    api.proxy.set(Fault::Delay(Duration::from_millis(300))).await;
    let refused = api.post("key-1", &body).await;
    assert_eq!(refused.refusal(), (503, "request_timed_out".into()));
    api.proxy.set(Fault::Pass).await;
    let mut database = PgConnection::connect(&api.database.url).await.expect("a connection");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotency_keys WHERE key = 'key-1'")
            .fetch_one(&mut database)
            .await
            .expect("a count");
        if kept == 1 {
            break;
        }
        assert!(Instant::now() < deadline, "the create that nobody waited for was not committed");
    }
    let again = api.post("key-1", &body).await;
    id_of(&again);
    assert_eq!(again.header("idempotent-replayed"), "true");
}

/// Everything that this process traces, of all tests.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// For the whole process: a subscriber of one thread is passed over at callsites that another
    /// thread came upon first. Our own code and the driver only, since the client of these tests
    /// traces what it sends.
    fn install() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("off,punctual=trace,sqlx=trace")
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only one in this process");
        log
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no writer panicked")).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_secret_reaches_the_log_at_its_most_talkative() {
    let log = Log::install();
    let api = Api::start(|_| {}).await;
    let mut body = payment(&due_in(3_600));
    body["description"] = json!("canary_description");
    body["metadata"] = json!({"note": "canary_metadata"});
    let id = id_of(&api.post("canary_idempotency", &body).await);
    api.payment("GET", &id).await;
    body["payee"] = json!("4111111111111111");
    assert_eq!(api.post("key-2", &body).await.refusal(), (422, "raw_card_number".into()));
    let unknown = api.payment("GET", "4111111111111111").await;
    assert_eq!(unknown.json()["instance"], "/v1/scheduled-payments/***");
    assert_eq!(api.post("4111-1111-1111-1111", &body).await.refusal(), (422, "raw_card_number".into()));
    let odd = api.request("4111111111111111", "/v1/scheduled-payments");
    assert_eq!(send(odd.header("Request-Id", "4111111111111111"), None).await.status, 405);
    let queried = api.request("TRACE", "/v1/events?limit=1");
    assert_eq!(send(queried, None).await.status, 405, "whatever it asks, the path has no such method");
    assert_eq!(api.payment("DELETE", &id).await.status, 200);
    let request = api.request("GET", &format!("/v1/scheduled-payments/{id}?note=canary_query"));
    assert_eq!(send(request.header("Request-Id", "the-last-one"), None).await.status, 400);

    let log = log.text();
    let line = |line: &&str| line.contains("request_id=the-last-one") && line.contains(": answered");
    assert_eq!(log.lines().filter(line).count(), 1, "one line a request");
    let secrets = [
        api.key.as_str(),
        "acct_canary_payee",
        "canary_description",
        "canary_metadata",
        "canary_idempotency",
        "canary_query",
        "4111111111111111",
        "4111-1111-1111-1111",
    ];
    for secret in secrets {
        let held = log.lines().find(|line| line.contains(secret));
        assert!(held.is_none(), "{secret} in {held:?}");
    }
}
