//! The answer: a line a promise and a line a situation, for people or as JSON, and how it ends.

use super::checked::{Checked, Valid};
use super::coverage::{Coverage, SITUATIONS, Situation};
use super::records::{Records, Rules};
use crate::domain::invariants::Invariant;
use crate::platform::exit::Exit;
use serde_json::{Value, json};

/// What `--require` asks for.
#[derive(Debug, Clone, Copy)]
pub enum Requirement {
    /// A promise, which must not be unknown.
    Promise(Invariant),
    /// A situation, which must have been met.
    Situation(&'static Situation),
}

impl Requirement {
    /// `M1` or `fenced_settles`.
    ///
    /// # Errors
    /// A name that is neither.
    pub fn named(name: &str) -> Result<Self, String> {
        let promise = Invariant::ALL.iter().find(|invariant| invariant.id() == name);
        let situation = SITUATIONS.iter().find(|situation| situation.name == name);
        match (promise, situation) {
            (Some(invariant), _) => Ok(Self::Promise(*invariant)),
            (None, Some(situation)) => Ok(Self::Situation(situation)),
            (None, None) => {
                let known: Vec<&str> = SITUATIONS.iter().map(|situation| situation.name).collect();
                Err(format!("neither a promise like M1 nor one of {}", known.join(", ")))
            }
        }
    }
}

/// What all windows together came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// In the order of the table of promises.
    pub checked: Vec<Checked>,
    /// What the run met.
    pub coverage: Coverage,
    required: Vec<Requirement>,
}

impl Report {
    /// Nothing looked at yet.
    #[must_use]
    pub fn new(required: Vec<Requirement>) -> Self {
        Self { checked: Vec::new(), coverage: Coverage::default(), required }
    }

    /// Checks one window and adds what was found.
    pub fn look(&mut self, records: &Records, rules: &Rules) {
        self.coverage.add(Coverage::of(records));
        let found = super::check(records, rules);
        if self.checked.is_empty() {
            self.checked = found;
            return;
        }
        for (sum, more) in self.checked.iter_mut().zip(found) {
            sum.add(more);
        }
    }

    /// Done, or a promise is broken, or something that was asked for is unknown: a promise or a
    /// situation that was required, or everything.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let any = |valid| self.checked.iter().any(|checked| checked.valid() == valid);
        if any(Valid::False) {
            Exit::Differences
        } else if !any(Valid::True) || self.required.iter().any(|required| self.is_unknown(required)) {
            Exit::Undecided
        } else {
            Exit::Done
        }
    }

    fn is_unknown(&self, required: &Requirement) -> bool {
        match required {
            Requirement::Promise(invariant) => {
                let line = self.checked.iter().find(|checked| checked.invariant == *invariant);
                line.is_none_or(|checked| checked.valid() == Valid::Unknown)
            }
            Requirement::Situation(situation) => self.coverage.met(situation.name).unwrap_or(0) == 0,
        }
    }

    fn is_required(&self, situation: &Situation) -> bool {
        let same = |it: &Requirement| matches!(it, Requirement::Situation(it) if it.name == situation.name);
        self.required.iter().any(same)
    }

    /// For people.
    #[must_use]
    pub fn as_table(&self) -> String {
        let mut text = String::new();
        for checked in &self.checked {
            let word = match checked.valid() {
                Valid::True => "valid",
                Valid::False => "BROKEN",
                Valid::Unknown => "unknown",
            };
            let (id, looked_at, broken) = (checked.invariant.id(), checked.looked_at, checked.broken);
            let told = match (checked.valid(), checked.why_unknown) {
                (Valid::Unknown, Some(why)) => why.to_owned(),
                (Valid::Unknown, None) => "there was nothing to look at".to_owned(),
                (Valid::True | Valid::False, _) => format!("{broken} of {looked_at} broken"),
            };
            text.push_str(&format!("{id:<4}{word:<8} {told:<38} {}\n", checked.invariant.statement()));
            for witness in checked.witnesses.iter().take(1) {
                text.push_str(&format!("            {witness}\n"));
            }
        }
        text.push_str("\nSituations\n");
        for situation in SITUATIONS {
            let met = match self.coverage.met(situation.name) {
                Some(0) | None if self.is_required(situation) => "UNKNOWN".to_owned(),
                Some(count) => count.to_string(),
                None => "-".to_owned(),
            };
            text.push_str(&format!("{met:>9}  {:<22} {}\n", situation.name, situation.meaning));
        }
        text
    }

    /// For programs; `valid` is true, false, or null for unknown.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let promise = |checked: &Checked| {
            json!({
                "invariant": checked.invariant.id(),
                "valid": match checked.valid() {
                    Valid::True => Value::Bool(true),
                    Valid::False => Value::Bool(false),
                    Valid::Unknown => Value::Null,
                },
                "lookedAt": checked.looked_at,
                "broken": checked.broken,
                "witnesses": checked.witnesses,
                "whyUnknown": checked.why_unknown,
                "statement": checked.invariant.statement(),
            })
        };
        let situation = |situation: &Situation| {
            json!({
                "situation": situation.name,
                "met": self.coverage.met(situation.name),
                "required": self.is_required(situation),
            })
        };
        json!({
            "exitCode": self.exit().code(),
            "invariants": self.checked.iter().map(promise).collect::<Vec<_>>(),
            "situations": SITUATIONS.iter().map(situation).collect::<Vec<_>>(),
        })
    }
}
