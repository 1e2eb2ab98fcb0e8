//! Lines of an installation that ran beside others, kept until they can be printed in order; and the lines that
//! every one of them ends with.

use crate::figures::{Figures, Verdict};
use crate::support::audit::audit;
use crate::support::cells::Outcome;
use crate::support::installation::Installation;
use std::fmt::Display;

/// What was seen in one installation.
#[derive(Debug)]
pub struct Told {
    heading: &'static str,
    lines: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    Figure { name: String, value: String, bound: String, verdict: Verdict },
    Note(String),
}

impl Told {
    /// None yet.
    pub fn under(heading: &'static str) -> Self {
        Self { heading, lines: Vec::new() }
    }

    /// A line.
    pub fn holds(&mut self, name: &str, value: impl Display, bound: &str, holds: bool) {
        let verdict = if holds { Verdict::Holds } else { Verdict::FallsShort };
        let (name, value, bound) = (name.to_owned(), value.to_string(), bound.to_owned());
        self.lines.push(Line::Figure { name, value, bound, verdict });
    }

    /// So many of so many, where all is the bound and none is no test.
    pub fn all(&mut self, name: &str, met: usize, of: usize) {
        self.all_with(name, "", met, of);
    }

    /// The same, with what was seen.
    pub fn all_with(&mut self, name: &str, seen: &str, met: usize, of: usize) {
        let verdict = match of {
            0 => Verdict::Unknown,
            of if of == met => Verdict::Holds,
            _ => Verdict::FallsShort,
        };
        let counts = format!("{met} of {of}");
        let value = if seen.is_empty() { counts } else { format!("{counts}: {seen}") };
        let (name, bound) = (name.to_owned(), "all, more than 0".to_owned());
        self.lines.push(Line::Figure { name, value, bound, verdict });
    }

    /// A situation that must have been met.
    pub fn met(&mut self, name: &str, times: usize) {
        let verdict = if times > 0 { Verdict::Holds } else { Verdict::Unknown };
        let (name, bound) = (name.to_owned(), "met at least once".to_owned());
        self.lines.push(Line::Figure { name, value: times.to_string(), bound, verdict });
    }

    /// Violations among what was looked at.
    pub fn none(&mut self, name: &str, broken: usize, looked_at: usize) {
        let verdict = match (broken, looked_at) {
            (0, 0) => Verdict::Unknown,
            (0, _) => Verdict::Holds,
            _ => Verdict::FallsShort,
        };
        let (name, bound) = (name.to_owned(), "0, of more than 0".to_owned());
        self.lines.push(Line::Figure { name, value: format!("{broken} of {looked_at}"), bound, verdict });
    }

    /// What is not judged.
    pub fn note(&mut self, text: impl Display) {
        self.lines.push(Line::Note(text.to_string()));
    }

    /// How these payments ended: every one so, and charged once.
    pub fn paid_once(&mut self, name: &str, ends: &[Outcome]) {
        self.ended(name, ends, "completed", 1);
    }

    /// Every one so, and charged so often.
    pub fn ended(&mut self, name: &str, ends: &[Outcome], end: &str, charges: usize) {
        let met = ends.iter().filter(|seen| seen.end == end && seen.charges == charges).count();
        self.all(name, met, ends.len());
        let others = ends.iter().filter(|seen| seen.end != end || seen.charges != charges);
        others.take(3).for_each(|seen| self.note(format!("    {seen}, not {end} …/{charges}")));
    }

    /// The checker over ledger and database.
    pub fn audited(&mut self, site: &Installation) {
        let audited = audit(site, None);
        let shown = format!("{} promises, {} looked at", audited.promises, audited.looked_at);
        self.holds("audit check", shown, "none broken", audited.holds());
        audited.broken.iter().for_each(|broken| self.note(format!("    {broken}")));
    }

    /// Prints them.
    pub fn print(self, figures: &mut Figures) {
        figures.part(self.heading);
        for line in self.lines {
            match line {
                Line::Figure { name, value, bound, verdict } => figures.line(&name, value, &bound, verdict),
                Line::Note(text) => println!("  {text}"),
            }
        }
    }
}
