//! What the gateways say beside what we say: reports, their lines, and what differs.
//!
//! **Promises.** Lines count only once their report was loaded whole (`finish_report`); the same file twice
//! changes nothing; a newer report of the same day, format and source takes the place of the older one, a
//! shorter one only if asked to. A difference is one row however often it is found, and keeps what people decided.
//! No transaction here holds a row of a payment, but for a repair, which is one payment's.
//!
//! **Why in batches**: a transaction that has written holds up the publisher until it ends, since events go out in
//! the order of transactions. Each one here is a batch of lines or differences long; what reads a whole day reads only.
//!
//! If this dies here, a report is `loading` still: nothing of it counts, and the next one of its place drops its lines.
//!
//! The parts: `reconcile_runs` (reports), `reconcile_lines` (loading), `reconcile_compare`, `reconcile_items` (what
//! people see and do), `reconcile_sums`.

use super::approvals::Approval;
use crate::domain::ids::{GatewayName, Operator, PaymentId};
use crate::domain::matching::{Class, ItemStatus};
use crate::domain::money::Currency;
use crate::domain::refund::RefundId;
use crate::domain::repair::{NotRepaired, Power};
use crate::domain::settlement::Kind;
use crate::domain::state::Status;
use crate::domain::texts::texts;
use chrono::{DateTime, NaiveDate, Utc};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Whose word a repair is that no person ordered.
pub const RECONCILIATION: &str = "reconciliation";

texts! { ReportStatus, "Where a report stands.":
    Loading = "loading": "Its lines are being written; none counts yet.",
    Trial = "trial": "It is looked at once, and forgotten.",
    Loaded = "loaded": "Its lines count; its day is not compared with them yet.",
    Compared = "compared": "Its day was compared with its lines.",
    Failed = "failed": "It could not be loaded whole; nothing of it counts.",
    Superseded = "superseded": "Another report took its place, or a person withdrew it.",
}

texts! { Purpose, "What a report is loaded for.":
    Count = "count": "It counts from when it is loaded.",
    Trial = "trial": "Its day is compared with it once, and nothing stays.",
}

texts! { Shorter, "What to do with a report that has fewer lines than the one before it.":
    Refuse = "refuse": "A report that shrinks is more likely cut than right.",
    Accept = "accept": "A person has looked at it.",
}

texts! { Withdrawn, "What to do with a report that people took out before.":
    Refuse = "refuse": "It stays out, whoever fetches it again.",
    Accept = "accept": "A person says that it counts after all.",
}

/// What lines of one kind and of the same currencies come to.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineSum {
    /// Of which kind.
    pub kind: String,
    /// The currency of the gross amounts.
    pub currency: String,
    /// The currency of fees and net amounts.
    pub net_currency: String,
    /// How many.
    pub lines: u64,
    /// Their gross amounts.
    pub gross_minor: i64,
    /// Their fees.
    pub fee_minor: i64,
    /// Their net amounts.
    pub net_minor: i64,
}

/// A report that was read to its end, to be loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReport {
    /// Random.
    pub id: Uuid,
    /// Whose.
    pub gateway: GatewayName,
    /// Of which day.
    pub day: NaiveDate,
    /// In which format, without its options: `sandbox`, `camt.054`.
    pub format: String,
    /// How it was read beyond that: `charges=debit`. The same bytes read otherwise are another report.
    pub options: String,
    /// Tells the reports of one day and format apart; empty where there is only one.
    pub source: String,
    /// Of the file's bytes.
    pub sha256: [u8; 32],
    /// Who asks for it: a person, or [`RECONCILIATION`].
    pub asked_by: Operator,
    /// How many lines it has.
    pub lines: u64,
    /// It says that it ended; that it was seen after its day is asked as well.
    pub is_complete: bool,
    /// When it was fetched, or its file began to be read.
    pub seen_at: DateTime<Utc>,
    /// What its lines come to.
    pub sums: Vec<LineSum>,
    /// What for.
    pub purpose: Purpose,
    /// If people took the very same bytes out before.
    pub if_withdrawn: Withdrawn,
}

/// A report, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconciliationRun {
    /// Which.
    pub id: Uuid,
    /// Whose.
    pub gateway: GatewayName,
    /// Of which day.
    pub day: NaiveDate,
    /// In which format.
    pub format: String,
    /// With which options of it.
    pub options: String,
    /// Tells the reports of one day and format apart.
    pub source: String,
    /// Of the file's bytes.
    pub sha256: [u8; 32],
    /// Who asked for it.
    pub asked_by: Operator,
    /// Where it stands.
    pub status: ReportStatus,
    /// How many lines it has.
    pub lines: i64,
    /// It ended, and was seen after its day.
    pub is_complete: bool,
    /// When it was fetched.
    pub seen_at: DateTime<Utc>,
    /// When it was begun, by the database's clock.
    pub started_at: DateTime<Utc>,
    /// When it was compared, failed or superseded.
    pub finished_at: Option<DateTime<Utc>>,
    /// What its lines come to.
    pub sums: Vec<LineSum>,
    /// What its day's comparison counted last: `matched` lines, and differences by class.
    pub counts: BTreeMap<String, i64>,
    /// What took its place.
    pub superseded_by: Option<Uuid>,
    /// When people took it out.
    pub withdrawn_at: Option<DateTime<Utc>>,
    /// Why it failed or was withdrawn.
    pub note: Option<String>,
}

/// What became of beginning to load.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportBegun {
    /// Its lines can be loaded now.
    Begun,
    /// The very same file, read the same way, counts already.
    Same(ReconciliationRun),
    /// People took the very same file out, and nobody says otherwise.
    Withdrawn(ReconciliationRun),
    /// It has fewer lines than this one, whose place it would take.
    Shorter(ReconciliationRun),
    /// Its day has not begun by the database's clock, or is too long ago to be kept.
    DayOutOfRange,
}

/// What became of finishing to load.
#[derive(Debug, Clone, PartialEq)]
pub enum Finished {
    /// It counts now.
    Counts(ReconciliationRun),
    /// Somebody else loaded the very same file meanwhile, which counts.
    Same(ReconciliationRun),
    /// It is not loading, or lines are missing, or people took it out meanwhile.
    NotWhole,
}

/// Which reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReconciliationRunFilter {
    /// Of this gateway.
    pub gateway: Option<GatewayName>,
    /// Of this day or later.
    pub from: Option<NaiveDate>,
    /// Of this day or earlier.
    pub to: Option<NaiveDate>,
    /// Where they stand.
    pub status: Option<ReportStatus>,
}

/// What to compare, and how patiently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompareOrder {
    /// Whose day.
    pub gateway: GatewayName,
    /// Which.
    pub day: NaiveDate,
    /// A report on trial, which counts for this once beside those that do.
    pub trial: Option<Uuid>,
    /// Days after the one on which it was charged until a charge must stand in a report.
    pub grace_days: u32,
}

/// What a comparison came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Lines of charges and refunds that match.
    pub matched: u64,
    /// Differences by class, whatever became of them.
    pub counts: BTreeMap<Class, u64>,
    /// Of them, those that are open and that no comparison had found before.
    pub new: BTreeMap<Class, u64>,
    /// Differences of other days whose grace ended with this: they are open now.
    pub ended: BTreeMap<Class, u64>,
    /// Differences of any day that both sides agree on by now.
    pub explained: u64,
    /// Charges under ids that have no row here.
    pub lost: u64,
    /// Differences of the day that are open now; on trial, that would be, whatever people decided about them before.
    pub open: u64,
    /// Differences of the day that wait now.
    pub waiting: u64,
    /// Differences that were found before and are not there any more.
    pub gone: u64,
    /// The day is over, and every report of it is whole.
    pub is_complete: bool,
    /// On trial: the first thousand differences.
    pub sample: Vec<Difference>,
}

/// One difference between the books, as a comparison finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Of which kind.
    pub class: Class,
    /// Where it stands; as found: somebody has to look, or it may settle by itself.
    pub status: ItemStatus,
    /// The payment, where the line names one; it may not exist.
    pub payment: Option<PaymentId>,
    /// The refund, where it is about one of ours.
    pub refund: Option<RefundId>,
    /// The line's key.
    pub key: Option<String>,
    /// The gateway's name of the charge or refund.
    pub reference: Option<String>,
    /// Where it shows: `status`, `amount`, `currency`, `net`, `charge`, `payment`, `gateway`, `key`, `line`, `refund`, `chargeback`.
    pub field: String,
    /// What we say there.
    pub ours: Option<String>,
    /// What they say there.
    pub theirs: Option<String>,
    /// What is at stake, in minor units.
    pub amount_minor: Option<i64>,
    /// Of what; a currency of the report that we may not know.
    pub currency: Option<String>,
    /// The line that says so: run, day, number, line of the file, hash. An object without members where there is none.
    pub evidence: Value,
}

/// One difference, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconciliationItem {
    /// Its number, which people and commands use.
    pub number: i64,
    /// The report whose comparison found it last.
    pub run: Uuid,
    /// Whose day.
    pub gateway: GatewayName,
    /// Which.
    pub day: NaiveDate,
    /// What differs.
    pub what: Difference,
    /// When it was first found.
    pub first_seen_at: DateTime<Utc>,
    /// When it was last found.
    pub last_seen_at: DateTime<Utc>,
    /// Why it was not repaired when that was last tried.
    pub not_repaired: Option<String>,
    /// Who closed it.
    pub decided_by: Option<Operator>,
    /// When.
    pub decided_at: Option<DateTime<Utc>>,
    /// Why.
    pub decided_reason: Option<String>,
}

/// Which differences; all conditions hold at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReconciliationItemFilter {
    /// Of this gateway.
    pub gateway: Option<GatewayName>,
    /// Of this day.
    pub day: Option<NaiveDate>,
    /// Of this kind.
    pub class: Option<Class>,
    /// Where they stand; `None`: anywhere.
    pub status: Option<ItemStatus>,
    /// Of this payment.
    pub payment: Option<PaymentId>,
}

/// A repair by a person.
#[derive(Debug, Clone, PartialEq)]
pub struct RepairOrder {
    /// By which difference.
    pub item: i64,
    /// Who orders it.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// The version of the payment that they saw; `None`: as it stands.
    pub version: Option<i32>,
    /// Random: the id of the approval, if one is needed.
    pub approval: Uuid,
}

/// What a repair did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairDone {
    /// Where the payment stands now.
    pub status: Status,
    /// It moved; otherwise a charge's name was kept and the difference stays open, or a part was given back.
    pub has_moved: bool,
    /// A refund ended by it: the line shows that it was given back.
    pub ended_refund: bool,
    /// Another payment had its external id, and is parked: somebody must look at that one.
    pub parked_another: bool,
}

/// What became of a person's order.
#[derive(Debug, Clone, PartialEq)]
pub enum RepairAnswer {
    /// It was done.
    Done(RepairDone),
    /// A second person may decide now.
    Asked(Approval),
    /// A repair by this difference was asked for before, and waits.
    Waiting(Approval),
    /// It cannot be done.
    Refused(NotRepaired),
}

/// What automatic repairs of a day came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Payments that are COMPLETED by it.
    pub completed: u64,
    /// Payments that are PARKED by it.
    pub parked: u64,
    /// Charges whose name was kept.
    pub recorded: u64,
    /// Refunds that ended by it.
    pub refunds: u64,
    /// Of these, those that made their payment REFUNDED.
    pub refunded: u64,
    /// Payments that lost their external id to another, and are parked.
    pub others: u64,
    /// What was refused, by why.
    pub refused: BTreeMap<NotRepaired, u64>,
}

/// What automatic repairs work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairsOrder {
    /// Whose.
    pub gateway: GatewayName,
    /// Of which report's day; `None`: of any, since what was in flight then may not be now.
    pub day: Option<NaiveDate>,
    /// How far they go; [`Power::Person`] is refused.
    pub power: Power,
}

/// How one gateway's payments of one due day and currency add up, in four books.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaySum {
    /// In which currency.
    pub currency: String,
    /// What `payments` says: COMPLETED and REFUNDED.
    pub payments: BookSum,
    /// What the gateway's answers on record say: payments with an attempt that was charged.
    pub attempts: BookSum,
    /// What was completed by people's word or a report, without an answer.
    pub by_word: BookSum,
    /// What the history says: payments that became COMPLETED, or REFUNDED from PARKED.
    pub ledger: BookSum,
    /// What the reports say: lines of charges.
    pub settlement: BookSum,
    /// Of the reports' charges, how much was given or taken back again: a count, and an amount below zero.
    pub given_back: BookSum,
    /// Charges of ours that are still inside their grace.
    pub late: BookSum,
}

/// A count and what it adds up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BookSum {
    /// How many.
    pub count: i64,
    /// Their amounts, in minor units.
    pub minor: i64,
}

impl DaySum {
    /// Do the books agree? What is late is not missed yet.
    #[must_use]
    pub fn is_even(&self) -> bool {
        let plus = |a: BookSum, b: BookSum| BookSum {
            count: a.count + b.count,
            minor: a.minor.saturating_add(b.minor),
        };
        self.payments == self.ledger
            && plus(self.attempts, self.by_word) == self.ledger
            && plus(self.settlement, self.late) == self.ledger
    }
}

/// Differences that people are told of, by class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenItemsTold {
    /// Those that were opened, or opened again, since.
    pub opened: BTreeMap<Class, u64>,
    /// Those that have been open for another day.
    pub still_open: BTreeMap<Class, u64>,
}

/// How one gateway's reconciliation stands, for gauges and people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconciliationStanding {
    /// Whose.
    pub gateway: GatewayName,
    /// When a day of it was last compared with a whole report.
    pub last_success_at: Option<DateTime<Utc>>,
    /// The newest day that was.
    pub last_day: Option<NaiveDate>,
    /// Differences that are open, by class.
    pub open: BTreeMap<Class, i64>,
    /// Differences that wait.
    pub waiting: i64,
    /// Sums that differ between the books, of the last eight due days that were added up.
    pub sums_apart: i64,
}

/// The line kinds and currencies of a report's sums, as texts.
impl LineSum {
    /// Of these lines.
    #[must_use]
    pub fn of(kind: Kind, currency: Currency, net_currency: Currency) -> Self {
        Self {
            kind: kind.as_str().to_owned(),
            currency: currency.as_str().to_owned(),
            net_currency: net_currency.as_str().to_owned(),
            lines: 0,
            gross_minor: 0,
            fee_minor: 0,
            net_minor: 0,
        }
    }
}
