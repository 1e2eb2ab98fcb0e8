//! An actor's own events, a page at a time, on a real database.

use crate::support::api::{Answer, Api, send};
use crate::support::eventually;
use chrono::{SecondsFormat, TimeDelta, Utc};
use punctual::domain::event;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

const EVENTS: &str = "/v1/events";

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    data: Vec<Box<RawValue>>,
    next_cursor: String,
    has_more: bool,
}

fn payment() -> Value {
    let due_at = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({"payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": due_at})
}

async fn create(api: &Api, api_key: &str, key: &str) -> String {
    let request = api.anonymous("POST", "/v1/scheduled-payments").bearer_auth(api_key);
    let made = send(request.header("Idempotency-Key", key), Some(&payment())).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["paymentId"].as_str().expect("an id").to_owned()
}

async fn ask(api: &Api, api_key: &str, query: &str) -> Answer {
    send(api.anonymous("GET", &format!("{EVENTS}{query}")).bearer_auth(api_key), None).await
}

async fn page(api: &Api, query: &str) -> Page {
    let answer = ask(api, &api.key, query).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error}: {}", answer.text))
}

fn id(event: &RawValue) -> String {
    let event: Value = serde_json::from_str(event.get()).expect("an object");
    event["id"].as_str().expect("an id").to_owned()
}

/// Walks in pages of `limit` until nothing is left; answers the texts of the events and the cursor.
async fn walk(api: &Api, from: Option<String>, limit: usize) -> (Vec<String>, String) {
    let (mut events, mut cursor) = (Vec::new(), from);
    loop {
        let after = cursor.map(|cursor| format!("&after={cursor}")).unwrap_or_default();
        let page = page(api, &format!("?limit={limit}{after}")).await;
        assert!(page.data.len() <= limit);
        events.extend(page.data.iter().map(|event| event.get().to_owned()));
        cursor = Some(page.next_cursor.clone());
        if !page.has_more {
            return (events, page.next_cursor);
        }
    }
}

/// A transaction elsewhere in the cluster holds events back for as long as it runs.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_actor_reads_the_very_events_that_are_published_and_nobody_else_s() {
    let api = Api::start(|_| {}).await;
    let stranger = api.new_key("stranger", &["payments:read", "payments:write"]).await;
    let mine = [create(&api, &api.key, "k1").await, create(&api, &api.key, "k2").await];
    let theirs = create(&api, &stranger, "k1").await;
    assert_eq!(api.payment("DELETE", &mine[0]).await.status, 200);

    let events = eventually("three events are shown", SHOWN_WITHIN, || async {
        let (events, _) = walk(&api, None, 2).await;
        (events.len() == 3).then_some(events)
    })
    .await;
    let lease = api.owner.acquire_publisher("test", Duration::from_secs(60)).await.expect("asked");
    let lease = lease.expect("nobody else publishes here");
    let published = eventually("all are to be published", SHOWN_WITHIN, || async {
        let batch = api.owner.unpublished(&lease, 100).await.expect("asked").expect("we lead");
        (batch.rows.len() == 4).then_some(batch.rows)
    })
    .await;
    let texts: Vec<String> = published
        .iter()
        .filter(|row| row.row.payment.to_string() != theirs)
        .map(|row| String::from_utf8(event::json(row)).expect("UTF-8"))
        .collect();
    assert_eq!(events, texts, "the same bytes in the same order");
    let answer = ask(&api, &stranger, "").await;
    let other: Page = serde_json::from_str(&answer.text).expect("a page");
    assert_eq!(other.data.iter().map(|event| id(event)).collect::<Vec<_>>(), [format!("{theirs}/1")]);
    // A cursor of one is none of the other.
    let cursor = page(&api, "").await.next_cursor;
    assert_eq!(
        ask(&api, &stranger, &format!("?after={cursor}")).await.refusal(),
        (400, "invalid_cursor".into())
    );
    for (query, code) in [
        ("?after=x", "invalid_cursor"),
        ("?limit=501", "invalid_parameter"),
        ("?cursor=x", "unknown_parameter"),
        ("?limit=1&limit=1", "duplicate_parameter"),
    ] {
        assert_eq!(ask(&api, &api.key, query).await.refusal(), (400, code.into()), "{query}");
    }
}

#[tokio::test]
async fn an_event_that_commits_late_is_not_passed_over() {
    let api = Api::start(|_| {}).await;
    let first = create(&api, &api.key, "k1").await;
    let seen = eventually("the first event is shown", SHOWN_WITHIN, || async {
        let (events, cursor) = walk(&api, None, 100).await;
        (events.len() == 1).then_some(cursor)
    })
    .await;
    // Takes its transaction id now and commits after the one that comes after it.
    let mut late = PgConnection::connect(&api.database.url).await.expect("a connection");
    for act in [
        "BEGIN".to_owned(),
        format!(
            "INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                 hash, xid)
             SELECT payment_id, 2, became, became, 'noted', 'test', fence, attempt, epoch, clock_timestamp(), '{{}}', hash,
                 pg_current_xact_id()
             FROM payment_history WHERE payment_id = '{first}'"
        ),
    ] {
        late.execute(AssertSqlSafe(act)).await.expect("done");
    }
    let second = create(&api, &api.key, "k2").await;
    let (events, between) = walk(&api, Some(seen.clone()), 100).await;
    assert_eq!(events, Vec::<String>::new(), "what came after it waits for it");
    late.execute("COMMIT").await.expect("committed");
    let events = eventually("both are shown", SHOWN_WITHIN, || async {
        let (events, _) = walk(&api, Some(between.clone()), 1).await;
        (events.len() == 2).then_some(events)
    })
    .await;
    let ids: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str::<Value>(event).expect("an object")["id"].clone())
        .collect();
    assert_eq!(ids, [json!(format!("{first}/2")), json!(format!("{second}/1"))]);
}

#[tokio::test]
async fn a_reader_in_a_storm_meets_every_event_once_and_each_payment_s_in_order() {
    let api = Api::start(|_| {}).await;
    let makes = async {
        let make = |n: usize| {
            let api = &api;
            async move {
                let id = create(api, &api.key, &format!("k{n}")).await;
                if n.is_multiple_of(2) {
                    assert_eq!(api.payment("DELETE", &id).await.status, 200);
                }
            }
        };
        for tens in 0..6 {
            futures_util::future::join_all((0..10).map(|n| make(tens * 10 + n))).await;
        }
    };
    let reads = async {
        let (found, cursor) = (RefCell::new(Vec::new()), RefCell::new(None));
        eventually("all 90 events are met", SHOWN_WITHIN, || async {
            let before = cursor.borrow_mut().take();
            let (events, next) = walk(&api, before, 7).await;
            found.borrow_mut().extend(events);
            *cursor.borrow_mut() = Some(next);
            (found.borrow().len() >= 90).then_some(())
        })
        .await;
        found.into_inner()
    };
    let ((), found) = tokio::join!(makes, reads);
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for event in &found {
        let event: Value = serde_json::from_str(event).expect("an object");
        let payment = event["subject"].as_str().expect("an id").to_owned();
        let sequence = event["sequence"].as_i64().expect("a number");
        assert_eq!(
            last.insert(payment, sequence).unwrap_or(0) + 1,
            sequence,
            "in order, without a gap, once"
        );
    }
    assert_eq!((found.len(), last.len()), (90, 60));
}

#[tokio::test]
async fn a_place_of_another_life_of_the_database_is_taken_by_its_time() {
    let api = Api::start(|_| {}).await;
    let first = create(&api, &api.key, "k1").await;
    let actor = {
        let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
        let actor = "SELECT actor_id FROM payment_history LIMIT 1";
        punctual::domain::ids::ActorId(
            sqlx::query_scalar(actor).fetch_one(&mut sql).await.expect("named in history"),
        )
    };
    let place = eventually("the event is shown", SHOWN_WITHIN, || async {
        let page = api.owner.events(actor, None, 10).await.expect("asked");
        (page.events.len() == 1).then_some(page.end)
    })
    .await;
    assert_eq!(api.owner.events(actor, Some(place), 10).await.expect("asked").events, []);
    // As after a failover: its transaction ids mean nothing here, and may be higher than any to come.
    let elsewhere = punctual::schedule::EventPlace { lineage: [0; 8], xid: u64::MAX >> 2, ..place };
    let again = api.owner.events(actor, Some(elsewhere), 10).await.expect("asked");
    let ids: Vec<String> = again.events.iter().map(|(_, event)| event::id(&event.row)).collect();
    assert_eq!(ids, [format!("{first}/1")], "met twice rather than never");
    assert_eq!(again.end.lineage, place.lineage);
}

#[tokio::test]
async fn every_statement_that_writes_history_names_the_actor_and_a_trigger_does_where_one_does_not() {
    let api = Api::start(|_| {}).await;
    let id = create(&api, &api.key, "k1").await;
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    let insert = format!(
        "INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
             hash, xid)
         SELECT payment_id, 2, became, became, 'noted', 'test', fence, attempt, epoch, at, '{{}}', hash, xid
         FROM payment_history WHERE payment_id = '{id}'"
    );
    sql.execute(AssertSqlSafe(insert)).await.expect("written");
    let named = "SELECT count(*) FROM payment_history h JOIN payments p ON p.id = h.payment_id WHERE h.actor_id = p.actor_id";
    let named: i64 = sqlx::query_scalar(named).fetch_one(&mut sql).await.expect("a count");
    assert_eq!(named, 2);
    for statement in punctual::schedule::statements::ALL {
        for insert in statement.text.split("INSERT INTO payment_history").skip(1) {
            let columns = insert.split(')').next().unwrap_or_default();
            assert!(columns.contains("actor_id"), "{}", statement.file);
        }
    }
}
