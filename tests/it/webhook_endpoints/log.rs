//! What an endpoint was and is owed: looked at page by page, sent again, kept for its time.
//!
//! The rows are written here as a sender would leave them; that the sender leaves them so is its own tests' affair.

use super::{ask, id, made};
use crate::support::api::Api;
use punctual::platform::config;
use punctual::schedule::{Access, Postgres, connect, statements::Statement};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

async fn sql(api: &Api) -> PgConnection {
    PgConnection::connect(&api.database.url).await.expect("a connection")
}

async fn run(api: &Api, statement: &str) -> u64 {
    let done = sql(api).await.execute(AssertSqlSafe(statement.to_owned())).await;
    done.unwrap_or_else(|error| panic!("{statement}: {error}")).rows_affected()
}

async fn worker(api: &Api) -> Postgres {
    let settings = config::Database { url: api.database.url.as_str().into(), pool: 2, ..Default::default() };
    connect(&settings, Access::Worker).await.expect("a worker connects")
}

/// Payments with two events each, all owed to this endpoint, in turn failed, delivered and pending.
async fn owed(api: &Api, endpoint: &str, payments: usize) {
    for n in 0..payments {
        let due = (chrono::Utc::now() + chrono::TimeDelta::hours(1)).to_rfc3339();
        let body = json!({"payee": "p", "amount": 1, "currency": "EUR", "dueAt": due});
        let created = api.post(&format!("k{n}"), &body).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let id = created.json()["paymentId"].as_str().expect("an id").to_owned();
        assert_eq!(api.payment("DELETE", &id).await.status, 200);
    }
    let owe = format!(
        "INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status,
             next_try_at, tries, rung, last_status, delivered_at)
         SELECT '{endpoint}', h.at, h.payment_id, h.seq, 'payment.scheduled', now(), s, now() + interval '1 hour', 8, 8,
                500, CASE s WHEN 'delivered' THEN now() END
         FROM (SELECT *, row_number() OVER (ORDER BY at, payment_id, seq) AS n FROM payment_history) AS h
         CROSS JOIN LATERAL (SELECT (ARRAY['failed', 'delivered', 'pending'])[1 + h.n % 3] AS s) AS t"
    );
    assert_eq!(run(api, &owe).await, 2 * payments as u64);
}

/// Every delivery of a walk in pages of two.
async fn walked(api: &Api, endpoint: &str, filter: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ask(api, "GET", &format!("/{endpoint}/deliveries?limit=2{filter}{cursor}"), None).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let page = page.json();
        let data = page["data"].as_array().expect("a list");
        assert!(data.len() <= 2);
        all.extend(data.iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

#[tokio::test]
async fn a_walk_through_the_log_meets_each_delivery_once_newest_event_first() {
    let api = Api::start(|_| {}).await;
    let (one, other) = (
        id(&made(&api, "https://shop.example/one").await),
        id(&made(&api, "https://shop.example/other").await),
    );
    owed(&api, &one, 5).await;
    let all = walked(&api, &one, "").await;
    assert_eq!(all.len(), 10);
    let places: Vec<&str> = all.iter().filter_map(|it| it["eventAt"].as_str()).collect();
    assert!(places.is_sorted_by(|one, next| one >= next), "{places:?}");
    for status in ["failed", "delivered", "pending", "discarded"] {
        let some = walked(&api, &one, &format!("&status={status}")).await;
        let wanted: Vec<&Value> = all.iter().filter(|it| it["status"] == status).collect();
        assert_eq!(some.iter().collect::<Vec<_>>(), wanted, "{status}");
    }
    assert_eq!(walked(&api, &other, "").await, Vec::<Value>::new());
    // A cursor belongs to its endpoint and its filter.
    let page = ask(&api, "GET", &format!("/{one}/deliveries?limit=2"), None).await.json();
    let cursor = page["nextCursor"].as_str().expect("there are more");
    for path in [
        format!("/{other}/deliveries?cursor={cursor}"),
        format!("/{one}/deliveries?status=failed&cursor={cursor}"),
    ] {
        assert_eq!(ask(&api, "GET", &path, None).await.refusal(), (400, "invalid_cursor".into()), "{path}");
    }
}

#[tokio::test]
async fn one_event_is_sent_again_unless_it_is_being_sent_and_its_log_stays() {
    let api = Api::start(|_| {}).await;
    let endpoint = id(&made(&api, "https://shop.example/hook").await);
    owed(&api, &endpoint, 2).await;
    run(
        &api,
        "INSERT INTO webhook_tries
         SELECT endpoint_id, event_at, payment_id, seq, n, now(), 12, 500, NULL, 'oops' FROM webhook_deliveries
         CROSS JOIN generate_series(1, 8) AS n",
    )
    .await;
    for delivery in walked(&api, &endpoint, "").await {
        let event = delivery["eventId"].as_str().expect("an id");
        let path = format!("/{endpoint}/deliveries/{event}");
        let shown = ask(&api, "GET", &path, None).await.json();
        let log = shown["log"].as_array().expect("a log");
        assert_eq!((log.len(), &log[0]["number"], &log[0]["excerpt"]), (8, &json!(8), &json!("oops")));
        let again = ask(&api, "POST", &format!("{path}/resend"), None).await;
        assert_eq!(again.status, 202, "{}", again.text);
        let again = again.json();
        assert_eq!(
            (&again["status"], &again["tries"], &again["deliveredAt"]),
            (&json!("pending"), &json!(8), &Value::Null)
        );
        assert_eq!(ask(&api, "GET", &path, None).await.json()["log"], shown["log"]);
    }
    assert_eq!(
        api.one::<i64>("SELECT count(*) FROM webhook_deliveries WHERE rung = 0 AND fence = 1").await,
        4
    );
    // A sender that holds one is waited for; one whose lease ran out is fenced off.
    let event = walked(&api, &endpoint, "").await[0]["eventId"].as_str().expect("an id").to_owned();
    let resend = format!("/{endpoint}/deliveries/{event}/resend");
    for (until, status) in [("1 min", 409), ("-1 ms", 202)] {
        let hold = format!(
            "UPDATE webhook_deliveries SET lease_holder = 'a sender', lease_until = clock_timestamp() + interval '{until}', fence = 7"
        );
        run(&api, &hold).await;
        let answer = ask(&api, "POST", &resend, None).await;
        assert_eq!(answer.status, status, "{until}: {}", answer.text);
    }
    assert_eq!(
        api.one::<i64>("SELECT count(*) FROM webhook_deliveries WHERE fence = 8 AND lease_holder IS NULL")
            .await,
        1
    );
}

#[tokio::test]
async fn what_failed_since_an_instant_is_sent_again_and_nothing_else() {
    let api = Api::start(|_| {}).await;
    let endpoint = id(&made(&api, "https://shop.example/hook").await);
    owed(&api, &endpoint, 6).await;
    // Yesterday's failures, of nobody's payments: only today's are asked for at first.
    run(
        &api,
        &format!(
            "INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status, next_try_at)
             SELECT '{endpoint}', date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - n * interval '1 s',
                    '01a2283e-8820-8aaa-9bbb-0123456789ab', n, 'payment.noted', now(), 'failed', now()
             FROM generate_series(1, 1500) AS n"
        ),
    )
    .await;
    let failed = "SELECT count(*) FROM webhook_deliveries WHERE status = 'failed'";
    assert_eq!(api.one::<i64>(failed).await, 1_504);
    let path = format!("/{endpoint}/resend");
    let since = |at: String| ask(&api, "POST", &path, Some(json!({"since": at})));
    let today = chrono::Utc::now().date_naive();
    let answer = since(format!("{today}T00:00:00Z")).await;
    assert_eq!(answer.json(), json!({"resent": 4, "hasMore": false}), "{}", answer.text);
    assert_eq!(api.one::<i64>(failed).await, 1_500);
    assert_eq!(
        since("2020-01-01T00:00:00+02:00".into()).await.json(),
        json!({"resent": 1_500, "hasMore": false})
    );
    assert_eq!(since("2020-01-01T00:00:00Z".into()).await.json(), json!({"resent": 0, "hasMore": false}));
    let delivered = "SELECT count(*) FROM webhook_deliveries WHERE status = 'delivered'";
    assert_eq!(api.one::<i64>(delivered).await, 4, "what arrived is not sent again by this");
}

#[tokio::test]
async fn test_messages_are_owed_like_events_ten_at_a_time() {
    let api = Api::start(|_| {}).await;
    let endpoint = id(&made(&api, "https://shop.example/hook").await);
    for n in 0..10 {
        let test = ask(&api, "POST", &format!("/{endpoint}/test"), None).await;
        assert_eq!(test.status, 202, "{n}: {}", test.text);
        let event = test.json()["eventId"].as_str().expect("an id").to_owned();
        let shown = ask(&api, "GET", &format!("/{endpoint}/deliveries/{event}"), None).await.json();
        assert_eq!((&shown["eventType"], &shown["paymentId"]), (&json!("webhook.test"), &Value::Null));
        assert_eq!(
            (&shown["status"], &shown["sequence"], &shown["log"]),
            (&json!("pending"), &json!(0), &json!([]))
        );
    }
    let eleventh = ask(&api, "POST", &format!("/{endpoint}/test"), None).await;
    assert_eq!(eleventh.refusal(), (409, "webhook_tests_waiting".into()));
}

#[tokio::test]
async fn old_days_go_when_they_owe_nothing_and_deleted_endpoints_are_owed_nothing() {
    let api = Api::start(|_| {}).await;
    let (kept, gone) = (
        id(&made(&api, "https://shop.example/kept").await),
        id(&made(&api, "https://shop.example/gone").await),
    );
    let keeper = worker(&api).await;
    for days in [40, 41, 42] {
        run(&api, &format!("SELECT ensure_webhook_days(current_date - {days}, current_date - {days})")).await;
    }
    let owe = |endpoint: &str, days: u32, status: &str| {
        format!(
            "INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status, next_try_at)
             VALUES ('{endpoint}', (current_date - {days}) + time '12:00' AT TIME ZONE 'UTC', gen_random_uuid(), 1,
                     'payment.noted', now(), '{status}', now())"
        )
    };
    for (endpoint, days, status) in
        [(&kept, 40, "pending"), (&kept, 41, "failed"), (&gone, 42, "pending"), (&gone, 0, "pending")]
    {
        run(&api, &owe(endpoint, days, status)).await;
    }
    assert_eq!(ask(&api, "DELETE", &format!("/{gone}"), None).await.status, 200);
    assert_eq!(keeper.discard_deliveries(1).await.expect("asked"), 1, "some at a time");
    assert_eq!(keeper.discard_deliveries(9).await.expect("asked"), 1);
    assert_eq!(keeper.discard_deliveries(9).await.expect("asked"), 0);
    assert_eq!(keeper.drop_webhook_days(30).await.expect("asked"), 2, "the days that owe nothing");
    let days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'webhook_deliveries'::regclass";
    let left: i64 = api.one(days).await;
    assert_eq!(left, 10, "yesterday to a week ahead, and the one that is owed");
    assert_eq!(left, api.one::<i64>(&days.replace("deliveries", "tries")).await);
    // What a disabled endpoint is owed keeps no day for ever.
    assert_eq!(ask(&api, "POST", &format!("/{kept}/disable"), None).await.status, 200);
    assert_eq!(keeper.drop_webhook_days(30).await.expect("asked"), 1);
    assert_eq!(
        ask(&api, "GET", &format!("/{kept}"), None).await.json()["skippedEvents"],
        1,
        "and it is counted"
    );
    assert_eq!(api.one::<i64>("SELECT count(*) FROM webhook_endpoints").await, 2);
    run(
        &api,
        "UPDATE webhook_endpoints SET deleted_at = now() - interval '31 days' WHERE deleted_at IS NOT NULL",
    )
    .await;
    assert_eq!(keeper.drop_webhook_days(30).await.expect("asked"), 0);
    assert_eq!(
        api.one::<i64>("SELECT count(*) FROM webhook_endpoints").await,
        1,
        "its log is gone, and so is it"
    );
}

#[tokio::test]
async fn what_a_sender_that_died_was_sending_to_a_deleted_endpoint_is_discarded_once_its_lease_is_over() {
    let api = Api::start(|_| {}).await;
    let gone = id(&made(&api, "https://shop.example/gone").await);
    let keeper = worker(&api).await;
    let owe = format!(
        "INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status,
             next_try_at, tries, lease_holder, lease_until, fence)
         VALUES ('{gone}', now(), gen_random_uuid(), 1, 'payment.noted', now(), 'pending', now(), 1, 'sender',
                 now() + interval '1 hour', 1)"
    );
    assert_eq!(run(&api, &owe).await, 1);
    assert_eq!(ask(&api, "DELETE", &format!("/{gone}"), None).await.status, 200);
    assert_eq!(
        keeper.discard_deliveries(9).await.expect("asked"),
        0,
        "what is being sent is left to its end"
    );
    run(&api, "UPDATE webhook_deliveries SET lease_until = now() - interval '1 second'").await;
    assert_eq!(keeper.discard_deliveries(9).await.expect("asked"), 1);
    let left = "SELECT status || ' ' || fence FROM webhook_deliveries WHERE lease_holder IS NULL AND lease_until IS NULL";
    assert_eq!(
        api.one::<String>(left).await,
        "discarded 2",
        "what the sender still notes is behind the fence"
    );
}

/// A statement of the log, its parameters as SQL, and an index that serves it.
const LOOKS: [(&str, &str, &str); 6] = [
    ("list_webhook_deliveries", "E, now(), NOBODY, 1, 51", "_pkey"),
    ("list_failed_webhook_deliveries", "E, now(), NOBODY, 1, 51", "_endpoint_id_event_at_idx"),
    ("find_webhook_delivery", "E, now(), NOBODY, 1", "_pkey"),
    ("list_webhook_tries", "E, now(), NOBODY, 1, 51", "_pkey"),
    ("resend_webhook_delivery", "E, now(), NOBODY, 1, NOBODY", "_pkey"),
    (
        "resend_failed_webhook_deliveries",
        "E, date_trunc('day', now()), date_trunc('day', now()) + interval '1 day', 51, NOBODY",
        "_endpoint_id_event_at_idx",
    ),
];

#[tokio::test]
async fn a_look_into_the_log_reads_no_more_for_all_that_other_endpoints_are_owed() {
    let api = Api::start(|_| {}).await;
    let endpoint = id(&made(&api, "https://shop.example/hook").await);
    let mut sql = sql(&api).await;
    for statement in [
        "SET plan_cache_mode = force_custom_plan",
        "SET timezone = 'UTC'",
        "INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status, next_try_at)
         SELECT '00000000-0000-0000-0000-00000000000a', now() - n * interval '1 ms',
                '01a2283e-8820-8aaa-9bbb-0123456789ab', n, 'payment.noted', now(),
                CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'pending' END, now()
         FROM generate_series(1, 20000) AS n",
        "INSERT INTO webhook_tries
         SELECT endpoint_id, event_at, payment_id, seq, 1, now(), 1, 500, NULL, '' FROM webhook_deliveries",
        "ANALYZE webhook_deliveries, webhook_tries",
    ] {
        sql.execute(AssertSqlSafe(statement)).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    for (name, arguments, index) in LOOKS {
        let text = Statement::named(name).expect("listed").text;
        sql.execute(AssertSqlSafe(format!("PREPARE look AS {text}"))).await.expect("prepared");
        let arguments = arguments.replace("NOBODY", "'01a2283e-8820-8aaa-9bbb-0123456789ab'");
        let arguments = arguments.replace("E,", &format!("'{endpoint}',"));
        let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE look ({arguments})");
        let plan: Value =
            sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut sql).await.expect("a plan");
        sql.execute("DEALLOCATE look").await.expect("gone");
        let text = plan.to_string();
        assert!(text.contains(index), "{name} by {index}: {plan:#}");
        let removed: f64 = sum(&plan, "Rows Removed by Filter");
        assert!(removed <= 51.0, "{name} looks at {removed} rows for nothing: {plan:#}");
    }
}

#[allow(clippy::float_arithmetic, reason = "numbers of a plan, no money")]
fn sum(plan: &Value, name: &str) -> f64 {
    let own = plan.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let parts = plan.as_object().map(|fields| fields.values().collect::<Vec<_>>());
    let parts = parts.or_else(|| plan.as_array().map(|items| items.iter().collect())).unwrap_or_default();
    own + parts.into_iter().map(|part| sum(part, name)).sum::<f64>()
}
