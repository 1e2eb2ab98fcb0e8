//! `punctual payment`: create, show, list, search, cancel and explain, as a client of the API.
//!
//! A create says its idempotency key before it sends anything: whatever becomes of the answer, the same
//! command with that key asks for the same payment and never for a second one.

mod cancel;
mod create;
mod explain;
mod list;
mod search;

pub(super) use list::walked;

use super::Ended;
use super::output::{Column, Face, Output, at, money, print, record};
use super::remote::{Remote, of_client, payment_of};
use crate::platform::clock::Clock;
use crate::platform::config::Config;
use chrono::{DateTime, SecondsFormat, TimeDelta};
use clap::Subcommand;
use serde_json::Value;

/// Payments: create, look at, cancel.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Payment {
    /// Schedule one payment.
    #[command(after_long_help = create::HELP)]
    Create(Box<create::Create>),
    /// One payment as it stands, with its attempts.
    Show {
        /// The payment's id.
        #[arg(value_name = "PAYMENT_ID")]
        id: String,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Your payments, newest first; earliest due first where a bound of the due time is given.
    #[command(after_long_help = list::HELP)]
    List(Box<list::Filters>),
    /// Payments of all clients, by the filter of the dashboard; for operators (ops:read).
    #[command(after_long_help = search::HELP)]
    Search(search::Search),
    /// Cancel payments that were not submitted yet.
    #[command(after_long_help = cancel::HELP)]
    Cancel(cancel::Cancel),
    /// One payment's whole story in sentences, and what will happen next.
    #[command(after_long_help = explain::HELP)]
    Explain {
        /// The payment's id.
        #[arg(value_name = "PAYMENT_ID")]
        id: String,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// An instant as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum When {
    /// Handed on as it is: the API reads more digits than we would keep.
    Text(String),
    /// So long from now.
    FromNow(TimeDelta),
}

impl When {
    fn text(&self, clock: &dyn Clock) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::FromNow(length) => (clock.wall() + *length).to_rfc3339_opts(SecondsFormat::Millis, true),
        }
    }
}

fn instant(text: &str) -> Result<When, String> {
    if let Some(length) = text.strip_prefix('+') {
        let length = humantime::parse_duration(length).map_err(|error| error.to_string())?;
        // Ten years: nothing is scheduled further ahead, and adding it to a clock cannot overflow.
        let longest = TimeDelta::days(3_653);
        let length = TimeDelta::from_std(length).ok().filter(|length| *length <= longest);
        return length.map(When::FromNow).ok_or_else(|| "that is too far away".to_owned());
    }
    if text.starts_with('-') {
        return Err("a length before now is not taken; write the instant itself, like 2030-01-31T09:00:00Z"
            .to_owned());
    }
    DateTime::parse_from_rfc3339(text)
        .map(|_| When::Text(text.to_owned()))
        .map_err(|_| "write it like 2030-01-31T09:00:00Z, with an offset, or +1h from now".to_owned())
}

/// Runs it.
///
/// # Errors
/// See the exit codes of each.
pub(super) async fn run(command: Payment, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        Payment::Create(asked) => create::create(&remote, &asked).await,
        Payment::Show { id, output } => {
            let payment = payment_of(remote.client.get(&id).await.map_err(of_client)?)?;
            print(&shown(&payment, output))
        }
        Payment::List(filters) => list::list(&remote, &filters).await,
        Payment::Search(asked) => search::search(&remote, asked).await,
        Payment::Cancel(asked) => cancel::cancel(&remote, &asked).await,
        Payment::Explain { id, output } => explain::explain(&remote, &config.kafka, &id, output).await,
    }
}

/// A payment for people, or as it came.
fn shown(payment: &Value, output: Output) -> String {
    let face = Face::of_stdout();
    let field = |name: &'static str, pointer: &str| (name, at(payment, pointer));
    let mut fields = vec![
        field("payment", "/paymentId"),
        field("status", "/status"),
        field("reason", "/statusReason"),
        ("amount", money(payment)),
        field("payee", "/payee"),
        field("due at", "/dueAt"),
        field("within", "/executeWithin"),
        field("execute before", "/executeBefore"),
        field("next attempt at", "/nextAttemptAt"),
        field("cancel wished at", "/cancelRequestedAt"),
        field("gateway", "/gateway"),
        field("gateway reference", "/gatewayReference"),
        field("external id", "/externalId"),
        field("description", "/description"),
        field("late by ms", "/latenessMs"),
        field("created at", "/createdAt"),
        field("updated at", "/updatedAt"),
    ];
    let pairs = payment.get("metadata").and_then(Value::as_object);
    fields.extend(
        pairs.into_iter().flatten().map(|(name, value)| ("metadata", format!("{name}={}", at(value, "")))),
    );
    let attempts = payment.get("attempts").and_then(Value::as_array);
    fields.extend(attempts.into_iter().flatten().map(|attempt| ("attempt", attempt_line(attempt))));
    record(output, face, &fields, payment)
}

/// One attempt on one line.
pub(super) fn attempt_line(attempt: &Value) -> String {
    let of = |pointer: &str| at(attempt, pointer);
    let with = |before: &str, value: String, after: &str| {
        if value.is_empty() { value } else { format!("{before}{value}{after}") }
    };
    let outcome = of("/outcome");
    let mut words = vec![
        of("/attempt"),
        of("/claimedAt"),
        if outcome.is_empty() { "open".to_owned() } else { outcome },
        of("/code"),
        with("HTTP ", of("/httpStatus"), ""),
        with("", of("/tookMs"), " ms"),
    ];
    if attempt["late"] == true {
        words.push("too late, kept as evidence".to_owned());
    }
    words.retain(|word| !word.is_empty());
    words.join("  ")
}

/// Of a list of payments.
const COLUMNS: &[Column] = &[
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "AMOUNT", of: money },
    Column { head: "DUE", of: |item| at(item, "/dueAt") },
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "EXTERNAL ID", of: |item| at(item, "/externalId") },
    Column { head: "REASON", of: |item| at(item, "/statusReason") },
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_attempt_is_one_line_of_what_is_known_of_it() {
        let claimed = "2030-01-31T09:00:00Z";
        for (attempt, line) in [
            (json!({"attempt": 1, "claimedAt": claimed, "outcome": null}), "1  2030-01-31T09:00:00Z  open"),
            (
                json!({"attempt": 2, "claimedAt": claimed, "outcome": "declined", "code": "lost_card",
                    "httpStatus": 402, "tookMs": 21, "late": true}),
                "2  2030-01-31T09:00:00Z  declined  lost_card  HTTP 402  21 ms  too late, kept as evidence",
            ),
        ] {
            assert_eq!(attempt_line(&attempt), line);
        }
    }

    #[test]
    fn a_payment_is_shown_without_what_it_does_not_have() {
        let payment = json!({"paymentId": "p", "status": "PENDING", "amount": 1_250, "currency": "EUR",
            "metadata": {"order": "77"}, "attempts": [], "executeBefore": null});
        let shown = shown(&payment, Output::Table);
        assert!(shown.contains("12.50 EUR") && shown.contains("order=77"), "{shown}");
        assert!(!shown.contains("before") && !shown.contains("attempt"), "{shown}");
    }
}
