//! Cases of repairs by a line as a table, run against the pure guard and, the same rows, against the SQL. Not part of
//! the product's interface.

use super::guard_cases::{payment, price};
use super::ids::Epoch;
use super::money::{Currency, Minor, Money};
use super::payment::Payment;
use super::reason::Reason;
use super::repair::{Behind, Charge, NotRepaired, Power, Repair};
use super::settlement::has_own_names;
use super::state::{Cause, Status};
use chrono::{DateTime, Utc};

/// The charge that the lines of these cases name.
pub const REFERENCE: &str = "ch_found";

/// What the schedule knows of the reference before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// It is a charge of the payment, of what was asked for.
    OfIt,
    /// It is a charge of the payment, of another amount.
    OfItOtherwise,
    /// It is another payment's.
    OfAnother,
}

/// One case.
#[derive(Debug, Clone)]
pub struct RepairCase {
    /// A sentence; unique.
    pub name: &'static str,
    /// The payment; a different one in each case.
    pub row: Payment,
    /// The line is of the payment's gateway.
    pub same_gateway: bool,
    /// How its report is read.
    pub format: &'static str,
    /// The line's reference.
    pub reference: &'static str,
    /// The epoch of the line's key.
    pub epoch: Epoch,
    /// What it says was taken.
    pub amount: Option<Money>,
    /// It is the payment's only one.
    pub is_only: bool,
    /// What is known of the reference.
    pub known: Known,
    /// Who asks.
    pub behind: Behind,
    /// Which version they saw.
    pub version: Option<i32>,
    /// What is answered.
    pub expect: Result<Repair, NotRepaired>,
}

impl RepairCase {
    /// The line and what is known of it, as the guard wants it.
    #[must_use]
    pub fn charge(&self) -> Charge<'static> {
        let of_it = match self.known {
            Known::OfIt | Known::OfItOtherwise => true,
            Known::Nothing | Known::OfAnother => false,
        };
        let is_payments = self.row.gateway_ref.as_deref() == Some(self.reference);
        Charge {
            same_gateway: self.same_gateway,
            reference: self.reference,
            has_own_name: has_own_names(self.format),
            epoch: self.epoch,
            amount: self.amount,
            is_only: self.is_only,
            is_anothers: self.known == Known::OfAnother,
            is_on_record: of_it || is_payments,
            is_on_record_otherwise: self.known == Known::OfItOtherwise,
        }
    }
}

/// The row's own amount, less one.
fn less() -> Option<Money> {
    let of = price();
    Minor::new(of.minor.get() - 1).map(|minor| Money { minor, ..of })
}

fn dollars() -> Option<Money> {
    Currency::from_code("USD").map(|currency| Money { currency, ..price() })
}

const SAFE: Behind = Behind::Program(Power::Safe);
const AUTOMATIC: Behind = Behind::Program(Power::Automatic);
const COMPLETED: Result<Repair, NotRepaired> = Ok(Repair::Move(Cause::Reconciled, Status::Completed));
const PARKED: Result<Repair, NotRepaired> = Ok(Repair::Move(Cause::Reconciled, Status::Parked));
const REPAIRED: Result<Repair, NotRepaired> = Ok(Repair::Move(Cause::Repaired, Status::Completed));
const RECORDED: Result<Repair, NotRepaired> = Ok(Repair::Record);

/// All of them; `now` is the database's.
#[must_use]
pub fn cases(now: DateTime<Utc>) -> Vec<RepairCase> {
    let mut table = Table { now, cases: Vec::new() };
    table.lines_that_fit();
    table.lines_that_do_not();
    table.what_is_on_record();
    table.lines_of_banks();
    table.lines_of_earlier_keys();
    table.what_cannot_be_judged();
    table.cases
}

struct Table {
    now: DateTime<Utc>,
    cases: Vec<RepairCase>,
}

impl Table {
    /// A line that fits, known to nobody, the first time anybody looks; but for the `change`.
    fn odd(
        &mut self,
        name: &'static str,
        (status, behind): (Status, Behind),
        expect: Result<Repair, NotRepaired>,
        change: fn(&mut RepairCase),
    ) {
        let n = u64::try_from(self.cases.len()).unwrap_or(u64::MAX);
        let mut case = RepairCase {
            name,
            row: payment(self.now, 9_000_u64.saturating_add(n), status),
            same_gateway: true,
            format: "sandbox",
            reference: REFERENCE,
            epoch: Epoch(0),
            amount: Some(price()),
            is_only: true,
            known: Known::Nothing,
            behind,
            version: None,
            expect,
        };
        change(&mut case);
        self.cases.push(case);
    }

    fn fits(
        &mut self,
        name: &'static str,
        status: Status,
        behind: Behind,
        expect: Result<Repair, NotRepaired>,
    ) {
        self.odd(name, (status, behind), expect, |_| {});
    }

    fn lines_that_fit(&mut self) {
        use Behind::{OnePerson, TwoPeople};
        use Status::{Cancelled, Completed, Failed, Parked, Pending, Processing, Refunded, Unknown};
        let needs_person = Err(NotRepaired::NeedsPerson);
        let needs_approval = Err(NotRepaired::NeedsApproval);
        self.fits("pending is parked", Pending, SAFE, PARKED);
        self.fits("unknown is completed", Unknown, SAFE, COMPLETED);
        self.fits("a claim is waited for", Processing, TwoPeople, Err(NotRepaired::InFlight));
        self.fits("parked is left to people by a careful program", Parked, SAFE, needs_person);
        self.odd("parked for a charge that a restore lost is completed", (Parked, SAFE), COMPLETED, |it| {
            it.row.reason = Some(Reason::ChargedBefore);
        });
        self.fits("parked is completed by a bold program", Parked, AUTOMATIC, COMPLETED);
        self.fits("parked is completed by a person", Parked, OnePerson, COMPLETED);
        self.fits("failed is no program's business", Failed, AUTOMATIC, needs_person);
        self.fits("failed needs a second person", Failed, OnePerson, needs_approval);
        self.fits("failed is completed by two", Failed, TwoPeople, REPAIRED);
        self.fits("cancelled is no program's business", Cancelled, AUTOMATIC, needs_person);
        self.fits("cancelled needs a second person", Cancelled, OnePerson, needs_approval);
        self.fits("cancelled is completed by two", Cancelled, TwoPeople, REPAIRED);
        self.fits("another charge of what is completed is recorded", Completed, SAFE, RECORDED);
        self.fits("another charge of what was given back is recorded", Refunded, SAFE, RECORDED);
    }

    fn lines_that_do_not(&mut self) {
        use Status::{Cancelled, Failed, Parked, Pending, Unknown};
        let needs_person = Err(NotRepaired::NeedsPerson);
        self.odd("unknown and charged less is left to people", (Unknown, SAFE), needs_person, |it| {
            it.amount = less();
        });
        self.odd("unknown and charged less is parked", (Unknown, AUTOMATIC), PARKED, |it| {
            it.amount = less();
        });
        self.odd("unknown and charged in dollars is parked", (Unknown, AUTOMATIC), PARKED, |it| {
            it.amount = dollars();
        });
        self.odd("unknown and charged twice is parked", (Unknown, Behind::OnePerson), PARKED, |it| {
            it.is_only = false;
        });
        self.odd("unknown, with another reference, is parked", (Unknown, AUTOMATIC), PARKED, |it| {
            it.row.gateway_ref = Some("ch_other".into());
        });
        self.odd("unknown, with this reference, is completed", (Unknown, SAFE), COMPLETED, |it| {
            it.row.gateway_ref = Some(REFERENCE.into());
        });
        self.odd("pending and charged less is parked as well", (Pending, SAFE), PARKED, |it| {
            it.amount = less();
        });
        self.odd("parked and charged less is recorded", (Parked, SAFE), RECORDED, |it| it.amount = less());
        self.odd("parked for a lost charge of less is recorded too", (Parked, SAFE), RECORDED, |it| {
            it.row.reason = Some(Reason::ChargedBefore);
            it.amount = less();
        });
        self.odd("failed and charged less is recorded", (Failed, AUTOMATIC), RECORDED, |it| {
            it.amount = less();
        });
        self.odd("cancelled and charged twice is recorded", (Cancelled, Behind::TwoPeople), RECORDED, |it| {
            it.is_only = false;
        });
    }

    fn what_is_on_record(&mut self) {
        use Status::{Completed, Failed, Parked, Pending, Unknown};
        let on_record = Err(NotRepaired::OnRecord);
        self.odd("parked by that very charge stays", (Parked, AUTOMATIC), on_record, |it| {
            it.amount = less();
            it.known = Known::OfItOtherwise;
        });
        let by = Behind::OnePerson;
        self.odd("what was taken otherwise fits nobody's later word", (Parked, by), on_record, |it| {
            it.known = Known::OfItOtherwise;
        });
        self.odd("recorded is recorded", (Failed, AUTOMATIC), on_record, |it| {
            it.amount = less();
            it.known = Known::OfIt;
        });
        self.odd("completed by this very charge is nothing to do", (Completed, AUTOMATIC), on_record, |it| {
            it.known = Known::OfIt;
        });
        let taken = Err(NotRepaired::ReferenceTaken);
        self.odd("a charge that pays for another", (Unknown, AUTOMATIC), taken, |it| {
            it.known = Known::OfAnother;
        });
        self.odd("pending is parked by a charge that pays for another too", (Pending, SAFE), PARKED, |it| {
            it.known = Known::OfAnother;
        });
    }

    /// Their references are evidence: held against no charge's name, and kept as none.
    fn lines_of_banks(&mut self) {
        use Status::{Completed, Failed, Parked, Pending, Unknown};
        let nothing = Err(NotRepaired::NothingToRepair);
        let mut of_bank = |name, stands, expect, change: fn(&mut RepairCase)| {
            self.odd(name, stands, expect, |it| it.format = "camt.053");
            if let Some(case) = self.cases.last_mut() {
                change(case);
            }
        };
        of_bank("unknown is completed by a bank's entry", (Unknown, SAFE), COMPLETED, |_| {});
        of_bank("also where the gateway named its charge", (Unknown, SAFE), COMPLETED, |it| {
            it.row.gateway_ref = Some("ch_known".into());
        });
        of_bank("and where the entry has no name", (Unknown, SAFE), COMPLETED, |it| it.reference = "");
        of_bank("a bank's names are no charges of others", (Unknown, SAFE), COMPLETED, |it| {
            it.known = Known::OfAnother;
        });
        of_bank(
            "what the gateway took otherwise a bank's entry does not settle",
            (Parked, AUTOMATIC),
            nothing,
            |it| {
                it.row.gateway_ref = Some(REFERENCE.into());
                it.known = Known::OfItOtherwise;
            },
        );
        of_bank("pending is parked by a bank's entry", (Pending, SAFE), PARKED, |_| {});
        of_bank(
            "failed is completed by two with a bank's entry",
            (Failed, Behind::TwoPeople),
            REPAIRED,
            |_| {},
        );
        of_bank("unknown and booked less is parked", (Unknown, AUTOMATIC), PARKED, |it| it.amount = less());
        of_bank("failed and booked less leaves no name to keep", (Failed, AUTOMATIC), nothing, |it| {
            it.amount = less();
        });
        of_bank("a second entry of what is completed neither", (Completed, AUTOMATIC), nothing, |it| {
            it.is_only = false;
        });
    }

    /// A charge that the gateway had called none: the send under the key behind it may be a second one.
    fn lines_of_earlier_keys(&mut self) {
        use Status::{Parked, Unknown};
        let needs_person = Err(NotRepaired::NeedsPerson);
        let mut behind_it = |name, stands, expect, change: fn(&mut RepairCase)| {
            self.odd(name, stands, expect, |it| {
                it.row.epoch = Epoch(1);
                it.row.unanswered = 1;
                it.row.epoch_first_sent_at = Some(it.row.due_at);
            });
            if let Some(case) = self.cases.last_mut() {
                change(case);
            }
        };
        behind_it("unknown, and charged under an earlier key, is held", (Unknown, SAFE), PARKED, |_| {});
        behind_it("charged less under an earlier key as well", (Unknown, SAFE), PARKED, |it| {
            it.amount = less();
        });
        behind_it("nor does a person complete it at once", (Unknown, Behind::OnePerson), PARKED, |_| {});
        behind_it("held for it is no bold program's business", (Parked, AUTOMATIC), needs_person, |_| {});
        behind_it("held for it is completed by a person", (Parked, Behind::OnePerson), COMPLETED, |_| {});
        behind_it("a line of the present key completes", (Unknown, SAFE), COMPLETED, |it| {
            it.epoch = Epoch(1);
        });
        behind_it("a bank's key has no epoch", (Unknown, SAFE), COMPLETED, |it| it.format = "camt.053");
        behind_it("with every send answered nothing is open", (Parked, AUTOMATIC), COMPLETED, |it| {
            it.row.unanswered = 0;
        });
        behind_it("an intent succeeds once", (Unknown, SAFE), COMPLETED, |it| {
            it.row.intent_ref = Some("pi_1".into());
        });
    }

    fn what_cannot_be_judged(&mut self) {
        use Status::{Failed, Pending, Unknown};
        let missing = Err(NotRepaired::ReferenceMissing);
        self.odd("a line without a reference", (Unknown, AUTOMATIC), missing, |it| it.reference = "");
        self.odd("pending is parked by a line without a reference too", (Pending, SAFE), PARKED, |it| {
            it.reference = "";
        });
        let elsewhere = Err(NotRepaired::OtherGateway);
        self.odd("a line of another gateway", (Unknown, AUTOMATIC), elsewhere, |it| it.same_gateway = false);
        let changed = Err(NotRepaired::Changed);
        self.odd("a row that has moved on", (Failed, Behind::TwoPeople), changed, |it| {
            it.version = Some(it.row.history_seq - 1);
        });
        self.odd("a row as it was seen", (Failed, Behind::TwoPeople), REPAIRED, |it| {
            it.version = Some(it.row.history_seq);
        });
    }
}
