//! `punctual webhooks` against a real interface, from the first endpoint to the last resend.

use crate::support::api::Api;
use crate::support::stub::{Ran, Reply, Stub, client};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// Runs it with the tester's key.
async fn run(api: &Api, line: &str) -> Ran {
    let words: Vec<&str> = std::iter::once("webhooks").chain(line.split(' ')).collect();
    let command = client(&api.url).args(words).env("PUNCTUAL_API_KEY", &api.key).output().await;
    command.expect("the binary runs").into()
}

async fn told(api: &Api, line: &str) -> Value {
    let ran = run(api, &format!("{line} -o json")).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{line}: {error}: {}", ran.out))
}

fn text(document: &Value, name: &str) -> String {
    document[name].as_str().unwrap_or_else(|| panic!("{name} in {document}")).to_owned()
}

#[tokio::test]
async fn an_endpoint_lives_from_its_creation_to_its_end_by_the_command_line() {
    let api = Api::start(|_| {}).await;
    let made =
        told(&api, "create https://shop.example/hook --event payment.completed --max-concurrency 2").await;
    let id = text(&made, "endpointId");
    assert!(text(&made, "secret").starts_with("whsec_"), "{made}");
    assert_eq!((&made["eventTypes"], &made["maxConcurrency"]), (&json!(["payment.completed"]), &json!(2)));
    for (line, code, why) in [
        ("create https://shop.example/hook", 6, "webhook_url_taken"),
        ("create https://10.0.0.1/hook", 2, "forbidden_webhook_address"),
        ("create https://shop.example/x --event payment.paid", 2, "unknown_event_type"),
        ("show 01a2283e-8820-4aaa-9bbb-0123456789ab", 5, "webhook_endpoint_not_found"),
        (&format!("change {id}"), 2, "--url"),
        (&format!("delivery {id} nonsense"), 2, "a slash and a number"),
        (&format!("rotate {id}"), 2, "--yes"),
        (&format!("delete {id}"), 2, "--yes"),
    ] {
        let ran = run(&api, line).await;
        assert!(ran.code == Some(code) && ran.err.contains(why), "{line}: {ran:?}");
    }
    let list = run(&api, "list").await;
    assert_eq!(list.out, format!("{id}\thttps://shop.example/hook\tpayment.completed\t\t\t\n"));
    let changed = told(&api, &format!("change {id} --all-events --description ours --if-version 1")).await;
    assert_eq!((&changed["eventTypes"], &changed["description"]), (&json!([]), &json!("ours")));

    let rotated = told(&api, &format!("rotate {id} --overlap 2h --yes")).await;
    assert_ne!(rotated["secret"], made["secret"]);
    let twice = run(&api, &format!("rotate {id} --yes")).await;
    assert!(twice.code == Some(6) && twice.err.contains("webhook_secret_rotating"), "{twice:?}");
    told(&api, &format!("rotate {id} --overlap 0s --yes")).await;

    assert_eq!(told(&api, &format!("disable {id} --yes")).await["disabledReason"], "asked");
    assert_eq!(told(&api, &format!("enable {id}")).await["disabledReason"], Value::Null);
    assert_eq!(told(&api, &format!("delete {id} --yes")).await["deleted"], true);
    assert_eq!(told(&api, "list").await, json!([]));
}

#[tokio::test]
async fn a_test_message_is_found_in_the_log_and_sent_again() {
    let api = Api::start(|_| {}).await;
    let id = text(&told(&api, "create https://shop.example/hook").await, "endpointId");
    let event = text(&told(&api, &format!("test {id}")).await, "eventId");
    let failed = "UPDATE webhook_deliveries SET status = 'failed', tries = 8, rung = 8, last_status = 503";
    let tried =
        "INSERT INTO webhook_tries SELECT endpoint_id, event_at, payment_id, seq, 8, now(), 31, 503, NULL,
        'try later' FROM webhook_deliveries";
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    for statement in [failed, tried] {
        sql.execute(AssertSqlSafe(statement)).await.expect("written");
    }
    let log = told(&api, &format!("deliveries {id} --status failed")).await;
    assert_eq!((&log[0]["eventId"], &log[0]["lastStatus"]), (&json!(event), &json!(503)));
    assert_eq!(told(&api, &format!("deliveries {id} --status delivered")).await, json!([]));
    let shown = run(&api, &format!("delivery {id} {event}")).await;
    assert!(shown.code == Some(0) && shown.out.contains("eventType\twebhook.test\n"), "{shown:?}");
    assert!(shown.out.contains("\t31\t503\t\ttry later\n"), "{shown:?}");

    let again = told(&api, &format!("resend {id} {event}")).await;
    assert_eq!((&again["status"], &again["tries"]), (&json!("pending"), &json!(8)));
    sql.execute(AssertSqlSafe(failed)).await.expect("written");
    let since = told(&api, &format!("resend {id} --failed-since 2020-01-01T00:00:00Z")).await;
    assert_eq!(since, json!({"resent": 1}));
    let unknown = run(&api, &format!("resend {id} 01a2283e-8820-8aaa-9bbb-0123456789ab/7")).await;
    assert!(unknown.code == Some(5) && unknown.err.contains("webhook_delivery_not_found"), "{unknown:?}");
}

#[tokio::test]
async fn a_resend_of_what_failed_asks_until_nothing_is_left() {
    let stub = Stub::start(|_, before| {
        Reply::json(200, &json!({"resent": if before < 3 { 5_000 } else { 7 }, "hasMore": before < 3}))
    })
    .await;
    let ran = stub
        .run(&["webhooks", "resend", "e-1", "--failed-since", "2030-01-01T00:00:00Z", "-o", "jsonl"])
        .await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{\"resent\":15007}\n"), "{ran:?}");
    let seen = stub.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|seen| seen.path == "/v1/webhook-endpoints/e-1/resend"), "{seen:?}");
    // Whatever is answered, it does not go on for ever about nothing.
    let odd = Stub::start(|_, _| Reply::json(200, &json!({"hasMore": true}))).await;
    let ran = odd.run(&["webhooks", "resend", "e-1", "--failed-since", "2030-01-01T00:00:00Z"]).await;
    assert!(ran.code == Some(1) && odd.seen().len() == 1, "{ran:?}");
}
