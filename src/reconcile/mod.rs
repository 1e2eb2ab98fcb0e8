//! What the gateways and the bank say was moved, held against what we wrote down.
//!
//! **Promises**: a report is read whole or not used at all; money is whole minor units from the first byte on;
//! nothing here charges, and what it repairs it repairs by a guarded transition with the line as evidence.
//! **Relies on** the schedule for comparing and repairing, and on the gateway's record being right about what
//! the gateway did.
//!
//! `read` turns a file into [`crate::domain::settlement::Line`]s; `load` brings them into the schedule; `compare` has the
//! day compared with them, both ways, and `repair` has done what may be done without a person. [`reconcile`] is all
//! of it, [`look_again`] what needs no new report. If this dies, the report counts or does not; the next run does the
//! rest, and finds what was found before.

mod compare;
mod load;
pub mod read;
mod repair;
mod upkeep;

pub use compare::{Apart, look_again};
pub use upkeep::{forget_lines, tell_open, tell_standing};

use crate::domain::ids::{GatewayName, Operator};
use crate::domain::repair::Power;
use crate::schedule::{
    Compared, Forgotten, Postgres, Purpose, ReconciliationRun, Repairs, ScheduleError, Shorter, Withdrawn,
};
use chrono::{DateTime, NaiveDate, Utc};
use load::Loaded;
use read::{Format, Refused, Report};
use std::fs::File;
use std::io;
use uuid::Uuid;

/// One report, to be reconciled.
#[derive(Debug)]
pub struct Order {
    /// Random: the report's id.
    pub id: Uuid,
    /// Whose.
    pub gateway: GatewayName,
    /// Of which day.
    pub day: NaiveDate,
    /// How it is read.
    pub format: Format,
    /// It, from its first byte; read twice.
    pub file: File,
    /// What tells it from other reports of its day and format, where it does not say so itself.
    pub source: Option<String>,
    /// Who asks.
    pub asked_by: Operator,
    /// When it was fetched, or is begun to be read.
    pub seen_at: DateTime<Utc>,
    /// What to do if it is shorter than the one whose place it takes.
    pub if_shorter: Shorter,
    /// What to do if people took it out before.
    pub if_withdrawn: Withdrawn,
    /// Whether it is to count.
    pub purpose: Purpose,
}

/// How patiently, and how far without people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Days until a charge must be in a report.
    pub grace_days: u32,
    /// What is repaired without a person; `None`: nothing.
    pub power: Option<Power>,
}

impl Terms {
    /// As `reconcile.repair` names it; `None`: it is none of its words.
    #[must_use]
    pub fn read(grace_days: u32, repair: &str) -> Option<Self> {
        let power = match repair {
            "none" => None,
            other => Some(Power::from_text(other).filter(|power| *power != Power::Person)?),
        };
        Some(Self { grace_days, power })
    }
}

/// How the report came to count.
#[derive(Debug, Clone, PartialEq)]
pub enum Counted {
    /// It was loaded now.
    Now(ReconciliationRun),
    /// The very same file counted before.
    Before(ReconciliationRun),
    /// It was only tried, and is forgotten.
    Not,
}

/// What a report came to.
#[derive(Debug, Clone)]
pub struct Reconciled {
    /// What it says of itself.
    pub report: Report,
    /// How it counts.
    pub counted: Counted,
    /// Its day, compared with it.
    pub compared: Compared,
    /// What was repaired by it.
    pub repairs: Repairs,
    /// Days whose books differ, of those that charges of this day may be due on.
    pub apart: Vec<Apart>,
}

/// Why a report was not reconciled; the variants say what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Get the report again: this one is not what it should be, and nothing of it was used.
    #[error("the report is refused, nothing of it is used: {0}")]
    Refused(Refused),
    /// Try again: it could not be read.
    #[error("the report cannot be read: {0}")]
    Unread(#[from] io::Error),
    /// Name the right day, or the right file.
    #[error("the report is of {says}")]
    OtherDay {
        /// What it says.
        says: NaiveDate,
    },
    /// Look at both; then say that the shorter one is right.
    #[error("the report has fewer lines than the one that counts, which has {}", .before.lines)]
    Shorter {
        /// The one that counts.
        before: Box<ReconciliationRun>,
    },
    /// Get the right one; or say that it counts after all.
    #[error("the report was withdrawn by people: {}", .before.note.as_deref().unwrap_or_default())]
    Withdrawn {
        /// As it counted.
        before: Box<ReconciliationRun>,
    },
    /// Wait for the day to begin; or it is too long ago.
    #[error(
        "the day has not begun, or the report was fetched before it began, or it is more than 1,000 days ago"
    )]
    DayOutOfRange,
    /// Leave it: what was found of the day stands.
    #[error("{day} cannot be compared any more: {why}")]
    Forgotten {
        /// The day.
        day: NaiveDate,
        /// What is not there.
        why: Forgotten,
    },
    /// Leave the file alone, and try again.
    #[error("the report's file changed while it was read; nothing of it is used")]
    Changed,
    /// As the schedule's verbs say.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

/// Loads a report, compares its day with it both ways, and repairs what may be repaired without a person.
///
/// # Errors
/// See [`ReconcileError`]. Once the report counts, a failure leaves its day to be compared: repeat it.
pub async fn reconcile(
    schedule: &Postgres,
    order: &Order,
    terms: Terms,
) -> Result<Reconciled, ReconcileError> {
    compare::hold_kept(schedule, &order.gateway, order.day, terms).await?;
    let (report, loaded) = load::load(schedule, order).await?;
    let counted = match loaded {
        Loaded::OnTrial(tried) => {
            let compared = compare::on_trial(schedule, order, terms).await;
            schedule.forget_trial(&tried).await?;
            return Ok(Reconciled {
                report,
                counted: Counted::Not,
                compared: compared?,
                repairs: Repairs::default(),
                apart: Vec::new(),
            });
        }
        Loaded::Counts(run) => Counted::Now(run),
        Loaded::Same(run) => Counted::Before(run),
    };
    let (compared, repairs, apart) = look_again(schedule, &order.gateway, order.day, terms).await?;
    Ok(Reconciled { report, counted, compared, repairs, apart })
}
