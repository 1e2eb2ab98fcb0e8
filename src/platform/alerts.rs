//! Every alert: one table, from which the rules, their tests and the runbooks are made.
//!
//! **Promises.** An alert names only metrics and labels of [`super::metrics::METRICS`], has a page for the person
//! who is woken (what it means, where to look, what to do), and one case in which it must fire beside one in which
//! it must stay silent; tests hold all of it, the cases by `promtool`. **Why a table**: a rule in a file of its own
//! outlives the metric that it asks for, and nobody notices until it should have fired.
//!
//! Two severities: `page` wakes somebody, because money is late or may be wrong; `ticket` is read in the morning.
//! Names are those of the files under `deploy/`; `punctual assets print` prints what is made here.

mod flow;
mod money;
mod parts;
mod text;

pub use text::{rules_yaml, runbooks_markdown, tests_yaml};

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Somebody is woken.
    Page,
    /// Somebody reads it in the morning.
    Ticket,
}

impl Severity {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Ticket => "ticket",
        }
    }
}

/// One series of a case, in promtool's notation: a value each 15 s.
#[derive(Debug, Clone, Copy)]
pub struct Series {
    /// With its labels.
    pub name: &'static str,
    /// For example `0+1x40`.
    pub values: &'static str,
}

/// One row of the table.
#[derive(Debug)]
pub struct Alert {
    /// Camel case, without a prefix; unique.
    pub name: &'static str,
    /// Who is told.
    pub severity: Severity,
    /// For how long it must hold; empty: at once.
    pub lasts: &'static str,
    /// What is asked, in Prometheus' language.
    pub asks: &'static str,
    /// One line for the person's telephone.
    pub summary: &'static str,
    /// What it means for payments.
    pub means: &'static str,
    /// Where to look, the first place first.
    pub look: &'static [&'static str],
    /// What to do, in order.
    pub act: &'static [&'static str],
    /// It fires on these, and with these labels beside its severity.
    pub fires: (&'static [Series], &'static [(&'static str, &'static str)]),
    /// It stays silent on these.
    pub silent: &'static [Series],
}

/// All of them, the promises first, then the flow of a payment, then the parts.
pub fn alerts() -> impl Iterator<Item = &'static Alert> {
    money::ALERTS.iter().chain(flow::ALERTS).chain(parts::ALERTS)
}
