//! What must be in no signal: a whole run at its most talkative, with a word in every place that holds a secret or
//! something that a client wrote, and then a search for these words wherever anything is told.

use super::SOON;
use crate::support::collector::Collector;
use crate::support::eventually;
use crate::support::hooks::{Hook, Says};
use crate::support::installation::Installation;
use crate::support::services::services;
use chrono::{SecondsFormat, TimeDelta, Utc};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use std::time::Duration;

const GATEWAY: &str = "canary-gateway-secret";
const CALLBACKS: &str = "whsec_Y2FuYXJ5LWNhbGxiYWNrcy1zZWNyZXQtMzItYnl0ZXM=";
const DATABASE: &str = "canary-database-password";
const COLLECTOR: &str = "canary-collector-token";
const IN_URL: &str = "canary-in-url";
/// What clients wrote. The destinations are ones that the simulated gateway knows: a chain of what it does.
const WRITTEN: [&str; 9] = [
    "sim_slow_7|sim_slow_31337",
    "sim_timeout_charged|sim_slow_31338",
    "sim_wrong_amount|sim_slow_31339",
    "sim_garbage|sim_slow_31340",
    "acct_canary_payee",
    "canary-description",
    "canary-metadata",
    "canary-idempotency",
    "canary-query",
];
const CARDS: [&str; 2] = ["4111111111111111", "5555555555554444"];

/// Every process at TRACE, with a word in each secret setting.
async fn site(collector: &Collector) -> Installation {
    let mut site = Installation::new(&[
        ("gateway.secret", GATEWAY),
        ("sandbox.secret", GATEWAY),
        ("gateway.callback_secret", CALLBACKS),
        ("gateway.total_timeout", "2s"),
        ("gateway.connect_timeout", "1s"),
        ("ladder.reask", "500ms"),
        ("webhooks.allow", "127.0.0.0/8"),
        ("webhooks.poll", "100ms"),
    ])
    .await;
    let mut url = reqwest::Url::parse(site.setting("database.url")).expect("a URL");
    url.set_password(Some(DATABASE)).expect("a URL of a server");
    let mut says = |name: &str, value: &str| site.environment.insert(name.to_owned(), value.to_owned());
    says("PUNCTUAL_DATABASE__URL", url.as_str());
    says("PUNCTUAL_LOG", "trace");
    says("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    says("OTEL_EXPORTER_OTLP_HEADERS", &format!("authorization=Bearer {COLLECTOR}"));
    says("OTEL_BSP_SCHEDULE_DELAY", "100");
    site.start("api", "api-1", &[]).await;
    for (role, name) in
        [("relay", "relay-1"), ("worker", "worker-1"), ("keeper", "keeper-1"), ("publisher", "publisher-1")]
    {
        site.start(role, name, &[]).await;
    }
    site
}

async fn ask(site: &Installation, path: &str, key: &str, body: &Value) -> (u16, String) {
    let request = site.http.post(format!("{}{path}", site.url("api-1"))).bearer_auth(&site.api_key);
    let request = request.header("Idempotency-Key", key).header("Content-Type", "application/json");
    let answer = request.body(body.to_string()).send().await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a body"))
}

fn payment(payee: &str) -> Value {
    let due_at = (Utc::now() + TimeDelta::milliseconds(1_500)).to_rfc3339_opts(SecondsFormat::Micros, true);
    json!({
        "payee": payee, "amount": 1_250, "currency": "EUR", "dueAt": due_at,
        "description": "canary-description", "metadata": {"note": "canary-metadata"},
    })
}

/// Every key, value and header in the topics of this ring.
fn topics(site: &Installation) -> String {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .set("group.id", "nobody")
        .set("enable.auto.commit", "false")
        .create()
        .expect("settings");
    let within = Duration::from_secs(20);
    let metadata = consumer.fetch_metadata(None, within).expect("metadata");
    let prefix = site.setting("kafka.topic_prefix");
    let (mut parts, mut left) = (TopicPartitionList::new(), 0);
    for topic in metadata.topics().iter().filter(|topic| topic.name().starts_with(prefix)) {
        for partition in topic.partitions() {
            let (from, to) =
                consumer.fetch_watermarks(topic.name(), partition.id(), within).expect("extents");
            if from < to {
                let place = parts.add_partition_offset(topic.name(), partition.id(), Offset::Offset(from));
                place.expect("a place");
                left += to - from;
            }
        }
    }
    consumer.assign(&parts).expect("assigned");
    let mut text = String::new();
    while left > 0 {
        let record = consumer.poll(within).expect("a record").expect("readable");
        let headers = record.headers().into_iter().flat_map(|all| all.iter());
        let values = headers.filter_map(|header| header.value);
        for bytes in values.chain(record.key()).chain(record.payload()) {
            text.push_str(&String::from_utf8_lossy(bytes));
            text.push('\n');
        }
        left -= 1;
    }
    text
}

/// What the database keeps of what happened, beside what clients asked for.
async fn told_rows(site: &Installation) -> String {
    let mut session = PgConnection::connect(&site.database.url).await.expect("a session");
    let all = "SELECT string_agg(told, E'\\n') FROM (
        SELECT h::text AS told FROM payment_history h UNION ALL SELECT a::text FROM attempts a
        UNION ALL SELECT p::text FROM parked p UNION ALL SELECT n::text FROM due_notices n
        UNION ALL SELECT w::text FROM webhook_deliveries w UNION ALL SELECT p::text FROM payments p) AS all_of_it";
    sqlx::query_scalar::<_, Option<String>>(all)
        .fetch_one(&mut session)
        .await
        .expect("rows")
        .unwrap_or_default()
}

/// Payments that end well, badly, unknown and parked, and requests that are refused; what refusals said.
async fn run(site: &Installation) -> (Vec<String>, String) {
    let (mut ids, mut refusals) = (Vec::new(), String::new());
    for (n, payee) in WRITTEN.iter().take(5).enumerate() {
        let (status, said) =
            ask(site, "/v1/scheduled-payments", &format!("canary-idempotency-{n}"), &payment(payee)).await;
        assert_eq!(status, 201, "{said}");
        let created: Value = serde_json::from_str(&said).expect("JSON");
        ids.push(created["paymentId"].as_str().expect("an id").to_owned());
    }
    let mut bad = payment("sim_ok");
    bad["amount"] = json!("canary-metadata");
    let path = "/v1/scheduled-payments";
    let mut refused = vec![
        ask(site, path, "canary-idempotency", &payment(CARDS[0])).await,
        ask(site, path, CARDS[1], &payment("sim_ok")).await,
        ask(site, &format!("{path}/{}", CARDS[0]), "canary-idempotency", &json!({})).await,
        ask(site, &format!("{path}?note=canary-query"), "canary-idempotency", &payment("sim_ok")).await,
        ask(site, path, "canary-idempotency", &bad).await,
        // Another request under a key that is used.
        ask(site, path, "canary-idempotency-0", &payment("acct_canary_payee")).await,
    ];
    let wrong = site.http.get(format!("{}{path}", site.url("api-1"))).bearer_auth(GATEWAY).send().await;
    let wrong = wrong.expect("an answer");
    refused.push((wrong.status().as_u16(), wrong.text().await.expect("a body")));
    for (status, said) in refused {
        assert!((400..500).contains(&status), "{status} {said}");
        refusals.push_str(&said);
    }
    let ends = ["COMPLETED", "FAILED", "PARKED"];
    for id in &ids {
        site.settled(id, &ends, 2 * SOON).await;
    }
    (ids, refusals)
}

#[tokio::test]
async fn nothing_secret_and_nothing_that_a_client_wrote_is_in_any_signal_of_a_whole_run() {
    let collector = Collector::new().await;
    let hook = Hook::always(Says::Status(200)).await;
    let mut site = site(&collector).await;
    let endpoint = json!({"url": format!("{}?token={IN_URL}", hook.url())});
    let (status, made) = ask(&site, "/v1/webhook-endpoints", "hook", &endpoint).await;
    assert_eq!(status, 201, "{made}");
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let hook_secret = made["secret"].as_str().expect("the endpoint's secret").to_owned();

    let (ids, refusals) = run(&site).await;
    let hooked =
        || async { ids.iter().all(|id| hook.got().iter().any(|it| it.id().contains(id))).then_some(()) };
    eventually("every payment is told to the hook", 2 * SOON, hooked).await;
    let mut places = vec![("refusals".to_owned(), refusals)];
    for name in ["api-1", "relay-1", "worker-1", "keeper-1", "publisher-1"] {
        places.push((format!("metrics of {name}"), site.text(name, "/metrics").await.expect("metrics")));
    }
    places.push(("topics".to_owned(), topics(&site)));
    places.push(("rows".to_owned(), told_rows(&site).await));
    for name in ["api-1", "relay-1", "worker-1", "keeper-1", "publisher-1"] {
        assert_eq!(site.role(name).drain(SOON).await, 0, "{name}");
        places.push((format!("log of {name}"), site.roles[name].log_text()));
    }
    places.push(("log of sandbox-1".to_owned(), site.roles["sandbox-1"].log_text()));
    places.push(("traces".to_owned(), String::from_utf8_lossy(&collector.raw()).into_owned()));
    let told = hook.got().iter().fold(String::new(), |text, got| {
        text + &format!("{:?} {}\n", got.headers, String::from_utf8_lossy(&got.body))
    });
    places.push(("webhooks".to_owned(), told));

    // It was a run, and each place tells of it.
    for place in ["topics", "rows", "webhooks", "traces", "log of api-1"] {
        let (_, text) = places.iter().find(|(name, _)| name == place).expect("a place");
        assert!(ids.iter().all(|id| text.contains(id)), "{place} knows nothing of the run");
    }
    let log = &places.iter().find(|(name, _)| name == "log of api-1").expect("a place").1;
    assert!(log.contains("\"TRACE\""), "the API is at its most talkative");
    let own = [GATEWAY, CALLBACKS, DATABASE, COLLECTOR, IN_URL, site.api_key.as_str(), &hook_secret];
    let leaks: Vec<String> = own
        .into_iter()
        .chain(WRITTEN)
        .chain(CARDS)
        .flat_map(|canary| places.iter().map(move |place| (canary, place)))
        .filter_map(|(canary, (name, text))| {
            let line = text.lines().find(|line| line.contains(canary))?;
            Some(format!("{canary} in {name}: {}", line.chars().take(400).collect::<String>()))
        })
        .collect();
    let (words, bytes) =
        (own.len() + WRITTEN.len() + CARDS.len(), places.iter().map(|it| it.1.len()).sum::<usize>());
    println!(
        "seen canaries words={words} places={} kib={} found={}",
        places.len(),
        bytes / 1_024,
        leaks.len()
    );
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
