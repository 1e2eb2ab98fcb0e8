//! `punctual reconcile` on a whole installation: the keeper's own round, reports from the sandbox and from files, and
//! what people do about what differs.

use super::operators::{People, act, look, say};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{Days, NaiveDate, Utc};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use std::path::PathBuf;
use std::time::Duration;

fn yesterday() -> NaiveDate {
    Utc::now().date_naive().checked_sub_days(Days::new(1)).expect("a day before this one")
}

/// A report of a day in the sandbox's format, with a charge under each of these keys.
fn report(day: NaiveDate, keys: &[&str]) -> String {
    let line = |key: &&str| {
        json!({"key": key, "gatewayRef": format!("ch_{}", key.trim_start_matches('=')), "kind": "charge", "gross": 1_000, "fee": 40,
            "net": 960, "currency": "EUR", "executedOn": day, "bookedOn": day})
    };
    let mut lines: Vec<String> = keys.iter().map(|key| line(key).to_string()).collect();
    lines.push(json!({"end": {"day": day, "lines": keys.len(), "complete": true}}).to_string());
    lines.join("\n") + "\n"
}

fn kept(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// Runs `reconcile run` on the database; it ends so, and says that.
fn run(site: &Installation, line: &str, code: i32, says: &str) -> String {
    let words: Vec<&str> = ["reconcile", "run"].into_iter().chain(line.split_whitespace()).collect();
    let ended = site.output(&words);
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let is_said = out.contains(says) || err.contains(says);
    assert!(ended.status.code() == Some(code) && is_said, "{line} is not {code} with {says}: {out}{err}");
    out.into_owned()
}

#[tokio::test]
async fn the_keeper_has_the_day_before_reconciled_by_itself_and_tells_it() {
    let daily = [
        ("gateway.settlement_url", "settlement"),
        ("reconcile.hour", "0"),
        ("reconcile.catch_up_days", "1"),
        ("reconcile.retry_every", "1s"),
    ];
    let mut site = Installation::new(&daily).await;
    for (role, name) in [("api", "api-1"), ("keeper", "keeper-1")] {
        site.start(role, name, &[]).await;
    }
    let people = People::of(&site);
    let list = format!("reconcile list --from {}", yesterday());
    let found = eventually("yesterday is compared", Duration::from_secs(30), || async {
        let found = look(&site, &people.alice, &list).await;
        found.as_array().and_then(|all| all.iter().find(|run| run["status"] == "compared").cloned())
    })
    .await;
    assert_eq!(
        (&found["askedBy"], &found["complete"], &found["lines"], &found["day"]),
        (&json!("reconciliation"), &json!(true), &json!(0), &json!(yesterday().to_string()))
    );
    let status = look(&site, &people.alice, "reconcile status").await;
    assert_eq!((&status[0]["gateway"], &status[0]["waiting"]), (&json!("sandbox"), &json!(0)), "{status}");
    assert_eq!(status[0]["lastDay"], json!(yesterday().to_string()));
    let line = "punctual_reconcile_last_success_timestamp_seconds{gateway=\"sandbox\"}";
    eventually("the keeper's gauge says so", Duration::from_secs(30), || async {
        let url = format!("{}/metrics", site.url("keeper-1"));
        let said = site.http.get(url).send().await.ok()?.text().await.ok()?;
        let value = said.lines().find_map(|it| it.strip_prefix(line))?.trim().parse::<f64>().ok()?;
        (value > 0.0).then_some(())
    })
    .await;
    // The very same report again: nothing is changed, and nothing differs.
    let again = run(&site, &format!("--gateway sandbox --day {}", yesterday()), 0, "as before");
    assert!(again.contains("open"), "{again}");
    // A day that goes on cannot be whole.
    run(&site, &format!("--gateway sandbox --day {} --dry-run", Utc::now().date_naive()), 11, "not kept");
}

#[tokio::test]
async fn a_file_is_reconciled_and_what_differs_is_listed_exported_dismissed_and_not_found_anew() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    let people = People::of(&site);
    let folder = tempfile::tempdir().expect("a folder");
    let day = yesterday();
    let two = kept(&folder, "two.ndjson", &report(day, &["=cmd|other", "other-2"]));
    let order = format!("--gateway sandbox --day {day} --format sandbox --file");

    let tried = run(&site, &format!("{order} {two} --dry-run -o json"), 10, "differences wait for people");
    let tried: Value = serde_json::from_str(&tried).expect("JSON");
    assert_eq!(
        (&tried["dryRun"], &tried["counts"]["foreign"], &tried["open"]),
        (&json!(true), &json!(2), &json!(2)),
        "{tried}"
    );
    let nothing = look(&site, &people.alice, "reconcile items").await;
    assert_eq!(nothing, json!([]), "a trial keeps nothing");

    run(&site, &format!("{order} {two}"), 10, "2 differences wait for people");
    let sheet = run(&site, &format!("{order} {two} --csv"), 10, "gateway_reference");
    assert!(sheet.contains("\"'=cmd|other\"") && sheet.contains(",1000,10.00,\"EUR\","), "{sheet}");
    let items = look(&site, &people.alice, "reconcile items --status open --class foreign").await;
    let number = items[0]["itemId"].as_i64().expect("a number");
    say(&site, &people.alice, "reconcile items --csv --all", 0, "\"'=cmd|other\"").await;
    say(&site, &people.alice, &format!("reconcile item {number}"), 0, "advice").await;
    act(&site, &people.alice, &format!("reconcile repair {number}"), 6, "nothing_to_repair").await;
    for item in items.as_array().expect("a list") {
        act(&site, &people.alice, &format!("reconcile dismiss {}", item["itemId"]), 0, "dismissed").await;
    }
    act(&site, &people.alice, &format!("reconcile dismiss {number}"), 6, "item_decided").await;
    run(&site, &format!("{order} {two}"), 0, "as before");

    let one = kept(&folder, "one.ndjson", &report(day, &["other-2"]));
    run(&site, &format!("{order} {one}"), 6, "--even-if-shorter");
    run(&site, &format!("{order} {one} --even-if-shorter"), 0, "kept as");
    let runs = look(&site, &people.alice, &format!("reconcile list --from {day} --status compared")).await;
    let id = runs[0]["reconciliationId"].as_str().expect("an id");
    say(&site, &people.alice, &format!("reconcile show {id}"), 0, "compared").await;
    act(&site, &people.alice, &format!("reconcile withdraw {id}"), 0, "superseded").await;
    act(&site, &people.alice, &format!("reconcile withdraw {id}"), 6, "report_does_not_count").await;
    say(&site, &people.alice, &format!("reconcile sums --from {day}"), 0, "").await;
}

#[tokio::test]
async fn a_report_that_is_cut_or_of_another_day_or_not_there_changes_nothing_and_says_why() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    let people = People::of(&site);
    let folder = tempfile::tempdir().expect("a folder");
    let day = yesterday();
    let whole = report(day, &["other-1", "other-2"]);
    let cut = kept(&folder, "cut.ndjson", whole.lines().next().expect("a line"));
    let other = kept(&folder, "other.ndjson", &report(day.pred_opt().expect("a day"), &["other-1"]));
    let fine = kept(&folder, "fine.ndjson", &whole);
    let order = format!("--gateway sandbox --day {day} --format sandbox --file");
    for (line, code, says) in [
        (format!("{order} {cut}"), 1, "line 1"),
        (format!("{order} {other}"), 2, "the report is of"),
        (format!("{order} {}/none", folder.path().display()), 1, "cannot be opened"),
        (format!("--gateway sandbox --day {day} --file {fine}"), 2, "--format"),
        (format!("--gateway sandbox --day {day} --file {fine} --format xml"), 2, "no format of reports"),
        (format!("--gateway bank --day {day}"), 2, "has to be a --file"),
        (format!("--gateway sandbox --day {day}"), 2, "gateway.settlement_url"),
        ("--gateway sandbox --day yesterday".to_owned(), 2, "--day"),
    ] {
        run(&site, &line, code, says);
    }
    assert_eq!(look(&site, &people.alice, "reconcile items").await, json!([]));
    assert_eq!(look(&site, &people.alice, "reconcile list --status compared").await, json!([]));
}

#[tokio::test]
async fn a_report_whose_loader_died_is_compared_by_the_keeper_and_what_differs_is_open() {
    let mut site = Installation::new(&[("reconcile.retry_every", "1s")]).await;
    site.start("api", "api-1", &[]).await;
    let people = People::of(&site);
    let folder = tempfile::tempdir().expect("a folder");
    let day = yesterday();
    let file = kept(&folder, "one.ndjson", &report(day, &["other-1"]));
    run(&site, &format!("--gateway bank --day {day} --format sandbox --file {file}"), 10, "");
    // As if whoever loaded it had died before it was compared, half an hour ago; another one just now.
    let mut sql = PgConnection::connect(&site.database.url).await.expect("a connection");
    for forget in [
        "DELETE FROM reconciliation_items",
        "UPDATE reconciliation_runs SET status = 'loaded', finished_at = NULL, counts = '{}',
             started_at = now() - interval '31 minutes'",
        "INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines, is_complete,
                                          seen_at)
         SELECT gen_random_uuid(), 'other', day, format, source, sha256, asked_by, status, 0, is_complete, seen_at
         FROM reconciliation_runs",
    ] {
        sqlx::query(forget).execute(&mut sql).await.expect("done");
    }
    assert_eq!(look(&site, &people.alice, "reconcile items").await, json!([]));
    site.start("keeper", "keeper-1", &[]).await;
    let found = eventually("the difference is open again", Duration::from_secs(30), || async {
        let found = look(&site, &people.alice, "reconcile items --status open").await;
        found.as_array().and_then(|all| all.first().cloned())
    })
    .await;
    assert_eq!(
        (&found["class"], &found["gateway"], &found["key"]),
        (&json!("foreign"), &json!("bank"), &json!("other-1"))
    );
    let stands = async |gateway: &str| {
        let all = look(&site, &people.alice, &format!("reconcile list --gateway {gateway}")).await;
        all[0]["status"].clone()
    };
    eventually("its report is compared", Duration::from_secs(30), || async {
        (stands("bank").await == "compared").then_some(())
    })
    .await;
    assert_eq!(stands("other").await, "loaded", "whoever loads it compares it");
}
