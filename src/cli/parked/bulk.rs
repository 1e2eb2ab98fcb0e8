//! `punctual parked bulk`: many parked payments released by one act that the server keeps: made stopped, with exact
//! counts of what it is for; started, stopped and gone on with by people; worked off at its rate, through restarts.

use super::super::Ended;
use super::super::output::{Column, Face, List, Output, at, money, print, record};
use super::super::payment::walked;
use super::super::remote::{Act, Remote, confirm, of_client, said_something};
use super::Which;
use crate::client::Call;
use clap::Subcommand;
use serde_json::{Map, Value, json};

/// Many at once.
#[derive(Debug, Clone, Subcommand)]
pub(in crate::cli) enum Bulk {
    /// Choose them, and see exactly how many; nothing is released before `start`.
    Make {
        /// Parked for this reason.
        #[arg(long = "parked-for", value_name = "REASON")]
        parked_for: Option<String>,
        #[command(flatten)]
        which: Which,
        /// So many a second.
        #[arg(long, value_name = "COUNT", default_value_t = 10)]
        rate: u32,
        #[command(flatten)]
        act: Act,
    },
    /// Those that were made, the newest first, and how far they are.
    List {
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
    /// What one is for, and how far it has come: counts of each outcome.
    Show {
        /// As `make` answered.
        #[arg(value_name = "BULK_ID")]
        id: String,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Begin, or go on.
    Start {
        /// As `make` answered.
        #[arg(value_name = "BULK_ID")]
        id: String,
        #[command(flatten)]
        act: Act,
    },
    /// Stop; it can be started again.
    Stop {
        /// As `make` answered.
        #[arg(value_name = "BULK_ID")]
        id: String,
        #[command(flatten)]
        act: Act,
    },
}

const COLUMNS: &[Column] = &[
    Column { head: "BULK", of: |item| at(item, "/bulkId") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "LOOKED AT", of: |item| looked_at(item).to_string() },
    Column { head: "OF", of: |item| at(item, "/preview/count") },
    Column { head: "MADE", of: |item| at(item, "/createdAt") },
    Column { head: "BY", of: |item| at(item, "/askedBy") },
    Column { head: "OF WHAT", of: of_what },
    Column { head: "REASON", of: |item| at(item, "/reason") },
];

/// Payments that it has passed, whatever came of them.
fn looked_at(bulk: &Value) -> i64 {
    bulk["outcomes"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_i64()).sum()
}

/// The conditions that were asked for, as they are written in a filter; `everything` without any.
fn of_what(bulk: &Value) -> String {
    let asked = bulk["filter"].as_object().into_iter().flatten();
    let written = asked.filter(|(_, value)| !value.is_null()).map(|(name, value)| match name.as_str() {
        "q" => at(value, ""),
        name => format!("{name}:{}", at(value, "")),
    });
    let written = written.collect::<Vec<_>>().join(" ");
    if written.is_empty() { "everything".to_owned() } else { written }
}

/// Runs it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(remote: &Remote, command: Bulk) -> Result<(), Ended> {
    let of = |id: &str| remote.client.call("GET", &["ops", "bulk-redrives", id]);
    match command {
        Bulk::Make { parked_for, which, rate, act } => {
            let filter: Map<_, _> = which
                .typed(parked_for)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .collect();
            let body = json!({"filter": filter, "reason": act.reason, "ratePerS": rate});
            // Nothing is released by this, so nobody is asked.
            told(remote.client.call("POST", &["ops", "bulk-redrives"]).json(&body), act.output).await
        }
        Bulk::List { limit, all, output } => {
            let most = if all { u64::MAX } else { limit };
            let list = List::new(output, Face::of_stdout(), COLUMNS);
            walked(remote, &["ops", "bulk-redrives"], Vec::new(), most, list).await
        }
        Bulk::Show { id, output } => told(of(&id), output).await,
        Bulk::Start { id, act } => {
            let mut what = format!("Release the payments of {id}, so that they may be charged");
            if !act.yes {
                let found = of(&id).send().await.map_err(of_client)?.body;
                what = question(&found).unwrap_or(what);
            }
            confirm(act.yes, &what)?;
            turned(remote, &id, "start", &act).await
        }
        Bulk::Stop { id, act } => turned(remote, &id, "stop", &act).await,
    }
}

/// What a start is about, in numbers.
fn question(bulk: &Value) -> Option<String> {
    let count = bulk.pointer("/preview/count")?.as_i64()?;
    let skipped = bulk.pointer("/preview/needsApproval")?.as_i64()?;
    let passed = bulk.pointer("/outcomes/needs_approval").and_then(Value::as_i64).unwrap_or(0);
    let left = count - looked_at(bulk) - (skipped - passed).max(0);
    Some(format!(
        "Release at most {} of {count} payments, {} a second, so that they may be charged ({skipped} of all need a \
         second person and are skipped)",
        left.max(0),
        at(bulk, "/ratePerS")
    ))
}

async fn turned(remote: &Remote, id: &str, verb: &str, act: &Act) -> Result<(), Ended> {
    let call = remote.client.call("POST", &["ops", "bulk-redrives", id, verb]);
    told(call.json(&json!({"reason": act.reason})), act.output).await
}

/// Asks, and prints the bulk act that is answered.
async fn told(call: Call<'_>, output: Output) -> Result<(), Ended> {
    let bulk = call.send().await.map_err(of_client)?.body;
    said_something(&bulk)?;
    print(&shown(&bulk, output, Face::of_stdout()))
}

fn shown(bulk: &Value, output: Output, face: Face) -> String {
    let field = |name: &'static str, pointer: &str| (name, at(bulk, pointer));
    let counts = |pointer: &str| bulk.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let mut fields = vec![
        field("bulkId", "/bulkId"),
        field("status", "/status"),
        ("of what", of_what(bulk)),
        field("payments", "/preview/count"),
    ];
    let sum = |(currency, minor): (&String, &Value)| {
        ("sum", money(&json!({"amount": minor, "currency": currency})))
    };
    fields.extend(counts("/preview/amounts").map(sum));
    let counted = |name| move |(of, count): (&String, &Value)| (name, format!("{of}: {}", at(count, "")));
    fields.extend(counts("/preview/byReason").map(counted("parked for")));
    fields.extend([
        field("need a second person", "/preview/needsApproval"),
        field("a second at most", "/ratePerS"),
        field("asked by", "/askedBy"),
        field("reason", "/reason"),
        field("made at", "/createdAt"),
        field("started at", "/startedAt"),
        field("done at", "/finishedAt"),
        ("looked at", format!("{} of {}", looked_at(bulk), at(bulk, "/preview/count"))),
    ]);
    fields.extend(counts("/outcomes").map(counted("outcome")));
    record(output, face, &fields, bulk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk() -> Value {
        json!({
            "bulkId": "b-1", "status": "running", "askedBy": "key:alice", "reason": "outage over", "ratePerS": 50,
            "filter": {"reason": "held_back_too_long", "gateway": null, "q": "amount:..5000"},
            "preview": {"count": 7, "byReason": {"held_back_too_long": 7}, "amounts": {"EUR": 1_250, "JPY": 500},
                "needsApproval": 2},
            "createdAt": "2030-01-31T09:00:00Z", "startedAt": null, "finishedAt": null,
            "outcomes": {"needs_approval": 1, "redriven": 2},
        })
    }

    #[test]
    fn a_bulk_act_is_told_with_exact_counts_and_what_came_of_each() {
        let shown = shown(&bulk(), Output::Table, Face::Pipe);
        for line in [
            "of what\tamount:..5000 reason:held_back_too_long",
            "payments\t7",
            "sum\t12.50 EUR",
            "sum\t500 JPY",
            "parked for\theld_back_too_long: 7",
            "need a second person\t2",
            "looked at\t3 of 7",
            "outcome\tredriven: 2",
        ] {
            assert!(shown.lines().any(|it| it == line), "{line} in {shown}");
        }
        assert!(!shown.contains("started at"), "{shown}");
        assert_eq!(of_what(&json!({"filter": {"reason": null}})), "everything");
    }

    #[test]
    fn a_start_asks_with_the_numbers_of_what_is_left() {
        let asked = question(&bulk()).unwrap();
        // Three are looked at; of the four that are left one more is skipped.
        assert!(asked.starts_with("Release at most 3 of 7 payments, 50 a second,"), "{asked}");
        let all = json!({"ratePerS": 10, "preview": {"count": 15, "needsApproval": 15}, "outcomes": {}});
        assert!(question(&all).unwrap().starts_with("Release at most 0 of 15 payments"));
        assert!(asked.contains("2 of all need a second person"), "{asked}");
        assert_eq!(question(&json!({})), None);
    }
}
