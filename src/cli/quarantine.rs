//! `punctual quarantine`: why nothing is claimed after a restore or a failover, what is missing before claims may go
//! on, and the word of two people that they do.

use super::Ended;
use super::output::{Face, Output, object, print};
use super::remote::{Act, Remote, acted, confirm, looked_up, of_client, said_something};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use clap::Subcommand;
use serde_json::json;

/// A database that may have lost commits.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Quarantine {
    /// Whether claims are held, since when and why, and what is missing before their release.
    Show {
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Hold all claims: you know of a restore before anything proved it. Where they are held already, say since when
    /// commits are missing; exit code 6 without that.
    Enter {
        /// Since when commits may be missing, as 2030-01-31T09:00:00Z; no later than what is proven to be.
        #[arg(long, value_name = "TIME")]
        lost_from: Option<String>,
        #[command(flatten)]
        act: Act,
    },
    /// Let claims go on, as the first person who asks or the second who agrees. Exit code 6 while something is
    /// missing, 4 if it was you who asked.
    Release {
        /// Although something is missing: payments may be charged a second time.
        #[arg(long)]
        anyway: bool,
        #[command(flatten)]
        act: Act,
    },
}

/// Runs it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(command: Quarantine, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        Quarantine::Show { output } => {
            looked_up(remote.client.call("GET", &["ops", "quarantine"]), output).await
        }
        Quarantine::Enter { lost_from, act } => {
            confirm(act.yes, "Hold all claims, until two people release them")?;
            let mut body = json!({"reason": act.reason});
            if let Some(lost_from) = lost_from {
                body["lostFrom"] = lost_from.into();
            }
            acted(remote.client.call("POST", &["ops", "quarantine"]).json(&body), act.output).await
        }
        Quarantine::Release { anyway, act } => {
            let what = if anyway {
                "Let claims go on ALTHOUGH something is missing: payments may be charged twice"
            } else {
                "Let claims go on"
            };
            confirm(act.yes, what)?;
            let call = remote.client.call("POST", &["ops", "quarantine", "release"]);
            let answer = call.json(&json!({"reason": act.reason, "anyway": anyway})).send().await;
            let answer = answer.map_err(of_client)?;
            said_something(&answer.body)?;
            print(&object(act.output, Face::of_stdout(), &answer.body))?;
            if answer.status != 202 {
                return Ok(());
            }
            let told = "Not done yet: a second person must agree within a day, with the same command";
            Err(Ended::with(Exit::NotAllowed, told))
        }
    }
}
