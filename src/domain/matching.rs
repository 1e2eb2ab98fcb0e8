//! What a line of a settlement report and our row say of one charge: the same, or which difference.
//!
//! **Promise**: [`classify`] is the CASE of `compare_lines.sql`, in the same order; a test runs both over the cases of
//! `matching_cases.rs`. Of several differences the first one names the item, since it makes the others
//! meaningless: amounts of two currencies are not compared, and a payment that nobody calls charged has no right
//! amount.
//!
//! **Nothing is rounded and nothing is near**: equal, or different.

use super::ids::GatewayName;
use super::money::{Currency, Money};
use super::state::Status;
use super::texts::texts;

texts! { Class, "Which kind of difference.":
    MissingHere = "missing_here": "The gateway charged, and here it is not completed: failed, cancelled, unknown, parked, pending, or no payment at all.",
    MissingThere = "missing_there": "Completed here, and no report has its charge although the time for it is over.",
    AmountMismatch = "amount_mismatch": "Charged on both sides, with different amounts.",
    CurrencyMismatch = "currency_mismatch": "Charged on both sides, in different currencies.",
    DuplicateCharge = "duplicate_charge": "The gateway charged one payment more than once.",
    Late = "late": "Completed here, and not in a report yet; there is time left.",
    RefundMismatch = "refund_mismatch": "Given back on one side only, with different amounts, or taken back by the payer's bank.",
    Foreign = "foreign": "A line under a key that is not ours.",
}

texts! { ItemStatus, "Where a difference stands.":
    Open = "open": "Somebody has to look.",
    Waiting = "waiting": "It may settle by itself: there is grace, or the day is not over.",
    Repaired = "repaired": "Our row was repaired by the line.",
    Dismissed = "dismissed": "A person closed it with a reason.",
    Explained = "explained": "A later report or a later outcome made both sides agree.",
    Superseded = "superseded": "A later report of the day does not have it.",
}

/// What our row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ours {
    /// Where it stands.
    pub status: Status,
    /// Where it is charged.
    pub gateway: GatewayName,
    /// What was asked for.
    pub amount: Money,
}

/// Which of the charges of one payment a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The only one, or the one that counts: of the reference that we know, or else the first.
    Counts,
    /// One more.
    Extra,
}

/// Whose name a line of a charge bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    /// That of the charge that we know, or none that can be held against it.
    Fits,
    /// Another charge's than the one that we know.
    Another,
}

/// What a line of a charge says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theirs {
    /// Its key or reference names a payment by our form.
    pub is_ours: bool,
    /// Which of the payment's.
    pub place: Place,
    /// Under whose name.
    pub name: Name,
    /// At which gateway.
    pub gateway: GatewayName,
    /// What was taken.
    pub gross_minor: i64,
    /// Of what.
    pub currency: Currency,
    /// Gross is fee and net, where both are of one currency.
    pub adds_up: bool,
}

/// A difference, with the field in which it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// Of which kind.
    pub class: Class,
    /// Where it shows.
    pub field: &'static str,
}

/// What one line of a charge and our row, if there is one, come to; `None`: they match.
#[must_use]
pub fn classify(theirs: &Theirs, ours: Option<&Ours>) -> Option<Difference> {
    let differs = |class, field| Some(Difference { class, field });
    if !theirs.is_ours {
        return differs(Class::Foreign, "key");
    }
    match theirs.place {
        Place::Extra => return differs(Class::DuplicateCharge, "charge"),
        Place::Counts => {}
    }
    let Some(ours) = ours else { return differs(Class::MissingHere, "payment") };
    if ours.gateway != theirs.gateway {
        differs(Class::MissingHere, "gateway")
    } else if !is_charged(ours.status) {
        differs(Class::MissingHere, "status")
    } else if theirs.name == Name::Another {
        // The one that we know is another, wherever it stands.
        differs(Class::DuplicateCharge, "charge")
    } else if ours.amount.currency != theirs.currency {
        differs(Class::CurrencyMismatch, "currency")
    } else if ours.amount.minor.get() != theirs.gross_minor {
        differs(Class::AmountMismatch, "amount")
    } else if !theirs.adds_up {
        differs(Class::AmountMismatch, "net")
    } else {
        None
    }
}

/// Do we say that exactly one charge was made?
#[must_use]
pub fn is_charged(status: Status) -> bool {
    match status {
        Status::Completed | Status::Refunded => true,
        Status::Pending
        | Status::Processing
        | Status::Unknown
        | Status::Failed
        | Status::Cancelled
        | Status::Parked => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::matching_cases::cases;

    #[test]
    fn every_case_of_the_table_holds() {
        for case in cases() {
            let found = classify(&case.theirs, case.ours.as_ref()).map(|it| (it.class, it.field));
            assert_eq!(found, case.expect, "{}", case.name);
        }
    }

    #[test]
    fn the_table_has_every_class_that_a_line_can_have_and_every_status() {
        let cases = cases();
        let names: std::collections::BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for class in [
            Class::MissingHere,
            Class::AmountMismatch,
            Class::CurrencyMismatch,
            Class::DuplicateCharge,
            Class::Foreign,
        ] {
            assert!(cases.iter().any(|case| case.expect.is_some_and(|(it, _)| it == class)), "{class:?}");
        }
        for status in Status::ALL {
            assert!(cases.iter().any(|case| case.ours.as_ref().is_some_and(|it| it.status == status)));
        }
        assert!(cases.iter().any(|case| case.expect.is_none()));
    }
}
