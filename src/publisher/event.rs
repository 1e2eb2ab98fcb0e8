//! Records of the topics that the publisher fills: an event (`domain/event.rs`) with its key, partition and
//! headers, and for a payment that was parked the announcement beside it.

use crate::bucket::Outgoing;
use crate::domain::bucket::{partition, shard};
use crate::domain::event::{announcement as announced, json};
use crate::domain::intent::{Secret, event_mac};
use crate::schedule::Unpublished;

/// How records are addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Full name of the topic of events.
    pub topic: String,
    /// Full name of the topic of announcements.
    pub parked: String,
    /// Partitions of each.
    pub partitions: i32,
    /// What events are sealed with; without it they prove nothing (rule R17).
    seal: Option<Seal>,
    /// They were published before, and say so: the newest that was published is none of them.
    are_again: bool,
}

/// The installation's secret, which no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
struct Seal(Secret);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Form {
    /// The topics under `kafka.topic_prefix`, by default `payments.events` and `payments.parked`.
    #[must_use]
    pub fn new(prefix: &str, partitions: i32) -> Self {
        let (topic, parked) = (format!("{prefix}events"), format!("{prefix}parked"));
        Self { topic, parked, partitions, seal: None, are_again: false }
    }

    /// The same, sealing each event.
    #[must_use]
    pub fn sealed(self, secret: &Secret) -> Self {
        Self { seal: Some(Seal(*secret)), ..self }
    }

    /// The same, for a replay.
    #[must_use]
    pub fn again(self) -> Self {
        Self { are_again: true, ..self }
    }
}

/// The record: keyed by the payment, in the partition in which the ring has it too.
#[must_use]
pub fn record(form: &Form, unpublished: &Unpublished) -> Outgoing {
    let payment = unpublished.row.payment;
    let trace = unpublished.payment.as_ref().and_then(|payment| payment.traceparent.clone());
    let mut headers = vec![("content-type", "application/cloudevents+json; charset=UTF-8".to_owned())];
    if let Some(Seal(secret)) = &form.seal {
        headers.push(("mac", event_mac(secret, payment, unpublished.row.seq, unpublished.row.at)));
    }
    if form.are_again {
        headers.push(("again", "1".to_owned()));
    }
    headers.extend(trace.map(|trace| ("traceparent", trace)));
    Outgoing {
        topic: form.topic.clone(),
        partition: Some(partition(shard(payment), form.partitions)),
        key: payment.to_string(),
        value: json(unpublished),
        headers,
    }
}

/// The announcement of a payment that this row parks; `None` for every other row.
#[must_use]
pub fn announcement(form: &Form, unpublished: &Unpublished) -> Option<Outgoing> {
    let payment = unpublished.row.payment;
    let trace = unpublished.payment.as_ref().and_then(|payment| payment.traceparent.clone());
    Some(Outgoing {
        topic: form.parked.clone(),
        partition: Some(partition(shard(payment), form.partitions)),
        key: payment.to_string(),
        value: announced(unpublished)?,
        headers: trace.map(|trace| ("traceparent", trace)).into_iter().collect(),
    })
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
