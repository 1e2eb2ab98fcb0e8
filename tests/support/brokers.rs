//! Real brokers of a test's own, one or three, that can be killed, frozen and asked who leads what.

use super::eventually;
use punctual::dev::kafka::{Broker, Cluster, ClusterOptions};
use punctual::dev::{Durability, artifacts};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use std::time::{Duration, Instant};

/// How long anything about a cluster may take.
const SOON: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(5);
/// Where the offsets of groups are kept, and in how many partitions (`dev::kafka`).
const OFFSETS: (&str, i32) = ("__consumer_offsets", 4);

/// A cluster in a folder of its own. Gone with the value.
#[derive(Debug)]
pub struct Brokers {
    /// First, so that they end before their folder does.
    cluster: Cluster,
    _home: tempfile::TempDir,
}

impl Brokers {
    /// One, or three that copy everything to each other.
    pub async fn start(count: u16) -> Self {
        let home = tempfile::Builder::new().prefix("punctual-brokers-").tempdir().expect("a folder");
        let kafka = artifacts::obtain(|_| {}).await.expect("the artifacts");
        let options = ClusterOptions { brokers: count, first_port: None, durability: Durability::TestOnly };
        let cluster = Cluster::start(&kafka, home.path(), &options).await.expect("brokers");
        Self { cluster, _home: home }
    }

    /// `host:port` of each.
    pub fn servers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// As metadata numbers them, from 1.
    pub fn broker(&mut self, id: i32) -> &mut Broker {
        let place = usize::try_from(id - 1).expect("from 1");
        self.cluster.brokers.get_mut(place).unwrap_or_else(|| panic!("no broker {id}"))
    }

    /// Starts these again, side by side.
    pub async fn restart(&mut self, ids: &[i32]) {
        let brokers = (1..).zip(&mut self.cluster.brokers).filter(|(id, _)| ids.contains(id));
        let started = brokers.map(|(_, broker)| broker.restart());
        for started in futures_util::future::join_all(started).await {
            started.expect("it comes back");
        }
    }

    /// Who leads this partition.
    pub async fn leader(&self, topic: &str, partition: i32) -> i32 {
        let client = observer(&self.servers(), "");
        let what = format!("{topic}/{partition} has a leader");
        eventually(&what, SOON, || std::future::ready(leader(&client, topic, partition))).await
    }

    /// Who leads it once that is another.
    pub async fn leader_but(&self, other: i32, topic: &str, partition: i32) -> i32 {
        let client = observer(&self.servers(), "");
        let what = format!("{topic}/{partition} has another leader than {other}");
        let next = || std::future::ready(leader(&client, topic, partition).filter(|it| *it != other));
        eventually(&what, SOON, next).await
    }

    /// Who coordinates this group: the leader of the partition that its name falls into.
    pub async fn coordinator(&self, group: &str) -> i32 {
        // Java's hash of a text, as the brokers take it.
        let hash = group.encode_utf16().fold(0_i32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(i32::from(u16::cast_signed(unit)) & 0xffff)
        });
        self.leader(OFFSETS.0, (hash & i32::MAX) % OFFSETS.1).await
    }

    /// Waits until every partition whose topic begins so has a leader and all its copies.
    pub async fn whole(&self, prefix: &str) {
        let client = observer(&self.servers(), "");
        eventually("every copy is in sync", SOON, || {
            let whole = client.fetch_metadata(None, ANSWER).is_ok_and(|metadata| {
                let ours = metadata.topics().iter().filter(|topic| topic.name().starts_with(prefix));
                let mut parts = ours.flat_map(rdkafka::metadata::MetadataTopic::partitions).peekable();
                parts.peek().is_some()
                    && parts.all(|part| part.leader() > 0 && part.isr().len() == part.replicas().len())
            });
            std::future::ready(whole.then_some(()))
        })
        .await;
    }
}

fn leader(client: &BaseConsumer, topic: &str, partition: i32) -> Option<i32> {
    let metadata = client.fetch_metadata(Some(topic), ANSWER).ok()?;
    let parts = metadata.topics().first()?.partitions();
    let leader = parts.iter().find(|part| part.id() == partition)?.leader();
    (leader > 0).then_some(leader)
}

/// A client of this group that joins nothing; an empty name for none.
pub fn observer(servers: &str, group: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", if group.is_empty() { "nobody" } else { group })
        .set("enable.auto.commit", "false")
        .set("reconnect.backoff.max.ms", "500")
        .set_log_level(RDKafkaLogLevel::Emerg)
        .create()
        .expect("settings")
}

fn admin(servers: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", servers).create().expect("settings")
}

/// The state of a group as its coordinator tells it: `Stable`, `PreparingRebalance`, …
pub fn state_of(observer: &BaseConsumer, group: &str) -> Option<String> {
    let list = observer.fetch_group_list(Some(group), ANSWER).ok()?;
    let state = list.groups().iter().find(|found| found.name() == group)?.state().to_owned();
    Some(state)
}

/// The group's state while it shares its partitions out anew, which can be over in 50 ms: looked for without a pause.
pub async fn sharing_out(watcher: &BaseConsumer, group: &str) -> String {
    let began = Instant::now();
    loop {
        if let Some(state) = state_of(watcher, group).filter(|state| state != "Stable") {
            return state;
        }
        assert!(
            began.elapsed() < Duration::from_secs(40),
            "not within 40 s: the group shares its partitions out anew"
        );
        tokio::task::yield_now().await;
    }
}

/// Deletes every topic that begins so.
pub async fn erase(servers: &str, prefix: &str) {
    let admin = admin(servers);
    let metadata = admin.inner().fetch_metadata(None, SOON).expect("metadata");
    let topics: Vec<&str> =
        metadata.topics().iter().map(|topic| topic.name()).filter(|name| name.starts_with(prefix)).collect();
    assert!(topics.len() >= 61, "{topics:?}");
    for deleted in admin.delete_topics(&topics, &AdminOptions::new()).await.expect("an answer") {
        deleted.expect("deleted");
    }
}

/// The end of every partition of the ring with this prefix.
pub async fn ends(servers: &str, prefix: &str) -> TopicPartitionList {
    let observer = observer(servers, "");
    let due = format!("{prefix}due.");
    // A client that is new does not know every leader yet.
    eventually("every partition tells its end", SOON, || {
        let ends = observer.fetch_metadata(None, ANSWER).ok().and_then(|metadata| {
            let mut asked = TopicPartitionList::new();
            for topic in metadata.topics().iter().filter(|topic| topic.name().starts_with(&due)) {
                for part in topic.partitions() {
                    asked.add_partition_offset(topic.name(), part.id(), Offset::End).ok()?;
                }
            }
            let ends = observer.offsets_for_times(asked, ANSWER).ok()?;
            let all = ends.elements();
            let known = all.iter().all(|it| matches!(it.offset(), Offset::Offset(_)));
            (known && all.len() >= 61).then_some(ends)
        });
        std::future::ready(ends)
    })
    .await
}

/// Sets the group past everything that lies in the ring, as an operator's tool does. The broker refuses
/// while the group has members; answers whether it was done.
pub async fn skip_all(servers: &str, prefix: &str, group: &str) -> bool {
    let ends = ends(servers, prefix).await;
    observer(servers, group).commit(&ends, CommitMode::Sync).is_ok()
}

/// Deletes every record of the ring, as a retention that has passed does; answers how many there had been.
pub async fn retire(servers: &str, prefix: &str) -> i64 {
    let ends = ends(servers, prefix).await;
    let options = AdminOptions::new().operation_timeout(Some(SOON));
    let answer = admin(servers).delete_records(&ends, &options).await.expect("an answer");
    for element in answer.elements() {
        element.error().expect("deleted");
    }
    let end = |it: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match it.offset() {
        Offset::Offset(offset) => offset,
        _ => 0,
    };
    ends.elements().iter().map(end).sum()
}
