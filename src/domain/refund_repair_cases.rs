//! Cases of refunds that a line ends as a table, run against the pure guard and, the same rows, against the SQL. Not
//! part of the product's interface.

use super::guard_cases::price;
use super::money::{Currency, Minor, Money};
use super::refund::RefundStatus;
use super::refund_repair::{GivenBack, NamedBy, OpenRefund};
use super::repair::{Behind, NotRepaired, Power};
use super::settlement::has_own_names;

/// The refund that the lines of these cases name.
pub const REFERENCE: &str = "re_found";
/// The history row that the payment of these cases is at.
pub const VERSION: i32 = 3;

/// One case.
#[derive(Debug, Clone)]
pub struct RefundRepairCase {
    /// A sentence; unique.
    pub name: &'static str,
    /// The refund.
    pub refund: OpenRefund,
    /// How the line names it.
    pub named_by: NamedBy,
    /// How its report is read.
    pub format: &'static str,
    /// The line's reference.
    pub reference: &'static str,
    /// What it says was given back.
    pub amount: Option<Money>,
    /// That reference is another refund's.
    pub is_anothers: bool,
    /// Who asks.
    pub behind: Behind,
    /// Which version they saw.
    pub version: Option<i32>,
    /// What is answered.
    pub expect: Result<(), NotRepaired>,
}

impl RefundRepairCase {
    /// The line, as the guard wants it.
    #[must_use]
    pub fn line(&self) -> GivenBack<'static> {
        GivenBack {
            named_by: self.named_by,
            reference: self.reference,
            has_own_name: has_own_names(self.format),
            amount: self.amount,
            is_anothers: self.is_anothers,
        }
    }
}

const SAFE: Behind = Behind::Program(Power::Safe);

/// A line that bears the key of a refund and fits it, the first time that anybody looks.
fn fits(
    name: &'static str,
    status: RefundStatus,
    behind: Behind,
    expect: Result<(), NotRepaired>,
) -> RefundRepairCase {
    RefundRepairCase {
        name,
        refund: OpenRefund { status, amount: price(), reference: None, version: VERSION },
        named_by: NamedBy::Key,
        format: "sandbox",
        reference: REFERENCE,
        amount: Some(price()),
        is_anothers: false,
        behind,
        version: None,
        expect,
    }
}

/// All of them.
#[must_use]
pub fn cases() -> Vec<RefundRepairCase> {
    let mut all = by_status();
    all.extend(by_line());
    all.extend(by_asker());
    all
}

fn by_status() -> Vec<RefundRepairCase> {
    use RefundStatus::{Approved, Asked, Declined, Refunded, Rejected, Sending, Unknown};
    let nothing = || Err(NotRepaired::NothingToRepair);
    let known = |name, reference: &str, expect| {
        let case = fits(name, Unknown, SAFE, expect);
        RefundRepairCase {
            refund: OpenRefund { reference: Some(reference.to_owned()), ..case.refund.clone() },
            ..case
        }
    };
    vec![
        fits("what is allowed was given back", Approved, SAFE, Ok(())),
        fits("what is unknown was given back", Unknown, SAFE, Ok(())),
        fits("a claim is waited for", Sending, SAFE, Err(NotRepaired::InFlight)),
        fits("what is given back here too is on record", Refunded, SAFE, Err(NotRepaired::OnRecord)),
        fits("what nobody allowed is for people", Asked, Behind::TwoPeople, nothing()),
        fits("what was declined is for people", Declined, Behind::TwoPeople, nothing()),
        fits("what was rejected is for people", Rejected, Behind::TwoPeople, nothing()),
        known("what is unknown was given back by the name that we know", REFERENCE, Ok(())),
        known("what the gateway named otherwise is for people", "re_other", nothing()),
    ]
}

fn by_line() -> Vec<RefundRepairCase> {
    use RefundStatus::Approved;
    let odd = |name, expect, change: fn(&mut RefundRepairCase)| {
        let mut case = fits(name, Approved, Behind::OnePerson, expect);
        change(&mut case);
        case
    };
    let nothing = || Err(NotRepaired::NothingToRepair);
    vec![
        odd("another amount is for people", nothing(), |it| {
            it.amount = Minor::new(price().minor.get() - 1).map(|minor| Money { minor, ..price() });
        }),
        odd("another currency is for people", nothing(), |it| {
            it.amount = Currency::from_code("USD").map(|currency| Money { currency, ..price() });
        }),
        odd("a line without a name", Err(NotRepaired::ReferenceMissing), |it| it.reference = ""),
        odd("a name of another refund", Err(NotRepaired::ReferenceTaken), |it| it.is_anothers = true),
        odd("a payment that has moved on", Err(NotRepaired::Changed), |it| it.version = Some(VERSION - 1)),
        odd("a payment as it was seen", Ok(()), |it| it.version = Some(VERSION)),
        odd("a bank's entry", Ok(()), |it| it.format = "camt.053"),
        odd("a bank's entry, called as another one", Ok(()), |it| {
            it.format = "camt.053";
            it.is_anothers = true;
        }),
        odd("a bank's entry of what the gateway named", Ok(()), |it| {
            it.format = "camt.053";
            it.refund.reference = Some("re_known".into());
        }),
        odd("a bank's entry without a name", Ok(()), |it| {
            it.format = "camt.053";
            it.reference = "";
        }),
    ]
}

fn by_asker() -> Vec<RefundRepairCase> {
    let only = |name, behind, expect| RefundRepairCase {
        named_by: NamedBy::BeingTheOnlyOne,
        ..fits(name, RefundStatus::Approved, behind, expect)
    };
    let needs_person = || Err(NotRepaired::NeedsPerson);
    vec![
        only("no careful program guesses which one it was", SAFE, needs_person()),
        only("nor a bold one", Behind::Program(Power::Automatic), needs_person()),
        only("a person may say that it was the only one", Behind::OnePerson, Ok(())),
    ]
}
