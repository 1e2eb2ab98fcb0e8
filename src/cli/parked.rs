//! `punctual parked`: payments that wait for a human, and what a human may do about them.
//!
//! Every act needs a reason, which stands in the payment's own history and in the operators' audit
//! afterwards. Above an amount, or where a new gateway key is asked for, a second person must agree: then
//! the act is asked for and not done, and the command ends with exit code 4.

mod bulk;

use super::Ended;
use super::evidence::Evidence;
use super::output::{Column, Face, List, Output, Reader, at, items, money, print, say};
use super::payment::{attempt_line, walked};
use super::remote::{Act, Remote, acted, confirm, of_client, page_of, said_something};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use crate::story::{self, may};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

/// Payments that wait for a human.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Parked {
    /// Those that wait, and why.
    List(Filters),
    /// How many wait, by reason and gateway.
    Counts {
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// One of them with its attempts and evidence, and what may be done with it.
    Show {
        /// The payment's id.
        #[arg(value_name = "PAYMENT_ID")]
        id: String,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Release them for another try: asked about first, under their own gateway key.
    #[command(after_long_help = REDRIVE_HELP)]
    Redrive(Redrive),
    /// Decide one with evidence of what became of the money.
    #[command(after_long_help = RESOLVE_HELP)]
    Resolve(Box<Resolve>),
    /// Release many of them at a chosen rate: made stopped, with an exact preview.
    #[command(subcommand)]
    Bulk(bulk::Bulk),
}

const REDRIVE_HELP: &str = "\
A re-drive looks the payment up before anything is sent, and keeps its gateway key; --new-epoch asks for a \
new key, which only a proven non-charge and a second person allow.

Exit codes, for one payment: 0 released; 4 the key may not, or a second person must agree; 5 no such \
payment; 6 its state or its evidence does not allow it. For several: 0 all are released, 1 otherwise.";

const RESOLVE_HELP: &str = "\
Evidence is where you saw it (--source: the gateway's dashboard, a bank statement, a ticket) and, for a \
charge, its reference and amount.

Examples:
  punctual parked resolve ID --as charged --source dashboard --gateway-reference ch_7 --amount 1250 \\
    --currency EUR --reason 'seen in the dashboard' --yes
  punctual parked resolve ID --as not_charged --source 'mail of the gateway, ticket 99' --reason '…' --yes";

/// Which of them, besides why they are parked.
#[derive(Debug, Clone, Args)]
pub(super) struct Which {
    /// Of this gateway.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    /// Of this API client, by name or id.
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Due at or after it.
    #[arg(long, value_name = "INSTANT")]
    due_from: Option<String>,
    /// Due before it.
    #[arg(long, value_name = "INSTANT")]
    due_to: Option<String>,
    /// The filter of the API and the dashboard: words like reason:outcome_unknown amount:..5000 id:ID,ID.
    #[arg(short, long, value_name = "FILTER", allow_hyphen_values = true)]
    query: Option<String>,
}

impl Which {
    /// As the API calls it, with why they are parked.
    fn typed(self, reason: Option<String>) -> Vec<(&'static str, String)> {
        let all = [
            ("reason", reason),
            ("gateway", self.gateway),
            ("actor", self.actor),
            ("dueFrom", self.due_from),
            ("dueTo", self.due_to),
            ("q", self.query),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Which of them, and how many.
#[derive(Debug, Clone, Args)]
pub(super) struct Filters {
    /// Parked for this reason.
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Most payments.
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them, however many.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Which to release, and how.
#[derive(Debug, Clone, Args)]
pub(super) struct Redrive {
    /// Their ids.
    #[arg(value_name = "PAYMENT_ID", required = true)]
    ids: Vec<String>,
    /// Ask for a new gateway key.
    #[arg(long)]
    new_epoch: bool,
    /// Only if nothing was written about it since this version, as `show` has it.
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<i64>,
    /// Look, say what would happen, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    act: Act,
}

/// What a person found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Found {
    /// It was charged: the payment becomes COMPLETED.
    #[value(name = "charged")]
    Charged,
    /// It was not charged and cannot be any more: the payment becomes FAILED.
    #[value(name = "not_charged")]
    NotCharged,
}

impl Found {
    fn as_str(self) -> &'static str {
        match self {
            Self::Charged => "charged",
            Self::NotCharged => "not_charged",
        }
    }
}

/// What was found out, and where.
#[derive(Debug, Clone, Args)]
pub(super) struct Resolve {
    /// The payment's id.
    #[arg(value_name = "PAYMENT_ID")]
    id: String,
    /// What became of the money.
    #[arg(long = "as", value_enum)]
    found: Found,
    #[command(flatten)]
    evidence: Evidence,
    /// Only if nothing was written about it since this version, as `show` has it.
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<i64>,
    #[command(flatten)]
    act: Act,
}

const COLUMNS: &[Column] = &[
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "PARKED FOR", of: |item| at(item, "/parkedReason") },
    Column { head: "PARKED AT", of: |item| at(item, "/parkedAt") },
    Column { head: "AMOUNT", of: money },
    Column { head: "DUE DAY", of: |item| at(item, "/dueDay") },
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "ACTOR", of: |item| at(item, "/actor") },
];

/// Runs it.
///
/// # Errors
/// The API's refusal; what the exit codes of each say.
pub(super) async fn run(command: Parked, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        Parked::List(filters) => list(&remote, filters).await,
        Parked::Counts { output } => counts(&remote, output).await,
        Parked::Show { id, output } => {
            let found = remote.client.call("GET", &["ops", "parked", &id]).send().await.map_err(of_client)?;
            said_something(&found.body)?;
            print(&shown(&found.body, output))
        }
        Parked::Redrive(asked) => redrive(&remote, &asked).await,
        Parked::Resolve(asked) => resolve(&remote, &asked).await,
        Parked::Bulk(command) => bulk::run(&remote, command).await,
    }
}

async fn list(remote: &Remote, filters: Filters) -> Result<(), Ended> {
    let query = filters.which.typed(filters.reason);
    let most = if filters.all { u64::MAX } else { filters.limit };
    walked(remote, &["ops", "parked"], query, most, List::new(filters.output, Face::of_stdout(), COLUMNS))
        .await
}

const COUNTS: &[Column] = &[
    Column { head: "PARKED FOR", of: |item| at(item, "/parkedReason") },
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "PAYMENTS", of: |item| at(item, "/count") },
    Column { head: "OLDEST PARKED AT", of: |item| at(item, "/oldestParkedAt") },
];

async fn counts(remote: &Remote, output: Output) -> Result<(), Ended> {
    let found = remote.client.call("GET", &["ops", "parked-counts"]).send().await.map_err(of_client)?;
    let page = page_of(found.body)?;
    let mut list = List::new(output, Face::of_stdout(), COUNTS);
    if list.page(items(&page))? == Reader::Left {
        return Ok(());
    }
    list.end()?;
    if page["countIsAll"] == false {
        say(&format!("only the first {} by due time are counted", at(&page, "/count")));
    }
    Ok(())
}

async fn redrive(remote: &Remote, asked: &Redrive) -> Result<(), Ended> {
    if asked.dry_run {
        return foretold(remote, asked).await;
    }
    let what = match asked.ids.as_slice() {
        [one] => format!("Release payment {one}, so that it may be charged"),
        several => format!("Release {} payments, so that they may be charged", several.len()),
    };
    confirm(asked.act.yes, &what)?;
    let mut body = json!({"reason": asked.act.reason});
    if asked.new_epoch {
        body["newEpoch"] = true.into();
    }
    if let Some(version) = asked.if_version {
        body["version"] = version.into();
    }
    let mut ends = Vec::new();
    for id in &asked.ids {
        let call = remote.client.call("POST", &["ops", "parked", id, "redrive"]).json(&body);
        if let Err(ended) = acted(call, asked.act.output).await {
            say(&format!("{id}: {}", ended.message));
            ends.push(ended.exit);
        }
    }
    several(&ends, asked.ids.len(), "released")
}

/// How an act on one or several payments ends.
fn several(ends: &[Exit], all: usize, what: &str) -> Result<(), Ended> {
    match (ends, all) {
        ([], _) => Ok(()),
        ([one], 1) => Err(Ended::told(*one)),
        (not, all) => {
            let why = format!("{} of {all} payments are not {what}", not.len());
            Err(Ended::with(Exit::Failed, why))
        }
    }
}

const WOULD: &[Column] = &[
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "PARKED FOR", of: |item| at(item, "/parkedReason") },
    Column { head: "AMOUNT", of: money },
    Column { head: "IT MAY BE RELEASED", of: |item| at(item, "/would") },
];

async fn foretold(remote: &Remote, asked: &Redrive) -> Result<(), Ended> {
    let mut all = Vec::with_capacity(asked.ids.len());
    for id in &asked.ids {
        let found = remote.client.call("GET", &["ops", "parked", id]).send().await.map_err(of_client)?.body;
        said_something(&found)?;
        let would = may(&found, if asked.new_epoch { "redrive_new_epoch" } else { "redrive" });
        let mut line = found;
        line["would"] = would.into();
        all.push(line);
    }
    let mut list = List::new(asked.act.output, Face::of_stdout(), WOULD);
    list.page(&all)?;
    list.end()?;
    let yes = all.iter().filter(|line| line["would"] == "yes").count();
    say(&format!("dry run: {yes} of {} may be released", all.len()));
    Ok(())
}

/// One of them for people: what is known, then what may be done.
fn shown(record: &Value, output: Output) -> String {
    let left_out = ["may", "attempts", "evidence", "approval", "amount", "currency"];
    let pairs = record.as_object().into_iter().flatten();
    let mut fields: Vec<(&str, String)> = pairs
        .filter(|(name, _)| !left_out.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), at(value, "")))
        .collect();
    fields.push(("amount", money(record)));
    fields.push(("evidence", at(record, "/evidence")));
    fields.push(("approval", at(record, "/approval/approvalId")));
    let list = |name: &str| record.get(name).and_then(Value::as_array).into_iter().flatten();
    fields.extend(list("attempts").map(|attempt| ("attempt", attempt_line(attempt))));
    let acts = list("may").map(|one| {
        let act = at(one, "/act");
        let may = may(record, &act);
        let becomes = at(one, "/becomes");
        let becomes = if becomes.is_empty() { becomes } else { format!(", becomes {becomes}") };
        ("may", format!("{act}: {may}{becomes}"))
    });
    fields.extend(acts);
    fields.push(("may", format!("refund: {}", story::refund(record))));
    super::output::record(output, Face::of_stdout(), &fields, record)
}

async fn resolve(remote: &Remote, asked: &Resolve) -> Result<(), Ended> {
    confirm(asked.act.yes, &format!("Decide payment {} for good as {}", asked.id, asked.found.as_str()))?;
    let evidence = asked.evidence.body();
    let mut body = json!({"reason": asked.act.reason, "as": asked.found.as_str(), "evidence": evidence});
    if let Some(version) = asked.if_version {
        body["version"] = version.into();
    }
    let call = remote.client.call("POST", &["ops", "parked", &asked.id, "resolve"]).json(&body);
    acted(call, asked.act.output).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_done_is_what_the_api_says() {
        let record = json!({"may": [
            {"act": "redrive", "possible": false, "whyNot": "open_send", "explanation": "A send is open."},
            {"act": "resolve_charged", "possible": true, "becomes": "COMPLETED", "needsApproval": false},
            {"act": "redrive_new_epoch", "possible": true, "needsApproval": true},
        ], "amount": 5, "currency": "JPY"});
        assert_eq!(may(&record, "redrive"), "no: A send is open.");
        assert_eq!(may(&record, "resolve_charged"), "yes");
        assert_eq!(may(&record, "redrive_new_epoch"), "with a second person");
        assert_eq!(may(&json!({}), "redrive"), "no");
        let shown = shown(&record, Output::Table);
        assert!(
            shown.contains("resolve_charged: yes, becomes COMPLETED") && shown.contains("5 JPY"),
            "{shown}"
        );
        assert!(shown.contains("refund: no: No answer on record"), "{shown}");
    }

    #[test]
    fn an_act_on_one_payment_ends_as_it_was_answered_and_one_on_several_with_1() {
        assert!(several(&[], 3, "released").is_ok());
        assert_eq!(several(&[Exit::Conflict], 1, "released").unwrap_err().exit, Exit::Conflict);
        let some = several(&[Exit::Conflict, Exit::NotAllowed], 3, "released").unwrap_err();
        assert_eq!((some.exit, some.message.as_str()), (Exit::Failed, "2 of 3 payments are not released"));
    }
}
