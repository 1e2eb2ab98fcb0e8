//! `punctual payment explain` on five payments that something happened to, on a whole installation, held
//! against what support would read out. Ids, instants, lengths and references are put out of sight.
//!
//! `BLESS=1 cargo test --features faults --test it stories` writes the texts anew; read them.

use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stub::{Ran, client};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);

async fn explained(site: &Installation, id: &str, form: &str) -> Ran {
    let mut command = client(site.url("api-1"));
    command.env("PUNCTUAL_API_KEY", &site.api_key).args(["payment", "explain", id, "-o", form]);
    command.output().await.expect("the binary runs").into()
}

/// What ends a word and is none of it.
const ENDS: [char; 7] = [',', '.', ';', ':', ')', '`', '\n'];

/// The story with everything that differs from run to run under one name.
fn plain(text: &str, payment: &Value) -> String {
    let text = text.replace(payment["paymentId"].as_str().expect("an id"), "PAYMENT");
    let reference = payment["gatewayReference"].as_str();
    let text = reference.map_or(text.clone(), |reference| text.replace(reference, "REFERENCE"));
    let words: Vec<&str> = text.split(' ').collect();
    let shown = words.iter().enumerate().map(|(at, word)| {
        let start = word.len() - word.trim_start_matches('(').len();
        let bare = word[start..].trim_end_matches(ENDS);
        let rest = &word[start + bare.len()..];
        let before = if at > 0 { words[at - 1] } else { "" };
        let next = words.get(at + 1).map_or("", |next| next.trim_end_matches(ENDS));
        let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_length = is_count(bare) && ["ms", "s", "min", "h"].contains(&next) && before != "within";
        let name = if DateTime::parse_from_rfc3339(bare).is_ok() || (bare.len() == 17 && bare.ends_with('Z'))
        {
            "TIME"
        } else if before == "bucket" && bare.starts_with('m') && is_count(&bare[1..]) {
            "mMM"
        } else if bare.strip_prefix("payments.due.m").is_some_and(is_count) {
            "payments.due.mMM"
        } else if ["partition", "-p"].contains(&before) && is_count(bare) {
            "P"
        } else if bare.strip_prefix("ch_").is_some_and(is_count) {
            "REFERENCE"
        } else if bare.starts_with("worker-1/") {
            "worker-1/RUN"
        } else if is_length {
            "N"
        } else {
            bare
        };
        format!("{}{name}{rest}", &word[..start])
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Holds a story against its golden text.
fn held(name: &str, story: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/it/cli/stories", name].iter().collect();
    let path = path.with_extension("txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, story).expect("the text can be written");
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(story == wanted, "{name}: the story differs from {}:\n{story}", path.display());
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

async fn make(site: &Installation, key: &str, payee: &str, more: Value) -> String {
    let mut body = json!({"payee": payee, "amount": 1_250, "currency": "EUR", "externalId": key,
        "dueAt": instant(Utc::now() + TimeDelta::seconds(1))});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let (status, made) = site.post(key, &body).await.expect("an answer");
    assert_eq!(status, 201, "{made}");
    made["paymentId"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn five_payments_with_a_story_are_told_as_support_would_tell_them() {
    let settings = [
        ("ladder.retry", "200ms,1h,1h,1h,1h"),
        ("ladder.reask", "300ms,1h"),
        ("gateway.total_timeout", "1s"),
        ("gateway.connect_timeout", "500ms"),
    ];
    let mut site = Installation::new(&settings).await;
    site.start("api", "api-1", &[]).await;
    site.start("keeper", "keeper-1", &[("keeper.reap_every", "200ms")]).await;
    // Nobody can claim it yet, so its deadline passes first.
    let due_at = Utc::now() + TimeDelta::seconds(1);
    let deadline =
        json!({"dueAt": instant(due_at), "executeBefore": instant(due_at + TimeDelta::seconds(1))});
    let late = make(&site, "deadline", "sim_ok", deadline).await;
    site.settled(&late, &["FAILED"], SOON).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &[]).await;

    let declined = make(&site, "declined", "sim_decline_insufficient_funds|sim_ok", json!({})).await;
    let timed_out = make(&site, "timed_out", "sim_timeout_charged", json!({})).await;
    let parked = make(&site, "parked", "sim_wrong_amount", json!({})).await;
    let later = json!({"dueAt": instant(Utc::now() + TimeDelta::hours(1)), "executeWithin": 600});
    let cancelled = make(&site, "cancelled", "sim_ok", later).await;
    let (status, answer) = site.cancel(&cancelled).await.expect("an answer");
    assert_eq!(status, 200, "{answer}");

    for (name, id, state) in [
        ("deadline", &late, "FAILED"),
        ("declined", &declined, "COMPLETED"),
        ("timed_out", &timed_out, "COMPLETED"),
        ("parked", &parked, "PARKED"),
        ("cancelled", &cancelled, "CANCELLED"),
    ] {
        let payment = site.settled(id, &[state], SOON).await;
        let told = explained(&site, id, "table").await;
        assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{name}");
        assert!(!told.out.contains(payment["payee"].as_str().expect("a payee")), "no payee in {}", told.out);
        held(name, &plain(&told.out, &payment));
        let document: Value = serde_json::from_str(&explained(&site, id, "json").await.out).expect("JSON");
        assert_eq!((&document["paymentId"], &document["historyIsWhole"]), (&json!(id), &json!(true)));
    }
}

#[tokio::test]
async fn a_payment_that_waits_is_told_what_comes_next() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    let due_at = Utc::now() + TimeDelta::hours(1);
    let id = make(&site, "waits", "sim_ok", json!({"dueAt": instant(due_at)})).await;
    let told = eventually("it is told", SOON, || async {
        let told = explained(&site, &id, "table").await;
        (told.code == Some(0)).then_some(told.out)
    })
    .await;
    let next = format!("At {} it is claimed and sent.", due_at.to_rfc3339_opts(SecondsFormat::Secs, true));
    assert!(told.contains(&next) && told.contains("the client can cancel it"), "{told}");
    let unknown = explained(&site, "no-such-id", "table").await;
    assert!(unknown.code == Some(5) && unknown.err.contains("payment_not_found"), "{unknown:?}");
}

#[tokio::test]
async fn the_commands_for_kafka_find_the_notice_and_the_event_with_their_offsets() {
    let mut site = Installation::new(&[]).await;
    for (role, name) in [("api", "api-1"), ("relay", "relay-1"), ("publisher", "publisher-1")] {
        site.start(role, name, &[]).await;
    }
    // A whole minute that begins in 30 to 90 s: staged at once, and into its bucket.
    let soon = Utc::now() + TimeDelta::seconds(90);
    let due_at = soon - TimeDelta::seconds(soon.timestamp().rem_euclid(60));
    let id = make(&site, "staged", "sim_ok", json!({"dueAt": instant(due_at)})).await;
    let mut command = client(site.url("api-1"));
    command.env("PUNCTUAL_API_KEY", &site.api_key).args(["payment", "explain", &id, "-o", "json"]);
    for (variable, setting) in [
        ("PUNCTUAL_KAFKA__BOOTSTRAP_SERVERS", "kafka.bootstrap_servers"),
        ("PUNCTUAL_KAFKA__TOPIC_PREFIX", "kafka.topic_prefix"),
        ("PUNCTUAL_KAFKA__PARTITIONS", "kafka.partitions"),
    ] {
        command.env(variable, site.setting(setting));
    }
    let told: Ran = command.output().await.expect("the binary runs").into();
    let told: Value = serde_json::from_str(&told.out).expect("JSON");
    let places = told["kafka"]["places"].as_array().expect("places");
    assert_eq!(places.len(), 3, "{told}");
    for (at, what) in [(0, "\"notBefore\""), (2, "payment.scheduled")] {
        let line = places[at]["command"].as_str().expect("a command");
        let found = eventually(&format!("{line} finds it"), SOON, || async {
            let ran = tokio::process::Command::new("sh").args(["-c", line]).output().await.expect("sh runs");
            let found = Ran::from(ran);
            (found.code == Some(0)).then_some(found.out)
        })
        .await;
        let words: Vec<&str> = found.split(' ').collect();
        assert_eq!(
            (words[0], words[3]),
            (places[at]["topic"].as_str().expect("a topic"), id.as_str()),
            "{found}"
        );
        let (partition, offset) = words[1].split_once('/').expect("a place");
        assert_eq!(told["kafka"]["partition"].to_string(), partition, "{found}");
        assert!(offset.parse::<u64>().is_ok() && found.contains(what), "{found}");
    }
}
