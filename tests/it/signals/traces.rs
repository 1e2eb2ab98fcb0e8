//! One payment's traces as a collector gets them: the POST's, and hours later the attempt's, linked to it.

use super::SOON;
use crate::support::collector::{Collector, Refuses, Told};
use crate::support::eventually;
use crate::support::hooks::{Hook, Says};
use crate::support::installation::Installation;
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use std::time::Duration;

const CALLERS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// An installation whose processes tell this collector.
async fn traced(collector: &Collector, settings: &[(&str, &str)]) -> Installation {
    let mut site = Installation::new(settings).await;
    let mut says = |name: &str, value: &str| site.environment.insert(name.to_owned(), value.to_owned());
    says("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    says("OTEL_BSP_SCHEDULE_DELAY", "100");
    site.start("api", "api-1", &[]).await;
    site
}

async fn ask(site: &Installation, path: &str, headers: &[(&str, &str)], body: Value) -> (u16, Value) {
    let mut request = site.http.post(format!("{}{path}", site.url("api-1"))).bearer_auth(&site.api_key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.header("Content-Type", "application/json").body(body.to_string());
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.expect("a body")).unwrap_or(Value::Null))
}

async fn pay(site: &Installation, key: &str, traceparent: &str) -> String {
    let due_at = (Utc::now() + TimeDelta::seconds(2)).to_rfc3339_opts(SecondsFormat::Micros, true);
    let body = json!({"payee": "sim_ok", "amount": 1_250, "currency": "EUR", "dueAt": due_at});
    let headers = [("Idempotency-Key", key), ("traceparent", traceparent)];
    let (status, created) = ask(site, "/v1/scheduled-payments", &headers, body).await;
    assert_eq!(status, 201, "{created}");
    created["paymentId"].as_str().expect("an id").to_owned()
}

/// The first span of this name that is about this payment.
async fn span(collector: &Collector, name: &str, payment: &str) -> Told {
    eventually(&format!("a span {name:?} of {payment}"), SOON, || async {
        let spans = collector.spans();
        spans.into_iter().find(|it| it.name == name && it.says("punctual.payment.id") == payment)
    })
    .await
}

fn children<'a>(spans: &'a [Told], of: &Told) -> Vec<&'a str> {
    let mut children: Vec<_> = spans.iter().filter(|it| it.trace == of.trace && it.parent == of.id).collect();
    children.sort_by_key(|child| child.began_ns);
    children.into_iter().map(|child| child.name.as_str()).collect()
}

#[tokio::test]
async fn a_posts_trace_is_linked_to_what_the_relay_the_worker_and_the_sender_do_later() {
    let collector = Collector::new().await;
    let mut site = traced(&collector, &[("webhooks.allow", "127.0.0.0/8"), ("webhooks.poll", "100ms")]).await;
    let hook = Hook::always(Says::Status(200)).await;
    let (status, made) = ask(
        &site,
        "/v1/webhook-endpoints",
        &[],
        json!({"url": hook.url(), "eventTypes": ["payment.completed"]}),
    )
    .await;
    assert_eq!(status, 201, "{made}");
    for (role, name) in [("relay", "relay-1"), ("worker", "worker-1"), ("publisher", "publisher-1")] {
        site.start(role, name, &[]).await;
    }
    let id = pay(&site, "traced", CALLERS).await;
    let post = span(&collector, "POST /v1/scheduled-payments", &id).await;
    assert_eq!((post.trace.as_str(), post.parent.as_str()), (&CALLERS[3..35], &CALLERS[36..52]));
    assert_eq!(post.service, "punctual-api");
    assert_eq!(post.says("http.response.status_code"), "201");
    let link = (post.trace.clone(), post.id.clone());

    site.settled(&id, &["COMPLETED"], SOON).await;
    let attempt = span(&collector, "attempt", &id).await;
    assert_eq!(attempt.links, std::slice::from_ref(&link));
    assert_ne!(attempt.trace, post.trace, "a trace of its own");
    assert_eq!(attempt.service, "punctual-worker");
    assert_eq!((attempt.says("punctual.verdict"), attempt.says("punctual.became")), ("charged", "COMPLETED"));
    assert!(!attempt.failed && attempt.parent.is_empty(), "{attempt:?}");
    let spans = collector.spans();
    assert_eq!(children(&spans, &attempt), ["claim", "charge", "settle"]);
    let claim = spans.iter().find(|it| it.parent == attempt.id && it.name == "claim").expect("the claim");
    assert!(attempt.began_ns <= claim.began_ns && claim.began_ns < claim.ended_ns, "{claim:?}");

    let published = eventually("the relay's batch is told", SOON, || async {
        collector.spans().into_iter().find(|it| it.name == "publish notices" && it.links.contains(&link))
    })
    .await;
    assert_eq!(published.service, "punctual-relay");
    let webhook = span(&collector, "webhook", &id).await;
    assert_eq!(webhook.links, std::slice::from_ref(&link));
    assert_eq!(webhook.says("http.response.status_code"), "200");
    let got = eventually("the hook is called", SOON, || async { hook.got().pop() }).await;
    assert_eq!(got.headers["traceparent"], format!("00-{}-{}-01", webhook.trace, webhook.id));

    let linked = [&attempt, &published, &webhook].iter().filter(|span| !span.links.is_empty()).count();
    println!("seen traces links={linked} children={}", children(&spans, &attempt).len());

    // What nobody wants to look at is not there, and nothing that a client wrote.
    assert!(!spans.iter().any(|it| it.name.contains("livez")), "{spans:#?}");
    let log = site.roles["api-1"].log_text();
    let line = log.lines().find(|line| line.contains("/v1/scheduled-payments")).expect("its line");
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&line["payment"], &line["trace_id"]), (&json!(id), &json!(post.trace)), "{line}");
}

#[tokio::test]
async fn what_its_caller_does_not_keep_is_not_kept_here_either_and_the_payment_runs_on_untold() {
    let collector = Collector::new().await;
    let mut site = traced(&collector, &[]).await;
    site.start("worker", "worker-1", &[]).await;
    let silent = pay(&site, "silent", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").await;
    let told = pay(&site, "told", CALLERS).await;
    for id in [&silent, &told] {
        site.settled(id, &["COMPLETED"], SOON).await;
    }
    // The worker ends and says its last words: what is not there now never comes.
    assert_eq!(site.role("worker-1").drain(SOON).await, 0);
    assert_eq!(site.role("api-1").drain(SOON).await, 0);
    let spans = collector.spans();
    let about = |id: &str| spans.iter().filter(|it| it.says("punctual.payment.id") == id).count();
    assert_eq!((about(&silent), about(&told)), (0, 2), "{spans:#?}");
}

#[tokio::test]
async fn a_collector_that_refuses_costs_nothing_but_spans_and_is_said_once() {
    let collector = Collector::new().await;
    let mut site = traced(&collector, &[]).await;
    collector.refuse(Refuses::All);
    site.start("worker", "worker-1", &[]).await;
    for n in 0..3 {
        let id = pay(&site, &format!("refused-{n}"), CALLERS).await;
        site.settled(&id, &["COMPLETED"], SOON).await;
    }
    let lost = |role: &'static str| {
        let site = &site;
        async move {
            let text = site.text(role, "/metrics").await.expect("it serves");
            let lost = r#"punctual_trace_spans_total{result="lost"} "#;
            let line = text.lines().find_map(|line| line.strip_prefix(lost)).expect("the series").to_owned();
            line.parse::<u64>().expect("a count")
        }
    };
    let all_lost = || async { (lost("worker-1").await >= 12).then_some(()) };
    eventually("three attempts of four spans are lost", SOON, all_lost).await;
    let says = |site: &Installation, words: &str| {
        site.roles["worker-1"].log_text().lines().filter(|line| line.contains(words)).count()
    };
    assert_eq!(says(&site, "traces cannot be sent"), 1);
    collector.refuse(Refuses::None);
    let id = pay(&site, "again", CALLERS).await;
    span(&collector, "attempt", &id).await;
    assert_eq!((says(&site, "traces cannot be sent"), says(&site, "traces are sent again")), (1, 1));

    // Gone for good: its spans cost the process a few seconds at its end, no more.
    drop(collector);
    pay(&site, "nobody", CALLERS).await;
    assert_eq!(site.role("worker-1").drain(Duration::from_secs(25)).await, 0);
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_traced_and_what_cannot_be_had_is_refused() {
    let collector = Collector::new().await;
    let mut site = Installation::new(&[]).await;
    site.environment.insert("OTEL_SERVICE_NAME".to_owned(), "pay".to_owned());
    site.environment.insert("OTEL_TRACES_SAMPLER".to_owned(), "sometimes".to_owned());
    site.start("api", "api-1", &[]).await;
    site.start("worker", "worker-1", &[]).await;
    let id = pay(&site, "untold", CALLERS).await;
    site.settled(&id, &["COMPLETED"], SOON).await;
    let mut session = PgConnection::connect(&site.database.url).await.expect("a session");
    let stored: Option<String> = sqlx::query_scalar("SELECT traceparent FROM payment_details WHERE id = $1")
        .bind(id.parse::<uuid::Uuid>().expect("an id"))
        .fetch_one(&mut session)
        .await
        .expect("its details");
    assert_eq!(stored.as_deref(), Some(CALLERS), "its caller's, as it came");
    let log = site.roles["api-1"].log_text();
    assert!(!log.contains("trace_id"), "{log}");
    assert_eq!(collector.asked(), 0);

    site.environment.insert("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), collector.url.clone());
    for (variable, value) in [
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ] {
        site.environment.insert("OTEL_TRACES_SAMPLER".to_owned(), "always_on".to_owned());
        site.environment.insert(variable.to_owned(), value.to_owned());
        let (code, said) = site.tell(&["keeper"]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(variable), "{said}");
        site.environment.remove(variable);
    }
}
