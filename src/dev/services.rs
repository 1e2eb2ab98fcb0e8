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
use crate::bucket::in_process::InProcessKafka;
use serde::Serialize;
use std::path::{Path, PathBuf};

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
    /// The stand-in inside our process: no Java, no evidence. See `bucket::in_process`.
    InProcess,
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
    /// `apache` for brokers of our own, `in-process` for the stand-in, `external` for others.
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
    kafka: Broker,
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
        let kafka = start_kafka(&options, &home, &tell);
        tell("Starting Postgres");
        let postgres = Postgres::start(home.path(), port, options.durability);
        let (postgres, kafka) = tokio::try_join!(postgres, kafka)?;
        let (kind, version) = match kafka {
            Broker::Apache(_) => ("apache", artifacts::VERSION),
            Broker::InProcess(_) => ("in-process", "unknown"),
            Broker::External(_) => ("external", "unknown"),
        };
        let endpoints = Endpoints {
            database_url: postgres.url(),
            kafka_bootstrap_servers: kafka.bootstrap_servers(),
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

    /// Where everything that must go away with them is kept.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    /// For tests that break things.
    pub fn postgres(&mut self) -> &mut Postgres {
        &mut self.postgres
    }

    /// For tests that break things; `None` when there are no brokers of our own.
    pub fn cluster(&mut self) -> Option<&mut Cluster> {
        match &mut self.kafka {
            Broker::Apache(cluster) => Some(cluster),
            Broker::InProcess(_) | Broker::External(_) => None,
        }
    }

    /// The stand-in, if that was chosen: topics are made through it.
    #[must_use]
    pub fn in_process_kafka(&self) -> Option<&InProcessKafka> {
        match &self.kafka {
            Broker::InProcess(kafka) => Some(kafka),
            Broker::Apache(_) | Broker::External(_) => None,
        }
    }

    /// [`Failure::NotUp`] when one of them has ended by itself.
    ///
    /// # Errors
    /// As said.
    pub fn still_up(&mut self) -> Result<(), Failure> {
        self.postgres.still_up()?;
        self.cluster().map_or(Ok(()), Cluster::still_up)
    }

    /// Stops both: in good order when their data is kept, at once when it goes away anyway.
    pub async fn stop(mut self) {
        let kept = !self.home.is_temporary();
        if let (Some(cluster), true) = (self.cluster(), kept) {
            cluster.stop().await;
        }
        self.postgres.stop().await;
    }
}

/// What answers the Kafka protocol.
#[derive(Debug)]
enum Broker {
    Apache(Cluster),
    InProcess(InProcessKafka),
    External(String),
}

impl Broker {
    fn bootstrap_servers(&self) -> String {
        match self {
            Self::Apache(cluster) => cluster.bootstrap_servers(),
            Self::InProcess(kafka) => kafka.bootstrap_servers().to_owned(),
            Self::External(servers) => servers.clone(),
        }
    }
}

async fn start_kafka(
    options: &ServicesOptions,
    home: &Home,
    tell: &impl Fn(&str),
) -> Result<Broker, Failure> {
    let brokers = match &options.kafka {
        KafkaChoice::External(servers) => return Ok(Broker::External(servers.clone())),
        KafkaChoice::InProcess => {
            tell("Kafka is a stand-in inside this process: nothing tried on it is proved on Kafka");
            let kafka = InProcessKafka::start().map_err(std::io::Error::other);
            return kafka.map(Broker::InProcess).map_err(Failure::io("start the in-process broker"));
        }
        KafkaChoice::Real(brokers) => *brokers,
    };
    let kafka = artifacts::obtain(tell).await?;
    tell(&format!("Starting Apache Kafka {}", artifacts::VERSION));
    let first_port = (options.ports == Ports::Usual).then_some(KAFKA_PORT);
    let layout = ClusterOptions { brokers, first_port, durability: options.durability };
    Cluster::start(&kafka, home.path(), &layout).await.map(Broker::Apache)
}
