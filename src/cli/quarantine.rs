//! `punctual quarantine`: why nothing is claimed after a restore or a failover, what is missing before claims may go
//! on, and the word of two people that they do.

use super::Ended;
use super::output::{Column, Face, List, Output, Reader, at, object, print, record};
use super::remote::{Act, Remote, acted, confirm, of_client, said_something};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use clap::Subcommand;
use serde_json::{Value, json};

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

const LACKS: &[Column] = &[
    Column { head: "MISSING", of: |_| "lack".to_owned() },
    Column { head: "KIND", of: |item| at(item, "/lack") },
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "DAY", of: |item| at(item, "/day") },
    Column { head: "FROM", of: |item| at(item, "/askableFrom") },
    Column { head: "COMMAND", of: command },
];

const EVIDENCE: &[Column] = &[
    Column { head: "PROOF", of: |_| "evidence".to_owned() },
    Column { head: "AT", of: |item| at(item, "/at") },
    Column { head: "KIND", of: |item| at(item, "/kind") },
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "WHAT", of: |item| at(item, "/what") },
];

const QUARANTINES: &[Column] = &[
    Column { head: "ALL", of: |_| "quarantine".to_owned() },
    Column { head: "SINCE", of: |item| at(item, "/since") },
    Column { head: "KIND", of: |item| at(item, "/kind") },
    Column { head: "LOST FROM", of: |item| at(item, "/lostFrom") },
    Column { head: "EVIDENCE", of: |item| at(item, "/evidenceCount") },
    Column { head: "ASKED BY", of: |item| at(item, "/asked/by") },
    Column { head: "RELEASED AT", of: |item| at(item, "/released/at") },
    Column { head: "RELEASED BY", of: |item| at(item, "/released/by") },
    Column { head: "REASON", of: |item| at(item, "/reason") },
];

/// What brings it, which its sentence has; the sentence where there is none.
fn command(lack: &Value) -> String {
    let sentence = at(lack, "/explanation");
    sentence.split('`').nth(1).map_or_else(|| sentence.clone(), str::to_owned)
}

/// How it stands, then a table of what is missing, of what proves the loss, and of all quarantines.
fn show(found: &Value, output: Output) -> Result<(), Ended> {
    let face = Face::of_stdout();
    let fields = ["quarantined", "advice", "releasableFrom", "refundsHeld"];
    let fields = fields.map(|name| (name, at(found, &format!("/{name}"))));
    print(&record(output, face, &fields, found))?;
    if output != Output::Table {
        return Ok(());
    }
    for (name, columns) in [("lacks", LACKS), ("evidence", EVIDENCE), ("data", QUARANTINES)] {
        let rows = found[name].as_array().map_or(&[][..], Vec::as_slice);
        if !rows.is_empty() && List::new(output, face, columns).page(rows)? == Reader::Left {
            return Ok(());
        }
    }
    Ok(())
}

/// Runs it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(command: Quarantine, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        Quarantine::Show { output } => {
            let found = remote.client.call("GET", &["ops", "quarantine"]).send().await.map_err(of_client)?;
            said_something(&found.body)?;
            show(&found.body, output)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_a_row_with_the_command_that_brings_it() {
        let lack = json!({"lack": "day_not_over", "gateway": "bank", "day": "2030-01-31", "items": null,
            "askableFrom": "2030-02-01T00:00:00Z",
            "explanation": "bank, 2030-01-31: it is not over: `punctual reconcile run --gateway bank --day 2030-01-31` then."});
        let row: Vec<String> = LACKS.iter().map(|column| (column.of)(&lack)).collect();
        let told = "punctual reconcile run --gateway bank --day 2030-01-31";
        assert_eq!(row, ["lack", "day_not_over", "bank", "2030-01-31", "2030-02-01T00:00:00Z", told]);
        assert_eq!(command(&json!({"explanation": "No gateway is known."})), "No gateway is known.");
    }
}
