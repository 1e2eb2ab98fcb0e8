//! A ring that no other test uses: what lies in it, and how far its group is.

use super::{QUICK, seconds};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::services::services;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;

/// Enough for three that share.
pub const PARTITIONS: i32 = 3;

/// An installation with short times on a ring of its own, with its API; `name` is part of its topics.
pub async fn site(name: &str, settings: &[(&str, &str)]) -> Installation {
    let prefix = format!("{name}-{}.payments.", std::process::id());
    let own = [("kafka.topic_prefix", prefix.as_str()), ("kafka.partitions", "3")];
    let settings: Vec<_> = QUICK.iter().chain(&own).chain(settings).copied().collect();
    let mut site = Installation::new(&settings).await;
    site.start("api", "api-1", &[]).await;
    site
}

fn prefix(site: &Installation) -> &str {
    &site.environment["PUNCTUAL_KAFKA__TOPIC_PREFIX"]
}

/// The topic of what is due already.
pub fn now_topic(site: &Installation) -> String {
    format!("{}due.now", prefix(site))
}

/// A client of the workers' group that joins nothing.
fn observer(site: &Installation) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .set("group.id", &site.environment["PUNCTUAL_KAFKA__GROUP"])
        .set("enable.auto.commit", "false")
        .create()
        .expect("settings")
}

/// Ends everything and deletes the ring.
pub async fn remove(mut site: Installation) {
    site.roles.clear();
    erase(prefix(&site)).await;
}

/// Deletes every topic of a ring.
pub async fn erase(prefix: &str) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .create()
        .expect("settings");
    let metadata = admin.inner().fetch_metadata(None, seconds(10)).expect("metadata");
    let topics: Vec<&str> =
        metadata.topics().iter().map(|topic| topic.name()).filter(|name| name.starts_with(prefix)).collect();
    assert!(topics.len() >= 61, "{topics:?}");
    for deleted in admin.delete_topics(&topics, &AdminOptions::new()).await.expect("an answer") {
        deleted.expect("deleted");
    }
}

/// The ring's partitions that have records: their first offset and their end.
pub async fn extents(site: &Installation) -> BTreeMap<(String, i32), (i64, i64)> {
    let observer = observer(site);
    let due = format!("{}due.", prefix(site));
    // A client that is new does not know every leader yet.
    eventually("every partition tells its extent", seconds(20), || async {
        let metadata = observer.fetch_metadata(None, seconds(10)).ok()?;
        let topics = metadata.topics().iter().map(|topic| topic.name()).filter(|name| name.starts_with(&due));
        let parts = topics.flat_map(|topic| (0..PARTITIONS).map(move |partition| (topic, partition)));
        let extent = |(topic, partition): (&str, i32)| {
            let extent = observer.fetch_watermarks(topic, partition, seconds(10)).ok()?;
            Some(((topic.to_owned(), partition), extent))
        };
        let all: BTreeMap<_, _> = parts.map(extent).collect::<Option<_>>()?;
        assert_eq!(all.len(), 61 * 3);
        Some(all.into_iter().filter(|(_, (first, end))| first < end).collect())
    })
    .await
}

/// Records that the group has not committed.
pub async fn lag(site: &Installation) -> i64 {
    let extents = extents(site).await;
    let mut asked = TopicPartitionList::new();
    for (topic, partition) in extents.keys() {
        asked.add_partition(topic, *partition);
    }
    let committed = observer(site).committed_offsets(asked, seconds(10)).expect("an answer");
    let elements = committed.elements();
    let behind = elements.iter().map(|at| {
        let (first, end) = extents[&(at.topic().to_owned(), at.partition())];
        match at.offset() {
            Offset::Offset(offset) => end - offset,
            _ => end - first,
        }
    });
    behind.sum()
}

/// Sets the group back to the first record of every partition, as an operator's tool does. The broker
/// refuses while the group has members; answers whether it was done.
pub async fn reset_to_earliest(site: &Installation) -> bool {
    let mut first = TopicPartitionList::new();
    for ((topic, partition), (offset, _)) in extents(site).await {
        first.add_partition_offset(&topic, partition, Offset::Offset(offset)).expect("a place");
    }
    observer(site).commit(&first, CommitMode::Sync).is_ok()
}

/// One record: where it lies, its payment, and the shard and epoch that it was published under.
#[derive(Debug)]
pub struct Notice {
    /// Its partition.
    pub partition: i32,
    /// Its key.
    pub payment: String,
    /// `residue/epoch`.
    pub relay: (i32, i64),
}

/// Every record of the ring; topic by topic and partition by partition in their order.
pub async fn notices(site: &Installation) -> Vec<Notice> {
    let consumer = observer(site);
    let mut notices = Vec::new();
    for ((topic, partition), (first, end)) in extents(site).await {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, partition, Offset::Offset(first)).expect("a place");
        consumer.assign(&list).expect("assigned");
        for _ in first..end {
            let record = consumer.poll(seconds(20)).expect("a record in time").expect("a record");
            let headers = record.headers().expect("headers");
            let header = headers.iter().find(|header| header.key == "relay").expect("its writer");
            let writer = String::from_utf8(header.value.expect("a value").to_vec()).expect("text");
            let (residue, epoch) = writer.split_once('/').expect("residue and epoch");
            notices.push(Notice {
                partition,
                payment: String::from_utf8(record.key().expect("a key").to_vec()).expect("text"),
                relay: (residue.parse().expect("a number"), epoch.parse().expect("a number")),
            });
        }
    }
    notices
}
