//! `punctual bucket list` and `bucket peek` on a real ring: what operators see of it.

use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::services::services;
use crate::trouble::own_ring;
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::bucket::{label, minute_start};
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn shown(site: &Installation, arguments: &[&str]) -> Vec<Value> {
    let arguments = [arguments, &["-o", "json"]].concat();
    let answer: Value = serde_json::from_str(&site.run(&arguments)).expect("JSON");
    answer.as_array().expect("a list").clone()
}

fn exit(site: &Installation, arguments: &[&str]) -> Option<i32> {
    site.output(arguments).status.code()
}

/// The records of that payment.
fn of<'a>(records: &'a [Value], id: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["notice"]["paymentId"] == id).collect()
}

async fn produce(topic: &str, key: &str, value: &str, seal: Option<&str>) {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .create()
        .expect("settings");
    let headers = seal.map(|seal| OwnedHeaders::new().insert(Header { key: "mac", value: Some(seal) }));
    let record = FutureRecord::to(topic).key(key).payload(value).headers(headers.unwrap_or_default());
    producer.send(record, SOON).await.expect("a delivery");
}

/// The instant of a payment that travels through the ring: its minute begins in 20 to 80 seconds.
fn staged_soon() -> DateTime<Utc> {
    minute_start(Utc::now() + TimeDelta::seconds(20)) + TimeDelta::seconds(65)
}

#[tokio::test]
async fn operators_see_what_lies_in_the_ring_beside_what_the_database_says() {
    let usual = [("relay.lead", "90s"), ("relay.guard", "15s")];
    let mut site = own_ring::site("looks", &usual).await;
    site.start("relay", "relay-1", &[]).await;
    let due_at = staged_soon();
    let minute = due_at.format("%M").to_string();
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(site.create(&format!("k{number}"), "sim_ok", due_at).await);
    }
    let records = eventually("all are staged", SOON, || async {
        let records = shown(&site, &["bucket", "peek", &minute]);
        (records.len() == 3).then_some(records)
    })
    .await;
    for id in &ids {
        let [record] = of(&records, id)[..] else { panic!("one record of {id} in {records:?}") };
        assert_eq!((&record["seal"], &record["isComplete"]), (&json!("authentic"), &json!(false)));
        assert_eq!(
            (&record["payment"]["status"], &record["payment"]["attempt"]),
            (&json!("PENDING"), &json!(0))
        );
        let bucket = json!(["bucket", label(due_at)]);
        assert!(record["headers"].as_array().expect("headers").contains(&bucket), "{record}");
    }
    assert_eq!(shown(&site, &["bucket", "peek", &minute, "--limit", "2"]), records[1..], "the newest");
    assert_eq!(site.cancel(&ids[1]).await.expect("an answer").0, 200);

    // What nobody of ours wrote, and what nobody can read.
    let topic = own_ring::now_topic(&site);
    let value = json!({"v": 1, "paymentId": ids[0], "gateway": "sandbox", "lane": 1, "attempt": 9,
        "dueAt": due_at.format("%FT%T.%6fZ").to_string(), "notBefore": due_at.format("%FT%T.%6fZ").to_string()});
    produce(&topic, &ids[0], &value.to_string(), Some(&"0".repeat(64))).await;
    produce(&topic, &ids[0], &value.to_string(), None).await;
    produce(&topic, "key", "not a notice", None).await;
    let strange = shown(&site, &["bucket", "peek", "now"]);
    let mut seals: Vec<&str> = strange.iter().filter_map(|record| record["seal"].as_str()).collect();
    seals.sort_unstable();
    assert_eq!(seals, ["forged", "missing", "unreadable"]);
    let text = site.run(&["bucket", "peek", &minute]);
    let line = |id: &str| text.lines().find(|line| line.contains(id)).expect("a line").to_owned();
    assert!(line(&ids[0]).contains("authentic") && line(&ids[0]).contains("PENDING, 0 claims"), "{text}");
    assert!(line(&ids[1]).contains("CANCELLED"), "{text}");

    the_list_adds_up(&site, due_at);
    assert_eq!(exit(&site, &["bucket", "peek", "61"]), Some(2));
    let nowhere = ["bucket", "list", "--set", "kafka.topic_prefix=nowhere."];
    // The environment has it already; the command line wins.
    assert_eq!(exit(&site, &nowhere), Some(5), "a ring that is not there");
    let away = ["bucket", "peek", "now", "--set", "database.url=postgres://nobody@127.0.0.1:1/x"];
    assert_eq!(exit(&site, &away), Some(1));
    own_ring::remove(site).await;
}

fn the_list_adds_up(site: &Installation, due_at: DateTime<Utc>) {
    let before = Utc::now();
    let all = shown(site, &["bucket", "list"]);
    assert_eq!(all.len(), 61);
    let labels: Vec<&str> = all.iter().filter_map(|line| line["bucket"].as_str()).collect();
    let first = [label(before), label(Utc::now())];
    assert!(first.iter().any(|label| label == labels[0]) && labels[60] == "now", "{labels:?}");
    let line = all.iter().find(|line| line["bucket"] == label(due_at)).expect("its minute");
    let (staged, lag) = (&line["staged"], &line["lag"]);
    assert_eq!((staged, lag), (&json!(3), &json!(3)), "no worker has read them: {line}");
    assert_eq!((&line["due"][0]["due"], &line["due"][0]["precision"]), (&json!(2), &json!("exact")));
    let first_at = line["due"][0]["firstAt"].as_str().and_then(|text| text.parse::<DateTime<Utc>>().ok());
    assert_eq!(first_at, Some(due_at));
    assert_eq!(line["partitions"].as_array().map(Vec::len), Some(3));
    let others = all.iter().filter(|line| line["bucket"] != label(due_at) && line["bucket"] != "now");
    assert_eq!(others.filter_map(|line| line["staged"].as_i64()).sum::<i64>(), 0);
    assert_eq!(all[60]["lag"], json!(3));
    let table = site.run(&["bucket", "list"]);
    assert_eq!(table.lines().count(), 62, "{table}");
}

#[tokio::test]
async fn the_forecast_is_printed_as_the_interface_answers_it() {
    let mut site = Installation::new(&[("gateway.rate", "10"), ("gateway.lookup_share", "50")]).await;
    site.start("api", "api-1", &[]).await;
    let due_at = minute_start(Utc::now()) + TimeDelta::minutes(10);
    for number in 0..4 {
        site.create(&format!("k{number}"), "sim_ok", due_at).await;
    }
    let told: Value = serde_json::from_str(&site.run(&["forecast", "-o", "json"])).expect("JSON");
    let of = &told["gateways"][0];
    assert_eq!((&of["gateway"], &of["chargesPerSecond"]), (&json!("sandbox"), &json!(5)));
    let minutes = of["minutes"].as_array().expect("minutes");
    let [busy] = minutes.iter().filter(|minute| minute["due"] != 0).collect::<Vec<_>>()[..] else {
        panic!("one busy minute: {told}")
    };
    let done = (due_at + TimeDelta::milliseconds(800)).to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
    assert_eq!((&busy["due"], &busy["drainedAt"]), (&json!(4), &json!(done)), "at 5 a second");
    let key = site.run(&["keys", "create", "--actor", "watch", "--scope", "ops:read"]);
    let url = format!("{}/v1/forecast", site.url("api-1"));
    let answer = site.http.get(url).bearer_auth(key.trim()).send().await.expect("an answer");
    let answer: Value = serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON");
    let names = |it: &Value| it.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
    assert_eq!(names(&answer["gateways"][0]), names(of));
    let answered = answer["gateways"][0]["minutes"].as_array().expect("minutes");
    assert!(answered.contains(busy), "{answer}");
    let table = site.run(&["forecast"]);
    assert!(table.contains("gateway sandbox: 5 charges a second; overdue 0"), "{table}");
    assert!(table.contains(&due_at.format("%Y-%m-%dT%H:%MZ").to_string()), "{table}");
}
