//! The topics of one installation, by the ring's one mapping (`domain::bucket`).

use crate::domain::bucket::{self, Channel};

/// The topic names under one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Names {
    /// `prefix` is `kafka.topic_prefix`, by default `payments.`
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The topic of a channel, as `payments.due.m07`.
    #[must_use]
    pub fn topic(&self, channel: Channel) -> String {
        bucket::topic(&self.prefix, channel)
    }

    /// The channel of a topic; `None` for a topic that is not of this ring.
    #[must_use]
    pub fn channel(&self, topic: &str) -> Option<Channel> {
        bucket::channel_of(&self.prefix, topic)
    }

    /// The 61 topics of the ring, the minutes first.
    #[must_use]
    pub fn ring(&self) -> Vec<String> {
        bucket::channels().map(|channel| self.topic(channel)).collect()
    }
}
