//! The command lines that prepare an installation: the database, the topics, the settings.

use super::Output;
use clap::Subcommand;

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
