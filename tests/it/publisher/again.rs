//! What was published, published again; and every topic filled from the database alone.

use super::{Events, SOON, STAND_IN, World, id, rows, running, stories, write};
use crate::support::brokers::erase;
use crate::support::eventually;
use crate::support::installation::{Installation, variable};
use crate::support::services::services;
use chrono::{TimeDelta, Timelike, Utc};
use punctual::platform::clock::{Host, SharedClock};
use punctual::platform::shutdown::Shutdown;
use punctual::publisher::{Replay, Told, replay};
use punctual::schedule::{HistoryPlace, ReplayPlace, ReplaySpan};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn again(world: &World, rate: u32, after: Option<ReplayPlace>) -> Replay {
    let clock: SharedClock = Arc::new(Host);
    Replay {
        span: ReplaySpan { from: None, to: None, payment: None },
        after,
        told: Told::Events,
        rate,
        batch: 7,
        form: world.form.clone(),
        clock,
    }
}

#[tokio::test]
async fn a_replay_repeats_the_very_records_and_nothing_that_the_leader_has_not_published() {
    let world = World::new().await;
    world.run(STAND_IN).await;
    let mut sql = world.sql().await;
    for round in 0..3 {
        for n in 1..=10 {
            write(&mut sql, id(n + 10 * round)).await;
        }
    }
    let story = id(99);
    for _ in 0..5 {
        write(&mut sql, story).await;
    }
    let lease = world.lead("p1").await;
    world.publish(&lease, 4, 35).await;
    let before = world.events.read();
    // What is not published yet is the leader's.
    write(&mut sql, story).await;
    let (_stays, shutdown) = Shutdown::manual();
    let all = again(&world, 1_000, None);
    let done = replay(&all, &world.history, Some(&world.producer), &shutdown, |_, _| {}).await;
    let done = done.expect("a replay");
    assert_eq!((done.again.rows, done.stopped_at), (35, None));
    let after = world.events.read();
    assert_eq!(after.len(), 70);
    let twice: BTreeMap<String, Vec<&(i32, Value)>> = after.iter().fold(BTreeMap::new(), |mut all, one| {
        all.entry(one.1["id"].as_str().expect("an id").to_owned()).or_default().push(one);
        all
    });
    assert!(twice.values().all(|two| two.len() == 2 && two[0] == two[1]), "the same, in the same partition");
    for (partition, _) in before.iter().take(1) {
        let of = |events: &[(i32, Value)]| -> Vec<Value> {
            let own = events
                .iter()
                .filter(|(there, event)| there == partition && event["subject"] == json!(story.to_string()));
            own.map(|(_, event)| event["sequence"].clone()).collect()
        };
        assert_eq!(of(&after), [of(&before), of(&before)].concat(), "in the same order");
    }

    // A part of it, and from a place on.
    let only = ReplaySpan { from: None, to: None, payment: Some(story) };
    let one = Replay { span: only, ..again(&world, 1_000, None) };
    let (trigger, stopped) = Shutdown::manual();
    let small = Replay { rate: 2, ..one };
    let half = replay(&small, &world.history, Some(&world.producer), &stopped, |_, _| trigger.stop()).await;
    let half = half.expect("a replay");
    let place = half.stopped_at.expect("it was stopped");
    assert_eq!(half.again.rows, 2);
    let rest = Replay { after: Some(place), rate: 1_000, ..small };
    let rest =
        replay(&rest, &world.history, Some(&world.producer), &shutdown, |_, _| {}).await.expect("a replay");
    assert_eq!(rest.again.rows, 3, "the rest of its five");
    let late = ReplaySpan { from: Some(Utc::now() + TimeDelta::hours(1)), to: None, payment: None };
    let none = Replay { span: late, ..again(&world, 1_000, None) };
    let none =
        replay(&none, &world.history, Some(&world.producer), &shutdown, |_, _| {}).await.expect("a replay");
    assert_eq!(none.again.rows, 0);
    // The leader goes on where it was.
    world.publish(&lease, 10, 1).await;
}

#[tokio::test]
async fn a_page_of_a_replay_reads_by_the_index_and_sorts_nothing() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    world
        .run(
            "INSERT INTO payment_history
             SELECT ('01a2283e-8820-8' || substr(gen_random_uuid()::text, 16))::uuid, 1, '-', 'PENDING', 'created',
                    'test', 0, 0, 0, clock_timestamp(), '{}', '', (n + 1000)::text::xid8
             FROM generate_series(1, 20000) AS n; ANALYZE payment_history",
        )
        .await;
    sqlx::query("SET plan_cache_mode = force_custom_plan").execute(&mut sql).await.expect("set");
    let today = "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')";
    let today: String = sqlx::query_scalar(today).fetch_one(&mut sql).await.expect("a day");
    let (nobody, days) = (
        "'00000000-0000-0000-0000-000000000000'",
        "now() - interval '1 day', now() + interval '1 day', 1000::bigint",
    );
    for (name, arguments, index) in [
        (
            "replay_rows",
            format!("'1100', 1, {nobody}, '9000000', 1, {nobody}, {days}"),
            "_xid_seq_payment_id_idx",
        ),
        ("replay_payment", format!("gen_random_uuid(), '0', 0, '9000000', 1, {nobody}, {days}"), "_pkey"),
    ] {
        let plan = super::explain(&mut sql, name, &arguments).await;
        assert!(plan.contains(index), "{plan}");
        // The days beside it are empty, and an empty table is read through at no cost.
        let reads_all = plan.contains(&format!("Seq Scan on payment_history_{today}"));
        assert!(!plan.contains("Sort Key: h.xid\n") && !reads_all, "{plan}");
    }
}

fn told(site: &Installation, arguments: &[&str]) -> Value {
    serde_json::from_str(&site.run(arguments)).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

#[tokio::test]
async fn a_person_publishes_a_span_again_beside_the_leader() {
    let mut site = Installation::new(&[("publisher.poll", "50ms")]).await;
    let events = running(&mut site).await;
    let from = ["publisher", "--from", "beginning", "-o", "json"];
    assert_eq!(site.output(&from).status.code(), Some(6), "nothing was published from here yet");
    site.start("publisher", "publisher-1", &[]).await;
    let paid = site.create("paid", "sim_ok", Utc::now() + TimeDelta::seconds(1)).await;
    site.create("waits", "sim_ok", Utc::now() + TimeDelta::hours(1)).await;
    site.settled(&paid, &["COMPLETED"], SOON).await;
    assert_eq!(stories(&site, &events).await.len(), 2);
    let counted = told(&site, &[&from[..], &["--dry-run"]].concat());
    assert_eq!(counted["events"]["payment.scheduled"], 2, "{counted}");
    assert_eq!((&counted["rows"], &counted["dryRun"]), (&json!(4), &json!(true)), "{counted}");
    assert_eq!(events.by_payment().1, 0, "a dry run publishes nothing");
    assert_eq!(told(&site, &from)["rows"], 4);
    assert_eq!(events.by_payment().1, 4);
    let one = told(&site, &[&from[..], &["--payment", &paid]].concat());
    assert_eq!((&one["rows"], events.by_payment().1), (&json!(3), 7));
    // Records would lie where nobody looks for them.
    let wrong = [&from[..], &["--set", "kafka.partitions=3"]].concat();
    assert_eq!(site.output(&wrong).status.code(), Some(2));
    let place = format!("1/1/1/{paid}");
    let elsewhere = [&from[..], &["--after", &place]].concat();
    assert_eq!(site.output(&elsewhere).status.code(), Some(2));
    assert_eq!(site.output(&["publisher", "--dry-run"]).status.code(), Some(2), "nothing to try");
    assert_eq!(events.by_payment().1, 7);
}

/// Everything in a topic of the cluster, from its first record.
fn everything(site: &Installation, topic: &str, partitions: i32) -> Vec<(i32, Value)> {
    let consumer = rdkafka::config::ClientConfig::new()
        .set("bootstrap.servers", site.kafka())
        .set("group.id", "reads-only")
        .set("enable.auto.commit", "false")
        .create()
        .expect("settings");
    let events =
        Events { consumer, topic: topic.to_owned(), start: (0..partitions).map(|n| (n, 0)).collect() };
    events.records()
}

#[tokio::test]
async fn a_cluster_that_lost_every_topic_is_filled_from_the_database_by_one_command() {
    let mut site = Installation::new(&[("publisher.poll", "50ms"), ("relay.lead", "10m")]).await;
    let events = running(&mut site).await;
    site.start("publisher", "publisher-1", &[]).await;
    let paid = site.create("paid", "sim_ok", Utc::now() + TimeDelta::seconds(1)).await;
    let parked = site.create("parked", "sim_wrong_amount", Utc::now() + TimeDelta::seconds(1)).await;
    let due_at = Utc::now() + TimeDelta::minutes(5);
    let waits = site.create("waits", "sim_ok", due_at).await;
    site.create("later", "sim_ok", Utc::now() + TimeDelta::hours(2)).await;
    site.settled(&paid, &["COMPLETED"], SOON).await;
    site.settled(&parked, &["PARKED"], SOON).await;
    stories(&site, &events).await;
    outbox_is(&site, 1, "only what is due in two hours waits in the outbox").await;
    let names = ["relay-1", "worker-1", "keeper-1", "publisher-1"];
    names.iter().for_each(|name| site.role(name).kill());

    // Every topic is gone; the new ones get a name and a group of their own, as the README says.
    let prefix = format!("again-{}.payments.", std::process::id());
    let set =
        [("kafka.topic_prefix", prefix.clone()), ("kafka.group", format!("again-{}", std::process::id()))];
    set.into_iter().for_each(|(name, value)| drop(site.environment.insert(variable(name), value)));
    let count = rows(&site).await;
    let dry = told(&site, &["topics", "rebuild", "--dry-run", "-o", "json"]);
    assert_eq!(
        (&dry["topicsMade"], &dry["notices"], &dry["announcements"]),
        (&json!(63), &json!(1), &json!(1))
    );
    assert_eq!(dry["events"]["payment.scheduled"], 4, "{dry}");
    assert_eq!(site.output(&["topics", "check"]).status.code(), Some(10), "a dry run makes nothing");
    assert_eq!(site.output(&["topics", "rebuild"]).status.code(), Some(2), "nobody can be asked here");
    let done = told(&site, &["topics", "rebuild", "--yes", "-o", "json"]);
    assert_eq!(done["events"], json!(count), "{done}");
    assert_eq!(
        (&done["topicsMade"], &done["notices"], &done["announcements"]),
        (&json!(63), &json!(1), &json!(1))
    );

    every_event_is_there_once(&site, &prefix);
    parked_is_announced(&site, &prefix, &parked);

    // Relays publish the notice as any other, and whoever publishes goes on.
    outbox_is(&site, 2, "the notice waits in the outbox again").await;
    site.start("relay", "relay-1", &[]).await;
    site.start("publisher", "publisher-1", &[]).await;
    outbox_is(&site, 1, "it was published").await;
    let topic = format!("{prefix}due.m{:02}", due_at.minute());
    let notices = everything(&site, &topic, 2);
    assert_eq!(notices.iter().map(|(_, notice)| &notice["paymentId"]).collect::<Vec<_>>(), [&json!(waits)]);
    assert_eq!(site.cancel(&waits).await.expect("an answer").0, 200);
    eventually("what happens now is published too", SOON, || async {
        let all = everything(&site, &format!("{prefix}events"), 2);
        (all.len() == rows(&site).await).then_some(())
    })
    .await;
    site.roles.clear();
    refuses_offsets_of_topics_that_are_gone(&site, &format!("{prefix}due.now"));
    erase(&services().kafka_bootstrap_servers, &prefix).await;
}

fn every_event_is_there_once(site: &Installation, prefix: &str) {
    let mut payments: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (_, event) in everything(site, &format!("{prefix}events"), 2) {
        let sequences = payments.entry(event["subject"].as_str().expect("an id").to_owned()).or_default();
        sequences.push(event["sequence"].as_i64().expect("a number"));
    }
    assert_eq!(payments.len(), 4);
    for (payment, sequences) in &payments {
        let wanted: Vec<i64> = (1..).take(sequences.len()).collect();
        assert_eq!(*sequences, wanted, "{payment}: in order, without a gap, once");
    }
}

fn parked_is_announced(site: &Installation, prefix: &str, parked: &str) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("topics/parked.schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).expect("a file")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    // Said when it was parked, by the leader, into the topics that are gone; and now again, and by the rebuild of
    // the lane.
    let announced = everything(site, &format!("{prefix}parked"), 2);
    assert!(!announced.is_empty());
    for (_, announcement) in &announced {
        assert!(schema.is_valid(announcement), "{announcement}");
        assert_eq!(announcement["paymentId"], json!(parked), "{announcement}");
    }
}

fn refuses_offsets_of_topics_that_are_gone(site: &Installation, topic: &str) {
    let consumer: BaseConsumer = rdkafka::config::ClientConfig::new()
        .set("bootstrap.servers", site.kafka())
        .set("group.id", site.setting("kafka.group"))
        .create()
        .expect("settings");
    let mut beyond = TopicPartitionList::new();
    beyond.add_partition_offset(topic, 0, Offset::Offset(1_000_000)).expect("a place");
    consumer.commit(&beyond, CommitMode::Sync).expect("committed");
    let (code, said) = site.tell(&["topics", "rebuild", "--yes", "--only", "ring"]);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("another kafka.group"), "{said}");
}

async fn outbox_is(site: &Installation, wanted: i64, what: &str) {
    eventually(what, SOON, || async {
        let mut sql = PgConnection::connect(&site.database.url).await.ok()?;
        let count = AssertSqlSafe("SELECT count(*) FROM due_notices".to_owned());
        let count: i64 = sqlx::query_scalar(count).fetch_one(&mut sql).await.ok()?;
        (count == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_lane_that_is_started_over_fences_its_leader_and_is_finished_by_the_next_one() {
    let world = World::new().await;
    world.run(STAND_IN).await;
    let mut sql = world.sql().await;
    for n in 1..=10 {
        write(&mut sql, id(n)).await;
    }
    let leader = world.lead("p1").await;
    world.publish(&leader, 100, 10).await;
    let rebuild = world.history.start_over("rebuild-1", super::LENGTH).await.expect("taken");
    assert!(rebuild.epoch > leader.epoch);
    assert!(world.history.unpublished(&leader, 10).await.expect("an answer").is_none(), "fenced at once");
    assert!(!world.history.renew_publisher(&leader, super::LENGTH).await.expect("an answer"));
    // It dies in the middle.
    world.publish(&rebuild, 4, 4).await;
    let bound = world.history.replay_bound().await.expect("an answer").expect("a cursor");
    assert_ne!(bound.end, HistoryPlace::BEGINNING);
    world.run("UPDATE publisher_cursor SET until = now() - interval '1 s'").await;
    let heir = world.lead("p2").await;
    assert!(!heir.started_over, "it goes on from the cursor");
    world.publish(&heir, 100, 6).await;
    let (payments, repeated) = world.events.by_payment();
    assert_eq!((payments.len(), repeated), (10, 10));
}
