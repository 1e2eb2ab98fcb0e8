//! `punctual payment` on a real API, and where answers are lost.

use crate::support::api::Api;
use crate::support::stub::{Ran, Reply, Stub, client, run};
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncReadExt;

async fn at(api: &Api, arguments: &[&str]) -> Ran {
    let mut command = client(&api.url);
    command.env("PUNCTUAL_API_KEY", &api.key);
    command.args(arguments).output().await.expect("the binary runs").into()
}

const USUAL: [&str; 8] = ["payment", "create", "--payee", "acct_7", "--amount", "1250", "--currency", "EUR"];

fn key_of(ran: &Ran) -> String {
    let line = ran.err.lines().find_map(|line| line.strip_prefix("punctual: idempotency key "));
    line.unwrap_or_else(|| panic!("no key in {ran:?}")).to_owned()
}

#[tokio::test]
async fn a_payment_is_created_shown_listed_and_cancelled() {
    let api = Api::start(|_| {}).await;
    let due_at = (Utc::now() + TimeDelta::hours(1)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let more = ["--due-at", &due_at, "--external-id", "invoice-7", "--metadata", "order=77", "-o", "json"];
    let create = [&USUAL[..], &more].concat();
    let made = at(&api, &create).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let payment: Value = serde_json::from_str(&made.out).expect("JSON");
    let id = payment["paymentId"].as_str().expect("an id");
    assert_eq!((&payment["dueAt"], &payment["metadata"]), (&json!(due_at), &json!({"order": "77"})));

    let key = key_of(&made);
    let again = at(&api, &[&create[..], &["--idempotency-key", &key]].concat()).await;
    assert!(again.code == Some(0) && again.out == made.out && again.err.contains("before"), "{again:?}");
    let other: Vec<&str> = create.iter().map(|word| if *word == "1250" { "9900" } else { *word }).collect();
    let refused = at(&api, &[&other[..], &["--idempotency-key", &key]].concat()).await;
    assert!(refused.code == Some(6) && refused.err.contains("These fields differ: /amount."), "{refused:?}");

    let shown = at(&api, &["payment", "show", id]).await;
    for line in ["status\tPENDING", "amount\t12.50 EUR", "external id\tinvoice-7", "metadata\torder=77"] {
        assert!(shown.out.lines().any(|it| it == line), "{line} in {}", shown.out);
    }
    let listed =
        at(&api, &["payment", "list", "--status", "PENDING,UNKNOWN", "--external-id", "invoice-7"]).await;
    assert!(listed.code == Some(0) && listed.out.starts_with(&format!("{id}\tPENDING\t")), "{listed:?}");
    let unknown = at(&api, &["payment", "list", "--status", "pending"]).await;
    assert!(unknown.code == Some(2) && unknown.err.contains("/status"), "{unknown:?}");

    let dry = at(&api, &["payment", "cancel", id, "--dry-run"]).await;
    assert!(dry.code == Some(0) && dry.out == format!("{id}\tPENDING\tbe cancelled\n"), "{dry:?}");
    assert!(dry.err.contains("1 would be cancelled, 0 refused or wished for, 0 are cancelled"), "{dry:?}");
    for _ in 0..2 {
        let cancelled = at(&api, &["payment", "cancel", id, "--yes"]).await;
        assert!(cancelled.code == Some(0) && cancelled.out.contains("\tCANCELLED\t"), "{cancelled:?}");
    }
    let nobody = at(&api, &["payment", "cancel", "no-such-id", "--yes"]).await;
    assert_eq!(nobody.code, Some(5), "{nobody:?}");
    let both = at(&api, &["payment", "cancel", id, "no-such-id", "--yes"]).await;
    assert!(
        both.code == Some(1) && both.out.contains("CANCELLED") && both.err.contains("1 of 2"),
        "{both:?}"
    );
}

#[tokio::test]
async fn a_list_of_several_pages_is_walked_to_its_end() {
    let api = Api::start(|_| {}).await;
    let due_at = (Utc::now() + TimeDelta::hours(1)).to_rfc3339();
    for number in 0..205 {
        let body = json!({"payee": "sim_ok", "amount": 1 + number, "currency": "EUR", "dueAt": due_at});
        assert_eq!(api.post(&format!("k-{number}"), &body).await.status, 201);
    }
    let all = at(&api, &["payment", "list", "--all", "-o", "jsonl"]).await;
    let ids: std::collections::BTreeSet<String> = all
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["paymentId"].to_string())
        .collect();
    assert_eq!((all.code, ids.len()), (Some(0), 205), "{}", all.err);
}

#[tokio::test]
async fn a_wish_that_is_not_decided_is_no_success() {
    let stub = Stub::start(|_, _| Reply::json(202, &json!({"paymentId": "p-1", "status": "UNKNOWN"}))).await;
    let ran = stub.run(&["payment", "cancel", "p-1", "--yes"]).await;
    assert!(ran.code == Some(6) && ran.out.is_empty() && ran.err.contains("not cancelled yet"), "{ran:?}");
}

#[tokio::test]
async fn filters_are_handed_on_as_the_api_has_them() {
    let stub = Stub::start(|_, _| Reply::json(200, &json!({"data": [], "nextCursor": null}))).await;
    for (rest, query) in [
        (&["-q", "-status:PENDING gateway:s"][..], "q=-status%3APENDING+gateway%3As&limit=50"),
        (
            &["--due-from", "2030-01-31T09:00:00+02:00", "--status", "FAILED,PARKED", "--limit", "7"],
            "status=FAILED%2CPARKED&dueFrom=2030-01-31T09%3A00%3A00%2B02%3A00&limit=7",
        ),
        (&["--idempotency-key", "k/1", "--all"], "idempotencyKey=k%2F1&limit=200"),
    ] {
        let ran = stub.run(&[&["payment", "list"], rest].concat()).await;
        let seen = stub.seen().pop().expect("a request");
        assert_eq!((ran.code, seen.path), (Some(0), format!("/v1/scheduled-payments?{query}")), "{ran:?}");
    }
}

/// Reads requests and closes the connection instead of answering.
async fn mute() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4_096];
            if stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (url, asked)
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_sent_once_and_says_how_to_repeat_it() {
    let (url, asked) = mute().await;
    let create = [&USUAL[..], &["--due-at", "+1h"]].concat();
    let lost = run(&url, &create).await;
    let key = key_of(&lost);
    assert_eq!((lost.code, asked.load(Ordering::SeqCst)), (Some(1), 1), "{lost:?}");
    assert!(lost.err.contains(&format!("--idempotency-key {key}")), "{lost:?}");
    // What was asked for relative to now is said as it was sent: the same key needs the same instant.
    let said = lost.err.lines().find_map(|line| line.strip_prefix("punctual: dueAt ")).expect("the instant");
    let stub = Stub::start(|_, _| Reply::json(201, &json!({"paymentId": "p-1"}))).await;
    let create = [&USUAL[..], &["--due-at", said, "--idempotency-key", &key]].concat();
    assert_eq!(stub.run(&create).await.code, Some(0));
    let seen = stub.seen();
    assert_eq!((seen[0].key.as_deref(), &seen[0].body["dueAt"]), (Some(key.as_str()), &json!(said)));
}

#[tokio::test]
async fn what_is_typed_wrong_is_refused_before_anything_is_sent() {
    let stub = Stub::start(|_, _| Reply::json(201, &json!({}))).await;
    for rest in [
        &["--due-at", "2030-01-31T09:00:00"][..],
        &["--due-at", "+1h", "--amount", "12.50"],
        &["--due-at", "+1h", "--amount", "0"],
        &["--due-at", "+1h", "--metadata", "order"],
        &["--due-at", "+1h", "--metadata", "order=1", "--metadata", "order=2"],
        &["--due-at", "+1h", "--idempotency-key", "a\nb"],
        &["--due-at", "-1h"],
        &[],
    ] {
        let ran = stub.run(&[&["payment", "create", "--payee", "a", "--amount", "1"], rest].concat()).await;
        assert_eq!(ran.code, Some(2), "{rest:?}: {ran:?}");
    }
    assert_eq!(stub.seen().len(), 0);
}

#[tokio::test]
async fn success_without_a_payment_is_no_success() {
    for body in [json!({}), Value::Null, json!({"paymentId": "q", "status": "PENDING"})] {
        let shown = body.clone();
        let stub = Stub::start(move |_, _| Reply::json(200, &body)).await;
        let ran = stub.run(&["payment", "cancel", "p-1", "--yes"]).await;
        assert!(ran.code == Some(1) && ran.err.contains("success was answered"), "{shown}: {ran:?}");
    }
    let stub = Stub::start(|_, _| Reply::json(200, &json!({}))).await;
    let ran = stub.run(&[&USUAL[..], &["--due-at", "+1h"]].concat()).await;
    assert!(ran.code == Some(1) && ran.err.contains("--idempotency-key"), "{ran:?}");
    for rest in [
        &["payment", "show", "p-1"][..],
        &["payment", "list"],
        &["gateway", "list"],
        &["caps", "show", "shop"],
        &["caps", "set", "shop", "EUR", "--none", "--reason", "r", "--yes"],
        &["approvals", "show", "a-1"],
        &["refund", "show", "r-1"],
        &["parked", "show", "p-1"],
        &["parked", "redrive", "p-1", "--dry-run", "--reason", "r"],
    ] {
        let ran = stub.run(rest).await;
        assert!(ran.code == Some(1) && ran.out.is_empty(), "{rest:?}: {ran:?}");
    }
}

#[tokio::test]
async fn an_address_that_is_not_the_api_is_what_was_typed_wrong() {
    let page = Reply { status: 404, headers: Vec::new(), body: "<html>Not found</html>".to_owned() };
    for reply in [page, Reply::json(404, &json!({"error": 1})), Reply::problem(404, "route_not_found")] {
        let stub = Stub::start(move |_, _| reply.clone()).await;
        for rest in [
            &["payment", "show", "p-1"][..],
            &["payment", "list"],
            &["payment", "cancel", "p-1", "-y"],
            &["payment", "cancel", "p-1", "--dry-run"],
        ] {
            let ran = stub.run(rest).await;
            assert!(ran.code == Some(2) && ran.err.contains("the API's address?"), "{rest:?}: {ran:?}");
        }
    }
    let stub = Stub::start(|_, _| Reply::problem(404, "payment_not_found")).await;
    assert_eq!(stub.run(&["payment", "show", "p-1"]).await.code, Some(5));
}

#[tokio::test]
async fn a_key_or_an_address_that_cannot_be_meant_is_refused_and_no_password_is_printed() {
    let stub = Stub::start(|_, _| Reply::json(200, &json!({"data": []}))).await;
    let mut command = client(&stub.url);
    command.env("PUNCTUAL_API_KEY", "pk_test_x\n").args(["payment", "list"]);
    let ran = Ran::from(command.output().await.expect("the binary runs"));
    assert!(ran.code == Some(2) && ran.err.contains("PUNCTUAL_API_KEY"), "{ran:?}");
    let address = stub.url.replace("http://", "http://ann:hush@");
    for rest in [&["payment", "list"][..], &["config", "show"], &["config", "check"]] {
        let ran = run(&address, rest).await;
        assert!(ran.code == Some(2) && !format!("{ran:?}").contains("hush"), "{rest:?}: {ran:?}");
    }
    assert_eq!(stub.seen().len(), 0);
}

#[tokio::test]
async fn the_same_words_under_the_same_key_a_moment_later_are_answered_with_the_time_of_the_first() {
    let api = Api::start(|_| {}).await;
    let create = [&USUAL[..], &["--due-at", "+1h", "--idempotency-key", "order-77"]].concat();
    let first = at(&api, &create).await;
    assert_eq!(first.code, Some(0), "{first:?}");
    let said = first.err.lines().find_map(|line| line.strip_prefix("punctual: dueAt ")).expect("the instant");
    let again = at(&api, &create).await;
    assert_eq!(again.code, Some(6), "{again:?}");
    assert!(again.err.contains(&format!("--due-at {said}")) && !again.err.contains("new key"), "{again:?}");
    let with_it: Vec<&str> = create.iter().map(|word| if *word == "+1h" { said } else { *word }).collect();
    let same = at(&api, &with_it).await;
    assert!(same.code == Some(0) && same.out == first.out, "{same:?}");
}
