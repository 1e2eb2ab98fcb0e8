//! Postgres and Kafka together: what everything else in development and tests stands on.
//!
//! **Promise.** Both are ready when [`Services::start`] returns, and gone, with their folder unless
//! it was named, when the value is stopped or dropped.

use super::artifacts;
use super::failure::Failure;
use super::home::Home;
use super::kafka::{Cluster, ClusterOptions};
use super::ports;
use super::postgres::{Durability, Postgres};
use serde::Serialize;
use std::path::PathBuf;

const POSTGRES_PORT: u16 = 15_432;
const KAFKA_PORT: u16 = 19_092;

/// Which ports to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Postgres 15432, Kafka 19092 and up.
    Usual,
    /// Whatever is free.
    Random,
}

/// Where Kafka comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KafkaChoice {
    /// Apache Kafka brokers of our own: this many.
    Real(u16),
    /// A cluster that somebody else runs, by its bootstrap servers.
    External(String),
}

/// What to start.
#[derive(Debug, Clone)]
pub struct ServicesOptions {
    /// Keep everything here; `None` is a temporary folder that goes away.
    pub data_dir: Option<PathBuf>,
    /// See [`Ports`].
    pub ports: Ports,
    /// See [`Durability`].
    pub durability: Durability,
    /// See [`KafkaChoice`].
    pub kafka: KafkaChoice,
}

/// Where the services are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub struct Endpoints {
    /// `postgres://…` of a superuser.
    pub database_url: String,
    /// `host:port,…`
    pub kafka_bootstrap_servers: String,
    /// `apache` for brokers of our own, `external` for others.
    pub punctual_kafka_kind: &'static str,
    /// The version of our own brokers, or `unknown`.
    pub punctual_kafka_version: &'static str,
}

impl Endpoints {
    /// The names and values, in the order in which they are printed.
    #[must_use]
    pub fn pairs(&self) -> [(&'static str, &str); 4] {
        [
            ("DATABASE_URL", &self.database_url),
            ("KAFKA_BOOTSTRAP_SERVERS", &self.kafka_bootstrap_servers),
            ("PUNCTUAL_KAFKA_KIND", self.punctual_kafka_kind),
            ("PUNCTUAL_KAFKA_VERSION", self.punctual_kafka_version),
        ]
    }
}

/// Running services. Fields drop in this order: processes first, their folder last.
#[derive(Debug)]
pub struct Services {
    kafka: Option<Cluster>,
    postgres: Postgres,
    endpoints: Endpoints,
    home: Home,
}

impl Services {
    /// Starts both at the same time. `tell` gets a line for people at each slow step.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is left running.
    pub async fn start(options: ServicesOptions, tell: impl Fn(&str)) -> Result<Self, Failure> {
        let home = Home::open(options.data_dir.as_deref()).await?;
        let port = match options.ports {
            Ports::Usual => POSTGRES_PORT,
            Ports::Random => ports::free(),
        };
        let kafka = async {
            let brokers = match options.kafka {
                KafkaChoice::External(servers) => return Ok((None, servers, "external", "unknown")),
                KafkaChoice::Real(brokers) => brokers,
            };
            let kafka = artifacts::obtain(&tell).await?;
            tell(&format!("Starting Apache Kafka {}", artifacts::VERSION));
            let first_port = (options.ports == Ports::Usual).then_some(KAFKA_PORT);
            let layout = ClusterOptions { brokers, first_port, durability: options.durability };
            let cluster = Cluster::start(&kafka, home.path(), &layout).await?;
            let servers = cluster.bootstrap_servers();
            Ok((Some(cluster), servers, "apache", artifacts::VERSION))
        };
        tell("Starting Postgres");
        let postgres = Postgres::start(home.path(), port, options.durability);
        let (postgres, (kafka, servers, kind, version)) = tokio::try_join!(postgres, kafka)?;
        let endpoints = Endpoints {
            database_url: postgres.url(),
            kafka_bootstrap_servers: servers,
            punctual_kafka_kind: kind,
            punctual_kafka_version: version,
        };
        Ok(Self { kafka, postgres, endpoints, home })
    }

    /// Where they are.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// For tests that break things.
    pub fn postgres(&mut self) -> &mut Postgres {
        &mut self.postgres
    }

    /// For tests that break things; `None` when Kafka is not ours.
    pub fn kafka(&mut self) -> Option<&mut Cluster> {
        self.kafka.as_mut()
    }

    /// [`Failure::NotUp`] when one of them has ended by itself.
    ///
    /// # Errors
    /// As said.
    pub fn still_up(&mut self) -> Result<(), Failure> {
        self.postgres.still_up()?;
        self.kafka.as_mut().map_or(Ok(()), Cluster::still_up)
    }

    /// Stops both: in good order when their data is kept, at once when it goes away anyway.
    pub async fn stop(mut self) {
        if let (Some(kafka), false) = (&mut self.kafka, self.home.is_temporary()) {
            kafka.stop().await;
        }
        self.postgres.stop().await;
    }
}
