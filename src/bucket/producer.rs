//! Publishes and knows what was acknowledged.
//!
//! **Promise.** [`Producer::publish`] answers `Ok` only when every record of the batch has its delivery
//! report and all in-sync replicas have all of them; the error names those that may not be there. A
//! client that gave up, or does not even do that, is replaced: an idempotent one first waits for what it had
//! sent, and may wait for ever when its broker stood still. A named record may still have
//! arrived; publishing it again makes a duplicate, which the claim refuses.
//!
//! **Why this way.** Idempotence keeps a partition in order through the client's own retries.
//! Sending all and joining the reports is what makes batches; awaiting one by one would wait a
//! linger for each. Transactions buy nothing: the truth is in Postgres.
//!
//! **If this dies here**, between publishing and marking, the notices are published again.

use super::connect::{BadSettings, Logged, client};
use super::names::Names;
use super::notice::{Envelope, value_of};
use crate::platform::clock::SharedClock;
use crate::platform::config::Kafka;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The client gives up a record after this, in ms. What was not published by then is the late scan's, or nearly.
const DELIVERED_WITHIN_MS: u64 = 10_000;
/// A client that has not even given up by now is stuck.
const LONGEST: Duration = Duration::from_millis(DELIVERED_WITHIN_MS + 5_000);

/// A record to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// To this topic.
    pub topic: String,
    /// To this partition; `None` lets the key decide, by `murmur2_random`.
    pub partition: Option<i32>,
    /// The record's key.
    pub key: String,
    /// The record's value.
    pub value: Vec<u8>,
    /// The record's headers, in order.
    pub headers: Vec<(&'static str, String)>,
}

impl Outgoing {
    /// The record of a notice.
    #[must_use]
    pub fn notice(names: &Names, envelope: &Envelope) -> Self {
        Self {
            topic: names.topic(envelope.channel),
            partition: Some(envelope.partition),
            key: envelope.staged.notice.payment.to_string(),
            value: value_of(&envelope.staged.notice),
            headers: envelope.headers(),
        }
    }
}

/// Some records of a batch were not acknowledged. Publish them again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} of {of} records were not acknowledged: {first}", indexes.len())]
pub struct NotAcknowledged {
    /// Which, as places in the batch, in order.
    pub indexes: Vec<usize>,
    /// The size of the batch.
    pub of: usize,
    /// What the client said about the first of them.
    pub first: String,
}

/// An idempotent producer.
pub struct Producer {
    settings: ClientConfig,
    clock: SharedClock,
    /// Replaced after a fatal error, and when it gave up or is stuck, since it may never send again.
    current: Mutex<FutureProducer<Logged>>,
    delivers: Delivers,
}

/// Whether all of the last batch was acknowledged: for health, which asks no broker of its own.
#[derive(Debug, Clone)]
pub struct Delivers(Arc<AtomicBool>);

impl Delivers {
    /// `true` also before the first batch.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A batch was held back because Kafka did not answer another question; the next one that is acknowledged ends it.
    pub(crate) fn held_back(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

impl Producer {
    /// Makes the client; connects in the background.
    ///
    /// # Errors
    /// [`BadSettings`]; an absent broker is not one of them.
    pub fn new(kafka: &Kafka, clock: SharedClock) -> Result<Self, BadSettings> {
        let mut settings = client(kafka)?;
        settings
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "20")
            .set("compression.codec", "lz4")
            // A broker holds a whole batch against the topic's max.message.bytes (65536), and the client
            // does not split one that is refused; compression may gain nothing.
            .set("batch.size", "60000")
            // The default hides a dead broker for five minutes.
            .set("message.timeout.ms", DELIVERED_WITHIN_MS.to_string())
            // Where no partition is given, place keys as other tools do.
            .set("partitioner", "murmur2_random")
            .set("allow.auto.create.topics", "false");
        let current = Mutex::new(settings.create_with_context(Logged)?);
        Ok(Self { settings, clock, current, delivers: Delivers(Arc::new(AtomicBool::new(true))) })
    }

    /// Whether it delivers, from now on.
    #[must_use]
    pub fn delivers(&self) -> Delivers {
        self.delivers.clone()
    }

    /// Publishes a batch, in its order within each partition, and waits for every report: at most
    /// 10 s when nothing answers, and never longer than 15.
    ///
    /// Dropping the future does not take anything back.
    ///
    /// # Errors
    /// [`NotAcknowledged`], logged nowhere else.
    pub async fn publish(&self, batch: &[Outgoing]) -> Result<(), NotAcknowledged> {
        let producer = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        #[expect(clippy::result_large_err, reason = "the library gives a refused record back by value")]
        let sent: Vec<_> = batch.iter().map(|record| producer.send_result(record_of(record))).collect();
        let mut failed = Failed { of: batch.len(), indexes: Vec::new(), first: None };
        let mut limit = pin!(self.clock.sleep(LONGEST));
        let (mut is_stuck, mut gave_up) = (false, false);
        for (index, sent) in sent.into_iter().enumerate() {
            let report = match sent {
                Err((error, _)) => {
                    failed.add(index, &error);
                    continue;
                }
                Ok(report) => report,
            };
            let reported = tokio::select! {
                biased;
                reported = report => reported.ok(),
                () = limit.as_mut(), if !is_stuck => {
                    is_stuck = true;
                    None
                }
                () = std::future::ready(()), if is_stuck => None,
            };
            match reported {
                Some(Ok(_)) => {}
                Some(Err((error, _))) => {
                    gave_up |= error == KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut);
                    failed.add(index, &error);
                }
                None => failed.add(index, &KafkaError::Canceled),
            }
        }
        if is_stuck {
            self.replace(&producer, "no report within 15 s");
        } else if gave_up {
            self.replace(&producer, "records were not delivered within 10 s");
        } else if !failed.indexes.is_empty()
            && let Some((_, reason)) = producer.client().fatal_error()
        {
            self.replace(&producer, &reason);
        }
        self.let_go(producer);
        self.delivers.0.store(failed.first.is_none(), Ordering::Relaxed);
        failed.into_result()
    }

    /// Closing a client waits for its own threads, which for a stuck one may never end: not here.
    fn let_go(&self, used: FutureProducer<Logged>) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.client().native_ptr() != used.client().native_ptr() {
            std::thread::spawn(move || drop(used));
        }
    }

    fn replace(&self, used: &FutureProducer<Logged>, reason: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Another batch may have replaced it already.
        if current.client().native_ptr() == used.client().native_ptr() {
            tracing::warn!(reason, "a new Kafka producer takes the place of one that may not go on");
            match self.settings.create_with_context(Logged) {
                Ok(fresh) => *current = fresh,
                Err(error) => tracing::error!(%error, "no new Kafka producer; the next batch tries again"),
            }
        }
    }
}

struct Failed {
    of: usize,
    indexes: Vec<usize>,
    first: Option<String>,
}

impl Failed {
    fn add(&mut self, index: usize, error: &KafkaError) {
        self.indexes.push(index);
        self.first.get_or_insert_with(|| error.to_string());
    }

    fn into_result(self) -> Result<(), NotAcknowledged> {
        match self.first {
            None => Ok(()),
            Some(first) => Err(NotAcknowledged { indexes: self.indexes, of: self.of, first }),
        }
    }
}

fn record_of(record: &Outgoing) -> FutureRecord<'_, str, [u8]> {
    let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
    for (key, value) in &record.headers {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    let outgoing = FutureRecord::to(&record.topic).key(record.key.as_str()).payload(record.value.as_slice());
    match record.partition {
        Some(partition) => outgoing.headers(headers).partition(partition),
        None => outgoing.headers(headers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::lease::Mono;
    use crate::platform::clock::{Clock, Host};
    use chrono::{DateTime, Utc};
    use futures_util::future::BoxFuture;
    use std::sync::Arc;

    /// Every sleep is over at once.
    struct Hurried;

    impl Clock for Hurried {
        fn wall(&self) -> DateTime<Utc> {
            Host.wall()
        }

        fn mono(&self) -> Mono {
            Host.mono()
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[tokio::test]
    async fn a_client_that_reports_nothing_is_not_waited_for_and_is_replaced() {
        let nobody = Kafka { bootstrap_servers: "127.0.0.1:1".into(), ..Kafka::default() };
        let producer = Producer::new(&nobody, Arc::new(Hurried)).unwrap();
        let first = producer.current.lock().unwrap().client().native_ptr();
        let (topic, key) = ("payments.due.now".to_owned(), "k".to_owned());
        let record = Outgoing { topic, partition: Some(0), key, value: vec![1], headers: Vec::new() };
        let refused = producer.publish(&[record.clone(), record]).await.unwrap_err();
        assert_eq!((refused.indexes, refused.of), (vec![0, 1], 2));
        assert_ne!(producer.current.lock().unwrap().client().native_ptr(), first);
    }
}
