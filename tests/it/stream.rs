//! Streams of events as a client holds them, on a real database.

use crate::support::api::{Api, send};
use crate::support::eventually;
use chrono::{SecondsFormat, TimeDelta, Utc};
use punctual::domain::ids::Operator;
use punctual::schedule::{By, KeyRevoked};
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};
use std::time::Duration;
use tokio::sync::Mutex;

const STREAM: &str = "/v1/events/stream";
/// A transaction elsewhere in the cluster holds events back for as long as it runs.
const WITHIN: Duration = Duration::from_secs(60);

/// One frame: its id, its type and what it holds.
#[derive(Debug, Clone, PartialEq)]
struct Frame {
    id: String,
    kind: String,
    event: Value,
}

/// A stream that is being read.
struct Reader {
    answer: reqwest::Response,
    rest: String,
}

impl Reader {
    async fn open(api: &Api, key: &str, last: Option<&str>) -> Self {
        let mut request = api.anonymous("GET", STREAM).bearer_auth(key).header("Accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let answer = request.send().await.expect("the API answers");
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { answer, rest: String::new() }
    }

    /// The next frame, comments and all; `None` at the end.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.rest.split_once("\n\n") {
                let field = |name: &str| {
                    let prefix = format!("{name}: ");
                    frame.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
                };
                let event = serde_json::from_str(&field("data")).unwrap_or_default();
                let frame = Frame { id: field("id"), kind: field("event"), event };
                self.rest = rest.to_owned();
                return Some(frame);
            }
            // A connection that breaks off ends the stream too.
            let chunk = self.answer.chunk().await.ok().flatten()?;
            self.rest.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    /// The next frame that holds an event.
    async fn event(&mut self) -> Option<Frame> {
        let next = async {
            loop {
                match self.frame().await {
                    Some(frame) if frame.kind.is_empty() => {}
                    other => return other,
                }
            }
        };
        tokio::time::timeout(WITHIN, next).await.expect("something comes")
    }
}

async fn create(api: &Api, key: &str) -> String {
    let due_at = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Millis, true);
    let body = json!({"payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": due_at});
    let made = api.post(key, &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["paymentId"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn events_come_as_they_happen_and_a_client_that_returns_misses_none() {
    let api = Api::start(|_| {}).await;
    let old = create(&api, "old").await;
    let mut viewers = Vec::new();
    for _ in 0..3 {
        let mut reader = Reader::open(&api, &api.key, None).await;
        let greeting = reader.frame().await.expect("a greeting");
        assert!(greeting.kind.is_empty() && !greeting.id.is_empty(), "{greeting:?}");
        viewers.push((reader, greeting.id));
    }
    let first = create(&api, "k1").await;
    let mut seen = Vec::new();
    for (reader, _) in &mut viewers {
        // The old one may still have waited for an open transaction when the stream began.
        let mut frame = reader.event().await.expect("an event");
        if frame.event["subject"] == json!(old) {
            frame = reader.event().await.expect("an event");
        }
        assert_eq!(
            (frame.kind.as_str(), &frame.event["id"]),
            ("payment.scheduled", &json!(format!("{first}/1")))
        );
        seen.push(frame);
    }
    assert!(seen.iter().all(|frame| frame == &seen[0]), "{seen:?}");
    let greeted = viewers.remove(0).1;
    drop(viewers);

    let second = create(&api, "k2").await;
    let mut again = Reader::open(&api, &api.key, Some(&seen[0].id)).await;
    assert_eq!(again.event().await.expect("an event").event["id"], json!(format!("{second}/1")));
    // The greeting's id is a place too.
    let mut early = Reader::open(&api, &api.key, Some(&greeted)).await;
    let mut ids = Vec::new();
    while ids.last() != Some(&json!(format!("{second}/1"))) {
        ids.push(early.event().await.expect("an event").event["id"].clone());
    }
    assert!(ids.contains(&json!(format!("{first}/1"))), "{ids:?}");
    // And a page of the list goes on from a frame.
    let path = format!("/v1/events?after={}", seen[0].id);
    let page = send(api.request("GET", &path), None).await;
    assert_eq!(page.json()["data"][0]["id"], json!(format!("{second}/1")), "{}", page.text);
}

#[tokio::test]
async fn a_key_that_is_revoked_gets_no_further_event() {
    let api = Api::start(|api| api.key_cache = Duration::ZERO).await;
    let (reader_id, reader_key) = api.new_key_until("tester", &["payments:read"], None).await;
    let mut reader = Reader::open(&api, &reader_key, None).await;
    let mut other = Reader::open(&api, &api.key, None).await;
    for reader in [&mut reader, &mut other] {
        reader.frame().await.expect("a greeting");
    }
    let by = By { operator: Operator("test".into()), reason: "a test".into() };
    let ended = api.owner.revoke_api_key(reader_id, by).await.expect("asked");
    assert!(matches!(ended, KeyRevoked::Revoked(_)));
    let id = create(&api, "k1").await;
    assert_eq!(other.event().await.expect("an event").event["subject"], json!(id));
    assert_eq!(reader.event().await, None, "the stream ends without it");
}

#[tokio::test]
async fn streams_are_bounded_and_end_when_the_process_is_asked_to_stop() {
    let api = Api::start(|api| api.max_streams = 2).await;
    let mut one = Reader::open(&api, &api.key, None).await;
    let two = Reader::open(&api, &api.key, None).await;
    let third = async || send(api.request("GET", STREAM), None).await;
    let refused = third().await;
    assert_eq!(refused.refusal(), (503, "no_stream_free".into()));
    assert_eq!(refused.header("retry-after"), "1");
    drop(two);
    // The place is free once the server has noticed.
    let mut three = eventually("the place is free again", Duration::from_secs(40), || async {
        let request = api.request("GET", STREAM);
        let answer = request.send().await.expect("the API answers");
        (answer.status().as_u16() == 200).then(|| Reader { answer, rest: String::new() })
    })
    .await;
    for reader in [&mut one, &mut three] {
        reader.frame().await.expect("a greeting");
    }
    api.stop();
    assert_eq!(one.event().await, None);
    assert_eq!(three.event().await, None);
    assert_eq!(third().await.refusal(), (503, "no_stream_free".into()));
}

#[tokio::test]
async fn one_client_holds_a_quarter_of_the_streams_at_most() {
    let api = Api::start(|api| api.max_streams = 12).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(Reader::open(&api, &api.key, None).await);
    }
    assert_eq!(send(api.request("GET", STREAM), None).await.refusal(), (503, "no_stream_free".into()));
    let other = api.new_key("another", &["payments:read"]).await;
    let mut reader = Reader::open(&api, &other, None).await;
    reader.frame().await.expect("a greeting");
}

#[tokio::test]
async fn a_stream_is_refused_before_it_begins_for_what_is_wrong_with_it() {
    let api = Api::start(|_| {}).await;
    let ask = async |query: &str, header: Option<(&str, &str)>| {
        let request = api.request("GET", &format!("{STREAM}{query}"));
        let request = match header {
            Some((name, value)) => request.header(name, value),
            None => request,
        };
        send(request, None).await.refusal()
    };
    assert_eq!(ask("?after=x", None).await, (400, "invalid_cursor".into()));
    assert_eq!(ask("", Some(("Last-Event-ID", "x"))).await, (400, "invalid_cursor".into()));
    assert_eq!(ask("?limit=1", None).await, (400, "unknown_parameter".into()));
    assert_eq!(ask("", Some(("Accept", "application/json"))).await, (406, "not_acceptable".into()));
    let json = send(api.request("GET", STREAM).header("Accept", "application/json"), None).await;
    assert!(
        json.json()["detail"].as_str().is_some_and(|why| why.contains("text/event-stream")),
        "{}",
        json.text
    );
    assert_eq!(send(api.anonymous("GET", STREAM), None).await.refusal(), (401, "unauthenticated".into()));
}

#[tokio::test]
async fn viewers_of_one_actor_share_one_look_at_the_database() {
    let api = Api::start(|_| {}).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut reader = Reader::open(&api, &api.key, None).await;
        reader.frame().await.expect("a greeting");
        readers.push(reader);
    }
    let sql = Mutex::new(PgConnection::connect(&api.database.url).await.expect("a connection"));
    let before = scans(&mut *sql.lock().await).await;
    let begun = Utc::now();
    let after = eventually("the tail has looked", Duration::from_secs(30), || async {
        let now = scans(&mut *sql.lock().await).await;
        // Statistics come in lumps of a second and more.
        (now > before && Utc::now() - begun > TimeDelta::seconds(5)).then_some(now)
    })
    .await;
    let (looks, seconds) = (after - before, (Utc::now() - begun).num_seconds());
    // Twice a second over three partitions, and what the viewers themselves read when they came; twenty tails
    // would make 120 a second.
    assert!(looks <= seconds * 12 + 150, "{looks} scans in {seconds} s");
}

/// Scans of the history, of all partitions and by whichever way.
async fn scans(sql: &mut PgConnection) -> i64 {
    sql.execute("SELECT pg_stat_clear_snapshot()").await.expect("cleared");
    let scans = "SELECT sum(seq_scan + coalesce(idx_scan, 0))::bigint FROM pg_stat_user_tables
                 WHERE relname LIKE 'payment_history_%'";
    sqlx::query_scalar(scans).fetch_one(sql).await.expect("a count")
}
