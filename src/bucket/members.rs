//! How many consumers of this ring are in the workers' group, as its coordinator says; nothing decides by it.
//!
//! For people. A ring that is replaced shares the group with the new one: neither's members read the other's topics.
//!
//! **If this fails**, nothing is known: a group of workers that cannot be asked may well work.

use super::connect::{BadSettings, Logged, client};
use super::names::Names;
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
    let names = Names::new(&kafka.topic_prefix);
    let members = ours.flat_map(|group| group.members());
    Ok(members.filter(|member| reads_ring(member.metadata(), &names)).count())
}

/// What a member subscribed to names a topic of the ring; whoever does not tell, as amid a rebalance, counts.
fn reads_ring(subscription: Option<&[u8]>, names: &Names) -> bool {
    let topics = subscription.and_then(topics_of);
    topics.is_none_or(|topics| topics.iter().any(|topic| names.channel(topic).is_some()))
}

/// The topics of a subscription in Kafka's consumer protocol: a version (i16), their number (i32), and each as its
/// length (i16) and its bytes; `None` where it is cut short or is none.
fn topics_of(subscription: &[u8]) -> Option<Vec<&str>> {
    let (_version, rest) = subscription.split_first_chunk::<2>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut topics = Vec::new();
    for _ in 0..i32::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let length = usize::try_from(i16::from_be_bytes(*length)).ok()?;
        let (topic, after) = after.split_at_checked(length)?;
        topics.push(std::str::from_utf8(topic).ok()?);
        rest = after;
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(topics: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0, 1];
        bytes.extend(i32::try_from(topics.len()).unwrap().to_be_bytes());
        for topic in topics {
            bytes.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        // No data of its own.
        bytes.extend((-1_i32).to_be_bytes());
        bytes
    }

    #[test]
    fn members_that_read_another_ring_are_not_counted_and_those_who_do_not_tell_are() {
        let (names, other) = (Names::new("payments."), Names::new("payments2."));
        let (ours, theirs) = (names.ring(), other.ring());
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            (ours.iter().map(String::as_str).collect(), theirs.iter().map(String::as_str).collect());
        assert_eq!(topics_of(&subscription(&ours)), Some(ours.clone()));
        assert!(reads_ring(Some(&subscription(&ours)), &names));
        assert!(!reads_ring(Some(&subscription(&theirs)), &names));
        assert!(!reads_ring(Some(&subscription(&[])), &names));
        let whole = subscription(&theirs);
        assert!(
            reads_ring(None, &names)
                && reads_ring(Some(&whole[..20]), &names)
                && reads_ring(Some(&[]), &names)
        );
    }
}
