//! One payment's whole story in sentences: what was asked for, what happened, where the money is, what happens next.
//!
//! Made of the API's answers, the payment and its history, and of what operators are shown of it; so the command line,
//! which asks over the network, and the dashboard, which asks within the process, tell the same. No payee is in it, no
//! clock of this machine, and no guess: what the history does not say is not said. What it says of the future is what
//! the rules of this version do. All times are in UTC, all amounts in major units.
//!
//! The history is also checked as far as a client can: its rows must be numbered without a gap, each must begin in
//! the state in which the one before it ended and name that one's hash. If this dies, nothing was changed.
//!
//! Beside it the figures of the first page in words, for the same two (`figures`).

mod figures;
mod next;
mod numbers;
mod people;
mod reconciled;
mod ring;
mod sentences;
mod told;

pub use figures::{
    Coming, Figure, Tone, Waits, breaker, coming, completed, lateness, stands, waiting, within,
};
pub(crate) use numbers::grouped;
pub use numbers::{count, counted, distance, length, milliseconds};
pub use people::{Operators, may, refund, why_not};
pub use reconciled::may_be_reported;
pub use ring::Ring;
pub use told::{Payment, payment};

/// What an empty list of workers means; the middle is a command.
pub const NOBODY_AT_WORK: [&str; 3] = [
    "No worker is at work on a payment now. One that waits for the next payment is listed only where workers share a \
     rate or a limit; ",
    "punctual doctor",
    " asks Kafka for all of them.",
];

use crate::platform::config::Kafka;
use serde_json::{Value, json};
use told::Row;

/// A text on one line that cannot drive a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The text at a JSON pointer; nothing for what is not there.
pub(crate) fn at(item: &Value, pointer: &str) -> String {
    match item.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => plain(text),
        Some(Value::Array(items)) => items.iter().map(|item| at(item, "")).collect::<Vec<_>>().join(","),
        Some(other) => plain(&other.to_string()),
    }
}

/// What is told, section by section.
#[derive(Debug)]
pub struct Story {
    id: String,
    status: &'static str,
    /// One sentence of how it stands.
    pub headline: String,
    /// What was asked for.
    pub schedule: Vec<String>,
    /// Row by row.
    pub happened: Vec<Happening>,
    /// Where the money is.
    pub money: Vec<String>,
    /// What happens by itself.
    pub next: Vec<String>,
    /// What may be done.
    pub now: Vec<String>,
    /// Its records in Kafka.
    pub ring: Ring,
    /// What is wrong with the history.
    pub broken: Option<String>,
}

/// One row of history.
#[derive(Debug)]
pub struct Happening {
    /// Its number.
    pub seq: i32,
    /// When, to the second.
    pub at: String,
    /// The event that was published of it.
    pub event: &'static str,
    /// What happened.
    pub sentence: String,
}

impl Story {
    /// Of the API's answers.
    ///
    /// # Errors
    /// For people: the history is not of a form that this version knows.
    pub fn of(
        payment: &Payment,
        history: Value,
        operators: &Operators,
        kafka: &Kafka,
    ) -> Result<Self, String> {
        let rows = history.get("data").cloned().unwrap_or_default();
        let rows: Vec<Row> = serde_json::from_value(rows).map_err(|error| told::unread("history", &error))?;
        let happened = rows.iter().map(|row| Happening {
            seq: row.seq,
            at: told::second(row.at),
            event: row.event(),
            sentence: sentences::of(row, payment),
        });
        let mut money = next::money(payment, &rows);
        money.extend(people::refunds(operators));
        money.extend(reconciled::items(operators));
        Ok(Self {
            headline: sentences::headline(payment),
            schedule: sentences::schedule(payment),
            happened: happened.collect(),
            money,
            next: next::next(payment, &rows),
            now: people::now(payment, operators),
            ring: Ring::of(payment, kafka),
            broken: told::broken(&rows, payment.version),
            id: payment.payment_id.to_string(),
            status: payment.status.as_str(),
        })
    }

    /// All of it, for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\nAll times are in UTC.\n", self.headline);
        let mut section = |title: &str, lines: Vec<String>| {
            text.push_str(&format!("\n{title}\n"));
            lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        };
        section("What was asked for", self.schedule.clone());
        let row = |it: &Happening| format!("{:>2}. {}  {}  [{}]", it.seq, it.at, it.sentence, it.event);
        section("What happened", self.happened.iter().map(row).collect());
        section("Where the money is", self.money.clone());
        section("What happens next", self.next.clone());
        section("What may be done now", self.now.clone());
        section("For whoever looks further: its records in Kafka", self.ring.lines());
        text
    }

    /// All of it, for programs.
    #[must_use]
    pub fn document(&self) -> Value {
        let row =
            |it: &Happening| json!({"seq": it.seq, "at": it.at, "event": it.event, "sentence": it.sentence});
        json!({
            "paymentId": self.id,
            "status": self.status,
            "headline": self.headline,
            "askedFor": self.schedule,
            "happened": self.happened.iter().map(row).collect::<Vec<_>>(),
            "money": self.money,
            "next": self.next,
            "mayBeDone": self.now,
            "kafka": self.ring.document(),
            "historyIsWhole": self.broken.is_none(),
        })
    }
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
