//! Records of the topic of events: an event (`domain/event.rs`) with its key, partition and headers.

use crate::bucket::Outgoing;
use crate::domain::bucket::{partition, shard};
use crate::domain::event::json;
use crate::schedule::Unpublished;

/// How records are addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Full name of the topic.
    pub topic: String,
    /// Its partitions.
    pub partitions: i32,
}

impl Form {
    /// The topic under `kafka.topic_prefix`, by default `payments.events`.
    #[must_use]
    pub fn new(prefix: &str, partitions: i32) -> Self {
        Self { topic: format!("{prefix}events"), partitions }
    }
}

/// The record: keyed by the payment, in the partition in which the ring has it too.
#[must_use]
pub fn record(form: &Form, unpublished: &Unpublished) -> Outgoing {
    let payment = unpublished.row.payment;
    let trace = unpublished.payment.as_ref().and_then(|payment| payment.traceparent.clone());
    let mut headers = vec![("content-type", "application/cloudevents+json; charset=UTF-8".to_owned())];
    headers.extend(trace.map(|trace| ("traceparent", trace)));
    Outgoing {
        topic: form.topic.clone(),
        partition: Some(partition(shard(payment), form.partitions)),
        key: payment.to_string(),
        value: json(unpublished),
        headers,
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
