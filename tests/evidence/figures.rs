//! One figure a line beside its bound; a run is good only if every line is.
//!
//! A figure that fell short, and a situation that never happened, both end the run with a failure: a
//! promise that nothing put to the test is not shown, and its line says UNKNOWN.

use std::fmt::Display;

/// How one line came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within its bound.
    Holds,
    /// Not within its bound.
    FallsShort,
    /// Never put to the test.
    Unknown,
}

/// All lines so far.
#[derive(Debug, Default)]
pub struct Figures {
    printed: usize,
    failed: Vec<String>,
}

impl Figures {
    /// A heading for the lines that follow.
    pub fn part(&self, name: &str) {
        println!("\n{name}");
    }

    /// One line.
    pub fn line(&mut self, name: &str, value: impl Display, bound: &str, verdict: Verdict) {
        let word = match verdict {
            Verdict::Holds => "ok",
            Verdict::FallsShort => "FALLS SHORT",
            Verdict::Unknown => "UNKNOWN",
        };
        println!("  {name:<58} {:<48} {bound:<26} {word}", value.to_string());
        self.printed += 1;
        if verdict != Verdict::Holds {
            self.failed.push(format!("{word}: {name}"));
        }
    }

    /// A line that holds or falls short.
    pub fn holds(&mut self, name: &str, value: impl Display, bound: &str, holds: Holds) {
        let verdict = if holds.0 { Verdict::Holds } else { Verdict::FallsShort };
        self.line(name, value, bound, verdict);
    }

    /// Violations among what was looked at: none is the bound, and nothing looked at is UNKNOWN.
    pub fn violations(&mut self, name: &str, looked_at: usize, broken: usize, witnesses: &[String]) {
        let verdict = match (broken, looked_at) {
            (0, 0) => Verdict::Unknown,
            (0, _) => Verdict::Holds,
            _ => Verdict::FallsShort,
        };
        self.line(name, format!("{broken} broken of {looked_at}"), "0 broken, of more than 0", verdict);
        for one in witnesses {
            println!("      {one}");
        }
    }

    /// A situation that the run must have met.
    pub fn met(&mut self, name: &str, times: usize) {
        let verdict = if times > 0 { Verdict::Holds } else { Verdict::Unknown };
        self.line(name, times, "met at least once", verdict);
    }

    /// The closing line; whether everything held.
    pub fn close(self) -> Holds {
        println!();
        for one in &self.failed {
            println!("{one}");
        }
        println!("{} of {} figures are within their bounds", self.printed - self.failed.len(), self.printed);
        Holds(self.printed > 0 && self.failed.is_empty())
    }
}

/// Whether a bound is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds(pub bool);
