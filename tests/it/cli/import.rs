//! `punctual import` on a real API and database: killed and resumed, refused, slowed down, and exact.

use crate::support::api::Api;
use crate::support::imports::{self, Interrupted};
use crate::support::installation::free_address;
use crate::support::stub::{Ran, Reply, Stub, client, run};
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const DONE: &str = "rows\t3\npayments\t3\nof them known before\t0\nrejected\t0\n";

async fn at(api: &Api, arguments: &[&str]) -> Ran {
    let mut command = client(&api.url);
    command.env("PUNCTUAL_API_KEY", &api.key).args(arguments);
    command.output().await.expect("the binary runs").into()
}

fn due_at() -> String {
    (Utc::now() + TimeDelta::hours(2)).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[tokio::test]
async fn an_import_that_is_stopped_twice_and_run_again_makes_every_payment_once_and_every_reject() {
    let api = Api::start(|_| {}).await;
    let Interrupted { rows, before, made, wrong, rejected, last, .. } =
        imports::interrupted_and_resumed(&api, 2_000).await;
    assert!(before.iter().all(|before| *before > 0 && *before < rows), "in the middle: {before:?} of {rows}");
    assert_eq!(made, (rows, rows));
    assert_eq!(rejected, wrong);
    assert_eq!(last.code, Some(1), "some were rejected: {last:?}");
}

#[tokio::test]
async fn an_import_that_was_killed_before_its_first_reject_was_counted_goes_on() {
    let api = Api::start(|_| {}).await;
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("payee,amount,currency,dueAt\nsim_ok,0,EUR,{}\n", due_at());
    let file = write(folder.path(), "payments.csv", &text);
    let away = Stub::start(|seen, _| {
        let (status, code) = if seen.path.ends_with("/batch") { (405, "no") } else { (503, "away") };
        Reply::problem(status, code)
    })
    .await;
    // Its place is kept before the first row is sent; the row of a run that is killed now is not counted.
    let mut command = client(&away.url);
    let stays_away =
        command.args(["import", &file, "--give-up-after", "1ms"]).output().await.expect("it runs");
    assert_eq!(stays_away.status.code(), Some(1));
    let kept = format!("{file}.import");
    let place = std::fs::read_to_string(&kept).expect("a place").replace(&away.url, &api.url);
    std::fs::write(&kept, place).expect("the same place at the other API");
    write(folder.path(), "payments.csv.rejects", "rejectedLine,rejectedCode\n2,half a ro");
    let ran = at(&api, &["import", &file]).await;
    assert!(ran.code == Some(1) && ran.out.contains("rejected\t1\n"), "{ran:?}");
    let rejects = std::fs::read_to_string(format!("{file}.rejects")).expect("the rejects");
    assert!(rejects.lines().count() == 2 && rejects.contains("\n2,amount_not_positive,"), "{rejects}");
}

#[tokio::test]
async fn a_file_that_is_imported_again_is_the_same_payments() {
    let api = Api::start(|_| {}).await;
    let folder = tempfile::tempdir().expect("a folder");
    let due_at = due_at();
    let line = |number: u32| format!("sim_ok,{number},EUR,{due_at},order-{number}\n");
    let text =
        format!("payee,amount,currency,dueAt,metadata.order\n{}", (1..=3).map(line).collect::<String>());
    let file = write(folder.path(), "payments.csv", &text);
    let first = at(&api, &["import", &file]).await;
    assert_eq!((first.code, first.out.as_str(), first.err.as_str()), (Some(0), DONE, ""));
    let again = at(&api, &["import", &file, "-o", "json"]).await;
    let sum: Value = serde_json::from_str(&again.out).expect("JSON");
    assert_eq!((again.code, &sum["payments"]), (Some(0), &json!(3)), "{again:?}");
    assert_eq!(imports::count(&api).await, 3);
    let left: BTreeSet<String> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|it| it.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    assert_eq!(left, BTreeSet::from(["payments.csv".to_owned()]), "nothing is left beside it");
}

#[tokio::test]
async fn rejected_rows_are_kept_with_their_reasons_and_can_be_mended() {
    let api = Api::start(|_| {}).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (due_at, past) = (due_at(), "2020-01-01T00:00:00Z");
    let text = format!(
        "payee,amount,currency,dueAt,idempotencyKey\n\
         sim_ok,1250,EUR,{due_at},k-1\nsim_ok,12.50,EUR,{due_at},k-2\nsim_ok,5,EUR,{past},k-3\n\
         4111111111111111,5,EUR,{due_at},k-4\nsim_ok,6,EUR,{due_at},k-1\n"
    );
    let file = write(folder.path(), "payments.csv", &text);
    let ran = at(&api, &["import", &file]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("payments\t1\n") && ran.out.contains("rejected\t4\n"), "{ran:?}");
    let rejects = format!("{file}.rejects");
    let kept = std::fs::read_to_string(&rejects).expect("the rejects");
    let codes: Vec<&str> = kept.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(codes, ["wrong_type", "due_in_past", "raw_card_number", "duplicate_item_key"], "{kept}");
    assert!(!kept.contains("4111"), "{kept}");

    let in_the_way = at(&api, &["import", &file]).await;
    assert!(in_the_way.code == Some(2) && in_the_way.err.contains("is there already"), "{in_the_way:?}");
    let lines: Vec<String> =
        kept.lines().map(|line| line.replace("12.50", "1250").replace(past, &due_at)).collect();
    let mended = write(folder.path(), "mended.csv", &(lines[..3].join("\n") + "\n"));
    let ran = at(&api, &["import", &mended]).await;
    assert!(ran.code == Some(0) && ran.out.contains("payments\t2\n"), "{ran:?}");
    assert_eq!(imports::count(&api).await, 3);
}

#[tokio::test]
async fn a_dry_run_says_exactly_what_would_be_rejected_and_sends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let stub = Stub::start(|_, _| Reply::problem(500, "never")).await;
    let text = "{\"payee\":\"a\",\"amount\":1,\"currency\":\"EUR\",\"dueAt\":\"2030-01-31T09:00:00Z\"}\n\
                {\"payee\":\"a\",\"amount\":0,\"dueAt\":\"2030-01-31T09:00:00Z\"}\nnot json\n";
    let file = write(folder.path(), "payments.ndjson", text);
    let ran = stub.run(&["import", &file, "--dry-run", "-o", "jsonl"]).await;
    assert_eq!(ran.code, Some(1));
    let told: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<_> = told.iter().map(|it| (it["line"].as_u64(), it["code"].as_str())).collect();
    assert_eq!(told, [(Some(2), Some("amount_not_positive")), (Some(3), Some("malformed_json"))]);
    assert_eq!(ran.err, "punctual: dry run: 3 rows, 1 would be sent, 2 would be rejected\n");
    assert_eq!(stub.seen().len(), 0);
    let fine = write(folder.path(), "fine.ndjson", text.lines().next().expect("a line"));
    let ran = stub.run(&["import", &fine, "--dry-run", "-o", "json"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "[]\n"), "{ran:?}");
    let columns = write(folder.path(), "odd.csv", "payee,amonut,dueAt\n");
    let ran = stub.run(&["import", &columns, "--dry-run"]).await;
    assert!(ran.code == Some(2) && ran.err.contains("\"amonut\" is not known"), "{ran:?}");
}

/// An API that creates one payment a request and refuses some requests for the moment.
async fn hesitant(batch: bool) -> Stub {
    Stub::start(move |seen, before| {
        let is_batch = seen.path.ends_with("/batch");
        if is_batch && !batch {
            return Reply::problem(405, "method_not_allowed");
        }
        if before % 3 == 1 {
            let (status, code) =
                if before % 2 == 0 { (429, "rate_limited") } else { (503, "database_unavailable") };
            return Reply::problem(status, code).with("retry-after", "0");
        }
        if !is_batch {
            return Reply::json(201, &json!({"paymentId": "p"}));
        }
        let results: Vec<Value> = seen.body["payments"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(at, item)| {
                // Every other row of the first groups is put off.
                if before < 3 && at % 2 == 1 {
                    json!({"status": 503, "problem": {"code": "database_unavailable"}})
                } else if item["payee"] == "bad" {
                    json!({"status": 422, "problem": {"code": "unknown_gateway", "detail": "None."}})
                } else {
                    json!({"status": 201, "payment": {"paymentId": "p"}})
                }
            })
            .collect();
        Reply::json(200, &json!({"data": results}))
    })
    .await
}

#[tokio::test]
async fn what_may_pass_is_sent_again_under_the_same_keys_until_every_row_is_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let payee = |number: usize| if number == 9 { "bad" } else { "sim_ok" };
    let line = |number: usize| format!("{},{},EUR,2030-01-31T09:00:00Z\n", payee(number), number + 1);
    let text = format!("payee,amount,currency,dueAt\n{}", (0..40).map(line).collect::<String>());
    for (batch, rejected) in [(true, 1), (false, 0)] {
        let stub = hesitant(batch).await;
        let file = write(folder.path(), &format!("{batch}.csv"), &text);
        let ran = stub.run(&["import", &file, "--batch", "10", "--in-flight", "4", "-o", "json"]).await;
        let sum: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert_eq!((&sum["rows"], &sum["rejected"]), (&json!(40), &json!(rejected)), "{ran:?}");
        assert_eq!(ran.code, Some(rejected));
        let mut keys = BTreeSet::new();
        let mut sent = 0;
        for seen in stub.seen() {
            let items = seen.body["payments"].as_array().cloned().unwrap_or_default();
            keys.extend(items.iter().map(|item| item["idempotencyKey"].as_str().expect("a key").to_owned()));
            keys.extend(seen.key);
            sent += 1;
        }
        assert_eq!(keys.len(), 40, "a row keeps its key");
        assert!(sent > if batch { 5 } else { 40 }, "some were put off: {sent}");
    }
}

#[tokio::test]
async fn an_import_gives_up_on_an_api_that_takes_nothing_and_goes_on_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "payee,amount,currency,dueAt\nsim_ok,1,EUR,2030-01-31T09:00:00Z\n";
    let file = write(folder.path(), "payments.csv", text);
    let away = Stub::start(|seen, _| {
        if seen.path.ends_with("/batch") {
            Reply::problem(404, "route_not_found")
        } else {
            Reply::problem(503, "away")
        }
    })
    .await;
    let ran = away.run(&["import", &file, "--give-up-after", "300ms"]).await;
    assert!(
        ran.code == Some(1) && ran.err.contains("took nothing") && ran.err.contains("goes on"),
        "{ran:?}"
    );
    let refused = Stub::start(|_, _| Reply::problem(403, "missing_scope")).await;
    let other = write(folder.path(), "other.csv", text);
    assert_eq!(refused.run(&["import", &other]).await.code, Some(4));
    let changed = write(folder.path(), "payments.csv", &format!("{text}sim_ok,2,EUR,2030-01-31T09:00:00Z\n"));
    let ran = away.run(&["import", &changed, "--give-up-after", "300ms"]).await;
    assert!(ran.code == Some(2) && ran.err.contains("other content"), "{ran:?}");
}

#[tokio::test]
async fn the_first_question_of_an_import_has_the_patience_of_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "payee,amount,currency,dueAt\nsim_ok,1,EUR,2030-01-31T09:00:00Z\n";
    let file = write(folder.path(), "payments.csv", text);
    // A proxy's page, and then the API.
    let page = Reply { status: 502, headers: Vec::new(), body: "<html>Bad gateway</html>".to_owned() };
    let stub = Stub::start(move |seen, before| match before {
        0 => page.clone(),
        1 => Reply::problem(503, "starting"),
        _ if seen.body["payments"] == json!([]) => Reply::problem(422, "no_payments"),
        _ => Reply::json(
            200,
            &json!({"data": [{"status": 201, "replayed": false, "payment": {"paymentId": "p"}}]}),
        ),
    })
    .await;
    let ran = stub.run(&["import", &file]).await;
    assert!(ran.code == Some(0) && ran.out.contains("payments\t1\n"), "{ran:?}");
    // Nobody listens.
    let nobody = free_address();
    let ran = run(&format!("http://{nobody}"), &["import", &file, "--give-up-after", "300ms"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("took nothing for"), "{ran:?}");
    assert!(ran.err.contains("The same command goes on"), "{ran:?}");
    // What is in the way is told without it.
    let rejects = format!("{file}.rejects");
    std::fs::write(&rejects, "somebody's").expect("written");
    let ran = run(&format!("http://{nobody}"), &["import", &file, "--give-up-after", "300ms"]).await;
    assert!(ran.code == Some(2) && ran.err.contains("is there already"), "{ran:?}");
    std::fs::remove_file(&rejects).expect("removed");
    // To be asked later than there is patience is known at once.
    let later = Stub::start(|_, _| Reply::problem(429, "rate_limited").with("retry-after", "3600")).await;
    let ran = later.run(&["import", &file]).await;
    assert!(ran.code == Some(1) && ran.err.contains("again after 3600 s, which is longer"), "{ran:?}");
    assert_eq!(later.seen().len(), 1);
}

#[tokio::test]
async fn what_is_no_answer_of_the_api_makes_no_row_a_payment() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "payee,amount,currency,dueAt\nsim_ok,1,EUR,2030-01-31T09:00:00Z\n";
    let file = write(folder.path(), "payments.csv", text);
    let empty = Stub::start(|seen, _| {
        if seen.path.ends_with("/batch") { Reply::problem(405, "no") } else { Reply::json(200, &json!({})) }
    })
    .await;
    let ran = empty.run(&["import", &file]).await;
    assert!(ran.code == Some(1) && ran.err.contains("nothing that says of what"), "{ran:?}");
    std::fs::remove_file(format!("{file}.import")).expect("its place");
    let elsewhere = Stub::start(|_, _| Reply::json(404, &json!({"error": "no such page"}))).await;
    let ran = elsewhere.run(&["import", &file]).await;
    assert!(ran.code == Some(2) && ran.err.contains("Is this the API's address?"), "{ran:?}");
}

#[tokio::test]
async fn a_file_with_a_quote_that_is_not_closed_sends_nothing_and_a_second_row_of_a_key_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let stub = Stub::start(|_, _| Reply::problem(500, "never")).await;
    let head = "payee,amount,currency,dueAt,idempotencyKey,description\n";
    let row = |key: &str, text: &str| format!("a,1,EUR,2030-01-31T09:00:00Z,{key},{text}\n");
    let text = format!("{head}{}{}{}", row("k-1", "x"), row("k-2", "\"17"), row("k-3", "y"));
    // Whatever the case of its ending.
    let open = write(folder.path(), "OPEN.CSV", &text);
    for rest in [&["import", &open][..], &["import", &open, "--dry-run"]] {
        let ran = stub.run(rest).await;
        assert!(ran.code == Some(2) && ran.err.contains("line 3: a quote opens a cell here"), "{ran:?}");
    }
    let twice = write(
        folder.path(),
        "twice.csv",
        &format!("{head}{}{}{}", row("k-1", "x"), row("k-1", "x"), row("k-2", "\"17\" pipe")),
    );
    let ran = stub.run(&["import", &twice, "--dry-run", "-o", "jsonl"]).await;
    let told: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<_> = told.iter().map(|it| (it["line"].as_u64(), it["code"].as_str())).collect();
    assert_eq!(told, [(Some(3), Some("duplicate_item_key")), (Some(4), Some("malformed_csv"))], "{ran:?}");
    assert_eq!((ran.code, stub.seen().len()), (Some(1), 0));
}
