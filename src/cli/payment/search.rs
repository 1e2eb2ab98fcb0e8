//! `payment search`: payments of all clients, for operators, by the one filter of the API and the dashboard.
//!
//! The filter is read by the API alone: what is wrong with it is told in the API's words, with the character at which
//! it goes wrong. A page of the API examines and counts a bounded number; where the count ends at its bound, that is
//! said.

use super::list::walked;
use crate::cli::Ended;
use crate::cli::output::{Column, Face, List, Output, at, money};
use crate::cli::remote::Remote;
use crate::domain::ids::PaymentId;
use clap::{Args, ValueEnum};

pub(super) const HELP: &str = "\
Words stand apart by blanks and must all hold; -word: must not; values with commas are alternatives:
  status:PARKED,UNKNOWN   due:2030-01-31   due:2030-01-01..   actor:acme   amount:100..200
  gateway:sandbox   ref:ch_7   reason:declined_hard   id:PAYMENT_ID, or the id alone
Amounts are minor units. Without a filter it is everything. It needs the scope ops:read.

Examples:
  punctual payment search 'status:PARKED actor:acme'
  punctual payment search 'status:FAILED due:2030-01-01.. -reason:declined_hard' --all -o jsonl";

/// Which payments.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Search {
    /// Words like status:PARKED actor:acme -gateway:sandbox; a filter that begins with - stands behind --.
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Which come first.
    #[arg(long, value_enum, default_value_t)]
    order: Order,
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

/// The order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Order {
    /// Those due last.
    #[default]
    DueLast,
    /// Those due first.
    DueFirst,
}

impl Order {
    fn as_str(self) -> &'static str {
        match self {
            Self::DueLast => "due_last",
            Self::DueFirst => "due_first",
        }
    }
}

const COLUMNS: &[Column] = &[
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "AMOUNT", of: money },
    Column { head: "DUE", of: |item| at(item, "/dueAt") },
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "ACTOR", of: |item| at(item, "/actor") },
    Column { head: "REASON", of: |item| at(item, "/statusReason") },
];

/// What the API reads: an id alone is that payment, as in the dashboard.
fn filter(typed: &str) -> String {
    typed.trim().parse::<PaymentId>().map_or_else(|_| typed.to_owned(), |id| format!("id:{id}"))
}

/// Asks for them and prints them.
///
/// # Errors
/// The API's refusal.
pub(super) async fn search(remote: &Remote, asked: Search) -> Result<(), Ended> {
    let mut query = vec![("order", asked.order.as_str().to_owned())];
    if !asked.filter.is_empty() {
        // In one pair of quotes or each word for itself.
        query.push(("q", filter(&asked.filter.join(" "))));
    }
    let most = if asked.all { u64::MAX } else { asked.limit };
    let list = List::new(asked.output, Face::of_stdout(), COLUMNS);
    walked(remote, &["ops", "payments"], query, most, list).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_alone_is_that_payment_and_all_else_goes_to_the_api_as_it_is() {
        let id = "01a2283e-8820-8aaa-9bbb-0123456789ab";
        assert_eq!(filter(&format!(" {id} ")), format!("id:{id}"));
        for typed in ["status:PARKED actor:acme", "8e03978e-40d5-43e8-bc93-6894a57f9324", "4111111111111111"]
        {
            assert_eq!(filter(typed), typed);
        }
    }
}
