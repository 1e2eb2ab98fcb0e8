//! What a reconciliation found, for people and for programs.
//!
//! **Promise.** The same words as the API has: classes, states, and the counts of one comparison. Items are named up to
//! [`SHOWN`]; more of them are counted and said where to be found, so that a report in which everything is wrong
//! does not fill a terminal.

use crate::domain::ids::GatewayName;
use crate::domain::matching::{Class, ItemStatus};
use crate::operations::{by_class, difference_as_json, item_as_json, reconciliation_as_json, sum_as_json};
use crate::reconcile::{Counted, Reconciled};
use crate::schedule::{ReconciliationItem, Repairs};
use chrono::NaiveDate;
use serde_json::{Value, json};
use std::fmt::Write;

/// Most items that are named.
pub(super) const SHOWN: usize = 50;

const CHARGE_LOST: &str = "charge under an id that has no row here";
const CHARGES_LOST: &str = "charges under ids that have no row here";

/// One day, as it was reconciled.
#[derive(Debug)]
pub(super) struct Told {
    /// Whose.
    pub(super) gateway: GatewayName,
    /// Which.
    pub(super) day: NaiveDate,
    /// What came of it.
    pub(super) done: Reconciled,
    /// What is open: of a trial as it was found, otherwise as it is kept.
    pub(super) open: Vec<Value>,
}

impl Told {
    /// With what a trial found; what is kept is read by whoever prints it.
    pub(super) fn of(gateway: GatewayName, day: NaiveDate, done: Reconciled) -> Self {
        let open = match done.counted {
            Counted::Now(_) | Counted::Before(_) => Vec::new(),
            Counted::Not => {
                let open = done.compared.sample.iter().filter(|found| found.status == ItemStatus::Open);
                open.map(|found| difference_as_json(&gateway, day, found)).collect()
            }
        };
        Self { gateway, day, done, open }
    }

    /// Is it kept, or was it a trial?
    pub(super) fn is_kept(&self) -> bool {
        match self.done.counted {
            Counted::Now(_) | Counted::Before(_) => true,
            Counted::Not => false,
        }
    }

    /// Those that are kept.
    pub(super) fn kept(items: &[ReconciliationItem]) -> Vec<Value> {
        items.iter().map(item_as_json).collect()
    }

    /// How many wait for people.
    pub(super) fn waiting_for_people(&self) -> u64 {
        self.done.compared.open
    }

    /// What must not wait, where one payment was charged more than once and that is not decided.
    pub(super) fn stop_first(&self) -> Option<&'static str> {
        let compared = &self.done.compared;
        let charged_twice = compared.counts.get(&Class::DuplicateCharge).is_some_and(|count| *count > 0);
        (charged_twice && compared.open + compared.waiting > 0).then_some(
            "duplicate_charge was found, which may be a defect that goes on: stop first (`punctual gateway pause`), \
             look then; README, At three in the morning",
        )
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        let Reconciled { report, counted, compared, repairs, apart } = &self.done;
        let refused = repairs.refused.iter().map(|(why, count)| (why.as_str().to_owned(), (*count).into()));
        let (kept, is_same) = match counted {
            Counted::Now(run) => (Some(run), false),
            Counted::Before(run) => (Some(run), true),
            Counted::Not => (None, false),
        };
        json!({
            "gateway": self.gateway,
            "day": self.day.to_string(),
            "dryRun": !self.is_kept(),
            "sameReport": is_same,
            "report": kept.map(reconciliation_as_json),
            "lines": report.lines,
            "passedOver": report.passed_over,
            "complete": compared.is_complete,
            "matched": compared.matched,
            "counts": by_class(&compared.counts),
            "new": by_class(&compared.new),
            "graceEnded": by_class(&compared.ended),
            "explained": compared.explained,
            "gone": compared.gone,
            "lost": compared.lost,
            "open": self.waiting_for_people(),
            "waiting": compared.waiting,
            "repairs": {
                "completed": repairs.completed,
                "parked": repairs.parked,
                "recorded": repairs.recorded,
                "refunds": repairs.refunds,
                "parkedForTheirExternalId": repairs.others,
                "refused": Value::Object(refused.collect()),
            },
            "apart": apart.iter().map(|apart| sum_as_json(&self.gateway, apart.due_day, &apart.sum)).collect::<Vec<_>>(),
            "items": &self.open[..self.open.len().min(SHOWN)],
        })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let compared = &self.done.compared;
        let mut text = self.headline();
        let mut line = |name: &str, value: String| {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "  {name:<18}{value}");
        };
        line("matched", compared.matched.to_string());
        for (class, count) in &compared.counts {
            let new = compared.new.get(class).copied().unwrap_or(0);
            line(
                class.as_str(),
                if new == 0 { count.to_string() } else { format!("{count}, {new} of them new") },
            );
        }
        for (class, count) in &compared.ended {
            line(class.as_str(), format!("{count} of other days, whose grace has ended"));
        }
        let more = [
            ("lost", compared.lost, if compared.lost == 1 { CHARGE_LOST } else { CHARGES_LOST }),
            ("explained", compared.explained, "that both sides agree on by now"),
            ("gone", compared.gone, "that were found before"),
        ];
        for (name, count, about) in more.into_iter().filter(|(_, count, _)| *count > 0) {
            line(name, format!("{count} {about}"));
        }
        if self.is_kept() {
            line("repaired", repaired(&self.done.repairs));
        }
        line("open", self.waiting_for_people().to_string());
        line("waiting", compared.waiting.to_string());
        for apart in &self.done.apart {
            let why = "payments, attempts, history and settlement do not add up to the same";
            line("apart", format!("{} {}: {why}", apart.due_day, apart.sum.currency));
        }
        text.push_str(&self.items());
        text
    }

    fn headline(&self) -> String {
        let whole = if self.done.compared.is_complete { "complete" } else { "not complete yet" };
        let lines = self.done.report.lines;
        let report = match &self.done.counted {
            Counted::Now(run) => format!("{lines} lines, kept as {}", run.id),
            Counted::Before(run) => format!("the same {lines} lines as before, kept as {}", run.id),
            Counted::Not => format!("{lines} lines, tried and not kept"),
        };
        format!("{} {}: {whole}; {report}\n", self.gateway.0, self.day)
    }

    fn items(&self) -> String {
        let mut text = String::new();
        for item in self.open.iter().take(SHOWN) {
            let _ = writeln!(text, "{}", one_line(item));
        }
        let left = self.waiting_for_people().saturating_sub(SHOWN.try_into().unwrap_or(0));
        if left > 0 {
            let command = "punctual reconcile items --status open";
            let _ = writeln!(
                text,
                "… and {left} more: {command} --gateway {} --day {} --all",
                self.gateway.0, self.day
            );
        }
        text
    }
}

fn repaired(repairs: &Repairs) -> String {
    let counts = [
        ("completed", repairs.completed),
        ("parked", repairs.parked),
        ("recorded", repairs.recorded),
        ("refunds ended", repairs.refunds),
        ("parked for their external id", repairs.others),
    ];
    let mut words: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if !words.is_empty() {
        words = vec![words.join(", ")];
    }
    let refused = repairs.refused.iter();
    words.extend(refused.map(|(why, count)| format!("{count} not repaired: {}", why.explanation())));
    if words.is_empty() { "nothing".to_owned() } else { words.join("; ") }
}

/// A difference on a line; keys and references come from a file, so nothing in them drives a terminal.
fn one_line(item: &Value) -> String {
    let of = |name: &str| match item.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        Some(other) => other.to_string(),
    };
    let id = of("itemId");
    let whose =
        [of("paymentId"), of("key"), of("gatewayReference")].into_iter().find(|name| !name.is_empty());
    let value = |name: &str| if of(name).is_empty() { "nothing".to_owned() } else { of(name) };
    let line = if of("line").is_empty() { String::new() } else { format!(", line {}", of("line")) };
    format!(
        "  {id:<8}{}: {} {}, ours {}, theirs {}{line}",
        whose.unwrap_or_default(),
        of("class"),
        of("field"),
        value("ours"),
        value("theirs")
    )
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
