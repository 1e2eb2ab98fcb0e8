//! The whole product in one process, on services of its own, with something to watch.
//!
//! **Promise.** When the names are printed, a payment can be posted. The roles are the very ones that
//! production runs, each with its own connections; only the brokers are a stand-in unless
//! `--kafka real` or a cluster is given, and it says so. **If this dies here**, `services` says what
//! is left behind: nothing.

use super::services::Services;
use super::{Args, Failure, seed};
use crate::bucket::topics;
use crate::cli::{Ended, SettingsArgs};
use crate::intake::Scope;
use crate::platform::clock::Host;
use crate::platform::config::{Config, Value};
use crate::platform::dice::Os;
use crate::platform::shutdown::{Shutdown, Trigger};
use crate::roles::{self, Process};
use crate::schedule::{self, Access};
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Longer than any role's own drain.
const LONGEST_DRAIN: Duration = Duration::from_secs(30);

/// The roles in this process.
#[derive(Debug)]
pub(super) struct Everything {
    trigger: Trigger,
    roles: JoinSet<Result<(), Ended>>,
    names: Vec<(&'static str, String)>,
    sets: Vec<String>,
    progress: Option<tokio::task::JoinHandle<()>>,
}

impl Everything {
    /// Sets up database, topics and a key, starts the roles, waits until the API answers, and posts
    /// some payments unless told not to.
    pub(super) async fn start(
        args: &Args,
        settings: &SettingsArgs,
        services: &Services,
    ) -> Result<Self, Failure> {
        let loaded =
            settings.load_with(sets(args, services)).map_err(|problems| Failure::Part(problems.into()))?;
        for warning in &loaded.warnings {
            eprintln!("punctual dev: warning: {warning}");
        }
        let config = loaded.config;
        schedule::migrate(&config.database).await.map_err(Failure::part)?;
        make_topics(&config, services).await?;
        let owner = schedule::connect(&config.database, Access::Owner).await.map_err(Failure::part)?;
        let scopes = Scope::ALL.map(|scope| scope.as_str().to_owned());
        let key = roles::new_key(&owner, &Os, "developer", &scopes).await?.text.expose_secret().to_owned();
        owner.close().await;

        let (trigger, shutdown) = Shutdown::manual();
        let process = Process::new(config.clone(), shutdown.clone())?;
        let mut everything =
            Self { trigger, roles: JoinSet::new(), names: Vec::new(), sets: told(&config), progress: None };
        everything.roles.spawn(roles::sandbox(process.clone()));
        everything.roles.spawn(roles::api(process.clone()));
        everything.roles.spawn(roles::relay(process.clone()));
        everything.roles.spawn(roles::keeper(process.clone()));
        everything.roles.spawn(roles::publisher(process.clone()));
        for number in 1..=args.workers {
            let mut config = config.clone();
            config.worker.slot = format!("dev-{number}");
            everything.roles.spawn(roles::worker(process.with(config, shutdown.clone())));
        }
        let url = format!("http://{}", config.api.listen);
        everything.until_ready(&url, &key).await?;
        eprintln!("{}", horizon(&config));
        everything.names = vec![
            ("PUNCTUAL_URL", url.clone()),
            ("PUNCTUAL_API_KEY", key.clone()),
            ("SANDBOX_URL", config.gateway.url.clone()),
        ];
        everything.names.extend(agreed(&config));
        if !args.no_seed {
            everything.progress = Some(tokio::spawn(seed::watch(url, key, args.output)));
        }
        Ok(everything)
    }

    /// What a caller needs to know, before what the services print.
    pub(super) fn names(&self) -> &[(&'static str, String)] {
        &self.names
    }

    /// Settings by which these roles differ from what another process believes without them.
    pub(super) fn sets(&self) -> &[String] {
        &self.sets
    }

    /// Resolves when a role ends by itself, which none should.
    pub(super) async fn ended(&mut self) -> Failure {
        match self.roles.join_next().await {
            Some(Ok(Err(ended))) => Failure::Part(ended),
            Some(Err(error)) => Failure::part(error),
            Some(Ok(Ok(()))) | None => Failure::part("a role ended although nobody asked it to"),
        }
    }

    /// Drains every role, at most [`LONGEST_DRAIN`] long.
    pub(super) async fn stop(mut self) {
        if let Some(progress) = self.progress.take() {
            progress.abort();
        }
        self.trigger.stop();
        let all = async { while self.roles.join_next().await.is_some() {} };
        if tokio::time::timeout(LONGEST_DRAIN, all).await.is_err() {
            eprintln!("punctual dev: some roles did not drain in time");
        }
    }

    async fn until_ready(&mut self, url: &str, key: &str) -> Result<(), Failure> {
        let client = crate::client::Client::new(url, key).map_err(Failure::part)?;
        loop {
            tokio::select! {
                biased;
                failure = self.ended() => return Err(failure),
                ready = client.is_ready() => if ready { return Ok(()) },
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The horizon is shorter here than in production, which a first try with a date far ahead would meet.
fn horizon(config: &Config) -> String {
    format!(
        "Payments may be due up to {} ahead; --set api.horizon=… with database.partition_days_ahead=… moves that",
        config.api.horizon.show()
    )
}

/// Names for a shell: commands that work on the parts themselves have to agree with them (doctor, replay, rebuild,
/// reconcile run).
fn agreed(config: &Config) -> [(&'static str, String); 6] {
    [
        ("PUNCTUAL_GATEWAY__SETTLEMENT_URL", config.gateway.settlement_url.clone()),
        ("PUNCTUAL_API__HORIZON", config.api.horizon.show()),
        ("PUNCTUAL_DATABASE__PARTITION_DAYS_AHEAD", config.database.partition_days_ahead.to_string()),
        ("PUNCTUAL_KAFKA__PARTITIONS", config.kafka.partitions.to_string()),
        ("PUNCTUAL_KAFKA__REPLICATION", config.kafka.replication.to_string()),
        ("PUNCTUAL_KAFKA__MIN_INSYNC_REPLICAS", config.kafka.min_insync_replicas.to_string()),
    ]
}

/// What a command that examines them has to be told beside where everything is.
fn told(config: &Config) -> Vec<String> {
    vec![
        format!("api.horizon={}", config.api.horizon.show()),
        format!("database.partition_days_ahead={}", config.database.partition_days_ahead),
        format!("kafka.partitions={}", config.kafka.partitions),
        format!("kafka.replication={}", config.kafka.replication),
        format!("kafka.min_insync_replicas={}", config.kafka.min_insync_replicas),
    ]
}

/// The settings that follow from the services; the caller's own come after them and win.
fn sets(args: &Args, services: &Services) -> Vec<String> {
    let endpoints = services.endpoints();
    let listen = |usual: u16| {
        let port = if args.random_ports { super::ports::free() } else { usual };
        format!("127.0.0.1:{port}")
    };
    let sandbox = listen(8_090);
    vec![
        format!("database.url={}", endpoints.database_url),
        format!("kafka.bootstrap_servers={}", endpoints.kafka_bootstrap_servers),
        format!("api.listen={}", listen(8_080)),
        format!("gateway.url=http://{sandbox}"),
        "gateway.settlement_url=settlement".to_owned(),
        format!("sandbox.listen={sandbox}"),
        format!("sandbox.ledger={}", services.folder().join("sandbox-ledger.ndjson").display()),
        // One broker, and a horizon that is made in a second.
        "kafka.partitions=2".to_owned(),
        "kafka.replication=1".to_owned(),
        "kafka.min_insync_replicas=1".to_owned(),
        "api.horizon=30days".to_owned(),
        // Nobody routes clients here.
        "api.drain_grace=0s".to_owned(),
        "database.partition_days_ahead=33".to_owned(),
        "database.pool=4".to_owned(),
        "dashboard.environment=development".to_owned(),
        // Plain http, on this machine alone.
        "dashboard.secure_cookie=false".to_owned(),
    ]
}

/// Whoever has the variable set for something else does not know that we read it.
fn theirs(servers: &str, error: &dyn std::fmt::Display) -> String {
    format!(
        "the Kafka at {servers} cannot be used: {error}\nThe address is from --kafka or the variable \
         KAFKA_BOOTSTRAP_SERVERS; `--kafka in-process` or `--kafka real` starts one here"
    )
}

async fn make_topics(config: &Config, services: &Services) -> Result<(), Failure> {
    let clock: crate::platform::clock::SharedClock = Arc::new(Host);
    match services.in_process_kafka() {
        Some(stand_in) => {
            topics::apply_in_process(stand_in, &config.kafka, &clock).await.map_err(Failure::part)
        }
        None => {
            let servers = &services.endpoints().kafka_bootstrap_servers;
            let told = |error| match services.endpoints().punctual_kafka_kind {
                "external" => Failure::part(theirs(servers, &error)),
                _ => Failure::part(error),
            };
            for difference in topics::apply(&config.kafka, &clock).await.map_err(told)? {
                eprintln!("punctual dev: {difference}");
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_is_told_as_it_is_set() {
        let mut config = Config::default();
        config.api.horizon = Duration::from_secs(30 * 86_400);
        assert!(horizon(&config).contains("up to 30d ahead"), "{}", horizon(&config));
        assert!(horizon(&config).contains("api.horizon"));
    }

    #[test]
    fn a_shell_is_told_all_that_the_doctor_is_told() {
        let config = Config::default();
        let names = agreed(&config);
        for set in told(&config) {
            let (setting, value) = set.split_once('=').unwrap();
            let name = format!("PUNCTUAL_{}", setting.replace('.', "__").to_uppercase());
            assert!(names.contains(&(name.as_str(), value.to_owned())), "{name}={value} is not in {names:?}");
        }
    }

    #[test]
    fn a_kafka_of_others_that_does_not_answer_is_named_with_the_variable_that_named_it() {
        let told = theirs("10.0.0.1:9092", &"timed out");
        for part in ["10.0.0.1:9092", "timed out", "KAFKA_BOOTSTRAP_SERVERS", "--kafka in-process"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
