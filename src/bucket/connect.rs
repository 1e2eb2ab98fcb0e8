//! Settings to client configuration: the one place where a connection to Kafka is described.
//!
//! **Promise.** Every client of this process meets the same brokers with the same security, and its
//! own words arrive in our log. What a client is *for* (a producer's acknowledgements, a consumer's
//! group) is said beside that client, in full, so that it can be read there.

use crate::domain::bucket::is_partition_count;
use crate::platform::config::Kafka;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;

/// Settings that no client can be made from; the operator must change them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// No broker is named.
    #[error("kafka.bootstrap_servers is empty")]
    NoServers,
    /// A protocol that the client does not speak.
    #[error("kafka.security_protocol is `{0}`; it must be plaintext, ssl, sasl_plaintext or sasl_ssl")]
    UnknownProtocol(String),
    /// Each partition needs the same number of shards, so that a shard has one partition.
    #[error("kafka.partitions is {0}; it must divide 48")]
    PartitionsDoNotDivide(i32),
    /// The client library refused a value.
    #[error("the Kafka client refuses its settings: {0}")]
    Refused(String),
}

impl From<KafkaError> for BadSettings {
    fn from(error: KafkaError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// What every client has in common.
///
/// # Errors
/// [`BadSettings`], before anything is sent to anyone.
pub(super) fn client(kafka: &Kafka) -> Result<ClientConfig, BadSettings> {
    if kafka.bootstrap_servers.trim().is_empty() {
        return Err(BadSettings::NoServers);
    }
    if !is_partition_count(kafka.partitions) {
        return Err(BadSettings::PartitionsDoNotDivide(kafka.partitions));
    }
    let protocol = kafka.security_protocol.to_ascii_lowercase();
    let (tls, sasl) = match protocol.as_str() {
        "plaintext" => (false, false),
        "ssl" => (true, false),
        "sasl_plaintext" => (false, true),
        "sasl_ssl" => (true, true),
        _ => return Err(BadSettings::UnknownProtocol(kafka.security_protocol.clone())),
    };
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", &kafka.bootstrap_servers)
        .set("client.id", "punctual")
        .set("security.protocol", &protocol)
        // A broker that comes back is met within two seconds, not ten.
        .set("reconnect.backoff.max.ms", "2000")
        // A broker that stands still keeps its connections open, and the others have chosen new leaders long
        // before a request to it times out: only metadata tells. The default is five minutes.
        .set("topic.metadata.refresh.interval.ms", "10000")
        // Idle connections are closed by brokers all the time; a lost broker has its own message.
        .set("log.connection.close", "false")
        .set_log_level(RDKafkaLogLevel::Info);
    if tls && !kafka.ssl_ca_location.is_empty() {
        client.set("ssl.ca.location", &kafka.ssl_ca_location);
    }
    if sasl {
        client
            .set("sasl.mechanism", &kafka.sasl_mechanism)
            .set("sasl.username", &kafka.sasl_username)
            .set("sasl.password", &*kafka.sasl_password);
    }
    Ok(client)
}

/// The client library's own words, into our log, under one target that can be filtered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Logged;

impl ClientContext for Logged {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(target: "punctual::kafka", facility, "{message}");
            }
            // The library repeats an unreachable broker at each of these levels while it lasts; that
            // state is reported by health and by the callers' own errors.
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => {
                tracing::warn!(target: "punctual::kafka", facility, "{message}");
            }
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::debug!(target: "punctual::kafka", facility, "{message}");
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "punctual::kafka", %error, "{reason}");
    }
}

impl ConsumerContext for Logged {}

#[cfg(test)]
mod tests {
    use super::*;

    fn kafka(protocol: &str) -> Kafka {
        Kafka {
            bootstrap_servers: "broker:9092".into(),
            security_protocol: protocol.into(),
            sasl_username: "punctual".into(),
            sasl_password: "secret".into(),
            ..Kafka::default()
        }
    }

    #[test]
    fn a_protocol_with_sasl_carries_user_and_mechanism_and_one_without_does_not() {
        let with = client(&kafka("SASL_SSL")).unwrap();
        assert_eq!(with.get("security.protocol"), Some("sasl_ssl"));
        assert_eq!(with.get("sasl.username"), Some("punctual"));
        assert_eq!(with.get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        let without = client(&kafka("plaintext")).unwrap();
        assert_eq!(without.get("sasl.username"), None);
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        assert_eq!(client(&kafka("tls")).unwrap_err(), BadSettings::UnknownProtocol("tls".into()));
        let nobody = Kafka { bootstrap_servers: " ".into(), ..kafka("ssl") };
        assert_eq!(client(&nobody).unwrap_err(), BadSettings::NoServers);
        for partitions in [-1, 0, 5, 9, 96] {
            let odd = Kafka { partitions, ..kafka("ssl") };
            assert_eq!(client(&odd).unwrap_err(), BadSettings::PartitionsDoNotDivide(partitions));
        }
    }

    #[test]
    fn the_library_was_built_with_tls_and_scram() {
        let secure = client(&kafka("sasl_ssl")).unwrap();
        let made: Result<rdkafka::producer::BaseProducer, _> = secure.create();
        assert!(made.is_ok(), "{:?}", made.err());
    }
}
