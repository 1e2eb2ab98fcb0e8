//! The command line: which role or command to run, with which settings.
//!
//! This file decides nothing about payments. It reads the command line, loads the settings, starts
//! logging, hands over to [`crate::roles`] and turns what comes back into an exit code
//! ([`crate::platform::exit`]). Answers go to standard output, everything said about them to
//! standard error.

mod bucket;
#[cfg(feature = "simulation")]
mod simulate;

pub use bucket::Bucket;

use crate::intake::{Scope, actor_name};
use crate::platform::config::{self, Config, Inputs, Loaded, Problems};
use crate::platform::exit::Exit;
use crate::platform::shutdown::Shutdown;
use crate::platform::telemetry;
use crate::{client, dev, roles};
use chrono::{DateTime, NaiveDate, Utc};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// A distributed scheduler that executes one-shot payments once, on time, and can prove it.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(subcommand)]
    command: Command,
}

/// Where settings come from, beside their defaults and the environment.
#[derive(Debug, Clone, Default, Args)]
pub struct SettingsArgs {
    /// TOML file of settings; without it ./punctual.toml is read if there is one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, for example worker.lease=30s; beats file and environment; may be repeated.
    #[arg(long = "set", global = true, value_name = "NAME=VALUE")]
    sets: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Role(Role),
    /// Bring up everything on one machine.
    Dev(dev::Args),
    /// The database's tables and partitions.
    #[command(subcommand)]
    Migrate(Migrate),
    /// The topics of the ring.
    #[command(subcommand)]
    Topics(Topics),
    /// What lies in the ring.
    #[command(subcommand)]
    Bucket(Bucket),
    /// The settings of this command line.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// API keys.
    #[command(subcommand)]
    Keys(Keys),
    /// What falls due in the next hour and month, and when it is worked off at the permitted rate.
    Forecast {
        /// How to print it; as JSON it is what GET /v1/forecast answers.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Ask how late a crowd gets, or check every promise in worlds full of faults; on virtual time.
    #[cfg(feature = "simulation")]
    Simulate(simulate::Args),
    /// What was written down, held against what is promised.
    #[command(subcommand)]
    Audit(Audit),
    /// Ask a process for its health; exit code 0 if it says that it is well.
    Health {
        /// For example http://127.0.0.1:8080/readyz
        #[arg(value_name = "URL")]
        url: String,
    },
}

/// What a process does until it is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Role {
    /// Serve the REST interface.
    Api,
    /// Publish due notices to the ring.
    Relay,
    /// Claim due payments and call the gateway.
    Worker,
    /// Reap expired leases, fail missed deadlines, make partitions ahead.
    Keeper,
    /// Publish the history of every payment as events.
    Publisher,
    /// Simulate a gateway with its own durable ledger.
    Sandbox,
    /// Run api, relay, worker, keeper and publisher in one process.
    All,
}

/// Database set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Migrate {
    /// Name what `run` would do; exit code 10 if there is anything.
    Plan,
    /// Bring the database to this version's schema and make the partitions.
    Run,
}

/// Topic set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Topics {
    /// Name what `apply` would create, and what it could not repair.
    Plan,
    /// Create the topics that are missing.
    Apply,
    /// Compare; exit code 10 if the broker's topics differ.
    Check,
    /// Print what travels through them as an AsyncAPI 3 document in YAML; asks no broker.
    Describe,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum ConfigCommand {
    /// Say whether a process would start with these settings.
    Check,
    /// Print every setting with where it came from; secrets as ***.
    Show {
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// Checks of what was written down.
#[derive(Debug, Clone, Subcommand)]
enum Audit {
    /// Check every promise that the inputs allow: 0 all that could be looked at hold, 10 one is broken,
    /// 11 something that was required is unknown, or everything.
    Check(AuditCheck),
}

/// What `audit check` looks at, and what it must have seen.
#[derive(Debug, Clone, Args)]
pub struct AuditCheck {
    /// The gateway's own ledger, NDJSON: a file, or the sandbox's http://…/ledger.
    #[arg(long, value_name = "FILE|URL")]
    pub ledger: Option<String>,
    /// The clients' log of operations, NDJSON; its fields are in the README.
    #[arg(long, value_name = "FILE|URL")]
    pub operations: Option<String>,
    /// Read the ring, the topic of events and the group's committed offsets too.
    #[arg(long)]
    pub topics: bool,
    /// Leave out records of the topics that are older, RFC 3339.
    #[arg(long, value_name = "INSTANT", requires = "topics")]
    pub since: Option<DateTime<Utc>>,
    /// First due day; without it the schedule's first.
    #[arg(long, value_name = "DAY")]
    pub from: Option<NaiveDate>,
    /// Last due day; without it the schedule's last.
    #[arg(long, value_name = "DAY")]
    pub to: Option<NaiveDate>,
    /// Due days looked at at once: memory is up to 4 kB for each of their payments.
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub window: u32,
    /// A due payment that waits longer breaks L1 or L5.
    #[arg(long, value_name = "LENGTH", default_value = "60s")]
    pub overdue: humantime::Duration,
    /// A promise (M1) that must not be unknown, or a situation (fenced_settles) that must have been met;
    /// may be repeated.
    #[arg(long, value_name = "NAME")]
    pub require: Vec<String>,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// API key commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Keys {
    /// Make a key for an actor and print it, once.
    Create {
        /// The actor's name; made if it is new.
        #[arg(long, value_parser = actor_name)]
        actor: String,
        /// What the key may do; may be repeated. Without it: read and write the actor's payments.
        #[arg(long = "scope", value_name = "SCOPE", value_parser = scopes(), default_values_t = client_scopes())]
        scopes: Vec<String>,
        /// How to print it; as JSON it is `{"apiKey": …, "keyId": …, "actorId": …, "scopes": […]}`.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show keys with their ids, hints and ends; never their texts.
    List {
        /// Only this actor's.
        #[arg(long)]
        actor: Option<String>,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// End a key for good; exit code 5 if there is none to end.
    Revoke {
        /// As `keys list` shows it.
        #[arg(value_name = "KEY_ID")]
        key_id: uuid::Uuid,
    },
}

fn client_scopes() -> Vec<String> {
    Scope::OF_CLIENTS.iter().map(|scope| scope.as_str().to_owned()).collect()
}

fn scopes() -> clap::builder::PossibleValuesParser {
    Scope::ALL.map(Scope::as_str).into()
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// Why a command did not do its work, with the exit code that says so.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Ended {
    /// Never [`Exit::Done`].
    pub exit: Exit,
    /// For people; no secrets.
    pub message: String,
}

impl Ended {
    /// It ended like this.
    pub fn with(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

impl From<Problems> for Ended {
    fn from(problems: Problems) -> Self {
        Self::with(Exit::Usage, problems.to_string())
    }
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        Self::with(Exit::Failed, error.to_string())
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    // A usage error is printed and ends here with 2, help and version with 0.
    let cli = Cli::parse();
    let usually = match cli.command {
        Command::Dev(_) => telemetry::Usually::Warnings,
        #[cfg(feature = "simulation")]
        Command::Simulate(_) => telemetry::Usually::Warnings,
        _ => telemetry::Usually::Info,
    };
    if let Err(error) = telemetry::start(usually) {
        eprintln!("punctual: {error}");
        return Exit::Usage.into();
    }
    // It has a runtime and a time of its own.
    #[cfg(feature = "simulation")]
    if let Command::Simulate(args) = &cli.command {
        return ended(simulate::simulate(args));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("punctual: {error}");
            return Exit::Failed.into();
        }
    };
    // `dev` prints its own failures and chooses its own exit code.
    if let Command::Dev(args) = cli.command {
        return runtime.block_on(dev::run(args, cli.settings));
    }
    ended(runtime.block_on(run(cli)))
}

fn ended(result: Result<(), Ended>) -> ExitCode {
    match result {
        Ok(()) => Exit::Done.into(),
        Err(Ended { exit, message }) => {
            for line in message.lines() {
                eprintln!("punctual: {line}");
            }
            exit.into()
        }
    }
}

async fn run(cli: Cli) -> Result<(), Ended> {
    let loaded = cli.settings.load()?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    match cli.command {
        // The largest of them: every role with all that it holds.
        Command::Role(role) => Box::pin(run_role(role, loaded.config)).await,
        Command::Migrate(command) => roles::migrate(command, loaded.config).await,
        Command::Topics(command) => roles::topics(command, loaded.config).await,
        Command::Bucket(command) => roles::bucket(command, loaded.config).await,
        Command::Keys(command) => roles::keys(command, loaded.config).await,
        Command::Forecast { output } => roles::forecast(output, loaded.config).await,
        Command::Audit(Audit::Check(asked)) => roles::audit_check(asked, loaded.config).await,
        Command::Health { url } => match client::health(&url).await {
            Ok(answer) => print(&format!("{}\n", answer.trim_end())),
            Err(error) => Err(Ended::with(Exit::Failed, error.to_string())),
        },
        Command::Config(ConfigCommand::Check) => print("the settings are fine\n"),
        Command::Config(ConfigCommand::Show { output: Output::Table }) => {
            print(&config::shown_as_table(&loaded))
        }
        Command::Config(ConfigCommand::Show { output: Output::Json }) => {
            print(&format!("{:#}\n", config::shown_as_json(&loaded)))
        }
        // `main` has taken these.
        Command::Dev(_) => Ok(()),
        #[cfg(feature = "simulation")]
        Command::Simulate(_) => Ok(()),
    }
}

impl SettingsArgs {
    /// All layers over each other.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn load(&self) -> Result<Loaded, Problems> {
        self.load_with(Vec::new())
    }

    /// The same, with `name=value` pairs that only `--set` beats.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn load_with(&self, mut sets: Vec<String>) -> Result<Loaded, Problems> {
        sets.extend_from_slice(&self.sets);
        config::load(&Inputs::from_host(self.config.as_deref(), sets)?)
    }
}

async fn run_role(role: Role, config: Config) -> Result<(), Ended> {
    config.require(role.needs())?;
    let process = roles::Process::new(config, Shutdown::on_signals()?)?;
    match role {
        Role::Api => roles::api(process).await,
        Role::Relay => roles::relay(process).await,
        Role::Worker => roles::worker(process).await,
        Role::Keeper => roles::keeper(process).await,
        Role::Publisher => roles::publisher(process).await,
        Role::Sandbox => roles::sandbox(process).await,
        Role::All => roles::all(process).await,
    }
}

impl Role {
    /// The settings without a default that it cannot start without.
    #[must_use]
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Api | Self::Keeper => &["database.url"],
            Self::Relay | Self::Publisher => &["database.url", "kafka.bootstrap_servers"],
            Self::Worker | Self::All => &["database.url", "kafka.bootstrap_servers", "gateway.url"],
            Self::Sandbox => &[],
        }
    }
}

/// Prints an answer; a reader that has seen enough (`| head`) is no failure.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(answer: &str) -> Result<(), Ended> {
    let mut out = std::io::stdout().lock();
    match out.write_all(answer.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn settings_may_stand_before_or_after_the_command() {
        for line in ["punctual --set worker.lease=31s worker", "punctual worker --set worker.lease=31s"] {
            let cli = parsed(line).unwrap();
            assert!(matches!(cli.command, Command::Role(Role::Worker)));
            assert_eq!(cli.settings.sets, ["worker.lease=31s"]);
        }
    }

    #[test]
    fn wrong_usage_has_the_usage_exit_code() {
        for line in ["punctual", "punctual wroker", "punctual config show -o xml", "punctual keys create"] {
            assert_eq!(parsed(line).unwrap_err().exit_code(), i32::from(Exit::Usage.code()), "{line}");
        }
    }

    #[test]
    fn a_key_is_made_only_for_a_sane_name_and_with_known_scopes() {
        let create = |rest: &[&str]| Cli::try_parse_from(["punctual", "keys", "create"].iter().chain(rest));
        let cli = create(&["--actor", "shop"]).unwrap();
        let Command::Keys(Keys::Create { scopes, .. }) = cli.command else { panic!("keys create") };
        assert_eq!(scopes, ["payments:read", "payments:write"]);
        assert!(create(&["--actor", "shop", "--scope", "payments:read"]).is_ok());
        for (rest, told) in [
            (&["--actor", "shop", "--scope", "payments:raed"][..], "payments:read, payments:write"),
            (&["--actor", "shop", "--scope", ""], "payments:read, payments:write"),
            (&["--actor", ""], "1 to 100 characters"),
            (&["--actor", "a\nb"], "1 to 100 characters"),
            (&["--actor", &"x".repeat(101)], "1 to 100 characters"),
        ] {
            let error = create(rest).unwrap_err();
            assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()), "{rest:?}");
            assert!(error.to_string().contains(told), "{error}");
        }
    }

    #[test]
    fn everything_a_role_needs_is_a_setting_without_a_default() {
        let empty = Config::default();
        let roles =
            [Role::Api, Role::Relay, Role::Worker, Role::Keeper, Role::Publisher, Role::Sandbox, Role::All];
        for role in roles {
            for name in role.needs() {
                assert!(config::Setting::named(name).is_some(), "{name}");
                assert!(empty.require(&[*name]).is_err(), "{name} has a default");
            }
        }
    }
}
