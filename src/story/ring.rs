//! Where a payment's records lie in Kafka, and the command that shows them.
//!
//! No offset is stored anywhere: a notice is forgotten once Kafka has it, and an event is found by its history row.
//! But key, topic and partition follow from the payment alone and from three settings, those of whoever asks; so a
//! reader with kcat finds the records, with their offsets.

use super::told::{Payment, second};
use crate::domain::bucket::{Channel, Slot, partition, shard, topic};
use crate::platform::config::Kafka;
use serde_json::{Value, json};

/// One topic that holds, or held, records of the payment.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    what: String,
    topic: String,
}

/// Where to look, for one payment.
#[derive(Debug)]
pub struct Ring {
    key: String,
    partition: i32,
    brokers: String,
    places: Vec<Place>,
}

impl Ring {
    /// By these settings.
    #[must_use]
    pub fn of(payment: &Payment, kafka: &Kafka) -> Self {
        let prefix = kafka.topic_prefix.as_str();
        let first = payment.first_try_at();
        let bucket = |at| topic(prefix, Channel::Ring(Slot::of(at)));
        let place = |what: String, topic| Place { what, topic };
        let mut places =
            vec![place(format!("the notice of its first try, {}", second(first)), bucket(first))];
        // Only where it waits for its next try is the minute of that known.
        if let Some(next) = payment.next_attempt_at.filter(|next| Slot::of(*next) != Slot::of(first)) {
            places.push(place(format!("the notice of its next try, {}", second(next)), bucket(next)));
        }
        places.push(place(
            "notices that were made too late for their bucket".to_owned(),
            topic(prefix, Channel::Now),
        ));
        places.push(place("its events".to_owned(), format!("{prefix}events")));
        let brokers = match kafka.bootstrap_servers.as_str() {
            "" => "\"$KAFKA_BOOTSTRAP_SERVERS\"".to_owned(),
            // A list of hosts and ports, but typed by people, and the line is made to be pasted.
            servers => format!("'{}'", servers.replace('\'', "")),
        };
        Self {
            key: payment.payment_id.to_string(),
            partition: partition(shard(payment.payment_id), kafka.partitions),
            brokers,
            places,
        }
    }

    /// Prints every record of the payment that is still in this topic: place, time, key and value.
    fn command(&self, place: &Place) -> String {
        format!(
            "kcat -b {} -t {} -p {} -C -o beginning -e -q -f '%t %p/%o %T %k %s\\n' | grep {}",
            self.brokers, place.topic, self.partition, self.key
        )
    }

    /// For people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "Offsets are not kept here. By the settings of this command all its records have the key {} and lie \
             in partition {} of their topics, as long as those keep them:",
            self.key, self.partition
        )];
        for place in &self.places {
            lines.push(format!("{}, in {}:", place.what, place.topic));
            lines.push(format!("  {}", self.command(place)));
        }
        lines
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        let place = |it: &Place| json!({"what": it.what, "topic": it.topic, "command": self.command(it)});
        json!({
            "key": self.key,
            "partition": self.partition,
            "places": self.places.iter().map(place).collect::<Vec<_>>(),
        })
    }
}
