//! `punctual caps`: what an API client may create in one day of UTC, in each currency; for who holds the scope
//! `admin`, and to look at with `ops:read`. A cap is there for a leaked key or a client that runs wild: it holds from
//! the next payment on, and what was created before is not counted.

use super::Ended;
use super::output::{Column, Face, List, Output, Reader, at, money};
use super::remote::{Act, Remote, confirm, empty_success, of_client};
use crate::client::Call;
use crate::platform::config::Config;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// Daily caps of API clients.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Caps {
    /// Those of one client, with what it created under each today.
    Show {
        /// The client's name.
        #[arg(value_name = "ACTOR")]
        actor: String,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Set the caps of one client in one currency, both at once; what is not named is not capped.
    #[command(after_long_help = SET_HELP)]
    Set(Set),
}

const SET_HELP: &str = "\
Examples:
  punctual caps set shop EUR --amount 500000 --payments 200 --reason 'agreed with them' --yes
  punctual caps set shop EUR --none --reason 'the leak is closed' --yes

A cap of 0 lets nothing through. Exit codes: 0 set; 4 the key may not; 5 no such client; 2 no such currency.";

/// Whose, and how much.
#[derive(Debug, Clone, Args)]
pub(super) struct Set {
    /// The client's name.
    #[arg(value_name = "ACTOR")]
    actor: String,
    /// Of what.
    #[arg(value_name = "CURRENCY")]
    currency: String,
    /// Most in minor units a day.
    #[arg(
        long,
        value_name = "MINOR",
        value_parser = clap::value_parser!(i64).range(0..),
        required_unless_present_any = ["payments", "none"]
    )]
    amount: Option<i64>,
    /// Most payments a day.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..))]
    payments: Option<i32>,
    /// No cap at all in this currency.
    #[arg(long, conflicts_with_all = ["amount", "payments"])]
    none: bool,
    #[command(flatten)]
    act: Act,
}

const COLUMNS: &[Column] = &[
    Column { head: "CURRENCY", of: |item| at(item, "/currency") },
    Column { head: "AMOUNT A DAY", of: |item| amount(item, "amount") },
    Column { head: "TODAY", of: |item| amount(item, "amountToday") },
    Column { head: "PAYMENTS A DAY", of: |item| at(item, "/payments") },
    Column { head: "TODAY", of: |item| at(item, "/paymentsToday") },
    Column { head: "SET AT", of: |item| at(item, "/setAt") },
];

/// In major units; nothing is no amount, and written so.
fn amount(item: &Value, name: &str) -> String {
    match item.get(name).and_then(Value::as_i64) {
        None => String::new(),
        Some(0) => "0".to_owned(),
        Some(minor) => money(&json!({"amount": minor, "currency": item.get("currency")})),
    }
}

/// Runs it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(command: Caps, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        Caps::Show { actor, output } => {
            shown(remote.client.call("GET", &["ops", "actors", &actor, "caps"]), output).await
        }
        Caps::Set(asked) => {
            let what = if asked.none { "Take the caps away from" } else { "Set the caps of" };
            confirm(asked.act.yes, &format!("{what} {} in {}", asked.actor, asked.currency))?;
            let mut body = json!({"reason": asked.act.reason, "currency": asked.currency});
            if let Some(amount) = asked.amount {
                body["amount"] = amount.into();
            }
            if let Some(payments) = asked.payments {
                body["payments"] = payments.into();
            }
            let call = remote.client.call("PUT", &["ops", "actors", &asked.actor, "caps"]).json(&body);
            shown(call, asked.act.output).await
        }
    }
}

/// The caps of the answer.
async fn shown(call: Call<'_>, output: Output) -> Result<(), Ended> {
    let answer = call.send().await.map_err(of_client)?.body;
    let caps = answer.get("caps").and_then(Value::as_array).ok_or_else(|| empty_success(&answer))?;
    let mut list = List::new(output, Face::of_stdout(), COLUMNS);
    match list.page(caps)? {
        Reader::Reads => list.end(),
        Reader::Left => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_caps_are_written_as_people_write_them() {
        let cap = json!({"currency": "EUR", "amount": 500_000, "amountToday": 0});
        assert_eq!(amount(&cap, "amount"), "5000.00 EUR");
        assert_eq!((amount(&cap, "amountToday"), amount(&cap, "payments")), ("0".to_owned(), String::new()));
    }
}
