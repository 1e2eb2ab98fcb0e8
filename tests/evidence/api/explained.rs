//! `punctual payment explain` of five payments that something happened to: printed whole, and asked for the
//! facts that support must know: how much, when, who, why, where the money is, and what may be done now.
//!
//! Everything is done as people do it, with the commands, each person with a key of their own. What must be
//! told is read from the API's own answers, not from the story.

use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stub::{Ran, client};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;

const SOON: Duration = Duration::from_secs(60);

/// Leases that are over soon, and tries that follow each other quickly.
const SETTINGS: [(&str, &str); 13] = [
    ("worker.lease", "4s"),
    ("worker.margin", "500ms"),
    ("worker.drain", "5s"),
    ("worker.late_by", "2s"),
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1500ms"),
    ("gateway.refunds", "true"),
    ("database.statement_timeout", "3s"),
    ("database.acquire_timeout", "3s"),
    ("keeper.reap_every", "200ms"),
    ("kafka.session_timeout", "6s"),
    ("ladder.retry", "1s"),
    ("ladder.reask", "1s"),
];

/// The people, by what they may do; the client is the installation's own key.
struct People<'a> {
    site: &'a Installation,
    alice: String,
    bob: String,
}

impl<'a> People<'a> {
    fn of(site: &'a Installation) -> Self {
        let key = |actor: &str, scopes: &[&str]| {
            let mut command = vec!["keys", "create", "--actor", actor, "-o", "json"];
            scopes.iter().for_each(|scope| command.extend(["--scope", scope]));
            let made: Value = serde_json::from_str(&site.run(&command)).expect("JSON of the key");
            made["apiKey"].as_str().expect("the key's text").to_owned()
        };
        let alice = key("alice", &["ops:read", "ops:redrive", "ops:refund"]);
        Self { site, alice, bob: key("bob", &["ops:read", "ops:approve"]) }
    }

    async fn ran(&self, key: &str, arguments: &[&str]) -> Ran {
        let mut command = client(self.site.url("api-1"));
        command.env("PUNCTUAL_API_KEY", key).args(arguments);
        command.output().await.expect("the binary runs").into()
    }

    /// Asks as alice for what a second person must allow, and allows it as bob.
    async fn asked_and_allowed(&self, arguments: &[&str], reason: &str) {
        let asked = self.ran(&self.alice, arguments).await;
        assert_eq!(asked.code, Some(4), "a second person is needed: {asked:?}");
        let waiting = self.ran(&self.bob, &["approvals", "list", "-o", "json"]).await;
        let waiting: Value = serde_json::from_str(&waiting.out).unwrap_or_else(|_| panic!("{waiting:?}"));
        let id = waiting[0]["approvalId"].as_str().unwrap_or_else(|| panic!("{waiting}")).to_owned();
        let allowed = self.ran(&self.bob, &["approvals", "approve", &id, "--reason", reason, "--yes"]).await;
        assert_eq!(allowed.code, Some(0), "{allowed:?}");
    }

    async fn explained(&self, id: &str, form: &str) -> Ran {
        self.ran(&self.site.api_key, &["payment", "explain", id, "-o", form]).await
    }
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

async fn make(site: &Installation, key: &str, payee: &str, amount: i64, more: Value) -> String {
    let mut body = json!({"payee": payee, "amount": amount, "currency": "EUR", "externalId": key,
        "dueAt": instant(Utc::now() + TimeDelta::seconds(1))});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let (status, made) = site.post(key, &body).await.expect("an answer");
    assert_eq!(status, 201, "{made}");
    made["paymentId"].as_str().expect("an id").to_owned()
}

async fn history(site: &Installation, id: &str) -> Vec<Value> {
    let url = format!("{}/v1/scheduled-payments/{id}/history", site.url("api-1"));
    let answer = site.http.get(url).bearer_auth(&site.api_key).send().await.expect("an answer");
    let answer: Value = serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON");
    answer["data"].as_array().expect("rows").clone()
}

async fn has(site: &Installation, id: &str, cause: &str) {
    eventually(&format!("{id} has a row {cause}"), SOON, || async {
        history(site, id).await.iter().any(|row| row["cause"] == cause).then_some(())
    })
    .await;
}

/// One story: its title, the payment, and what must be told beside what is true of all.
struct Story {
    title: &'static str,
    id: String,
    told: Vec<String>,
}

fn story(title: &'static str, id: &str, told: &[&str]) -> Story {
    Story { title, id: id.to_owned(), told: told.iter().map(|fact| (*fact).to_owned()).collect() }
}

/// The five, by what happened to them.
struct Five {
    timed_out: String,
    released: String,
    cancelled: String,
    renewed: String,
    refunded: String,
}

/// Lets the five things happen and tells them.
pub async fn five_payments_are_explained(figures: &mut Figures) {
    figures.part("punctual payment explain, five payments with a story");
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [("api", "api-1"), ("relay", "relay-1"), ("keeper", "keeper-1")] {
        site.start(role, name, &[]).await;
    }
    let renewed = refused_under_a_lost_claim(&mut site).await;
    site.role("worker-2").drain(Duration::from_secs(30)).await;
    site.start("worker", "worker-3", &[]).await;
    let five = made(&site, renewed).await;
    let people = People::of(&site);
    site.settled(&five.released, &["PARKED"], SOON).await;
    let facts = ["It was set aside for a human", "punctual parked show"];
    told(figures, &people, &story("waits for people", &five.released, &facts)).await;
    acted(&people, &five).await;
    for story in stories(&five) {
        told(figures, &people, &story).await;
    }
}

/// Creates the other four; the client cancels one of them.
async fn made(site: &Installation, renewed: String) -> Five {
    let timed_out = make(site, "timed-out", "sim_timeout_charged", 1_250, json!({})).await;
    let once = json!({"retry": {"maxSends": 1, "onExhausted": "park"}});
    let released = make(site, "released", "sim_decline_insufficient_funds|sim_ok", 2_345, once).await;
    let later = json!({"dueAt": instant(Utc::now() + TimeDelta::hours(1))});
    let cancelled = make(site, "cancelled", "sim_ok", 3_000, later).await;
    let refunded = make(site, "refunded", "sim_ok", 4_999, json!({})).await;
    let (status, answer) = site.cancel(&cancelled).await.expect("an answer");
    assert_eq!(status, 200, "{answer}");
    Five { timed_out, released, cancelled, renewed, refunded }
}

/// What people do about them, until all is done.
async fn acted(people: &People<'_>, five: &Five) {
    let why = ["--reason", "the customer has money again", "--yes"];
    let act = people.ran(&people.alice, &[&["parked", "redrive", &five.released], &why[..]].concat()).await;
    assert_eq!(act.code, Some(0), "{act:?}");
    let why = ["--new-epoch", "--reason", "the first claim sent nothing", "--yes"];
    let renew = [&["parked", "redrive", &five.renewed], &why[..]].concat();
    people.asked_and_allowed(&renew, "spoke to them").await;
    let site = people.site;
    let paid = site.settled(&five.refunded, &["COMPLETED"], SOON).await;
    let reference = paid["gatewayReference"].as_str().expect("a reference");
    let refund = ["refund", "create", &five.refunded, "--gateway-reference", reference, "--amount", "1999"];
    let why = ["--reason", "one of two was sent back", "--yes"];
    people.asked_and_allowed(&[&refund[..], &why[..]].concat(), "seen the parcel").await;
    has(site, &five.refunded, "noted").await;
    for id in [&five.timed_out, &five.released, &five.renewed] {
        site.settled(id, &["COMPLETED"], SOON).await;
    }
}

/// What must be told of each.
fn stories(five: &Five) -> [Story; 5] {
    let (refundable, once) =
        ("An operator can have it given back, whole or in part", "Exactly one charge of");
    [
        story(
            "paid after a time-out and a look-up",
            &five.timed_out,
            &[
                "it ran out of time",
                "The gateway was asked and showed a charge of 12.50 EUR",
                once,
                refundable,
            ],
        ),
        story(
            "parked, then released by a person",
            &five.released,
            &[
                "insufficient_funds",
                "key:alice released it",
                "the customer has money again",
                once,
                refundable,
            ],
        ),
        story(
            "cancelled by its client",
            &five.cancelled,
            &["cancelled it before anything was submitted", "never charged", "a new payment under a new key"],
        ),
        story(
            "a claim was lost; then two people wanted a new key",
            &five.renewed,
            &[
                "recorded no outcome within its lease",
                "came too late",
                "Nothing was sent",
                "key:alice released it for another try under a new gateway key; key:bob allowed it.",
                "the first claim sent nothing",
                "key epoch 1",
                once,
                refundable,
            ],
        ),
        story(
            "paid, and partly given back",
            &five.refunded,
            &[
                "had 19.99 EUR given back",
                "asked for by key:alice and allowed by key:bob.",
                "one of two was sent back",
                "In sum 19.99 EUR of this charge are given back.",
                refundable,
            ],
        ),
    ]
}

/// A payment of two claims under one key. The worker of the first was frozen while it connected, so its lease ran
/// out; the second was refused, which proves nothing while the first may have sent something. What the first
/// one says when it wakes, that it sent nothing, comes when the payment is parked already.
async fn refused_under_a_lost_claim(site: &mut Installation) -> String {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", silent.local_addr().expect("an address"));
    tokio::spawn(async move {
        // Held open, and never a word of the handshake.
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            held.push(connection);
        }
    });
    site.start("worker", "worker-1", &[("gateway.lookup", "false"), ("gateway.url", &url)]).await;
    let id = make(site, "renewed", "sim_decline_insufficient_funds|sim_ok", 1_250, json!({})).await;
    site.settled(&id, &["PROCESSING"], SOON).await;
    site.role("worker-1").freeze();
    site.start("worker", "worker-2", &[("gateway.lookup", "false")]).await;
    let parked = site.settled(&id, &["PARKED"], SOON).await;
    assert_eq!(parked["statusReason"], "unproven_decline", "{parked}");
    site.role("worker-1").thaw();
    has(site, &id, "fenced").await;
    // It slept for more than half a lease, so it stops of its own accord.
    site.role("worker-1").ended(SOON).await;
    id
}

/// Prints a story and holds it against the API's own answers.
async fn told(figures: &mut Figures, people: &People<'_>, story: &Story) {
    let id = &story.id;
    let (_, payment) = people.site.get(id).await.expect("an answer");
    let rows = history(people.site, id).await;
    let ran = people.explained(id, "table").await;
    println!("\n    {}:", story.title);
    ran.out.lines().for_each(|line| println!("    | {line}"));
    println!();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // History has microseconds, the story seconds.
    let second = |value: &Value| text(value).get(..19).unwrap_or("no instant").to_owned();
    let minor = payment["amount"].as_i64().unwrap_or_default();
    let mut facts = vec![
        text(&payment["paymentId"]),
        text(&payment["status"]),
        format!("{}.{:02} EUR", minor / 100, minor % 100),
        format!("due at {}", second(&payment["dueAt"])),
    ];
    facts.extend(payment["gatewayReference"].as_str().map(str::to_owned));
    facts.extend(story.told.iter().cloned());
    let lines: Vec<&str> = ran.out.lines().collect();
    let beside = |row: &Value, fact: &str| {
        let number = format!("{:>2}. {}", row["seq"].as_i64().unwrap_or_default(), second(&row["at"]));
        lines.iter().any(|line| line.trim_start().starts_with(number.trim_start()) && line.contains(fact))
    };
    let mut missing: Vec<String> =
        facts.iter().filter(|fact| !ran.out.contains(fact.as_str())).cloned().collect();
    // Each row with its instant, and who did it where that is nobody's part of the sentence.
    for row in &rows {
        let by = text(&row["by"]);
        let names = ["claimed", "redriven", "resolved"].contains(&row["cause"].as_str().unwrap_or_default());
        let fact = if names { by.as_str() } else { "[payment." };
        if !beside(row, fact) {
            missing.push(format!("row {} at {} by {by}", row["seq"], second(&row["at"])));
        }
    }
    let all = facts.len() + rows.len();
    figures.violations(&format!("facts that are not told: {}", story.title), all, missing.len(), &missing);
    let payee = text(&payment["payee"]);
    let quiet = !payee.is_empty() && !ran.out.contains(&payee);
    let document: Value = serde_json::from_str(&people.explained(id, "json").await.out).unwrap_or_default();
    let whole = document["historyIsWhole"] == true && ran.code == Some(0) && ran.err.is_empty();
    let shown = format!("exit {:?}, whole {}, no payee {quiet}", ran.code, document["historyIsWhole"]);
    figures.holds(
        "its history is whole, and no payee is told",
        shown,
        "exit 0, true, true",
        Holds(whole && quiet),
    );
}
