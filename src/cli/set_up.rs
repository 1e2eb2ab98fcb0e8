//! The command lines that prepare an installation: the database, the topics, the settings.

use super::Output;
use clap::{Args, Subcommand, ValueEnum};

/// Database set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Migrate {
    /// Name what `run` would do; exit code 10 if there is anything.
    Plan,
    /// Bring the database to this version's schema and make the partitions.
    Run,
}

/// Topic set-up.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Topics {
    /// Name what `apply` would create, and what it could not repair.
    Plan,
    /// Create the topics that are missing.
    Apply,
    /// Compare; exit code 10 if the broker's topics differ.
    Check,
    /// Print what travels through them as an AsyncAPI 3 document in YAML; asks no broker.
    Describe,
    /// Fill all of them from the database: what is missing is made, what falls due soon is noticed again,
    /// every event is published again from the first, what is parked is announced again.
    Rebuild(Rebuild),
}

/// What of the topics is rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RebuildPart {
    /// Due notices.
    Ring,
    /// Events; the lane is taken from the publisher that leads until all are out.
    Events,
    /// Announcements of what is parked.
    Parked,
}

/// How the topics are rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Rebuild {
    /// This part alone; may be repeated. Without it all of them.
    #[arg(long, value_enum, value_name = "PART")]
    pub only: Vec<RebuildPart>,
    /// Most events a second.
    #[arg(long, value_name = "EVENTS", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Count what would be made and published; change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking.
    #[arg(long)]
    pub yes: bool,
    /// How to print what was done.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

impl Rebuild {
    /// Is this part wanted?
    #[must_use]
    pub fn wants(&self, part: RebuildPart) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// The settings of this command line.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum ConfigCommand {
    /// Say whether a process would start with these settings.
    Check,
    /// Print every setting with where it came from; secrets as ***.
    Show {
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}
