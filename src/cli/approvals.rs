//! `punctual approvals`: what waits for a second person; nobody agrees to what they asked for themselves. And
//! `punctual acts`: what operators did, and why.

use super::Ended;
use super::output::{Column, Face, List, Output, at};
use super::payment::walked;
use super::remote::{Act, Remote, acted, confirm, looked_up};
use crate::platform::config::Config;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

/// What needs a second person.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Approvals {
    /// Those that wait, or waited.
    List {
        /// Where they stand.
        #[arg(long, value_enum, default_value_t)]
        status: Standing,
        /// Most of them.
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
        /// All of them, however many.
        #[arg(long, conflicts_with = "limit")]
        all: bool,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// One of them, with what was asked for.
    Show {
        /// As `list` shows it.
        #[arg(value_name = "APPROVAL_ID")]
        id: String,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Agree: it is done at once. Exit code 4 if it was you who asked.
    Approve {
        /// As `list` shows it.
        #[arg(value_name = "APPROVAL_ID")]
        id: String,
        #[command(flatten)]
        act: Act,
    },
    /// Refuse it for good.
    Reject {
        /// As `list` shows it.
        #[arg(value_name = "APPROVAL_ID")]
        id: String,
        #[command(flatten)]
        act: Act,
    },
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Standing {
    /// It waits.
    #[default]
    Pending,
    /// Agreed to, and done.
    Approved,
    /// Refused.
    Rejected,
    /// Nobody decided in time.
    Expired,
}

impl Standing {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        }
    }
}

const COLUMNS: &[Column] = &[
    Column { head: "APPROVAL", of: |item| at(item, "/approvalId") },
    Column { head: "KIND", of: |item| at(item, "/kind") },
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "ASKED BY", of: |item| at(item, "/askedBy") },
    Column { head: "ASKED AT", of: |item| at(item, "/askedAt") },
    Column { head: "EXPIRES AT", of: |item| at(item, "/expiresAt") },
    Column { head: "REASON", of: |item| at(item, "/reason") },
];

/// Runs it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(command: Approvals, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    let (id, verb, act) = match command {
        Approvals::List { status, limit, all, output } => {
            let query = vec![("status", status.as_str().to_owned())];
            let most = if all { u64::MAX } else { limit };
            let list = List::new(output, Face::of_stdout(), COLUMNS);
            return walked(&remote, &["ops", "approvals"], query, most, list).await;
        }
        Approvals::Show { id, output } => {
            return looked_up(remote.client.call("GET", &["ops", "approvals", &id]), output).await;
        }
        Approvals::Approve { id, act } => (id, "approve", act),
        Approvals::Reject { id, act } => (id, "reject", act),
    };
    let what = if verb == "approve" { "Agree to" } else { "Refuse" };
    confirm(act.yes, &format!("{what} {id} for good"))?;
    let call = remote.client.call("POST", &["ops", "approvals", &id, verb]);
    acted(call.json(&json!({"reason": act.reason})), act.output).await
}

/// The operators' audit.
#[derive(Debug, Clone, Args)]
pub(super) struct Acts {
    /// Only of this payment, gateway, key or switch.
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Only of this person: key:NAME, or oidc:ISSUER#SUBJECT.
    #[arg(long, value_name = "OPERATOR")]
    operator: Option<String>,
    /// Most acts.
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them, however many.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

const ACTS: &[Column] = &[
    Column { head: "AT", of: |item| at(item, "/at") },
    Column { head: "OPERATOR", of: |item| at(item, "/operator") },
    Column { head: "ACT", of: |item| at(item, "/act") },
    Column { head: "SUBJECT", of: |item| at(item, "/subject") },
    Column { head: "REASON", of: |item| at(item, "/reason") },
];

/// Prints who did what to what, and why; the newest first.
///
/// # Errors
/// The API's refusal.
pub(super) async fn acts(asked: Acts, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    let query = [("subject", asked.subject), ("operator", asked.operator)];
    let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let most = if asked.all { u64::MAX } else { asked.limit };
    let list = List::new(asked.output, Face::of_stdout(), ACTS);
    walked(&remote, &["ops", "acts"], query, most, list).await
}
