//! The command line: which role or command to run, with which settings.
//!
//! This file decides nothing about payments. It reads the command line, loads the settings, starts
//! logging, hands over to [`crate::roles`] and turns what comes back into an exit code
//! ([`crate::platform::exit`]). Answers go to standard output, everything said about them to
//! standard error.

mod api_keys;
mod approvals;
mod assets;
mod audit;
mod bucket;
mod caps;
mod completions;
mod evidence;
mod gateway;
mod import;
mod keys;
mod output;
mod parked;
mod payment;
mod reconcile;
mod refund;
mod quarantine;
mod remote;
mod replay;
mod set_up;
mod signals;
#[cfg(feature = "simulation")]
mod simulate;
mod top;
mod webhooks;

pub use audit::AuditCheck;
pub use bucket::Bucket;
pub use keys::Keys;
pub(crate) use output::say;
pub use output::{Output, print};
pub use reconcile::ReconcileRun;
pub(crate) use reconcile::sheet as reconcile_sheet;
pub use replay::{Replay, Since, Topic as ReplayTopic};
pub use set_up::{Migrate, Rebuild, RebuildPart, Topics};

use crate::platform::config::{self, Config, Inputs, Loaded, Problems};
use crate::platform::exit::Exit;
use crate::platform::shutdown::Shutdown;
use crate::platform::{telemetry, trace};
use crate::{client, dev, roles};
use clap::{Args, Parser, Subcommand};
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
    /// Payments: create, look at, explain, cancel.
    #[command(subcommand)]
    Payment(payment::Payment),
    /// Create the payments of a file, once however often it is run.
    #[command(after_long_help = import::HELP)]
    Import(Box<import::Import>),
    /// Payments that wait for a human: what may be done with them.
    #[command(subcommand)]
    Parked(Box<parked::Parked>),
    /// Give money back.
    #[command(subcommand)]
    Refund(Box<refund::Refund>),
    /// Our ledger against the gateway's own report, both ways.
    #[command(subcommand)]
    Reconcile(Box<reconcile::Reconcile>),
    /// What waits for a second person.
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// What operators did, and why; the newest first.
    Acts(approvals::Acts),
    /// Gateways: pause, resume, see how they do.
    #[command(subcommand)]
    Gateway(gateway::Gateway),
    /// Kill switches: stop charges of a kind.
    #[command(subcommand)]
    Switch(gateway::Switch),
    /// A database that was restored or has lost commits: why nothing is claimed, and its release.
    #[command(subcommand)]
    Quarantine(quarantine::Quarantine),
    /// API keys, through the API and with an audit.
    #[command(subcommand)]
    ApiKeys(api_keys::ApiKeys),
    /// Where you are told of your payments, and what came of it.
    #[command(subcommand)]
    Webhooks(Box<webhooks::Webhooks>),
    /// What an API client may create in one day.
    #[command(subcommand)]
    Caps(caps::Caps),
    /// What goes with the binary: alerts, dashboards, runbooks, documents.
    #[command(subcommand)]
    Assets(assets::Assets),
    /// What a shell needs to complete this command line.
    #[command(after_long_help = completions::HELP)]
    Completions {
        /// For this shell.
        #[arg(value_enum)]
        shell: completions::For,
    },
    #[command(flatten)]
    Role(Role),
    /// Publish the history of every payment as events; or again what was published, with --from.
    Publisher(Box<Replay>),
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
    Config(set_up::ConfigCommand),
    /// API keys, straight in the database: for the first one, and for when nobody has one.
    #[command(subcommand)]
    Keys(Keys),
    /// What is wrong with this installation, and what mends it; exit code 10 if anything is.
    Doctor {
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// How everything does, on one screen: what is wrong first, then the figures of the dashboard.
    #[command(after_long_help = top::HELP)]
    Top(top::Top),
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
    Audit(audit::Audit),
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
    #[command(skip)]
    Publisher,
    /// Simulate a gateway with its own durable ledger.
    Sandbox,
    /// Run api, relay, worker, keeper and publisher in one process.
    All,
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
    /// It ended like this, and that was said already.
    #[must_use]
    pub fn told(exit: Exit) -> Self {
        Self { exit, message: String::new() }
    }

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
    // It needs neither settings nor logs, and must work in a shell's own start-up.
    if let Command::Completions { shell } = cli.command {
        return ended(completions::run(shell));
    }
    if let Err(error) = telemetry::start(cli.command.usually()) {
        return ended(Err(Ended::with(Exit::Usage, error.to_string())));
    }
    // It has a runtime and a time of its own.
    #[cfg(feature = "simulation")]
    if let Command::Simulate(args) = &cli.command {
        return ended(simulate::simulate(args));
    }
    let traces = match cli.command.traced_as().map(trace::start).transpose() {
        Ok(traces) => traces,
        Err(error) => return ended(Err(Ended::with(Exit::Usage, error.to_string()))),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(Err(error.into())),
    };
    // `dev` prints its own failures and chooses its own exit code.
    if let Command::Dev(args) = cli.command {
        let code = runtime.block_on(dev::run(args, cli.settings));
        signals::last_spans(runtime, traces);
        return code;
    }
    let result = runtime.block_on(run(cli));
    signals::last_spans(runtime, traces);
    ended(result)
}

fn ended(result: Result<(), Ended>) -> ExitCode {
    match result {
        Ok(()) => Exit::Done.into(),
        Err(Ended { exit, message }) => {
            output::say(&message);
            exit.into()
        }
    }
}

async fn run(cli: Cli) -> Result<(), Ended> {
    let loaded = cli.settings.load()?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let config = loaded.config.clone();
    match cli.command {
        Command::Payment(command) => payment::run(command, &config).await,
        Command::Import(asked) => import::run(*asked, &config).await,
        Command::Parked(command) => parked::run(*command, &config).await,
        Command::Refund(command) => refund::run(*command, &config).await,
        Command::Reconcile(command) => match *command {
            reconcile::Reconcile::Run(asked) => Box::pin(roles::reconcile_run(*asked, config)).await,
            other => reconcile::run(other, &config).await,
        },
        Command::Approvals(command) => approvals::run(command, &config).await,
        Command::Acts(asked) => approvals::acts(asked, &config).await,
        Command::Gateway(command) => gateway::run(command, &config).await,
        Command::Switch(command) => gateway::switch(command, &config).await,
        Command::Quarantine(command) => quarantine::run(command, &config).await,
        Command::ApiKeys(command) => api_keys::run(command, &config).await,
        Command::Webhooks(command) => webhooks::run(*command, &config).await,
        Command::Caps(command) => caps::run(command, &config).await,
        Command::Assets(asked) => assets::run(asked, &config),
        // The largest of them: every role with all that it holds.
        Command::Role(role) => Box::pin(run_role(role, config)).await,
        Command::Publisher(asked) if asked.from.is_none() => {
            Box::pin(run_role(Role::Publisher, config)).await
        }
        Command::Publisher(asked) => roles::replay(*asked, config).await,
        Command::Migrate(command) => roles::migrate(command, config).await,
        Command::Topics(Topics::Rebuild(asked)) => {
            if !asked.dry_run {
                remote::confirm(asked.yes, "Publish every event again, and what is due and parked")?;
            }
            roles::rebuild(asked, config).await
        }
        Command::Topics(command) => roles::topics(command, config).await,
        Command::Bucket(command) => roles::bucket(command, config).await,
        Command::Keys(command) => roles::keys(command, config).await,
        Command::Top(asked) => top::run(asked, &config).await,
        Command::Doctor { output } => roles::doctor(output, config).await,
        Command::Forecast { output } => roles::forecast(output, config).await,
        Command::Audit(audit::Audit::Check(asked)) => roles::audit_check(asked, config).await,
        Command::Health { url } => match client::health(&url).await {
            Ok(answer) => print(&format!("{}\n", answer.trim_end())),
            Err(error) => Err(Ended::with(Exit::Failed, error.to_string())),
        },
        Command::Config(set_up::ConfigCommand::Check) => print("the settings are fine\n"),
        Command::Config(set_up::ConfigCommand::Show { output }) => {
            print(&output.shown(|| config::shown_as_table(&loaded), || config::shown_as_json(&loaded)))
        }
        // `main` has taken these.
        Command::Dev(_) | Command::Completions { .. } => Ok(()),
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
        Role::Keeper => Box::pin(roles::keeper(process)).await,
        Role::Publisher => Box::pin(roles::publisher(process)).await,
        Role::Sandbox => roles::sandbox(process).await,
        Role::All => roles::all(process).await,
    }
}

impl Role {
    /// Its command.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Relay => "relay",
            Self::Worker => "worker",
            Self::Keeper => "keeper",
            Self::Publisher => "publisher",
            Self::Sandbox => "sandbox",
            Self::All => "all",
        }
    }

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
