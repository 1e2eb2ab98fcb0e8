//! Operators' commands where a test chooses what comes back: lost answers, and answers that differ from one id to
//! the next. What they do at a real API is in `operators.rs`.

use crate::support::stub::{Reply, Stub};
use serde_json::json;

const WHY: [&str; 3] = ["--reason", "ticket 7", "--yes"];

#[tokio::test]
async fn what_was_typed_as_an_id_stays_one_step_of_the_path() {
    for (line, request) in [
        ("approvals approve a/1", "POST /v1/ops/approvals/a%2F1/approve"),
        ("parked redrive ../keys", "POST /v1/ops/parked/..%2Fkeys/redrive"),
        ("gateway pause a?b", "POST /v1/ops/gateways/a%3Fb/pause"),
    ] {
        let stub = Stub::start(|_, _| Reply::json(200, &json!({"status": "done"}))).await;
        let words: Vec<&str> = line.split_whitespace().chain(WHY).collect();
        let ran = stub.run(&words).await;
        let seen = stub.seen();
        assert_eq!((ran.code, format!("{} {}", seen[0].method, seen[0].path)), (Some(0), request.to_owned()));
    }
}

#[tokio::test]
async fn a_refund_says_its_key_before_it_is_sent_and_is_repeated_with_it() {
    let asked = json!({"refundId": "f-1", "status": "asked", "approvalId": "a-1"});
    let stub = Stub::start(move |_, _| Reply::json(202, &asked)).await;
    let line = ["refund", "create", "p-1", "--gateway-reference", "ch_1", WHY[0], WHY[1], WHY[2]];
    let ran = stub.run(&line).await;
    let key = stub.seen()[0].key.clone().expect("a key");
    assert_eq!(ran.err.lines().next(), Some(format!("punctual: idempotency key {key}").as_str()));
    assert!(ran.code == Some(4) && ran.err.contains("approvals approve a-1"), "{ran:?}");
    stub.run(&[&line[..], &["--idempotency-key", &key]].concat()).await;
    assert_eq!(stub.seen()[1].key.as_deref(), Some(key.as_str()));
    // A commit may be behind what says that it is not there.
    let away = Stub::start(|_, _| Reply::problem(503, "unavailable")).await;
    let ran = away.run(&line).await;
    assert!(ran.code == Some(1) && ran.err.contains("Say the same again with --idempotency-key"), "{ran:?}");
}

#[tokio::test]
async fn a_dry_run_of_a_release_says_what_may_be_done_and_changes_nothing() {
    let stub = Stub::start(|seen, _| {
        let id = seen.path.rsplit('/').next().unwrap_or("");
        let may = if id == "p-1" {
            json!([{"act": "redrive", "possible": true, "needsApproval": false}])
        } else {
            json!([{"act": "redrive", "possible": false, "explanation": "A charge is known."}])
        };
        Reply::json(
            200,
            &json!({"paymentId": id, "parkedReason": "poisoned", "amount": 5, "currency": "JPY", "may": may}),
        )
    })
    .await;
    let ran = stub.run(&["parked", "redrive", "p-1", "p-2", "--dry-run", WHY[0], WHY[1]]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.out, "p-1\tpoisoned\t5 JPY\tyes\np-2\tpoisoned\t5 JPY\tno: A charge is known.\n");
    assert_eq!(ran.err, "punctual: dry run: 1 of 2 may be released\n");
    assert!(stub.seen().iter().all(|seen| seen.method == "GET"));
}

#[tokio::test]
async fn several_releases_are_each_told_and_end_with_1_if_one_is_not() {
    let stub = Stub::start(|seen, _| {
        if seen.path.contains("p-2") {
            Reply::problem(409, "charge_on_record")
        } else {
            Reply::json(200, &json!({"paymentId": "p-1"}))
        }
    })
    .await;
    let ran = stub.run(&["parked", "redrive", "p-1", "p-2", WHY[0], WHY[1], WHY[2]]).await;
    assert!(
        ran.code == Some(1) && ran.err.contains("p-2: charge_on_record") && ran.err.contains("1 of 2"),
        "{ran:?}"
    );
    let one = stub.run(&["parked", "redrive", "p-2", WHY[0], WHY[1], WHY[2]]).await;
    assert_eq!(one.code, Some(6), "{one:?}");
}
