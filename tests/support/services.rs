//! The services, once per test process.
//!
//! From the environment (`DATABASE_URL` and `KAFKA_BOOTSTRAP_SERVERS`, as `make test` sets them);
//! otherwise a `punctual dev --services-only` of our own, which ends when we end, however we end,
//! because it reads a pipe that only we hold.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Where the services are and what kind they are.
#[derive(Debug)]
pub struct Services {
    /// A superuser's URL; its database is the one for administration and locks.
    pub database_url: String,
    /// `host:port,…`
    pub kafka_bootstrap_servers: String,
    /// `apache` when the brokers were started by us from Apache Kafka's artifacts, else `external`.
    pub kafka_kind: String,
    /// Of the brokers started by us; empty where nobody said.
    pub kafka_version: String,
    /// Holds the pipe; never waited for.
    _own: Option<Child>,
}

/// The services of this process. The first caller starts them, the others wait.
///
/// # Panics
/// When they cannot be had; the reason is on standard error.
pub fn services() -> &'static Services {
    static SERVICES: OnceLock<Services> = OnceLock::new();
    SERVICES.get_or_init(|| {
        let environment: HashMap<String, String> = std::env::vars().collect();
        from_names(&environment, None).unwrap_or_else(start_own)
    })
}

fn from_names(names: &HashMap<String, String>, own: Option<Child>) -> Option<Services> {
    Some(Services {
        database_url: names.get("DATABASE_URL")?.clone(),
        kafka_bootstrap_servers: names.get("KAFKA_BOOTSTRAP_SERVERS")?.clone(),
        kafka_kind: names.get("PUNCTUAL_KAFKA_KIND").map_or_else(|| "external".to_owned(), Clone::clone),
        kafka_version: names.get("PUNCTUAL_KAFKA_VERSION").cloned().unwrap_or_default(),
        _own: own,
    })
}

fn start_own() -> Services {
    let mut dev = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["dev", "--services-only", "-o", "env", "--random-ports", "--until-stdin-closes"])
        .env_remove("KAFKA_BOOTSTRAP_SERVERS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary under test was built by cargo");
    let lines = BufReader::new(dev.stdout.take().expect("its output is a pipe")).lines();
    let mut names = HashMap::new();
    for line in lines {
        let line = line.expect("names and values are text");
        match line.split_once('=') {
            Some(("PUNCTUAL_READY", _)) => break,
            Some((name, value)) => drop(names.insert(name.to_owned(), value.to_owned())),
            None => panic!("not NAME=value: {line}"),
        }
    }
    from_names(&names, Some(dev)).expect("the services started; see the message above")
}
