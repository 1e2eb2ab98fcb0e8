//! The composition root: the only place that builds pools, producers, consumers and clients and puts
//! the stages together. It decides nothing about payments.
//!
//! Every role is the same shape: connect what it cannot work without (a database that is away is
//! waited for; one whose schema does not fit ends the process), tell its health, work until it is
//! asked to stop, drain.

use crate::bucket;
use crate::cli::Ended;
use crate::domain::ids::GatewayName;
use crate::intake::{self, CannotListen, Intake, Tokens};
use crate::platform::clock::{Host, SharedClock};
use crate::platform::config::Config;
use crate::platform::dice::{Os, SharedDice};
use crate::platform::exit::Exit;
use crate::platform::health::{self, Readiness, Served};
use crate::platform::metrics::{self, Exposition};
use crate::platform::reconnect;
use crate::platform::shutdown::Shutdown;
use crate::sandbox::{self, SandboxError};
use crate::schedule::{self, Access, BulkTerms, ConnectError, Postgres};
use crate::{dashboard, keeper, operations, relay};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod audit;
mod doctor;
mod fits;
mod forecast;
mod keys;
mod look;
mod lost_commits;
mod publisher;
mod rebuild;
mod reconcile;
mod replay;
mod set_up;
mod worker;

pub use audit::audit_check;
pub use doctor::doctor;
pub use forecast::forecast;
pub use keys::{keys, new_key};
pub use look::bucket;
pub use publisher::publisher;
use publisher::require_topics;
pub use rebuild::rebuild;
pub use reconcile::reconcile_run;
pub use replay::replay;
pub use set_up::{migrate, topics};
pub use worker::worker;

/// What `/readyz` notes while records do not come to Kafka or from it.
const NO_KAFKA: &str = "not reachable; the late scan pays, and what is not published waits";

/// One try to reach the database: three round trips.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);
/// For loops that were asked to stop: with what is closed behind them, a process is gone within 30 s.
const DRAIN_WITHIN: Duration = Duration::from_secs(22);
/// At the end of a process: a connection that is asked to close waits for its statement.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// One process: what all of its roles share.
#[derive(Clone)]
pub struct Process {
    config: Config,
    clock: SharedClock,
    dice: SharedDice,
    exposition: Exposition,
    shutdown: Shutdown,
}

impl Process {
    /// Installs the metrics of this process; once a process.
    ///
    /// # Errors
    /// Somebody else installed a recorder.
    pub fn new(config: Config, shutdown: Shutdown) -> Result<Self, Ended> {
        let exposition = metrics::install(&[&config.gateway.name]).map_err(failed)?;
        tokio::spawn(exposition.clone().upkeep(shutdown.clone()));
        Ok(Self { config, clock: Arc::new(Host), dice: Arc::new(Os), exposition, shutdown })
    }

    /// The same process with other settings and its own word to stop, for `punctual dev`.
    #[must_use]
    pub fn with(&self, config: Config, shutdown: Shutdown) -> Self {
        Self { config, shutdown, ..self.clone() }
    }

    /// Connects, waiting for a database that is away; `None` when asked to stop meanwhile.
    async fn connect(&self, access: Access) -> Result<Option<Postgres>, Ended> {
        let database = &self.config.database;
        let tried = reconnect::until_connected("Postgres", &*self.clock, &self.shutdown, || async {
            // One that was accepted and is never answered would be waited for without end. Nothing is written yet.
            let connected = tokio::select! {
                biased;
                connected = schedule::connect(database, access) => connected,
                () = self.shutdown.wait() => Err(ConnectError::Unreachable("asked to stop".into())),
                () = self.clock.sleep(CONNECTS_WITHIN) => Err(ConnectError::Unreachable("no answer in time".into())),
            };
            match connected {
                Ok(connected) => Ok(Ok(connected)),
                Err(error @ ConnectError::Unreachable(_)) => Err(error),
                Err(refused) => Ok(Err(refused)),
            }
        });
        tried.await.transpose().map_err(refused)
    }

    /// A quarantined database is told and makes nobody unready: a restart would not release it.
    fn postgres_is_ready(&self, schedule: &Postgres) -> Readiness {
        let schedule = schedule.clone();
        let quarantined = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&quarantined);
        let check = move || {
            let (schedule, quarantined) = (schedule.clone(), Arc::clone(&quarantined));
            async move {
                let wrong = |_| "not reachable, read-only, or today is not made".to_owned();
                schedule.ping().await.map_err(wrong)?;
                quarantined.store(!schedule.lineage_is_released().await.map_err(wrong)?, Ordering::Relaxed);
                Ok(())
            }
        };
        let note = move || {
            told.load(Ordering::Relaxed).then(|| "nothing is claimed until it is released".to_owned())
        };
        Readiness::new(self.shutdown.clone()).with("postgres", check).noting("quarantine", note)
    }

    /// Serves health where `metrics.listen` says so, from now on: a process that waits for its database is alive, and
    /// an address that cannot be had is told before anything else is tried.
    async fn serve_health(&self) -> Result<Served, Ended> {
        let listen = &self.config.metrics.listen;
        let served = Served::starting();
        if listen.is_empty() {
            return Ok(served);
        }
        let listener = tokio::net::TcpListener::bind(listen).await.map_err(|error| {
            let told = format!("metrics.listen = {listen:?} cannot be listened on: {error}");
            Ended::with(of_listening(&error), told)
        })?;
        let routes = health::routes(served.clone(), self.exposition.clone());
        tokio::spawn(health::serve(listener, routes, self.shutdown.clone()));
        Ok(served)
    }

    /// Loops that end between their steps, which a silent database keeps from ending; `None`: given up, and what
    /// was begun is published again by whoever works then.
    async fn drained<T>(&self, loops: impl Future<Output = T>) -> Option<T> {
        let ended = self.shutdown.bounding(&*self.clock, DRAIN_WITHIN, loops).await;
        if ended.is_none() {
            tracing::warn!("what was begun has not ended; leases are free when they run out");
        }
        ended
    }

    /// Closes the connections to the database, which does not keep the process here if it is silent.
    async fn leave(&self, schedule: &Postgres) {
        tokio::select! {
            biased;
            () = schedule.close() => {}
            () = self.clock.sleep(CLOSE_WITHIN) => tracing::warn!("the database does not answer; its connections are cut"),
        }
    }

    /// The name of this process for leases and people.
    fn name(&self, configured: &str) -> String {
        if configured.is_empty() {
            format!("{}-{}", host_name(), std::process::id())
        } else {
            configured.to_owned()
        }
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn failed(error: impl Display) -> Ended {
    Ended::with(Exit::Failed, error.to_string())
}

fn usage(error: impl Display) -> Ended {
    Ended::with(Exit::Usage, error.to_string())
}

/// A Kafka that is away is told and makes nobody unready: a restart would not bring it back, and payments do without it.
fn noting_kafka(readiness: Readiness, producer: &bucket::Producer) -> Readiness {
    let delivers = producer.delivers();
    readiness.noting("kafka", move || (!delivers.is_well()).then(|| NO_KAFKA.to_owned()))
}

/// An address that is none is a wrong setting; one that cannot be had is the machine's state.
fn of_listening(error: &std::io::Error) -> Exit {
    use std::io::ErrorKind as K;
    match error.kind() {
        K::AddrInUse | K::AddrNotAvailable | K::PermissionDenied => Exit::Failed,
        _ => Exit::Usage,
    }
}

fn refused(error: ConnectError) -> Ended {
    match error {
        ConnectError::Unreachable(_) => failed(error),
        ConnectError::BadUrl(_)
        | ConnectError::PoolTooLarge { .. }
        | ConnectError::SchemaOlder { .. }
        | ConnectError::SchemaNewer { .. }
        | ConnectError::SchemaChanged { .. }
        | ConnectError::Refused(_) => usage(error),
    }
}

/// The REST interface, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn api(mut process: Process) -> Result<(), Ended> {
    fits::api(&mut process.config, &fits::Granted::by_this_machine());
    let listener = intake::listen(&process.config.api.listen).await.map_err(|error| match error {
        CannotListen::NotAnAddress { .. } => usage(error),
        CannotListen::Taken { .. } | CannotListen::Refused { .. } => failed(error),
    })?;
    let (clock, dice) = (process.clock.clone(), process.dice.clone());
    let served = Served::starting();
    let health = health::routes(served.clone(), process.exposition.clone());
    let (opening, app) = intake::Opening::with(health, &process.config.api, clock.clone(), dice);
    let limits = intake::Limits::from(&process.config.api);
    let serving = intake::serve(listener, app, limits, clock, process.shutdown.receiver());
    let opened = open(&process, &served, &opening);
    let (schedule, ()) = tokio::try_join!(opened, async {
        serving.await;
        Ok(())
    })?;
    if let Some(schedule) = schedule {
        process.leave(&schedule).await;
    }
    Ok(())
}

/// Finds the database and opens the interface upon it; `None` when asked to stop meanwhile.
async fn open(
    process: &Process,
    served: &Served,
    opening: &intake::Opening,
) -> Result<Option<Postgres>, Ended> {
    let Some(schedule) = process.connect(Access::Api).await? else { return Ok(None) };
    let readiness = process.postgres_is_ready(&schedule);
    let tokens = tokens(process).await?;
    let api = &process.config.api;
    let gateways = vec![GatewayName(process.config.gateway.name.clone())];
    let intake = Intake::new(schedule.clone(), process.clock.clone(), process.dice.clone(), api, gateways)
        .with_callbacks(&process.config.gateway)
        .with_webhooks(&process.config.webhooks)
        .spreading(&process.config.gateway)
        .with_tokens(tokens)
        .ending_streams_at(process.shutdown.receiver());
    let intake = if process.config.kafka.bootstrap_servers.is_empty() {
        intake
    } else {
        let ring = look::Ring { schedule: schedule.clone(), config: process.config.clone() };
        intake.surveying(Arc::new(ring))
    };
    let desk = operations::Desk::new(intake.clone(), &process.config.operations)
        .knowing(&process.config.gateway, &process.config.reconcile)
        .examining(&process.config, process.clock.clone());
    let desk = desk.routes();
    let tools = (process.clock.clone(), process.dice.clone());
    let stop = Some(process.shutdown.receiver());
    let pages = dashboard::Ui::new(intake.clone(), desk.clone(), tools, &process.config, stop);
    let health = health::routes(readiness.clone(), process.exposition.clone());
    opening.open(intake.router(health.merge(desk).merge(pages.routes())));
    served.started(readiness);
    tracing::info!(listen = api.listen, "the API serves");
    Ok(Some(schedule))
}

/// Who verifies tokens, if any are taken, with the issuer's keys at hand and kept fresh until shutdown. Keys that
/// cannot be had now are tried again: API keys work without them.
async fn tokens(process: &Process) -> Result<Option<Arc<Tokens>>, Ended> {
    let tokens = Tokens::new(&process.config.oidc, process.clock.clone()).map_err(usage)?.map(Arc::new);
    if let Some(tokens) = &tokens {
        tokens.read_keys().await;
        let (tokens, shutdown) = (Arc::clone(tokens), process.shutdown.clone());
        tokio::spawn(async move { tokens.kept_fresh(shutdown).await });
    }
    Ok(tokens)
}

/// Due notices to the ring, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn relay(process: Process) -> Result<(), Ended> {
    let health = process.serve_health().await?;
    let kafka = &process.config.kafka;
    require_topics(kafka).await?;
    let Some(schedule) = process.connect(Access::Worker).await? else { return Ok(()) };
    let producer = bucket::Producer::new(kafka, process.clock.clone()).map_err(usage)?;
    health.started(noting_kafka(process.postgres_is_ready(&schedule), &producer));
    let settings = &process.config.relay;
    let relay = relay::Relay {
        holder: process.name(&settings.name),
        partitions: kafka.partitions,
        shard_lease: settings.shard_lease,
        terms: relay::Terms {
            lead: settings.lead,
            guard: settings.guard,
            batch: settings.batch,
            poll: settings.poll,
        },
        clock: process.clock.clone(),
    };
    let ring = relay::Ring { producer, names: bucket::Names::new(&kafka.topic_prefix) };
    tracing::info!(holder = relay.holder, "the relay works");
    let ended = process.drained(Box::pin(relay::run(&relay, &schedule, &ring, &process.shutdown))).await;
    process.leave(&schedule).await;
    ended.unwrap_or(Ok(())).map_err(failed)
}

/// The loops that watch the schedule, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn keeper(process: Process) -> Result<(), Ended> {
    let health = process.serve_health().await?;
    let Some(schedule) = process.connect(Access::Worker).await? else { return Ok(()) };
    health.started(process.postgres_is_ready(&schedule));
    let settings = &process.config.keeper;
    let database = &process.config.database;
    let reaper = keeper::Reaper {
        schedule: Arc::new(schedule.clone()),
        margin: process.config.worker.margin,
        batch: settings.reap_batch,
    };
    let partitions = keeper::Partitions {
        schedule: Arc::new(schedule.clone()),
        back: database.partition_days_back,
        ahead: database.partition_days_ahead,
        webhook_days: process.config.webhooks.keep_days,
    };
    let forgets = keeper::Forgets { schedule: Arc::new(schedule.clone()) };
    let bounds = keeper::Bounds { schedule: Arc::new(schedule.clone()) };
    let watch = keeper::Watch { schedule: Arc::new(schedule.clone()) };
    let people = &process.config.operations;
    let bulk = keeper::BulkRedrives {
        schedule: schedule.clone(),
        terms: BulkTerms {
            retryable_codes: operations::retryable_codes(),
            approve_above_minor: people.approve_above_minor,
        },
    };
    let forecasts = keeper::Forecasts {
        schedule: schedule.clone(),
        gateway: GatewayName(process.config.gateway.name.clone()),
    };
    let minutes = keeper::Minutes { schedule: schedule.clone() };
    let lineage = keeper::Lineage { schedule: schedule.clone(), last: None };
    let daily = reconcile::daily(&process.config, process.clock.clone(), schedule.clone())?;
    let compare_every = process.config.reconcile.retry_every;
    let stop = || {
        let shutdown = process.shutdown.clone();
        async move { shutdown.wait().await }
    };
    let clock = || process.clock.clone();
    tracing::info!("the keeper works");
    let loops = Box::pin(async {
        tokio::join!(
            keeper::every(reaper, settings.reap_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(partitions, settings.partitions_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(forgets, settings.partitions_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(bounds, settings.partitions_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(watch, settings.backlog_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(forecasts, settings.backlog_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(minutes, keeper::Minutes::EVERY, keeper::Nudge::default(), clock(), stop()),
            keeper::every(lineage, settings.reap_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(bulk, people.bulk_every, keeper::Nudge::default(), clock(), stop()),
            keeper::every(daily, compare_every, keeper::Nudge::default(), clock(), stop()),
        );
    });
    // A tick that the database does not answer is given up as by an end of the process: its transaction is rolled back.
    process.drained(loops).await;
    process.leave(&schedule).await;
    Ok(())
}

/// The simulated gateway, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn sandbox(process: Process) -> Result<(), Ended> {
    let bound = sandbox::Sandbox::bind(&process.config.sandbox, process.clock.clone()).await;
    let bound = bound.map_err(|error| match &error {
        SandboxError::Listen { source, .. } => Ended::with(of_listening(source), error.to_string()),
        SandboxError::Ledger(_) | SandboxError::NotDurable(_) | SandboxError::Server(_) => usage(error),
    })?;
    process.serve_health().await?.started(Readiness::new(process.shutdown.clone()));
    tracing::info!(listen = %bound.local_addr(), "the sandbox gateway serves");
    let shutdown = process.shutdown.clone();
    bound.run(async move { shutdown.wait().await }).await.map_err(failed)
}

/// api, relay, worker, keeper and publisher in one process, until shutdown or until the first of them ends.
///
/// # Errors
/// What ended the first that ended.
pub async fn all(process: Process) -> Result<(), Ended> {
    let (trigger, shutdown) = Shutdown::manual();
    let (close, closes) = Shutdown::manual();
    let outer = process.shutdown.clone();
    let parts = process.with(process.config.clone(), shutdown);
    // Only one of them can serve metrics.listen; the API serves health anyway.
    let quiet = {
        let mut config = parts.config.clone();
        config.metrics.listen = String::new();
        parts.with(config, parts.shutdown.clone())
    };
    let mut roles = tokio::task::JoinSet::new();
    roles.spawn(api(process.with(process.config.clone(), closes)));
    roles.spawn(relay(quiet.clone()));
    roles.spawn(worker(quiet.clone()));
    roles.spawn(publisher(quiet.clone()));
    roles.spawn(keeper(quiet));
    let first = tokio::select! {
        biased;
        () = outer.wait() => {
            // What is due while clients still come is paid on time.
            close.stop();
            process.clock.sleep(process.config.api.drain_grace).await;
            Ok(())
        }
        Some(ended) = roles.join_next() => ended.map_err(failed).and_then(|ended| ended),
    };
    close.stop();
    trigger.stop();
    let mut result = first;
    while let Some(ended) = roles.join_next().await {
        result = result.and(ended.map_err(failed).and_then(|ended| ended));
    }
    result
}
