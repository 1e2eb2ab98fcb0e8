//! How many consumers are in the workers' group, as its coordinator says; for people, nothing decides by it.
//!
//! **If this fails**, nothing is known: a group of workers that cannot be asked may well work.

use super::connect::{BadSettings, Logged, client};
use crate::platform::config::Kafka;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Why the group's members are not known.
#[derive(Debug, thiserror::Error)]
pub enum MembersError {
    /// See [`BadSettings`].
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// No answer, or none in time.
    #[error("Kafka: {0}")]
    Kafka(#[from] KafkaError),
}

/// Counts them; a group that nobody ever joined has none. Blocks, for a few seconds at most.
///
/// # Errors
/// See [`MembersError`].
pub fn members(kafka: &Kafka) -> Result<usize, MembersError> {
    let mut settings = client(kafka)?;
    settings.set("group.id", &kafka.group).set("enable.auto.commit", "false");
    let observer: BaseConsumer<Logged> = settings.create_with_context(Logged)?;
    let groups = observer.fetch_group_list(Some(&kafka.group), ANSWER_WITHIN)?;
    let ours = groups.groups().iter().filter(|group| group.name() == kafka.group);
    Ok(ours.map(|group| group.members().len()).sum())
}
