//! Cases of asking for a refund as a table, run against the pure guard and, the same rows, against the SQL.
//! Not part of the product's interface.

use super::guard::Lineage;
use super::guard_cases::price;
use super::refund::{RefundRefused, Refundable};
use super::state::Status;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// A sentence; unique.
    pub name: &'static str,
    /// What is asked of; its charge is [`price`].
    pub of: Refundable,
    /// How much is asked for; `None`: what is left.
    pub amount: Option<i64>,
    /// Of the database.
    pub lineage: Lineage,
    /// What is answered: so many minor units, or why not.
    pub expect: Result<i64, RefundRefused>,
}

fn of(status: Status) -> Refundable {
    Refundable {
        status,
        charge: price(),
        is_on_record: true,
        offers: true,
        is_anothers: false,
        reserved_minor: 0,
    }
}

fn case(name: &'static str, of: Refundable, amount: Option<i64>, expect: Result<i64, RefundRefused>) -> Case {
    Case { name, of, amount, lineage: Lineage::Released, expect }
}

/// Every case.
#[must_use]
pub fn cases() -> Vec<Case> {
    use RefundRefused as No;
    let all = price().minor.get();
    let completed = of(Status::Completed);
    let reserved = |reserved_minor| Refundable { reserved_minor, ..completed };
    let given_back = Refundable { reserved_minor: all, ..of(Status::Refunded) };
    let mut cases = vec![
        case("all of a completed payment's charge", completed, None, Ok(all)),
        case("one minor unit of it", completed, Some(1), Ok(1)),
        case("all of it in so many words", completed, Some(all), Ok(all)),
        case("one more than all of it", completed, Some(all + 1), Err(No::AboveCharge)),
        case("the most that a number holds", completed, Some(i64::MAX), Err(No::AboveCharge)),
        case("the last unit that is left", reserved(all - 1), None, Ok(1)),
        case("the last unit in so many words", reserved(all - 1), Some(1), Ok(1)),
        case("one more than is left", reserved(all - 1), Some(2), Err(No::AboveCharge)),
        case("all that is left of nothing", reserved(all), None, Err(No::NothingLeft)),
        case("one unit of nothing", reserved(all), Some(1), Err(No::NothingLeft)),
        case("of a parked payment that was charged", of(Status::Parked), None, Ok(all)),
        case("of the charge of a refunded payment", given_back, Some(1), Err(No::NothingLeft)),
        case("of another charge of a refunded payment", of(Status::Refunded), None, Ok(all)),
        case(
            "of a charge that nobody knows",
            Refundable { is_on_record: false, ..completed },
            None,
            Err(No::ReferenceUnknown),
        ),
        case(
            "of a parked payment without a charge on record",
            Refundable { is_on_record: false, ..of(Status::Parked) },
            None,
            Err(No::ReferenceUnknown),
        ),
        case(
            "at a gateway that does not refund",
            Refundable { offers: false, ..completed },
            None,
            Err(No::NotOffered),
        ),
        case(
            "of another payment's charge",
            Refundable { is_anothers: true, ..completed },
            None,
            Err(No::ReferenceTaken),
        ),
        Case {
            lineage: Lineage::Quarantined,
            ..case("in a restored database", completed, None, Err(No::Quarantined))
        },
    ];
    let never = [
        ("of a pending payment", Status::Pending),
        ("of a payment that is being sent", Status::Processing),
        ("of a payment whose outcome is unknown", Status::Unknown),
    ];
    cases.extend(never.map(|(name, status)| case(name, of(status), None, Err(No::NotCharged))));
    let ended = [
        ("of a failed payment", "of a late charge of a failed payment", Status::Failed),
        ("of a cancelled payment", "of a late charge of a cancelled payment", Status::Cancelled),
    ];
    for (none, late, status) in ended {
        let bare = Refundable { is_on_record: false, ..of(status) };
        cases.extend([case(none, bare, None, Err(No::NotCharged)), case(late, of(status), None, Ok(all))]);
    }
    cases
}
