//! The history as events, on real Postgres and Kafka: what anyone with a consumer sees.

mod again;
mod consumers;
mod elsewhere;
#[cfg(feature = "faults")]
mod seeded;

use crate::support::database::{TestDatabase, database};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::ring::{RingLease, lease as lease_ring};
use crate::support::services::services;
use chrono::{DateTime, TimeDelta, Utc};
use punctual::bucket::topics;
use punctual::bucket::{NotAcknowledged, Outgoing, Producer};
use punctual::domain::ids::PaymentId;
use punctual::platform::clock::{Clock, Host, SharedClock};
use punctual::platform::config;
use punctual::publisher::event::Form;
use punctual::publisher::{PassFailed, Topic, step};
use punctual::schedule::{Access, Postgres, PublisherLease, UnpublishedBatch, connect};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const LENGTH: Duration = Duration::from_secs(10);
const PARTITIONS: i32 = 2;

/// The topic of events, from where it ended when the test began: rings are used again and again.
struct Events {
    consumer: BaseConsumer,
    topic: String,
    start: BTreeMap<i32, i64>,
}

impl Events {
    async fn from_now(topic: &str) -> Self {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &services().kafka_bootstrap_servers)
            .set("group.id", "reads-only")
            .set("enable.auto.commit", "false")
            .create()
            .expect("settings");
        // A topic that was just made has no leader yet.
        let start = eventually("every partition has a leader", SOON, || async {
            let end = |partition| consumer.fetch_watermarks(topic, partition, SOON).map(|(_, end)| end);
            (0..PARTITIONS).map(|partition| Some((partition, end(partition).ok()?))).collect()
        })
        .await;
        Self { consumer, topic: topic.to_owned(), start }
    }

    /// Everything up to now, in order within each partition.
    fn read(&self) -> Vec<(i32, Value)> {
        let events = self.records();
        assert!(events.iter().all(|(_, event)| event["specversion"] == "1.0"), "{events:?}");
        events
    }

    /// The same of a topic that holds something else.
    fn records(&self) -> Vec<(i32, Value)> {
        let mut list = TopicPartitionList::new();
        let mut left = 0;
        for (partition, start) in &self.start {
            let (_, end) = self.consumer.fetch_watermarks(&self.topic, *partition, SOON).expect("an answer");
            left += end - start;
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(*start)).expect("a place");
        }
        self.consumer.assign(&list).expect("assigned");
        let mut events = Vec::new();
        while left > 0 {
            let record = self.consumer.poll(SOON).expect("a record in time").expect("a record");
            let event: Value = serde_json::from_slice(record.payload().expect("a value")).expect("JSON");
            let payment = event["subject"].as_str().or(event["paymentId"].as_str());
            assert_eq!(record.key(), payment.map(str::as_bytes));
            events.push((record.partition(), event));
            left -= 1;
        }
        self.consumer.unassign().expect("an answer");
        events
    }

    /// Per payment the sequences in the order of their first appearance; and how many repetitions.
    fn by_payment(&self) -> (BTreeMap<String, Vec<i64>>, usize) {
        let mut payments: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let mut repeated = 0;
        for (_, event) in self.read() {
            let sequences = payments.entry(event["subject"].as_str().expect("an id").into()).or_default();
            let sequence = event["sequence"].as_i64().expect("a number");
            if sequences.contains(&sequence) {
                repeated += 1;
            } else {
                sequences.push(sequence);
            }
        }
        (payments, repeated)
    }
}

/// A database, and a ring whose topic of events exists.
struct World {
    history: Postgres,
    database: TestDatabase,
    producer: Producer,
    form: Form,
    events: Events,
    _ring: RingLease,
}

impl World {
    async fn new() -> Self {
        let ring = lease_ring().await;
        let database = database().await;
        let kafka = config::Kafka {
            bootstrap_servers: services().kafka_bootstrap_servers.clone(),
            topic_prefix: format!("{}payments.", ring.prefix),
            partitions: PARTITIONS,
            replication: 1,
            min_insync_replicas: 1,
            ..Default::default()
        };
        let clock: SharedClock = Arc::new(Host);
        assert_eq!(topics::apply(&kafka, &clock).await.expect("topics"), []);
        let settings = config::Database { url: database.url.as_str().into(), ..Default::default() };
        let history = connect(&settings, Access::Worker).await.expect("a worker connects");
        let form = Form::new(&kafka.topic_prefix, PARTITIONS);
        let events = Events::from_now(&form.topic).await;
        let producer = Producer::new(&kafka, clock).expect("settings");
        Self { history, database, producer, form, events, _ring: ring }
    }

    async fn sql(&self) -> PgConnection {
        PgConnection::connect(&self.database.url).await.expect("a connection")
    }

    async fn run(&self, statement: &str) {
        self.sql().await.execute(AssertSqlSafe(statement.to_owned())).await.expect(statement);
    }

    async fn lead(&self, holder: &str) -> PublisherLease {
        let lease = self.history.acquire_publisher(holder, LENGTH).await.expect("an answer");
        lease.expect("nobody leads")
    }

    /// Passes until so many events went out, and not one more. Any transaction of the whole cluster
    /// holds events back, those of other tests too; so this waits.
    async fn publish(&self, lease: &PublisherLease, batch: u32, wanted: usize) {
        let mut published = 0;
        let start = Host.mono();
        while published < wanted {
            let pass = step(&self.history, &self.producer, lease, &self.form, batch).await.expect("a pass");
            published += pass.published;
            assert!(Host.mono().0 - start.0 < 2 * SOON, "{published} of {wanted}");
        }
        assert_eq!(published, wanted);
    }

    /// Waits until so many rows may be published.
    async fn until_found(&self, lease: &PublisherLease, wanted: usize) -> UnpublishedBatch {
        eventually("no transaction holds the rows back", 2 * SOON, || async {
            let found = self.found(lease).await;
            (found.rows.len() == wanted).then_some(found)
        })
        .await
    }

    async fn found(&self, lease: &PublisherLease) -> UnpublishedBatch {
        self.history.unpublished(lease, 1_000).await.expect("read").expect("we lead")
    }
}

/// Writes the next history row of a payment in this session's transaction, as the statements do:
/// `xid = greatest(own, last_xid)`, under the lock of the payment's row (here: a table that stands in).
async fn write(sql: &mut PgConnection, payment: PaymentId) {
    let statement = format!(
        "WITH row AS (
            INSERT INTO stand_in AS s (id, seq, last_xid) VALUES ('{payment}', 1, pg_current_xact_id())
            ON CONFLICT (id) DO UPDATE SET seq = s.seq + 1, last_xid = greatest(pg_current_xact_id(), s.last_xid)
            RETURNING *)
         INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
            hash, xid)
         SELECT id, seq, CASE seq WHEN 1 THEN '-' ELSE 'PENDING' END, 'PENDING',
                CASE seq WHEN 1 THEN 'created' ELSE 'noted' END, 'test', 0, 0, 0, clock_timestamp(), '{{}}', '', last_xid
         FROM row"
    );
    sql.execute(AssertSqlSafe(statement)).await.expect("written");
}

fn id(n: u8) -> PaymentId {
    PaymentId::new(Utc::now(), [n; 10]).expect("in range")
}

const STAND_IN: &str = "CREATE TABLE stand_in (id uuid PRIMARY KEY, seq integer, last_xid xid8)";

#[tokio::test]
async fn a_low_transaction_held_open_hides_nothing_and_keeps_every_payment_in_order() {
    let world = World::new().await;
    world.run(STAND_IN).await;
    let lease = world.lead("p1").await;
    let (late, early) = (id(1), id(2));
    let (mut old, mut new) = (world.sql().await, world.sql().await);

    // It takes its transaction id before all others and writes only later.
    old.execute("BEGIN; SELECT pg_current_xact_id()").await.expect("begun");
    write(&mut new, early).await;
    write(&mut new, late).await;
    write(&mut new, late).await;
    let waiting = world.found(&lease).await;
    assert!(waiting.rows.is_empty(), "{waiting:?}");
    assert!(waiting.oldest_age > Duration::ZERO && !waiting.is_ahead, "the gauge that alarms sees them");
    let pass = step(&world.history, &world.producer, &lease, &world.form, 10).await.expect("a pass");
    assert_eq!(pass.published, 0);

    // Its row follows on rows of younger transactions: plain order by its own id would put it first.
    write(&mut old, late).await;
    old.execute("COMMIT").await.expect("committed");
    write(&mut new, late).await;
    world.publish(&lease, 2, 5).await;
    let (payments, repeated) = world.events.by_payment();
    assert_eq!(payments[&early.to_string()], [1]);
    assert_eq!(payments[&late.to_string()], [1, 2, 3, 4]);
    assert_eq!(repeated, 0);
    assert_eq!(world.until_found(&lease, 0).await.oldest_age, Duration::ZERO);
}

/// Publishes, and then the process is gone: the caller never learns of it.
struct Dies<'a>(&'a Producer);

impl Topic for Dies<'_> {
    async fn publish(&self, batch: &[Outgoing]) -> Result<(), NotAcknowledged> {
        self.0.publish(batch).await?;
        Err(NotAcknowledged {
            indexes: vec![0],
            of: batch.len(),
            first: "killed after the acknowledgement".into(),
        })
    }
}

#[tokio::test]
async fn death_between_acknowledgement_and_cursor_repeats_events_and_loses_none() {
    let world = World::new().await;
    world.run(STAND_IN).await;
    let mut sql = world.sql().await;
    for n in 1..=20 {
        write(&mut sql, id(n)).await;
    }
    let dead = world.lead("p1").await;
    world.until_found(&dead, 20).await;
    let killed = step(&world.history, &Dies(&world.producer), &dead, &world.form, 1_000).await;
    assert!(matches!(killed, Err(PassFailed::NotAcknowledged(_))), "{killed:?}");
    assert!(world.history.acquire_publisher("p2", LENGTH).await.expect("an answer").is_none());
    world.run("UPDATE publisher_cursor SET until = now() - interval '1 s'").await;
    let heir = world.lead("p2").await;
    assert!(heir.epoch > dead.epoch && !heir.started_over);
    world.publish(&heir, 1_000, 20).await;
    let (payments, repeated) = world.events.by_payment();
    assert_eq!((payments.len(), repeated), (20, 20));

    // The dead one wakes: it neither reads nor moves anything.
    let stale = UnpublishedBatch { rows: vec![], ..world.found(&heir).await };
    assert!(world.history.unpublished(&dead, 10).await.expect("an answer").is_none());
    assert!(!world.history.advance_publisher(&dead, &stale).await.expect("an answer"));
    assert!(!world.history.renew_publisher(&dead, LENGTH).await.expect("an answer"));
}

#[tokio::test]
async fn a_big_batch_fits_through_the_topic_s_limits() {
    let world = World::new().await;
    // 3,000 events with long details: far more than max.message.bytes in one batch of the client.
    world
        .run(
            "INSERT INTO payment_history
             SELECT ('01a2283e-8820-8' || substr(gen_random_uuid()::text, 16))::uuid, 1, '-', 'PENDING', 'created',
                    'test', 0, 0, 0, clock_timestamp(),
                    json_build_object('a', (SELECT string_agg(md5(random()::text || n || m), '') FROM generate_series(1, 20) AS m))::text,
                    '', pg_current_xact_id()
             FROM generate_series(1, 3000) AS n",
        )
        .await;
    let lease = world.lead("p1").await;
    world.publish(&lease, 1_000, 3_000).await;
    assert_eq!(world.events.by_payment().0.len(), 3_000);
}

async fn explain(sql: &mut PgConnection, name: &str, arguments: &str) -> String {
    let text = punctual::schedule::statements::Statement::named(name).expect("listed").text;
    sql.execute(AssertSqlSafe(format!("PREPARE hot AS {text}"))).await.expect("prepared");
    let explain = format!("EXPLAIN EXECUTE hot ({arguments})");
    let lines: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(explain)).fetch_all(&mut *sql).await.expect("explained");
    sql.execute("DEALLOCATE hot").await.expect("gone");
    lines.join("\n")
}

#[tokio::test]
async fn a_pass_reads_a_few_days_by_the_index_and_sorts_nothing() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    world
        .run(
            "INSERT INTO payment_history
             SELECT ('01a2283e-8820-8' || substr(gen_random_uuid()::text, 16))::uuid, 1, '-', 'PENDING', 'created',
                    'test', 0, 0, 0, clock_timestamp(), '{}', '', (n / 40 + 10)::text::xid8
             FROM generate_series(1, 20000) AS n; ANALYZE payment_history",
        )
        .await;
    sql.execute("SET plan_cache_mode = force_custom_plan").await.expect("set");

    // The floor follows once the cursor has passed the mark.
    let lease = world.lead("p1").await;
    assert!(world.found(&lease).await.floor_is_old, "never marked before");
    let floor = eventually("the floor follows", 2 * SOON, || async {
        world.run("CREATE TABLE IF NOT EXISTS noise (n integer); INSERT INTO noise VALUES (1)").await;
        let batch = world.found(&lease).await;
        assert!(world.history.advance_publisher(&lease, &batch).await.expect("an answer"));
        let floor = "SELECT floor_at FROM publisher_cursor WHERE lane = 'events' AND floor_at > '2020-01-01'";
        sqlx::query_scalar(floor).fetch_optional(&mut world.sql().await).await.expect("an answer")
    });
    let floor: DateTime<Utc> = floor.await;
    let age = Utc::now() - floor;
    assert!(age >= TimeDelta::days(1) && age < TimeDelta::days(1) + TimeDelta::minutes(10), "{age}");
    assert!(!world.found(&lease).await.floor_is_old, "marked a moment ago");

    let days = "now() - interval '1 day', now() + interval '1 day'";
    let cursor = "'60', 1, '00000000-0000-0000-0000-000000000000'";
    for (name, arguments) in [
        ("publish_rows", format!("{cursor}, '9000000', {days}, 1000::bigint")),
        ("publish_waiting", format!("'60', {days}")),
    ] {
        let plan = explain(&mut sql, name, &arguments).await;
        assert!(plan.contains("_xid_seq_payment_id_idx"), "{plan}");
        assert!(
            !plan.contains("Sort Key: h.xid\n") && !plan.contains("Seq Scan on payment_history_"),
            "{plan}"
        );
        let touched = plan.matches(" on payment_history_").count();
        assert!((1..=3).contains(&touched), "{touched} partitions\n{plan}");
    }
}

async fn running(site: &mut Installation) -> Events {
    let prefix = &site.environment["PUNCTUAL_KAFKA__TOPIC_PREFIX"];
    let events = Events::from_now(&format!("{prefix}events")).await;
    for (role, name) in
        [("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1"), ("keeper", "keeper-1")]
    {
        site.start(role, name, &[]).await;
    }
    events
}

async fn rows(site: &Installation) -> usize {
    let mut sql = PgConnection::connect(&site.database.url).await.expect("a connection");
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM payment_history")
        .fetch_one(&mut sql)
        .await
        .expect("a count");
    usize::try_from(count).expect("a count")
}

/// Waits until every history row is in the topic, and gives each payment's types in order.
async fn stories(site: &Installation, events: &Events) -> BTreeMap<String, Vec<String>> {
    eventually("every history row is an event", SOON, || async {
        let found = events.by_payment().0.values().map(Vec::len).sum::<usize>();
        (found == rows(site).await).then_some(())
    })
    .await;
    for (payment, sequences) in events.by_payment().0 {
        let wanted: Vec<i64> = (1..).take(sequences.len()).collect();
        assert_eq!(sequences, wanted, "{payment}");
    }
    let mut stories: BTreeMap<String, BTreeMap<i64, String>> = BTreeMap::new();
    for (_, event) in events.read() {
        let text = |field: &str| event[field].as_str().expect("a text").to_owned();
        let sequence = event["sequence"].as_i64().expect("a number");
        assert_eq!(event["id"], format!("{}/{sequence}", text("subject")));
        assert_eq!(event["data"]["payment"]["amount"], 1_250, "{event}");
        assert!(!event.to_string().contains("sim_"), "no payee: {event}");
        stories.entry(text("subject")).or_default().insert(sequence, text("type"));
    }
    stories.into_iter().map(|(payment, story)| (payment, story.into_values().collect())).collect()
}

#[tokio::test]
async fn what_happens_to_payments_can_be_read_in_order_and_without_gaps() {
    let mut site = Installation::new(&[]).await;
    let events = running(&mut site).await;
    site.start("publisher", "publisher-1", &[]).await;
    let now = Utc::now();
    let paid = site.create("paid", "sim_ok", now + TimeDelta::seconds(2)).await;
    let cancelled = site.create("cancelled", "sim_ok", now + TimeDelta::hours(1)).await;
    site.create("waits", "sim_ok", now + TimeDelta::hours(2)).await;
    assert_eq!(site.cancel(&cancelled).await.expect("an answer").0, 200);
    site.settled(&paid, &["COMPLETED"], SOON).await;
    let stories = stories(&site, &events).await;
    assert_eq!(stories[&paid], ["payment.scheduled", "payment.claimed", "payment.completed"]);
    assert_eq!(stories[&cancelled], ["payment.scheduled", "payment.cancelled"]);
    assert_eq!(stories.len(), 3);
    let ready = site.http.get(format!("{}/readyz", site.url("publisher-1"))).send().await.expect("an answer");
    assert_eq!(ready.status(), 200);
    let metrics = site.text("publisher-1", "/metrics").await.expect("an answer");
    assert!(metrics.contains("punctual_events_published_total{event=\"payment.completed\"} 1"), "{metrics}");
    assert_eq!(site.role("publisher-1").drain(SOON).await, 0);
}

#[tokio::test]
async fn of_two_publishers_one_publishes_and_the_other_takes_over() {
    let mut site = Installation::new(&[("publisher.lease", "2s"), ("publisher.poll", "50ms")]).await;
    let events = running(&mut site).await;
    site.start("publisher", "publisher-1", &[]).await;
    site.start("publisher", "publisher-2", &[]).await;
    let due_at = Utc::now() + TimeDelta::hours(1);
    let mut made = 0;
    for round in 0..3 {
        for n in 0..15 {
            site.create(&format!("{round}-{n}"), "sim_ok", due_at).await;
            made += 1;
        }
        assert_eq!(stories(&site, &events).await.len(), made);
        let (_, repeated) = events.by_payment();
        match round {
            0 => {
                assert_eq!(repeated, 0, "one publishes");
                let leads = |name: &str| site.roles[name].log_text().contains("this publisher leads");
                assert_ne!(leads("publisher-1"), leads("publisher-2"));
                let leader = if leads("publisher-1") { "publisher-1" } else { "publisher-2" };
                site.role(leader).kill();
            }
            // Killed at rest, so not even its last batch goes out twice.
            _ => assert_eq!(repeated, 0),
        }
    }
}

#[tokio::test]
async fn a_publisher_killed_under_load_loses_nothing_and_keeps_the_order() {
    let mut site =
        Installation::new(&[("publisher.lease", "1s"), ("publisher.poll", "1ms"), ("publisher.batch", "7")])
            .await;
    let events = running(&mut site).await;
    for round in 0..4 {
        site.start("publisher", &format!("publisher-{round}"), &[]).await;
        let due_at = Utc::now() + TimeDelta::seconds(4);
        for n in 0..15 {
            let id = site.create(&format!("{round}-{n}"), "sim_ok", due_at).await;
            if n % 3 == 0 {
                site.cancel(&id).await.expect("an answer");
            }
        }
        site.role(&format!("publisher-{round}")).kill();
    }
    site.start("publisher", "publisher-last", &[]).await;
    eventually("all are final", SOON, || async {
        let mut sql = PgConnection::connect(&site.database.url).await.ok()?;
        let open = "SELECT count(*) FROM payments WHERE status NOT IN ('COMPLETED', 'CANCELLED')";
        let open: i64 = sqlx::query_scalar(open).fetch_one(&mut sql).await.ok()?;
        (open == 0).then_some(())
    })
    .await;
    let stories = stories(&site, &events).await;
    assert_eq!(stories.len(), 60);
    let ends =
        |end: &str| stories.values().filter(|story| story.last().is_some_and(|last| last == end)).count();
    assert_eq!((ends("payment.completed"), ends("payment.cancelled")), (40, 20));
}
