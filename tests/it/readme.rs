//! What the README shows works: its recipes are executed as they stand, in order, by bash, and their
//! answers are held against what the README says about them.
//!
//! A block that follows `<!-- executed: NAME -->` is run unchanged. After a request, a comment
//! `# 201 and Idempotent-Replayed: true, {"status": "PENDING", …}` is the expectation: the status,
//! the replay header if named, and fields of the body, where `"…"` is any text and a final `…` is more.

use crate::support::eventually;
use crate::support::installation::{Installation, PUNCTUAL};
use chrono::{DateTime, DurationRound, TimeDelta, Timelike, Utc};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

/// As it stands.
pub const README: &str = include_str!("../../README.md");

/// The code of the block of that name.
pub fn block(readme: &'static str, name: &str) -> &'static str {
    let marker = format!("<!-- executed: {name} -->\n```bash\n");
    let (_, rest) = readme.split_once(&marker).unwrap_or_else(|| panic!("no block {name}"));
    rest.split_once("```\n").expect("the block ends").0
}

/// One answer, as seen or as promised.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    is_replay: bool,
    /// JSON.
    pub body: Value,
}

/// What the comments of a block promise, in order.
pub fn promises(code: &str) -> Vec<Answer> {
    code.lines().filter_map(|line| promise(line.strip_prefix("# ")?)).collect()
}

fn promise(comment: &str) -> Option<Answer> {
    let status = comment.get(..3)?.parse().ok()?;
    let (said, body) = comment.split_at(comment.find('{').unwrap_or_else(|| panic!("no body in {comment}")));
    let body = serde_json::from_str(&body.replace(", …}", "}").replace(", …]", r#", "…"]"#))
        .unwrap_or_else(|error| panic!("{error} in what is promised: {body}"));
    Some(Answer { status, is_replay: said.contains("Idempotent-Replayed: true"), body })
}

/// What makes `seen` different from `promised`.
pub fn broken(promised: &Answer, seen: &Answer) -> Option<String> {
    if (promised.status, promised.is_replay) != (seen.status, seen.is_replay) {
        return Some(format!("promised {promised:?}, seen {seen:?}"));
    }
    let fields = promised.body.as_object().expect("an object is promised");
    assert!(!fields.is_empty(), "nothing is promised");
    let differs = fields.iter().find(|(name, wanted)| !fits(wanted, &seen.body[name.as_str()]));
    differs.map(|(name, wanted)| format!("{name} should be {wanted} in {}", seen.body))
}

/// An object may have more fields than promised; an array only where its last element is `"…"`, and then
/// anywhere: what else is there is the reader's own.
fn fits(promised: &Value, seen: &Value) -> bool {
    match (promised, seen) {
        (Value::String(any), Value::String(text)) if any == "…" => !text.is_empty(),
        (Value::Object(promised), Value::Object(seen)) => {
            promised.iter().all(|(name, wanted)| seen.get(name).is_some_and(|found| fits(wanted, found)))
        }
        (Value::Array(promised), Value::Array(seen)) => {
            let (wanted, is_open) = match promised.split_last() {
                Some((last, before)) if last == "…" => (before, true),
                _ => (promised.as_slice(), false),
            };
            if is_open {
                wanted.iter().all(|wanted| seen.iter().any(|found| fits(wanted, found)))
            } else {
                seen.len() == wanted.len()
                    && wanted.iter().zip(seen).all(|(wanted, found)| fits(wanted, found))
            }
        }
        _ => promised == seen,
    }
}

/// Runs code as a reader's shell would.
fn bash(code: &str, environment: &[(&str, &str)]) -> Output {
    let home = tempfile::tempdir().expect("a folder");
    std::fs::write(home.path().join(".curlrc"), "noproxy = \"*\"\n").expect("curl's settings can be written");
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", code]).env("CURL_HOME", home.path()).current_dir(home.path());
    command.envs(environment.iter().copied()).output().expect("bash runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The answers that curl showed, in order: head and body of each.
pub fn answers(shown: &[u8]) -> Vec<Answer> {
    let shown = text(shown).replace('\r', "");
    let answer = |shown: &str| {
        let (head, body) = shown.split_once("\n\n").unwrap_or_else(|| panic!("no body in {shown}"));
        let status = head.get(..3).and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or_else(|| panic!("no status in {head}")),
            is_replay: head.to_ascii_lowercase().contains("\nidempotent-replayed: true"),
            body: serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {body}")),
        }
    };
    shown.split("HTTP/1.1 ").skip(1).map(answer).collect()
}

#[tokio::test]
async fn the_curls_answer_what_the_readme_says_also_when_they_are_run_again() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    let code = block(README, "api");
    let promised = promises(code);
    assert_eq!(promised.len(), 9, "nine curls");
    for _ in 0..2 {
        let output = bash(code, &[("PUNCTUAL_URL", site.url("api-1")), ("PUNCTUAL_API_KEY", &site.api_key)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let seen = answers(&output.stdout);
        assert_eq!(seen.len(), promised.len(), "{seen:#?}");
        let id = seen[0].body["paymentId"].clone();
        for (promised, seen) in promised.iter().zip(&seen) {
            assert_eq!(broken(promised, seen), None);
            if !promised.body.to_string().contains("paymentId") {
                continue;
            }
            let listed = seen.body["data"].as_array().into_iter().flatten();
            let named = std::iter::once(&seen.body).chain(listed).any(|object| object["paymentId"] == id);
            assert!(named, "one payment in all that name one: {id} in {}", seen.body);
        }
    }
}

#[tokio::test]
async fn the_commands_work_as_they_stand_also_when_they_are_run_again() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    let environment = [
        ("PATH", path_with_the_binary()),
        ("PUNCTUAL_URL", site.url("api-1").to_owned()),
        ("PUNCTUAL_API_KEY", site.api_key.clone()),
    ];
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for run in 1..=2 {
        let output = bash(block(README, "cli"), &environment);
        let (told, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{told}{said}");
        for part in [
            "status\tPENDING",
            "What happens next",
            "\tPENDING\tbe cancelled",
            "\tCANCELLED\t",
            "payments\t1",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert!(told.lines().any(|line| line == run.to_string()), "{run} cancelled: {told}");
        for part in ["idempotency key cli-", "1 would be cancelled", "1 would be sent, 0 would be rejected"] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}

/// The commands beside kcat, found as an installed one is.
fn path_with_the_binary() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let folder = std::path::Path::new(PUNCTUAL).parent().expect("a folder").display();
    format!("{folder}:{path}")
}

#[test]
fn an_answer_that_is_not_as_promised_is_seen() {
    let promised = promise(r#"201 and Idempotent-Replayed: true, {"id": "…", "amount": 1250, …}"#).unwrap();
    let seen = |status, is_replay, body| Answer { status, is_replay, body };
    let right = || serde_json::json!({"id": "x", "amount": 1250, "more": 1});
    assert_eq!(broken(&promised, &seen(201, true, right())), None);
    assert!(broken(&promised, &seen(200, true, right())).is_some());
    assert!(broken(&promised, &seen(201, false, right())).is_some());
    assert!(broken(&promised, &seen(201, true, serde_json::json!({"id": "", "amount": 1250}))).is_some());
    assert!(broken(&promised, &seen(201, true, serde_json::json!({"id": "x", "amount": 1}))).is_some());
    assert!(promise("Do not pay.").is_none());
    let promised = promise(r#"200, {"none": [], "one": [{"n": 1}], "more": [{"n": 1}, …]}"#).unwrap();
    let seen = |none: &str, one: &str, more: &str| {
        let body = format!(r#"{{"none": {none}, "one": {one}, "more": {more}}}"#);
        broken(&promised, &Answer { status: 200, is_replay: false, body: body.parse().unwrap() })
    };
    let (one, two) = (r#"[{"n": 1, "m": 2}]"#, r#"[{"n": 1}, {"n": 2}]"#);
    assert_eq!(seen("[]", one, two), None);
    assert_eq!(seen("[]", one, one), None);
    assert!(seen(one, one, two).is_some());
    assert!(seen("[]", two, two).is_some());
    assert!(seen("[]", one, "[]").is_some());
}

/// An instant with at least this much of its minute before it, so that "the next minute" stays the
/// next one, and stays outside the relay's guard, while the test works.
async fn early_in_a_minute() -> DateTime<Utc> {
    eventually("a young minute", Duration::from_secs(60), || async {
        let now = Utc::now();
        (now.second() < 30).then_some(now)
    })
    .await
}

#[tokio::test]
async fn the_kcat_recipes_show_what_travels_past_the_ring_and_what_is_staged_in_it() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    site.start("relay", "relay-1", &[]).await;
    let now = early_in_a_minute().await;
    let minute = TimeDelta::minutes(1);
    let next_minute = now.duration_trunc(minute).expect("a minute") + minute;
    let past = site.create("past", "sim_ok", now + TimeDelta::seconds(3)).await;
    let staged = site.create("staged", "sim_ok", next_minute + TimeDelta::seconds(1)).await;

    let prefix = site.environment["PUNCTUAL_KAFKA__TOPIC_PREFIX"].clone();
    let servers = site.environment["PUNCTUAL_KAFKA__BOOTSTRAP_SERVERS"].clone();
    let names = [("KAFKA_BOOTSTRAP_SERVERS", &*servers), ("PUNCTUAL_KAFKA__TOPIC_PREFIX", &*prefix)];
    let code = block(README, "kafka");
    let shown = eventually("kcat shows both notices", Duration::from_secs(25), || async {
        let output = bash(code, &names);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown = text(&output.stdout);
        (shown.contains(&past) && shown.contains(&staged)).then_some(shown)
    })
    .await;

    assert!(shown.contains("due.now [0] offset "), "where it ends: {shown}");
    let path = path_with_the_binary();
    let settings: Vec<(&str, &str)> = site
        .environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .chain([("PATH", &*path)])
        .collect();
    let output = bash(block(README, "buckets"), &settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("the database says") && told.contains("worked off at"), "{told}");
    assert!(told.contains("gateway sandbox: no rate is set"), "{told}");

    let lines: Vec<&str> = shown.lines().collect();
    let at = lines.iter().position(|line| line.starts_with(&past)).expect("the first recipe's key");
    assert!(lines[at].contains("bucket=") && lines[at].contains("not-before="), "{}", lines[at]);
    let notice: Value = serde_json::from_str(lines[at + 1]).expect("a notice is JSON");
    assert!(notice.is_object() && !lines[at + 1].contains("1250"), "no amount: {notice}");
    let line = lines.iter().find(|line| line.contains(&format!(" {staged} "))).expect("the second's line");
    let (place, _) = line.split_once(' ').expect("a place");
    let (partition, offset) = place.split_once('/').expect("partition and offset");
    assert!(partition.parse::<i32>().is_ok_and(|it| it < 2) && offset.parse::<i64>().is_ok(), "{line}");
}
