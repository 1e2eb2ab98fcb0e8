//! The consumer of `examples/`, on a topic in which everything comes twice and some of it too early.

#[allow(dead_code, reason = "its `main` reads the environment and follows for ever")]
#[path = "../../../examples/consume.rs"]
mod consume;

use super::{PARTITIONS, SOON, STAND_IN, World, id, write};
use crate::support::services::services;
use consume::{Book, follow};
use punctual::bucket::Outgoing;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Each payment's sequences, in the order of the book.
fn kept(path: &Path) -> BTreeMap<String, Vec<i64>> {
    let text = std::fs::read_to_string(path).expect("a book");
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).expect("an event");
        let sequences = found.entry(event["subject"].as_str().expect("an id").to_owned()).or_default();
        sequences.push(event["sequence"].as_i64().expect("a number"));
    }
    found
}

/// Follows until the book holds so many events.
async fn until(path: PathBuf, group: String, topic: String, wanted: usize) {
    let followed = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let mut book = Book::open(&path).expect("a book");
        let enough = |_: &Book| {
            let found = kept(&path).values().map(Vec::len).sum::<usize>();
            assert!(began.elapsed() < 2 * SOON, "{found} of {wanted}");
            found >= wanted
        };
        follow(&services().kafka_bootstrap_servers, &group, &topic, &mut book, enough).expect("it follows");
    });
    followed.await.expect("it ends");
}

#[tokio::test]
async fn the_example_keeps_every_event_once_and_in_order_whatever_is_repeated_or_cut_short() {
    let mut world = World::new().await;
    let topic = format!("consumers-{}.payments.events", std::process::id());
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .create()
        .expect("settings");
    let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
    admin.create_topics(&[new], &AdminOptions::new()).await.expect("an answer");
    world.form.topic.clone_from(&topic);
    world.run(STAND_IN).await;
    let mut sql = world.sql().await;
    for _ in 0..4 {
        for n in 1..=25 {
            write(&mut sql, id(n)).await;
        }
    }
    // `id` takes the time of its making, so each round made payments of its own: 100, with one event each.
    let story = id(200);
    for _ in 0..6 {
        write(&mut sql, story).await;
    }
    let lease = world.lead("p1").await;
    let rows = world.until_found(&lease, 106).await.rows;
    // The story's own events out of their order, as no publisher of ours sends them, and then everything.
    let own: Vec<_> = rows.iter().filter(|row| row.row.payment == story).collect();
    let records = |order: &[usize]| -> Vec<Outgoing> {
        order.iter().map(|n| punctual::publisher::event::record(&world.form, own[*n])).collect()
    };
    let mixed = records(&[0, 2, 4, 1, 2, 3, 0]);
    for record in &mixed {
        world.producer.publish(std::slice::from_ref(record)).await.expect("acknowledged");
    }
    world.publish(&lease, 50, 106).await;

    let folder = tempfile::tempdir().expect("a folder");
    let (path, group) = (folder.path().join("events.ndjson"), format!("consumers-{}", std::process::id()));
    until(path.clone(), group.clone(), topic.clone(), 106).await;
    let whole = kept(&path);
    assert_eq!(whole.len(), 101);
    assert_eq!(whole[&story.to_string()], [1, 2, 3, 4, 5, 6]);

    // A crash in the middle of a line: what was cut is taken again, by a group that has to begin anew.
    let text = std::fs::read_to_string(&path).expect("a book");
    let cut = text.len() - 20;
    std::fs::write(&path, &text[..cut]).expect("written");
    until(path.clone(), format!("{group}-again"), topic.clone(), 106).await;
    assert_eq!(kept(&path), whole, "nothing twice, nothing lost");
    // The first group committed: it goes on where it was, and finds what is new.
    write(&mut sql, story).await;
    world.publish(&lease, 50, 1).await;
    until(path.clone(), group, topic.clone(), 107).await;
    assert_eq!(kept(&path)[&story.to_string()], [1, 2, 3, 4, 5, 6, 7]);
    admin.delete_topics(&[&topic], &AdminOptions::new()).await.expect("an answer");
}

#[test]
fn a_book_waits_for_what_comes_before_and_settles_only_without_gaps() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("book");
    let text = |sequence: i64| json!({"subject": "p", "sequence": sequence}).to_string();
    let mut book = Book::open(&path).expect("a book");
    assert_eq!(book.take(&text(3)).expect("an event"), 1, "the first that is met, whatever came before");
    assert_eq!(book.take(&text(2)).expect("an event"), 0, "older than what is known");
    assert_eq!(book.take(&text(6)).expect("an event"), 0);
    assert_eq!(book.take(&text(5)).expect("an event"), 0);
    assert!(!book.is_settled().expect("asked"), "two wait");
    assert_eq!(book.take(&text(4)).expect("an event"), 3);
    assert!(book.is_settled().expect("asked"));
    assert_eq!(kept(&path)["p"], [3, 4, 5, 6]);
    drop(book);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("the file");
    file.write_all(br#"{"subject":"p","sequ"#).expect("cut short");
    let mut book = Book::open(&path).expect("a book");
    assert_eq!(book.take(&text(6)).expect("an event"), 0);
    assert_eq!(book.take(&text(7)).expect("an event"), 1);
    assert_eq!(kept(&path)["p"], [3, 4, 5, 6, 7]);
}
