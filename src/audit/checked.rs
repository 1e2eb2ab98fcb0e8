//! What one check found, and how findings of several windows add up.

use crate::domain::invariants::Invariant;

/// So many witnesses of a broken promise are kept; the count goes on.
pub const WITNESSES: usize = 5;

/// How a promise stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Valid {
    /// Something was looked at, and all of it holds.
    True,
    /// At least one thing breaks it.
    False,
    /// Nothing was looked at.
    Unknown,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The promise.
    pub invariant: Invariant,
    /// How many things it looked at.
    pub looked_at: usize,
    /// How many of them break it.
    pub broken: usize,
    /// The first of those, for people; no payees.
    pub witnesses: Vec<String>,
    /// Why it could look at nothing, where more than "there was nothing" is known.
    pub why_unknown: Option<&'static str>,
}

impl Checked {
    pub(super) fn new(invariant: Invariant) -> Self {
        Self { invariant, looked_at: 0, broken: 0, witnesses: Vec::new(), why_unknown: None }
    }

    pub(super) fn unknown(invariant: Invariant, why: &'static str) -> Self {
        Self { why_unknown: Some(why), ..Self::new(invariant) }
    }

    /// Looks at one thing.
    pub(super) fn look(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        self.looked_at += 1;
        if holds {
            return;
        }
        self.broken += 1;
        if self.witnesses.len() < WITNESSES {
            self.witnesses.push(otherwise());
        }
    }

    /// How the promise stands.
    #[must_use]
    pub fn valid(&self) -> Valid {
        match (self.broken, self.looked_at) {
            (0, 0) => Valid::Unknown,
            (0, _) => Valid::True,
            _ => Valid::False,
        }
    }

    /// Adds what another window found of the same promise.
    pub fn add(&mut self, other: Self) {
        self.looked_at += other.looked_at;
        self.broken += other.broken;
        let room = WITNESSES.saturating_sub(self.witnesses.len());
        self.witnesses.extend(other.witnesses.into_iter().take(room));
        // One window had something to look at.
        self.why_unknown = self.why_unknown.or(other.why_unknown).filter(|_| self.looked_at == 0);
    }
}
