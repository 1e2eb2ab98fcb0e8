//! Lists and histories as a client sees them, on a real database.

mod filters;
mod plans;
mod walks;

use crate::support::api::{Answer, Api, send};
use crate::support::proxy::Fault;
use chrono::{DateTime, SecondsFormat, SubsecRound, TimeDelta, Utc};
use futures_util::{StreamExt, stream};
use punctual::domain::decision::{Budget, Decision, EpochChange, SendsAnswered};
use punctual::domain::facts::VoidSupport;
use punctual::domain::ids::{GatewayName, PaymentId, WorkerName};
use punctual::domain::lease::{Lease, Mono};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::notice::Notice;
use punctual::domain::reason::Reason;
use punctual::domain::state::{Cause, Status};
use punctual::domain::verdict::{Decline, DeclineClass, Verdict};
use punctual::platform::config;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{
    Access, Answer as GatewayAnswer, ClaimAnswer, ClaimTerms, How, Postgres, Schedule, connect,
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::Duration;

const LIST: &str = "/v1/scheduled-payments";

fn text(at: DateTime<Utc>) -> String {
    at.trunc_subsecs(3).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn body(due_at: DateTime<Utc>) -> Value {
    json!({"payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": text(due_at)})
}

/// An hour ahead.
fn later() -> DateTime<Utc> {
    Utc::now() + TimeDelta::hours(1)
}

async fn create(api: &Api, key: &str, body: &Value) -> String {
    let answer = api.post(key, body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()["paymentId"].as_str().expect("an id").to_owned()
}

async fn get(api: &Api, path: &str) -> Answer {
    send(api.request("GET", path), None).await
}

async fn list(api: &Api, query: &str) -> Value {
    let answer = get(api, &format!("{LIST}?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text);
    answer.json()
}

fn ids(page: &Value) -> Vec<String> {
    let data = page["data"].as_array().expect("a list");
    data.iter().map(|payment| payment["paymentId"].as_str().expect("an id").to_owned()).collect()
}

async fn as_other(api: &Api, key: &str, path: &str) -> Answer {
    send(api.anonymous("GET", path).bearer_auth(key), None).await
}

/// Runs one statement behind the rules' back.
async fn run(api: &Api, statement: &str) {
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    let done = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut sql).await;
    done.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// A worker's hand on the schedule.
struct Worker(Postgres);

impl Worker {
    async fn new(api: &Api) -> Self {
        let settings =
            config::Database { url: api.database.url.clone().into(), pool: 2, ..Default::default() };
        let worker = connect(&settings, Access::Worker).await.expect("a worker connects");
        worker
            .register_gateway(&GatewayName("sandbox".into()), "sandbox-1", VoidSupport::None)
            .await
            .expect("registered");
        Self(worker)
    }

    /// Claims this payment by its own notice, and settles it so.
    async fn attempt(&self, api: &Api, id: &str, verdict: Verdict, decision: Decision) {
        let id: PaymentId = id.parse().expect("an id");
        let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
        let row: (i16, DateTime<Utc>, DateTime<Utc>, i32) =
            sqlx::query_as("SELECT lane, due_at, next_attempt_at, attempt FROM payments WHERE id = $1")
                .bind(id.as_uuid())
                .fetch_one(&mut sql)
                .await
                .expect("a payment");
        let (lane, due_at, not_before, attempt) = row;
        let gateway = GatewayName("sandbox".into());
        let notice = Notice { payment: id, gateway: gateway.clone(), lane, due_at, not_before, attempt };
        let seconds = Duration::from_secs;
        let terms = ClaimTerms {
            gateway,
            account: "sandbox-1".into(),
            renderer: 1,
            worker: WorkerName("w1/1".into()),
            lease: Lease { length: seconds(30), margin: seconds(5), gateway_total: seconds(20) },
            asked_at: Mono(seconds(100)),
        };
        let mut answers = self.0.claim(&terms, &[notice], &[Os.claim_id()]).await.expect("claimed");
        let Some(ClaimAnswer::Claimed(claimed)) = answers.pop() else { panic!("not won") };
        let answered = claimed.answered(GatewayAnswer::silent(verdict, How::Sent));
        self.0.settle(vec![(answered, decision)]).await.map_err(|failed| failed.error).expect("settled");
    }
}

fn declined() -> (Verdict, Decision) {
    let decline = Decline {
        class: DeclineClass::Soft,
        code: "insufficient_funds".into(),
        network_code: None,
        reference: None,
        retry_after: None,
    };
    let decision = Decision {
        to: Status::Pending,
        cause: Cause::Settled,
        reason: Some(Reason::DeclinedSoft),
        next_attempt_at: Some(Utc::now() - TimeDelta::milliseconds(1)),
        answered: SendsAnswered::Own,
        budget: Budget::Keep,
        epoch: EpochChange::Next,
        gateway_ref: None,
    };
    (Verdict::Declined(decline), decision)
}

fn charged(reference: &str) -> (Verdict, Decision) {
    let minor = Minor::new(1050).expect("positive");
    let amount = Money { minor, currency: Currency::from_code("EUR").expect("in the table") };
    let decision = Decision {
        to: Status::Completed,
        cause: Cause::Settled,
        reason: None,
        next_attempt_at: None,
        answered: SendsAnswered::All,
        budget: Budget::Keep,
        epoch: EpochChange::Same,
        gateway_ref: Some(reference.to_owned()),
    };
    (Verdict::Charged { reference: reference.to_owned(), amount }, decision)
}

/// A payment that is due.
async fn due(api: &Api, key: &str) -> String {
    let due_at = Utc::now() - TimeDelta::seconds(1);
    create(api, key, &body(due_at)).await
}

async fn with_grace() -> Api {
    Api::start(|api| api.due_grace = Duration::from_secs(60)).await
}

#[tokio::test]
async fn a_list_shows_a_payment_as_it_stands_without_its_attempts() {
    let api = with_grace().await;
    let id = due(&api, "key-1").await;
    let (verdict, decision) = declined();
    Worker::new(&api).await.attempt(&api, &id, verdict, decision).await;
    let page = list(&api, "").await;
    assert_eq!(page["nextCursor"], Value::Null);
    let mut one = api.payment("GET", &id).await.json();
    for member in ["attempts", "latenessMs"] {
        assert_ne!(one.as_object_mut().expect("an object").remove(member), None, "{member}");
    }
    assert_eq!(one["statusReason"], "declined_soft");
    assert_eq!(page["data"], json!([one]));
}

#[tokio::test]
async fn filters_hold_all_at_once() {
    let api = Api::start(|_| {}).await;
    let start = Utc::now();
    let mut made = Vec::new();
    for n in 0..6_i32 {
        made.push(create(&api, &format!("key-{n}"), &body(later() + TimeDelta::days(i64::from(n)))).await);
    }
    assert_eq!(api.payment("DELETE", &made[2]).await.status, 200);
    let day = |n| text(later() + TimeDelta::days(n) - TimeDelta::minutes(30));
    let newest_first = |places: &[usize]| places.iter().map(|place| made[*place].clone()).collect::<Vec<_>>();
    let end = text(start + TimeDelta::hours(1));
    for (query, places) in [
        ("status=PENDING".to_owned(), &[5, 4, 3, 1, 0][..]),
        ("status=CANCELLED".into(), &[2]),
        ("status=CANCELLED,PENDING".into(), &[5, 4, 3, 2, 1, 0]),
        ("status=FAILED".into(), &[]),
        (format!("dueFrom={}&dueTo={}", day(1), day(4)), &[1, 2, 3]),
        (format!("dueFrom={}&dueTo={}&status=PENDING", day(1), day(4)), &[1, 3]),
        (format!("dueFrom={}", day(4)), &[4, 5]),
        (format!("dueTo={}", day(2)), &[0, 1]),
        (format!("createdFrom={}", text(start - TimeDelta::seconds(1))), &[5, 4, 3, 2, 1, 0]),
        (format!("createdFrom={end}"), &[]),
        (format!("createdTo={end}&dueFrom={}", day(5)), &[5]),
        (format!("createdFrom={end}&dueFrom={}", day(5)), &[]),
    ] {
        assert_eq!(ids(&list(&api, &query).await), newest_first(places), "{query}");
    }
    let created =
        list(&api, "status=CANCELLED").await["data"][0]["createdAt"].as_str().expect("a time").to_owned();
    // The start of a span belongs to it, the end does not.
    assert_eq!(ids(&list(&api, &format!("createdFrom={created}")).await), newest_first(&[5, 4, 3, 2]));
    assert_eq!(ids(&list(&api, &format!("createdTo={created}")).await), newest_first(&[1, 0]));
    let due_at =
        list(&api, "status=CANCELLED").await["data"][0]["dueAt"].as_str().expect("a time").to_owned();
    assert_eq!(ids(&list(&api, &format!("dueTo={due_at}")).await), newest_first(&[0, 1]));
    assert_eq!(ids(&list(&api, &format!("dueFrom={due_at}")).await), newest_first(&[2, 3, 4, 5]));
}

#[tokio::test]
async fn a_name_of_its_own_finds_one_payment_or_none() {
    let api = with_grace().await;
    let mut with_name = body(later());
    with_name["externalId"] = json!("inv 1/ü");
    let named = create(&api, "key-1", &with_name).await;
    let paid = due(&api, "key/2").await;
    let (verdict, decision) = charged("ch_1");
    Worker::new(&api).await.attempt(&api, &paid, verdict, decision).await;
    for (query, found) in [
        ("externalId=inv%201/%C3%BC", Some(&named)),
        ("externalId=inv%201/%C3%BC&status=PENDING", Some(&named)),
        ("externalId=inv%201/%C3%BC&status=PARKED", None),
        ("externalId=inv%201/%C3%BC&dueTo=2020-01-01T00:00:00Z", None),
        ("externalId=inv", None),
        ("idempotencyKey=key-1", Some(&named)),
        ("idempotencyKey=key%2F2", Some(&paid)),
        ("idempotencyKey=key-3", None),
        ("gatewayReference=ch_1", Some(&paid)),
        ("gatewayReference=ch_2", None),
    ] {
        let page = list(&api, query).await;
        assert_eq!(ids(&page), Vec::from_iter(found.cloned()), "{query}");
        assert_eq!(page["nextCursor"], Value::Null);
    }
    assert_eq!(list(&api, "gatewayReference=ch_1").await["data"][0]["gatewayReference"], "ch_1");
    // The id is free again.
    assert_eq!(api.payment("DELETE", &named).await.status, 200);
    assert_eq!(ids(&list(&api, "externalId=inv%201/%C3%BC").await), [""; 0]);
}

#[tokio::test]
async fn another_actor_sees_nothing_by_any_road() {
    let api = with_grace().await;
    let mut with_name = body(later());
    with_name["externalId"] = json!("inv-1");
    let mine = create(&api, "key-1", &with_name).await;
    create(&api, "key-2", &body(later())).await;
    let paid = due(&api, "key-3").await;
    let (verdict, decision) = charged("ch_1");
    Worker::new(&api).await.attempt(&api, &paid, verdict, decision).await;
    let other = api.new_key("other", &["payments:read"]).await;
    for query in [
        "",
        "status=PENDING",
        "dueFrom=2020-01-01T00:00:00Z",
        "externalId=inv-1",
        "idempotencyKey=key-1",
        "gatewayReference=ch_1",
    ] {
        let page = as_other(&api, &other, &format!("{LIST}?{query}")).await;
        assert_eq!((page.status, page.text.as_str()), (200, r#"{"data":[],"nextCursor":null}"#), "{query}");
        assert_ne!(ids(&list(&api, query).await), [""; 0], "{query}: its owner sees it");
    }
    let foreign = as_other(&api, &other, &format!("{LIST}/{mine}/history")).await;
    assert_eq!(foreign.refusal(), (404, "payment_not_found".into()));
    let cursor = list(&api, "limit=1").await["nextCursor"].as_str().expect("a cursor").to_owned();
    let stolen = as_other(&api, &other, &format!("{LIST}?limit=1&cursor={cursor}")).await;
    assert_eq!(stolen.refusal(), (400, "invalid_cursor".into()));
}

#[tokio::test]
async fn a_page_and_a_history_that_did_not_change_are_not_sent_again() {
    let api = Api::start(|_| {}).await;
    let id = create(&api, "key-1", &body(later())).await;
    create(&api, "key-2", &body(later())).await;
    for path in [format!("{LIST}?limit=1"), LIST.to_owned(), format!("{LIST}/{id}/history")] {
        let first = get(&api, &path).await;
        let tag = first.header("etag").to_owned();
        assert!(first.status == 200 && tag.starts_with("W/\""), "{path} {tag}");
        assert_eq!(first.header("cache-control"), "private, no-cache");
        let again = send(api.request("GET", &path).header("If-None-Match", &tag), None).await;
        assert_eq!(
            (again.status, again.text.as_str(), again.header("etag")),
            (304, "", tag.as_str()),
            "{path}"
        );
    }
    let before = get(&api, LIST).await.header("etag").to_owned();
    let history = get(&api, &format!("{LIST}/{id}/history")).await.header("etag").to_owned();
    assert_eq!(api.payment("DELETE", &id).await.status, 200);
    for (path, tag) in [(LIST.to_owned(), before), (format!("{LIST}/{id}/history"), history)] {
        let changed = send(api.request("GET", &path).header("If-None-Match", tag), None).await;
        assert!(changed.status == 200 && changed.text.contains("CANCELLED"), "{path} {}", changed.text);
    }
}

#[tokio::test]
async fn a_history_tells_every_step_of_a_payment_that_was_retried() {
    let api = with_grace().await;
    let id = due(&api, "key-1").await;
    let worker = Worker::new(&api).await;
    for (verdict, decision) in [declined(), charged("ch_1")] {
        worker.attempt(&api, &id, verdict, decision).await;
    }
    let answer = get(&api, &format!("{LIST}/{id}/history")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let history = answer.json();
    assert_eq!(history["paymentId"], json!(id));
    let rows = history["data"].as_array().expect("a list");
    let told: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!([
                row["seq"],
                row["from"],
                row["to"],
                row["cause"],
                row["by"],
                row["fence"],
                row["attempt"],
                row["epoch"]
            ])
        })
        .collect();
    assert_eq!(
        json!(told),
        json!([
            [1, null, "PENDING", "created", "client", 0, 0, 0],
            [2, "PENDING", "PROCESSING", "claimed", "w1/1", 1, 1, 0],
            [3, "PROCESSING", "PENDING", "settled", "w1/1", 1, 1, 1],
            [4, "PENDING", "PROCESSING", "claimed", "w1/1", 2, 2, 1],
            [5, "PROCESSING", "COMPLETED", "settled", "w1/1", 2, 2, 1],
        ])
    );
    assert_eq!(rows[2]["detail"]["code"], "insufficient_funds");
    assert_eq!(rows[4]["detail"]["reference"], "ch_1");
    assert_eq!(rows[0]["prev"], "0".repeat(64));
    for pair in rows.windows(2) {
        assert_eq!(pair[1]["prev"], pair[0]["hash"]);
        assert!(pair[0]["at"].as_str() <= pair[1]["at"].as_str());
    }
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    let newest: String = sqlx::query_scalar("SELECT encode(history_hash, 'hex') FROM payments")
        .fetch_one(&mut sql)
        .await
        .expect("a hash");
    assert_eq!(rows[4]["hash"], newest);
    let shown = api.payment("GET", &id).await.json();
    assert_eq!((&shown["version"], &shown["createdAt"]), (&rows[4]["seq"], &rows[0]["at"]));
}

#[tokio::test]
async fn a_row_written_on_a_day_nobody_would_look_at_first_is_found() {
    let api = Api::start(|_| {}).await;
    let id = create(&api, "key-1", &body(later() + TimeDelta::days(3))).await;
    // As if it had been made two days ago: its one row lies behind that day, before it is due, and
    // past its last move.
    run(
        &api,
        "UPDATE payments SET created_at = created_at - interval '2 days',
                             last_moved_at = last_moved_at - interval '2 days'",
    )
    .await;
    let history = get(&api, &format!("{LIST}/{id}/history")).await.json();
    assert_eq!(history["data"].as_array().map(Vec::len), Some(1), "{history}");
}

#[tokio::test]
async fn every_refusal_says_what_is_wrong() {
    let api = Api::start(|_| {}).await;
    let id = create(&api, "key-1", &body(later())).await;
    create(&api, "key-2", &body(later())).await;
    let cursor = list(&api, "limit=1").await["nextCursor"].as_str().expect("a cursor").to_owned();
    let flipped = format!("{}{}", if cursor.starts_with('A') { 'B' } else { 'A' }, &cursor[1..]);
    for (query, code, pointer) in [
        ("stauts=PENDING".to_owned(), "unknown_parameter", Some("/stauts")),
        ("status=PENDING&status=PENDING".into(), "duplicate_parameter", Some("/status")),
        ("status=pending".into(), "invalid_parameter", Some("/status")),
        ("limit=0".into(), "invalid_parameter", Some("/limit")),
        ("limit=201".into(), "invalid_parameter", Some("/limit")),
        ("dueFrom=2030-01-31T09:00:00".into(), "invalid_time", Some("/dueFrom")),
        (
            "dueFrom=2030-01-31T09:00:00%2B02:00&dueTo=2030-01-31T07:00:00Z".into(),
            "invalid_parameter",
            Some("/dueTo"),
        ),
        ("externalId=a%00".into(), "invalid_parameter", Some("/externalId")),
        ("externalId=a&gatewayReference=b".into(), "conflicting_parameters", Some("/gatewayReference")),
        (format!("idempotencyKey=key-1&cursor={cursor}"), "conflicting_parameters", Some("/cursor")),
        ("cursor=".into(), "invalid_cursor", Some("/cursor")),
        (format!("cursor={flipped}"), "invalid_cursor", Some("/cursor")),
        (format!("cursor={cursor}&status=PENDING"), "invalid_cursor", Some("/cursor")),
        (format!("cursor={cursor}&dueFrom=1970-01-01T00:00:00Z"), "invalid_cursor", Some("/cursor")),
    ] {
        let refused = get(&api, &format!("{LIST}?{query}")).await;
        assert_eq!(refused.refusal(), (400, code.to_owned()), "{query}");
        let shown = refused.json();
        assert_eq!(shown["errors"][0]["pointer"].as_str(), pointer, "{query}: {shown}");
        assert_eq!(shown["instance"], LIST, "the query is not repeated");
    }
    // Another limit is no other filter.
    assert_eq!(
        list(&api, &format!("cursor={cursor}&limit=7")).await["data"].as_array().map(Vec::len),
        Some(1)
    );

    let history = format!("{LIST}/{id}/history");
    let writer = api.new_key("tester", &["payments:write"]).await;
    for path in [LIST, history.as_str()] {
        let anonymous = send(api.anonymous("GET", path), None).await;
        assert_eq!(anonymous.refusal(), (401, "unauthenticated".into()), "{path}");
        assert_eq!(as_other(&api, &writer, path).await.refusal(), (403, "missing_scope".into()), "{path}");
        let html = send(api.request("GET", path).header("Accept", "text/html"), None).await;
        assert_eq!(html.refusal(), (406, "not_acceptable".into()), "{path}");
    }
    for unknown in
        ["nonsense", "8e03978e-40d5-43e8-bc93-6894a57f9324", "01a2283e-8820-8aaa-9bbb-0123456789ab"]
    {
        let refused = get(&api, &format!("{LIST}/{unknown}/history")).await;
        assert_eq!(refused.refusal(), (404, "payment_not_found".into()), "{unknown}");
    }
    let posted = send(api.request("POST", &history), Some(&json!({}))).await;
    assert_eq!(posted.refusal(), (405, "method_not_allowed".into()));
    assert_eq!(posted.header("allow"), "GET,HEAD");

    api.proxy.set(Fault::Reset).await;
    for path in [LIST, history.as_str(), &format!("{LIST}?externalId=a")] {
        assert_eq!(get(&api, path).await.refusal(), (503, "database_unavailable".into()), "{path}");
    }
}

/// Makes these payments, some at once; answers their ids in the order of `bodies`.
async fn create_all(api: &Api, prefix: &str, bodies: Vec<Value>) -> Vec<String> {
    let numbered = bodies.into_iter().enumerate();
    let creating =
        numbered.map(|(n, body)| async move { create(api, &format!("{prefix}-{n}"), &body).await });
    stream::iter(creating).buffered(8).collect().await
}
