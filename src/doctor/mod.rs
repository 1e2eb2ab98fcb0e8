//! For people: what is wrong with this installation, and what mends it.
//!
//! **Promises.** Every check of [`Check::ALL`] answers each time, within [`PATIENCE`]: fine, or what was seen, what
//! it means for payments and the exact fix. A check that cannot look says that it could not; it is never fine by
//! silence. Looking changes nothing and calls no gateway.
//!
//! **How**: `look` asks, `judge` decides, and `ring` of what Kafka says; the judgements are pure, so that each of them is tested without the thing
//! that is broken. The page of people's problems shows the same findings, those that ask only the database.
//!
//! **If this dies here**, nothing happened.

mod judge;
mod look;
mod ring;

pub use look::{Doctor, problems};

use std::cmp::Reverse;
use std::time::Duration;

/// Longest that one check takes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing to say.
    Fine,
    /// It could not look.
    Unseen,
    /// It works, and should not stay so.
    Warn,
    /// A promise is at stake, or nothing can work.
    Bad,
}

impl Level {
    /// The word that is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Unseen => "unseen",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// What one check found; a check may find several things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which check.
    pub check: Check,
    /// How it came out.
    pub level: Level,
    /// What was seen, with the values.
    pub saw: String,
    /// What that does to payments; empty where it is fine.
    pub means: &'static str,
    /// What mends it: a command, a setting, or whom to ask; empty where it is fine.
    pub fix: String,
    /// The alert whose page says more, step by step.
    pub runbook: Option<&'static str>,
}

impl Finding {
    fn fine(check: Check, saw: impl Into<String>) -> Self {
        Self::of(check, Level::Fine, saw.into(), ("", String::new()))
    }

    fn unseen(check: Check, why: impl Into<String>) -> Self {
        let fix = "mend what keeps it from looking, then ask again".to_owned();
        Self::of(check, Level::Unseen, why.into(), ("nothing is known about it", fix))
    }

    fn warn(check: Check, saw: impl Into<String>, means: &'static str, fix: impl Into<String>) -> Self {
        Self::of(check, Level::Warn, saw.into(), (means, fix.into()))
    }

    fn bad(check: Check, saw: impl Into<String>, means: &'static str, fix: impl Into<String>) -> Self {
        Self::of(check, Level::Bad, saw.into(), (means, fix.into()))
    }

    fn of(check: Check, level: Level, saw: String, (means, fix): (&'static str, String)) -> Self {
        Self { check, level, saw, means, fix, runbook: None }
    }

    /// Where it stands in a list, the least first: the worst, and of equals what stops payments now.
    #[must_use]
    pub fn urgency(&self) -> (Reverse<Level>, bool) {
        (Reverse(self.level), !self.check.is_about_now())
    }

    fn runbook(self, alert: &'static str) -> Self {
        Self { runbook: Some(alert), ..self }
    }
}

macro_rules! checks {
    ($( $check:ident = $text:literal : $about:literal, )*) => {
        /// What is looked at.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check { $( #[doc = $about] $check, )* }

        impl Check {
            /// All of them, in the order of the answer.
            pub const ALL: &[Self] = &[ $( Self::$check, )* ];

            /// Its name on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$check => $text, )* }
            }

            /// What it looks at.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $( Self::$check => $about, )* }
            }
        }
    };
}

checks! {
    TimeOuts = "time_outs": "Settings that are legal and risky together.",
    Database = "database": "The database answers, and can be written to.",
    Schema = "schema": "Its schema is this binary's.",
    Durability = "durability": "A COMMIT that was answered survives a crash.",
    Lineage = "lineage": "It is not in quarantine.",
    Clock = "clock": "Its clock and this host's agree.",
    Days = "days": "Every day that payments can fall on has its partitions.",
    Crew = "crew": "Somebody relays, publishes, and keeps watch.",
    Overdue = "overdue": "Nothing that is due waits for long.",
    Gateways = "gateways": "No breaker is open, and nobody forgot a pause or a kill switch.",
    Reconciliation = "reconciliation": "The newest days were compared with the gateways' reports, and nothing is left open.",
    Kafka = "kafka": "The brokers answer.",
    Topics = "topics": "The topics are as declared.",
    Workers = "workers": "Workers are in their group, and there are partitions for all of them.",
    Gateway = "gateway": "The configured gateway's address takes connections from here.",
}

impl Check {
    /// Does what it finds keep payments waiting now, and not only after a crash or on a day to come?
    fn is_about_now(self) -> bool {
        match self {
            Self::Database
            | Self::Schema
            | Self::Lineage
            | Self::Crew
            | Self::Overdue
            | Self::Gateways
            | Self::Kafka
            | Self::Workers
            | Self::Gateway => true,
            Self::TimeOuts
            | Self::Durability
            | Self::Clock
            | Self::Days
            | Self::Reconciliation
            | Self::Topics => false,
        }
    }
}
