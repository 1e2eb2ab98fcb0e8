//! The topics as declared in `topics/`, and how the cluster differs from that.
//!
//! **Promise.** `plan` and `check` change nothing; `apply` makes what is missing and corrects
//! settings; nothing here ever deletes a topic or adds partitions, since both break a ring in use
//! (see `topics/due-ring.toml`).
//!
//! **Why a start-up check.** A topic with another number of partitions sends keys to other writers
//! and readers than the relay thinks: a worker refuses it. A *missing* topic only means that Kafka
//! carries nothing: a worker starts, says so, and claims late rows straight from Postgres.

use super::connect::{BadSettings, Logged, client};
use super::in_process::{InProcessError, InProcessKafka};
use crate::platform::clock::SharedClock;
use crate::platform::config::Kafka;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigResource, ConfigSource, NewTopic, OwnedResourceSpecifier,
    ResourceSpecifier, TopicReplication,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Redpanda takes this setting with a new topic, ignores it (a write always needs a majority there)
/// and does not name it when asked: its absence is no difference that anybody could correct.
const MAY_BE_UNKNOWN: &str = "min.insync.replicas";

/// For those who have nothing better to do than to wait.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// After which every broker knows the settings of a topic that it knows.
const SETTLED_WITHIN: Duration = Duration::from_secs(15);

/// The declarations, in the order in which people meet them.
const DECLARED: [&str; 4] = [
    include_str!("../../topics/due-ring.toml"),
    include_str!("../../topics/due-now.toml"),
    include_str!("../../topics/events.toml"),
    include_str!("../../topics/parked.toml"),
];

/// One file of `topics/`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// With `{prefix}`, and `{minute}` where there are copies.
    pub name: String,
    /// How many topics; the ring has 60.
    #[serde(default = "one")]
    pub copies: u8,
    /// For people.
    pub about: String,
    /// What the record's key is.
    pub key: String,
    /// How a key finds its partition.
    pub partitioned_by: String,
    /// Headers that its records may carry.
    pub headers: Vec<String>,
    /// File of the value's JSON Schema.
    pub schema: String,
    /// File of a golden value.
    pub example: String,
    /// In production.
    pub partitions: i32,
    /// In production.
    pub replication: i32,
    /// Topic settings, in Kafka's names, in production.
    pub settings: BTreeMap<String, String>,
}

fn one() -> u8 {
    1
}

/// A topic as it should be on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Full name.
    pub name: String,
    /// From `kafka.partitions`.
    pub partitions: i32,
    /// From `kafka.replication`.
    pub replication: i32,
    /// Kafka's names and values.
    pub settings: BTreeMap<String, String>,
}

/// A topic as it was found; settings are `None` where the cluster cannot be asked for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Partitions it has.
    pub partitions: i32,
    /// Replicas of its first partition.
    pub replication: i32,
    /// Kafka's names and values.
    pub settings: Option<BTreeMap<String, String>>,
    /// The names of those that were set on this topic and are not a default of the cluster.
    pub set_here: Vec<String>,
}

/// One thing that is not as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It is not there; `apply` makes it.
    Missing(Topic),
    /// It has another number of partitions; a worker refuses to start, and people must make a new
    /// ring.
    Partitions {
        /// Which topic.
        topic: String,
        /// As declared.
        wanted: i32,
        /// As it is.
        found: i32,
    },
    /// It has another number of replicas; people must reassign them.
    Replication {
        /// Which topic.
        topic: String,
        /// As declared.
        wanted: i32,
        /// As it is.
        found: i32,
    },
    /// A setting has another value; `apply` corrects it.
    Setting {
        /// Which topic.
        topic: String,
        /// Kafka's name of the setting.
        name: String,
        /// As declared.
        wanted: String,
        /// As it is; `None`: the cluster does not know the name.
        found: Option<String>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(topic) => write!(
                f,
                "{}: missing (declared: {} partitions, {} replicas)",
                topic.name, topic.partitions, topic.replication
            ),
            Self::Partitions { topic, wanted, found } => {
                write!(f, "{topic}: {found} partitions, declared {wanted}")
            }
            Self::Replication { topic, wanted, found } => {
                write!(f, "{topic}: {found} replicas, declared {wanted}")
            }
            Self::Setting { topic, name, wanted, found } => {
                let found = found.as_deref().unwrap_or("unknown");
                write!(f, "{topic}: {name} is {found}, declared {wanted}")
            }
        }
    }
}

/// How much a cluster can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Names, partitions, replicas and settings.
    Full,
    /// Names and partitions: all that the stand-in of `punctual dev` answers.
    NamesAndPartitions,
}

/// Why topics could not be compared or made.
#[derive(Debug, thiserror::Error)]
pub enum TopicsError {
    /// A file of `topics/` in this build is not well formed: a defect.
    #[error("a topic declaration of this build is not well formed: {0}")]
    BadDeclaration(#[from] toml::de::Error),
    /// See [`BadSettings`].
    #[error(transparent)]
    BadSettings(#[from] BadSettings),
    /// The stand-in of `punctual dev` could not make a topic.
    #[error(transparent)]
    StandIn(#[from] InProcessError),
    /// No answer; nothing is known. Start without Kafka, ask again later.
    #[error("Kafka does not answer: {0}")]
    Unreachable(#[source] KafkaError),
    /// The cluster answered and refused.
    #[error("Kafka refused {topic}: {code}{}", way_out(*code))]
    Refused {
        /// Which topic.
        topic: String,
        /// What it said.
        code: RDKafkaErrorCode,
    },
    /// A topic has a wrong number of partitions: keys would go to other writers and readers.
    #[error(
        "{0}; a ring in use never changes its partitions: make a new one under another kafka.topic_prefix"
    )]
    WrongPartitions(Difference),
}

/// What to do about a refusal whose cause is a setting of ours.
fn way_out(code: RDKafkaErrorCode) -> &'static str {
    if code == RDKafkaErrorCode::InvalidReplicationFactor {
        "; set kafka.replication, and kafka.min_insync_replicas with it, to no more than there are brokers"
    } else {
        ""
    }
}

/// What a role may rely on at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// Every topic is there.
    All,
    /// These are not: start without Kafka and say so.
    Missing(Vec<String>),
}

/// The files of `topics/`, parsed.
///
/// # Errors
/// [`TopicsError::BadDeclaration`], which a test rules out for a released build.
pub fn families() -> Result<Vec<Family>, TopicsError> {
    DECLARED.iter().map(|text| toml::from_str(text).map_err(TopicsError::from)).collect()
}

/// Every topic of this installation, the ring first.
///
/// # Errors
/// [`TopicsError::BadDeclaration`].
pub fn declared(kafka: &Kafka) -> Result<Vec<Topic>, TopicsError> {
    let topics = families()?.into_iter().flat_map(|family| {
        let Family { name, copies, mut settings, .. } = family;
        let name = name.replace("{prefix}", &kafka.topic_prefix);
        settings.insert("min.insync.replicas".into(), kafka.min_insync_replicas.to_string());
        (0..copies).map(move |minute| Topic {
            name: name.replace("{minute}", &format!("{minute:02}")),
            partitions: kafka.partitions,
            replication: kafka.replication,
            settings: settings.clone(),
        })
    });
    Ok(topics.collect())
}

/// Compares; pure. In the order of `declared`.
#[must_use]
pub fn compare(declared: &[Topic], found: &BTreeMap<String, Found>) -> Vec<Difference> {
    let mut differences = Vec::new();
    for topic in declared {
        let Some(is) = found.get(&topic.name) else {
            differences.push(Difference::Missing(topic.clone()));
            continue;
        };
        let name = || topic.name.clone();
        if is.partitions != topic.partitions {
            let (wanted, found) = (topic.partitions, is.partitions);
            differences.push(Difference::Partitions { topic: name(), wanted, found });
        }
        let Some(settings) = &is.settings else { continue };
        if is.replication != topic.replication {
            let (wanted, found) = (topic.replication, is.replication);
            differences.push(Difference::Replication { topic: name(), wanted, found });
        }
        for (setting, wanted) in &topic.settings {
            let found = settings.get(setting);
            let is_ignored_there = found.is_none() && setting == MAY_BE_UNKNOWN;
            if found != Some(wanted) && !is_ignored_there {
                let (setting, wanted, found) = (setting.clone(), wanted.clone(), found.cloned());
                differences.push(Difference::Setting { topic: name(), name: setting, wanted, found });
            }
        }
    }
    differences
}

/// Asks the cluster and compares, waiting for each answer at most so long; empty: all is as declared.
///
/// # Errors
/// See [`TopicsError`].
pub async fn plan(kafka: &Kafka, depth: Depth, limit: Duration) -> Result<Vec<Difference>, TopicsError> {
    let declared = declared(kafka)?;
    let admin = admin(kafka)?;
    let found = look(&admin, &declared, depth, limit).await?;
    Ok(compare(&declared, &found))
}

/// Makes missing topics and corrects settings; answers what is left for people.
///
/// # Errors
/// See [`TopicsError`]; what was made before stays.
pub async fn apply(kafka: &Kafka, clock: &SharedClock) -> Result<Vec<Difference>, TopicsError> {
    let declared = declared(kafka)?;
    let admin = admin(kafka)?;
    let found = look(&admin, &declared, Depth::Full, ANSWER_WITHIN).await?;
    let differences = compare(&declared, &found);
    create(&admin, &differences).await?;
    correct(&admin, &declared, &found, &differences).await?;
    let found = until_visible(&admin, &declared, clock).await?;
    Ok(compare(&declared, &found))
}

/// Makes every declared topic in the stand-in, which takes no such request from clients.
///
/// # Errors
/// [`TopicsError::StandIn`] or [`TopicsError::BadDeclaration`].
pub async fn apply_in_process(
    stand_in: &InProcessKafka,
    kafka: &Kafka,
    clock: &SharedClock,
) -> Result<(), TopicsError> {
    for topic in declared(kafka)? {
        stand_in.create_topic(&topic.name, topic.partitions)?;
        // Its thread is woken at most once in 5 ms and otherwise looks about by itself four times a
        // second: orders that follow each other more closely take 220 ms each.
        clock.sleep(Duration::from_millis(6)).await;
    }
    Ok(())
}

/// What a role that lives from the ring asks at its start; changes nothing.
///
/// # Errors
/// [`TopicsError::WrongPartitions`] refuses the start; [`TopicsError::Unreachable`] does not.
pub async fn check(kafka: &Kafka, depth: Depth) -> Result<Ready, TopicsError> {
    let mut missing = Vec::new();
    for difference in plan(kafka, depth, ANSWER_WITHIN).await? {
        match difference {
            Difference::Partitions { .. } => return Err(TopicsError::WrongPartitions(difference)),
            Difference::Missing(topic) => missing.push(topic.name),
            Difference::Replication { .. } | Difference::Setting { .. } => {
                tracing::warn!("topic not as declared: {difference}");
            }
        }
    }
    Ok(if missing.is_empty() { Ready::All } else { Ready::Missing(missing) })
}

type Admin = Arc<AdminClient<Logged>>;

fn admin(kafka: &Kafka) -> Result<Admin, BadSettings> {
    Ok(Arc::new(client(kafka)?.create_with_context(Logged)?))
}

fn options(limit: Duration) -> AdminOptions {
    AdminOptions::new().request_timeout(Some(limit)).operation_timeout(Some(limit))
}

async fn look(
    admin: &Admin,
    declared: &[Topic],
    depth: Depth,
    limit: Duration,
) -> Result<BTreeMap<String, Found>, TopicsError> {
    let asked = Arc::clone(admin);
    // A blocking call of the library. All topics: asking for one by name may create it.
    let metadata = tokio::task::spawn_blocking(move || asked.inner().fetch_metadata(None, limit)).await;
    // The closure does not panic, so the task ends unless the runtime does.
    let metadata = metadata.map_err(|_| TopicsError::Unreachable(KafkaError::Canceled))?;
    let metadata = metadata.map_err(TopicsError::Unreachable)?;
    let mut found = BTreeMap::new();
    for topic in metadata.topics().iter().filter(|topic| topic.error().is_none()) {
        if declared.iter().any(|wanted| wanted.name == topic.name()) {
            let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
            let replication = topic.partitions().first().map_or(0, |first| count(first.replicas().len()));
            let partitions = count(topic.partitions().len());
            let is = Found { partitions, replication, settings: None, set_here: Vec::new() };
            found.insert(topic.name().to_owned(), is);
        }
    }
    if depth == Depth::Full && !found.is_empty() {
        let asked: Vec<String> = found.keys().cloned().collect();
        let specifiers: Vec<_> = asked.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
        let answers =
            admin.describe_configs(&specifiers, &options(limit)).await.map_err(TopicsError::Unreachable)?;
        for (topic, answer) in asked.into_iter().zip(answers) {
            let resource = answer.map_err(|code| TopicsError::Refused { topic, code })?;
            keep_settings(&mut found, resource);
        }
    }
    Ok(found)
}

fn keep_settings(found: &mut BTreeMap<String, Found>, resource: ConfigResource) {
    let OwnedResourceSpecifier::Topic(name) = resource.specifier else { return };
    let Some(is) = found.get_mut(&name) else { return };
    is.set_here = resource
        .entries
        .iter()
        .filter(|entry| matches!(entry.source, ConfigSource::DynamicTopic))
        .map(|entry| entry.name.clone())
        .collect();
    is.settings =
        Some(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect());
}

async fn create(admin: &Admin, differences: &[Difference]) -> Result<(), TopicsError> {
    let missing: Vec<&Topic> = differences
        .iter()
        .filter_map(|difference| match difference {
            Difference::Missing(topic) => Some(topic),
            Difference::Partitions { .. } | Difference::Replication { .. } | Difference::Setting { .. } => {
                None
            }
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let new: Vec<NewTopic<'_>> = missing
        .iter()
        .map(|topic| NewTopic {
            name: &topic.name,
            num_partitions: topic.partitions,
            replication: TopicReplication::Fixed(topic.replication),
            config: topic.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        })
        .collect();
    for made in admin.create_topics(&new, &options(ANSWER_WITHIN)).await.map_err(TopicsError::Unreachable)? {
        match made {
            // Somebody else's `apply` was faster; the comparison at the end has the last word.
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => return Err(TopicsError::Refused { topic, code }),
        }
    }
    Ok(())
}

/// Sets what differs. The request replaces *all* settings of a topic, so those that were set here
/// and are not declared go along unchanged.
async fn correct(
    admin: &Admin,
    declared: &[Topic],
    found: &BTreeMap<String, Found>,
    differences: &[Difference],
) -> Result<(), TopicsError> {
    let differs = |name: &str| {
        differences.iter().any(|it| matches!(it, Difference::Setting { topic, .. } if topic == name))
    };
    for topic in declared.iter().filter(|topic| differs(&topic.name)) {
        let Some(Found { settings: Some(settings), set_here, .. }) = found.get(&topic.name) else { continue };
        let kept = set_here.iter().filter_map(|name| Some((name, settings.get(name)?)));
        let wanted: BTreeMap<&String, &String> = kept.chain(&topic.settings).collect();
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(&topic.name));
        for (name, value) in wanted {
            change = change.set(name, value);
        }
        let answers = admin
            .alter_configs([&change], &options(ANSWER_WITHIN))
            .await
            .map_err(TopicsError::Unreachable)?;
        for answer in answers {
            answer.map_err(|(_, code)| TopicsError::Refused { topic: topic.name.clone(), code })?;
        }
    }
    Ok(())
}

/// A new topic is visible in metadata a moment after it was made.
async fn until_visible(
    admin: &Admin,
    declared: &[Topic],
    clock: &SharedClock,
) -> Result<BTreeMap<String, Found>, TopicsError> {
    let give_up_at = clock.mono().0 + ANSWER_WITHIN;
    while look(admin, declared, Depth::NamesAndPartitions, ANSWER_WITHIN).await?.len() < declared.len()
        && clock.mono().0 < give_up_at
    {
        clock.sleep(Duration::from_millis(50)).await;
    }
    // A broker may know a topic a moment before it knows its settings; what else differs does not pass by itself.
    let settle_by = clock.mono().0 + SETTLED_WITHIN;
    loop {
        let found = look(admin, declared, Depth::Full, ANSWER_WITHIN).await?;
        let passes = |difference: &Difference| matches!(difference, Difference::Setting { .. });
        if !compare(declared, &found).iter().any(passes) || clock.mono().0 >= settle_by {
            return Ok(found);
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
#[path = "topics_tests.rs"]
mod tests;
