//! Which services these are, and that anyone with kcat can read what travels through them.

use crate::figures::{Figures, Holds};
use crate::once::ids;
use crate::support::mixed::Ran;
use crate::support::{database, services::services};
use std::collections::BTreeSet;
use std::process::Command;

/// The fields of a notice, version 1, and nothing else.
const FIELDS: [&str; 7] = ["attempt", "dueAt", "gateway", "lane", "notBefore", "paymentId", "v"];

/// Evidence needs Apache Kafka itself and Postgres.
pub async fn services_are_real(figures: &mut Figures) {
    figures.part("Services");
    let found = services();
    let kafka = format!("{} {}", found.kafka_kind, found.kafka_version);
    let real = found.kafka_kind == "apache" && !found.kafka_version.is_empty();
    figures.holds("Kafka", kafka, "apache, its version known", Holds(real));
    let mut admin = database::admin().await;
    let version: String =
        sqlx::query_scalar("SHOW server_version").fetch_one(&mut admin).await.expect("Postgres answers");
    let major: u32 = version.split(['.', ' ']).next().and_then(|major| major.parse().ok()).unwrap_or(0);
    figures.holds("Postgres", version, "15 or later", Holds(major >= 15));
}

/// The topics are as declared, and kcat reads the run's notices from a ring topic and from `due.now`.
pub fn notices_are_readable(figures: &mut Figures, ran: &Ran) {
    figures.part("Kafka, from outside");
    let (code, said) = ran.site.tell(&["topics", "check"]);
    figures.holds("punctual topics check: exit code", format!("{code:?}"), "Some(0)", Holds(code == Some(0)));
    if code != Some(0) {
        println!("{said}");
    }
    if Command::new("kcat").arg("-V").output().is_err() {
        let hint = "missing; apt-get install kcat";
        figures.holds("kcat", hint, "reads the notices", Holds(false));
        return;
    }
    let ours = ids(&ran.records);
    let minutes: BTreeSet<String> =
        ran.records.payments.iter().map(|p| p.due_at.format("due.m%M").to_string()).collect();
    let ring: Vec<Read> = minutes.iter().map(|minute| read(ran, minute, &ours)).collect();
    let sum = |count: fn(&Read) -> usize| ring.iter().map(count).sum();
    let in_ring = Read { notices: sum(|read| read.notices), sound: sum(|read| read.sound) };
    for (name, read) in [
        (minutes.into_iter().collect::<Vec<_>>().join(", "), in_ring),
        ("due.now".to_owned(), read(ran, "due.now", &ours)),
    ] {
        let holds = read.notices > 0 && read.sound == read.notices;
        let shown = format!("{} of {} sound", read.sound, read.notices);
        figures.holds(
            &format!("notices of this run that kcat reads: {name}"),
            shown,
            "all, more than 0",
            Holds(holds),
        );
    }
}

/// Notices of this run in one topic.
struct Read {
    notices: usize,
    /// The key is the payment's id, and the value is an object of exactly the fields of version 1.
    sound: usize,
}

fn read(ran: &Ran, topic: &str, ours: &BTreeSet<String>) -> Read {
    let topic = format!("{}payments.{topic}", ran.site.ring.prefix);
    let output = Command::new("kcat")
        .args(["-b", &services().kafka_bootstrap_servers, "-t", &topic, "-C", "-e", "-q", "-f", "%k\t%s\n"])
        .output()
        .expect("kcat runs");
    assert!(output.status.success(), "kcat: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_this_run = |line: &&str| ours.iter().any(|id| line.contains(id.as_str()));
    let notices: Vec<&str> = text.lines().filter(of_this_run).collect();
    let sound = notices
        .iter()
        .filter(|line| line.split_once('\t').is_some_and(|(key, value)| is_sound(key, value, ours)));
    Read { sound: sound.count(), notices: notices.len() }
}

fn is_sound(key: &str, value: &str, ours: &BTreeSet<String>) -> bool {
    let Ok(serde_json::Value::Object(value)) = serde_json::from_str(value) else { return false };
    let mut fields: Vec<&str> = value.keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields == FIELDS && value["v"] == 1 && value["paymentId"] == key && ours.contains(key)
}
