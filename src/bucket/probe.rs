//! Asks a Kafka cluster who is there: the only honest test of readiness.
//!
//! An open port proves that a process listens; a metadata answer that lists the brokers proves that
//! the controller has registered them and that a client can work.

#![allow(clippy::disallowed_methods, reason = "it waits for a real broker before anything else runs")]

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::producer::{BaseProducer, Producer};
use std::time::{Duration, Instant};

/// Why a cluster is not ready; both say "ask again, or look at the brokers' logs".
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// The client library refused its settings or did not reach anything.
    #[error("no metadata from {bootstrap_servers}: {source}")]
    Silent {
        /// Where it asked.
        bootstrap_servers: String,
        /// What the client said last.
        source: rdkafka::error::KafkaError,
    },
    /// An answer, but from too few.
    #[error("{seen} of {wanted} brokers are registered")]
    TooFew {
        /// Brokers in the last answer.
        seen: usize,
        /// Brokers that should be there.
        wanted: usize,
    },
}

/// Waits until metadata from `bootstrap_servers` lists at least `wanted` brokers, at most `within`.
/// Blocks its thread: call it on a blocking one.
///
/// # Errors
/// What the last question met; see [`NotReady`].
pub fn wait_for_brokers(bootstrap_servers: &str, wanted: usize, within: Duration) -> Result<(), NotReady> {
    let silent = |source| NotReady::Silent { bootstrap_servers: bootstrap_servers.to_owned(), source };
    let client: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap_servers)
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "200")
        // Refused connections are expected here; they are the caller's to report.
        .set("log.connection.close", "false")
        .set_log_level(RDKafkaLogLevel::Emerg)
        .create()
        .map_err(silent)?;
    let deadline = Instant::now() + within;
    loop {
        let answer = client.client().fetch_metadata(None, Duration::from_secs(2));
        let not_ready = match answer {
            Ok(metadata) if metadata.brokers().len() >= wanted => return Ok(()),
            Ok(metadata) => NotReady::TooFew { seen: metadata.brokers().len(), wanted },
            Err(source) => silent(source),
        };
        if Instant::now() >= deadline {
            return Err(not_ready);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
