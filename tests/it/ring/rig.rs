//! A ring of a test's own on the real broker, with a clock that is set by hand.

use crate::support::services::services;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use punctual::bucket::topics;
use punctual::bucket::{Envelope, Names, Patience, Producer, Ring, RingEvent, Taken};
use punctual::domain::bucket::{self as place, Channel};
use punctual::domain::ids::{GatewayName, PaymentId};
use punctual::domain::lease::Mono;
use punctual::domain::notice::Notice;
use punctual::platform::clock::{Clock, Host, SharedClock};
use punctual::platform::config::Kafka;
use punctual::relay::{self, Publisher};
use punctual::schedule::StagedNotice;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(30);

/// The host's clock, set forward or back by hand.
#[derive(Default)]
pub struct Shifted(AtomicI64);

impl Shifted {
    pub fn set(&self, wall: DateTime<Utc>) {
        self.0.store((wall - Host.wall()).num_milliseconds(), Ordering::SeqCst);
    }
}

impl Clock for Shifted {
    fn wall(&self) -> DateTime<Utc> {
        Host.wall() + TimeDelta::milliseconds(self.0.load(Ordering::SeqCst))
    }
    fn mono(&self) -> Mono {
        Host.mono()
    }
    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        Host.sleep(length)
    }
}

/// A ring of this test's own; its topics go with [`TestRing::remove`].
pub struct TestRing {
    pub kafka: Kafka,
    pub clock: Arc<Shifted>,
    pub relay: relay::Ring,
}

impl TestRing {
    /// Settings of a ring that does not exist yet.
    pub fn named() -> Kafka {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("ring-{}-{}.", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Kafka {
            bootstrap_servers: services().kafka_bootstrap_servers.clone(),
            group: format!("{prefix}workers"),
            topic_prefix: prefix,
            partitions: 2,
            replication: 1,
            min_insync_replicas: 1,
            ..Kafka::default()
        }
    }

    pub async fn new() -> Self {
        let kafka = Self::named();
        let left = topics::apply(&kafka, &host()).await.expect("topics");
        assert_eq!(left, []);
        let producer = Producer::new(&kafka, host()).expect("settings");
        let relay = relay::Ring { producer, names: Names::new(&kafka.topic_prefix) };
        Self { kafka, clock: Arc::default(), relay }
    }

    pub fn join(&self, slot: &str, buffer: usize) -> Ring {
        Ring::join(&self.kafka, slot, buffer, self.clock.clone(), &Patience::default()).expect("settings")
    }

    pub async fn publish(&self, batch: &[Envelope]) {
        self.relay.publish(batch).await.expect("every report");
    }

    pub fn topic(&self, channel: Channel) -> String {
        self.relay.names.topic(channel)
    }

    /// The group's committed offset of a partition.
    pub fn committed(&self, channel: Channel, partition: i32) -> Option<i64> {
        let asks: BaseConsumer = client().set("group.id", &self.kafka.group).create().expect("settings");
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.topic(channel), partition);
        let answer = asks.committed_offsets(list, SOON).expect("an answer");
        match answer.elements()[0].offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    pub async fn remove(self) {
        remove(&self.kafka).await;
    }
}

pub async fn remove(kafka: &Kafka) {
    let names: Vec<String> =
        topics::declared(kafka).expect("files").into_iter().map(|topic| topic.name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    admin().delete_topics(&names, &AdminOptions::new()).await.expect("an answer");
}

pub fn host() -> SharedClock {
    Arc::new(Host)
}

pub fn client() -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", &services().kafka_bootstrap_servers);
    client
}

pub fn admin() -> AdminClient<DefaultClientContext> {
    client().create().expect("settings")
}

/// The `number`-th notice, due at `due_at`.
pub fn notice(number: u32, due_at: DateTime<Utc>) -> Notice {
    let mut intent = [0_u8; 10];
    intent[6..].copy_from_slice(&number.to_be_bytes());
    let due_at = DateTime::from_timestamp_millis(due_at.timestamp_millis()).expect("in range");
    let payment = PaymentId::new(due_at, intent).expect("in range");
    Notice {
        payment,
        gateway: GatewayName("sandbox".into()),
        lane: 7,
        due_at,
        not_before: due_at,
        attempt: 0,
    }
}

pub fn envelope(channel: Channel, partition: i32, notice: Notice) -> Envelope {
    let shard = place::shard(notice.payment);
    let written_at = notice.due_at;
    let mac = "00".repeat(32);
    let staged = StagedNotice { notice_id: 1, written_at, shard, notice, traceparent: None, mac };
    Envelope { channel, partition, staged, residue: partition, epoch: 1 }
}

pub async fn next(ring: &mut Ring) -> Taken {
    let taken = tokio::time::timeout(SOON, ring.records.recv()).await.expect("a record in time");
    taken.expect("the ring goes on")
}

pub async fn next_event(ring: &mut Ring) -> RingEvent {
    let event = tokio::time::timeout(SOON, ring.events.recv()).await.expect("an event in time");
    event.expect("the ring goes on")
}

pub fn payment(taken: &Taken) -> PaymentId {
    taken.record.as_ref().expect("a notice").notice.payment
}
