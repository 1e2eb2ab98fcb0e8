//! The workers' group as the brokers tell it: who has which partitions, and what is committed.

use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{DateTime, Utc};
use punctual::bucket::Names;
use punctual::bucket::dump::{Dump, Span};
use punctual::domain::ids::PaymentId;
use punctual::platform::config::Kafka;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

/// Where to ask.
#[derive(Debug, Clone)]
pub struct Group {
    servers: String,
    group: String,
    prefix: String,
    partitions: i32,
}

/// What the brokers say at one moment.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// Members with an assignment.
    pub members: usize,
    /// Partitions that somebody has, of all topics.
    pub assigned: usize,
    /// The most partitions of one topic that one member has.
    pub largest: usize,
}

/// Committed offsets, and until when at the latest they were committed, by the database's clock.
#[derive(Debug)]
pub struct Sample {
    committed: BTreeMap<(String, i32), i64>,
    at: DateTime<Utc>,
}

impl Group {
    /// The group of this installation.
    pub fn of(site: &Installation) -> Self {
        Self {
            servers: site.kafka().to_owned(),
            group: site.setting("kafka.group").to_owned(),
            prefix: site.setting("kafka.topic_prefix").to_owned(),
            partitions: site.setting("kafka.partitions").parse().expect("a number"),
        }
    }

    /// The group of this name beside it, on the same ring.
    pub fn beside(&self, name: &str) -> Self {
        Self { group: name.to_owned(), ..self.clone() }
    }

    /// Waits until so many workers have everything between them.
    pub async fn is_shared_by(&self, workers: usize) -> Shares {
        // 60 minutes and the late ones.
        let all = 61 * usize::try_from(self.partitions).expect("positive");
        eventually(&format!("{workers} members have everything"), Duration::from_secs(90), || async {
            let group = self.clone();
            let shares = tokio::task::spawn_blocking(move || group.shares()).await.expect("it asks on")?;
            (shares.members == workers && shares.assigned == all).then_some(shares)
        })
        .await
    }

    fn observer(&self) -> BaseConsumer {
        ClientConfig::new()
            .set("bootstrap.servers", &self.servers)
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .create()
            .expect("settings")
    }

    /// Who has how much. Blocks.
    pub fn shares(&self) -> Option<Shares> {
        let list = self.observer().fetch_group_list(Some(&self.group), SOON).ok()?;
        let group = list.groups().first()?;
        let mut shares = Shares::default();
        for member in group.members() {
            let topics = member.assignment().map(assignment).unwrap_or_default();
            shares.members += usize::from(!topics.is_empty());
            shares.assigned += topics.values().sum::<usize>();
            shares.largest = shares.largest.max(topics.values().copied().max().unwrap_or(0));
        }
        Some(shares)
    }

    /// What is committed now. Blocks, except for the clock.
    pub async fn sample(&self, database: &mut PgConnection) -> Sample {
        let asked = self.clone();
        let ask = move || {
            let mut list = TopicPartitionList::new();
            for topic in Names::new(&asked.prefix).ring() {
                (0..asked.partitions).for_each(|partition| {
                    list.add_partition(&topic, partition);
                });
            }
            asked.observer().committed_offsets(list, SOON)
        };
        let list = tokio::task::spawn_blocking(ask).await.expect("it asks on").expect("committed offsets");
        let at = sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(database).await.expect("a clock");
        let elements = list.elements();
        let committed = elements.iter().filter_map(|element| match element.offset() {
            Offset::Offset(offset) => Some(((element.topic().to_owned(), element.partition()), offset)),
            _ => None,
        });
        Sample { committed: committed.collect(), at }
    }

    /// Everything in the topics. Blocks.
    pub fn dump(&self) -> Dump {
        let kafka = Kafka {
            bootstrap_servers: self.servers.clone(),
            topic_prefix: self.prefix.clone(),
            group: self.group.clone(),
            ..Kafka::default()
        };
        Span::take(&kafka, None).and_then(|span| span.read(|_| true)).expect("the topics")
    }

    /// Notices that lay below a sampled offset: how many, and which had no claim in the database by then.
    pub fn ahead_of_outcomes(
        &self,
        samples: &[Sample],
        claimed: &BTreeMap<(PaymentId, i32), DateTime<Utc>>,
    ) -> (usize, Vec<String>) {
        let names = Names::new(&self.prefix);
        let (mut below, mut ahead) = (BTreeSet::new(), Vec::new());
        for notice in self.dump().notices {
            let part = (names.topic(notice.place.channel), notice.place.partition);
            let is_below =
                |sample: &&Sample| sample.committed.get(&part).is_some_and(|to| notice.place.offset < *to);
            let Some(first) = samples.iter().find(is_below) else { continue };
            below.insert(notice.place);
            let evidence = claimed.get(&(notice.payment, notice.attempt + 1));
            if evidence.is_none_or(|at| *at > first.at) {
                ahead.push(format!("{notice:?}: committed by {}, claimed {evidence:?}", first.at));
            }
        }
        (below.len(), ahead)
    }
}

/// Partitions by topic, of the consumer protocol's assignment: version, then topics with their partitions,
/// all big-endian.
fn assignment(bytes: &[u8]) -> BTreeMap<String, usize> {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at_checked(count)?;
        rest = left;
        Some(taken)
    };
    let mut read = || {
        let number = |taken: &[u8]| taken.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        take(2)?;
        let topics = number(take(4)?);
        let mut found = BTreeMap::new();
        for _ in 0..topics {
            let length = number(take(2)?);
            let topic = String::from_utf8(take(length)?.to_vec()).ok()?;
            let partitions = number(take(4)?);
            take(4 * partitions)?;
            found.insert(topic, partitions);
        }
        Some(found)
    };
    read().unwrap_or_default()
}
