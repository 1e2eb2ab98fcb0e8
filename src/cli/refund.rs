//! `punctual refund`: give the money of a completed payment back, and say what became of a refund that the gateway
//! no longer explains.
//!
//! A refund moves money, so it has an idempotency key like a payment, said before anything is sent: whatever
//! becomes of the answer, the same command with that key asks for the same refund and for no second one.

use super::Ended;
use super::evidence::Evidence;
use super::output::{Column, Face, Output, at, minor_units, money, object, print};
use super::remote::{
    Act, Remote, acted, announce, confirm, done_or_asked, listed, looked_up, of_client, said_something,
    sendable_key,
};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

/// Refunds.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Refund {
    /// Ask for one; a second person must agree, always.
    #[command(after_long_help = HELP)]
    Create(Create),
    /// Those of a payment, or those that wait for people.
    List {
        /// The payment's id.
        #[arg(value_name = "PAYMENT_ID", required_unless_present = "needs_human")]
        payment: Option<String>,
        /// Those of all payments about which nobody asks the gateway any more.
        #[arg(long, conflicts_with = "payment")]
        needs_human: bool,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// One refund as it stands.
    Show {
        /// The refund's id.
        #[arg(value_name = "REFUND_ID")]
        id: String,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Say what became of one that waits for people, with evidence; a second person must agree.
    #[command(after_long_help = RESOLVE_HELP)]
    Resolve(Box<Resolve>),
}

const HELP: &str = "\
Without --amount all that is left of the charge is given back. The gateway's reference is that of the charge, \
as `punctual payment show` has it: it is held against the payment, so that a slip of the id refunds nothing.

Exit codes: 4 a second person must agree, or the key may not; 5 no such payment; 6 its state, or what was \
refunded before, does not allow it; 1 no answer: repeat with the same key. Repeated with its key once it is \
decided: 0, and the answer says how it stands.";

const RESOLVE_HELP: &str = "\
Only where `punctual refund show` says needsHuman: nobody asks the gateway any more. What was given back may be \
another amount than was asked for, never above the charge. That nothing was given back can be said an hour after \
the last request at the earliest, and never once an answer says otherwise.

Examples:
  punctual refund resolve ID --as refunded --source dashboard --gateway-reference re_7 --amount 500 \\
    --currency EUR --reason 'seen in the dashboard' --yes
  punctual refund resolve ID --as not_refunded --source 'mail of the gateway, ticket 99' --reason '…' --yes

Exit codes: 4 a second person must agree, or the key may not; 5 no such refund; 6 it does not wait for people, or \
what is on record says otherwise; 2 the evidence is of something else.";

/// What to give back.
#[derive(Debug, Clone, Args)]
pub(super) struct Create {
    /// The payment's id.
    #[arg(value_name = "PAYMENT_ID")]
    payment: String,
    /// The gateway's reference of the charge.
    #[arg(long, value_name = "REFERENCE")]
    gateway_reference: String,
    /// Whole minor units of the payment's currency; without it all that is left.
    #[arg(long, value_name = "MINOR", value_parser = minor_units, allow_negative_numbers = true)]
    amount: Option<i64>,
    /// The key of a refund whose answer was lost; without it a new one.
    #[arg(long, value_name = "KEY", value_parser = sendable_key)]
    idempotency_key: Option<String>,
    #[command(flatten)]
    act: Act,
}

/// What people found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Found {
    /// Money was given back: the refund is done.
    #[value(name = "refunded")]
    Refunded,
    /// Nothing was, and nothing will be: it can be asked for anew.
    #[value(name = "not_refunded")]
    NotRefunded,
}

impl Found {
    fn as_str(self) -> &'static str {
        match self {
            Self::Refunded => "refunded",
            Self::NotRefunded => "not_refunded",
        }
    }
}

/// What was found out, and where.
#[derive(Debug, Clone, Args)]
pub(super) struct Resolve {
    /// The refund's id.
    #[arg(value_name = "REFUND_ID")]
    id: String,
    /// What became of the money.
    #[arg(long = "as", value_enum)]
    found: Found,
    #[command(flatten)]
    evidence: Evidence,
    #[command(flatten)]
    act: Act,
}

const COLUMNS: &[Column] = &[
    Column { head: "REFUND", of: |item| at(item, "/refundId") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "AMOUNT", of: money },
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "REFERENCE", of: |item| at(item, "/gatewayReference") },
    Column { head: "NEEDS A HUMAN", of: |item| at(item, "/needsHuman") },
    Column { head: "REASON", of: |item| at(item, "/reason") },
];

/// Runs it.
///
/// # Errors
/// See the exit codes of each.
pub(super) async fn run(command: Refund, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        Refund::Create(asked) => create(&remote, &asked).await,
        Refund::List { payment, needs_human: _, output } => {
            // One of the two is there.
            let which = payment.map_or(("needsHuman", "true".to_owned()), |payment| ("paymentId", payment));
            let call = remote.client.call("GET", &["ops", "refunds"]).query(&[which]);
            listed(call, output, COLUMNS).await
        }
        Refund::Resolve(asked) => {
            let what = format!("Ask to close refund {} for good as {}", asked.id, asked.found.as_str());
            confirm(asked.act.yes, &what)?;
            let body = json!({
                "reason": asked.act.reason,
                "as": asked.found.as_str(),
                "evidence": asked.evidence.body(),
            });
            let call = remote.client.call("POST", &["ops", "refunds", &asked.id, "resolve"]).json(&body);
            acted(call, asked.act.output).await
        }
        Refund::Show { id, output } => {
            looked_up(remote.client.call("GET", &["ops", "refunds", &id]), output).await
        }
    }
}

async fn create(remote: &Remote, asked: &Create) -> Result<(), Ended> {
    let how_much =
        asked.amount.map_or("all that is left".to_owned(), |amount| format!("{amount} minor units"));
    confirm(asked.act.yes, &format!("Give back {how_much} of payment {}", asked.payment))?;
    let mut body = json!({
        "paymentId": asked.payment,
        "gatewayReference": asked.gateway_reference,
        "reason": asked.act.reason,
    });
    if let Some(amount) = asked.amount {
        body["amount"] = amount.into();
    }
    let key = asked.idempotency_key.clone().unwrap_or_else(|| remote.new_key());
    announce(&key);
    let call = remote.client.call("POST", &["ops", "refunds"]).under(&key).json(&body);
    let say_again = |mut ended: Ended| {
        ended.message.push_str(&format!(
            "\nIt may have been asked for. Say the same again with --idempotency-key {key}: never a second one."
        ));
        ended
    };
    let answer = call.send().await.map_err(|error| {
        let ended = of_client(error);
        if ended.exit == Exit::Failed { say_again(ended) } else { ended }
    })?;
    said_something(&answer.body).map_err(say_again)?;
    print(&object(asked.act.output, Face::of_stdout(), &answer.body))?;
    done_or_asked(answer.status, &answer.body)
}
