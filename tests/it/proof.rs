//! The proof of a history, verified by somebody who shares no code with us.

use crate::support::api::{Answer, Api, send};
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::io::Write;
use std::process::{Command, Stdio};

const VERIFIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/proof/verify.py");

/// What the Python verifier says: the number of rows, or what is wrong.
fn verified(answer: &Value) -> Result<usize, String> {
    let mut python = Command::new("python3")
        .arg(VERIFIER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let text = answer.to_string();
    python.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = python.wait_with_output().expect("it ends");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number"))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

async fn proof(api: &Api, id: &str) -> Answer {
    send(api.request("GET", &format!("/v1/scheduled-payments/{id}/history/proof")), None).await
}

async fn cancelled(api: &Api) -> String {
    let due_at = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Millis, true);
    let body = json!({"payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": due_at});
    let made = api.post("key-1", &body).await;
    let id = made.json()["paymentId"].as_str().expect("an id").to_owned();
    assert_eq!(api.payment("DELETE", &id).await.status, 200);
    id
}

#[tokio::test]
async fn a_stranger_verifies_the_history_and_finds_every_change() {
    let api = Api::start(|_| {}).await;
    let id = cancelled(&api).await;
    let answer = proof(&api, &id).await;
    let told = answer.json();
    assert_eq!((answer.status, &told["verified"]), (200, &json!(true)), "{}", answer.text);
    assert_eq!(verified(&told), Ok(2));

    let mut changed = told.clone();
    let input = changed["data"][0]["input"].as_str().expect("a text").replace("created", "claimed");
    changed["data"][0]["input"] = json!(input);
    assert!(verified(&changed).is_err_and(|told| told.contains("row 1 was changed")));
    let mut cut = told.clone();
    cut["data"].as_array_mut().expect("rows").pop();
    assert!(verified(&cut).is_err_and(|told| told.contains("the last row")));

    let tag = answer.header("etag").to_owned();
    let path = format!("/v1/scheduled-payments/{id}/history/proof");
    let unchanged = send(api.request("GET", &path).header("If-None-Match", tag), None).await;
    assert_eq!((unchanged.status, unchanged.text.as_str()), (304, ""));
    let stranger = api.new_key("stranger", &["payments:read"]).await;
    let foreign = send(api.anonymous("GET", &path).bearer_auth(stranger), None).await;
    assert_eq!(foreign.refusal(), (404, "payment_not_found".into()));
}

#[tokio::test]
async fn a_history_that_was_changed_in_the_database_is_not_called_verified() {
    let api = Api::start(|_| {}).await;
    let id = cancelled(&api).await;
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    // Past the trigger, as somebody with the keys of the machine would.
    for act in [
        "SET session_replication_role = replica".to_owned(),
        format!("UPDATE payment_history SET done_by = 'nobody' WHERE payment_id = '{id}' AND seq = 1"),
    ] {
        sql.execute(AssertSqlSafe(act)).await.expect("done");
    }
    let told = proof(&api, &id).await.json();
    assert_eq!((&told["verified"], told["broken"].is_string()), (&json!(false), true), "{told}");
    assert!(verified(&told).is_err(), "{told}");
}
