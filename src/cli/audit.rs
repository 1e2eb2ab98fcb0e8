//! The command line of `punctual audit`.

use super::Output;
use chrono::{DateTime, NaiveDate, Utc};
use clap::{Args, Subcommand};

/// Checks of what was written down.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Audit {
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

impl AuditCheck {
    /// Said last of a check that ends well without the one witness of what was charged.
    #[must_use]
    pub fn unlooked_at(&self) -> Option<&'static str> {
        self.ledger.is_none().then_some(
            "the charges were not looked at, so this does not say that nothing was paid twice: give the gateway's own \
             ledger with --ledger",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        asked: AuditCheck,
    }

    #[test]
    fn a_check_without_the_ledger_says_that_it_did_not_look_at_the_charges() {
        let asked = |line: &[&str]| Line::try_parse_from(line).unwrap().asked;
        assert!(asked(&["check"]).unlooked_at().is_some_and(|told| told.ends_with("with --ledger")));
        assert_eq!(asked(&["check", "--ledger", "l.ndjson"]).unlooked_at(), None);
    }
}
