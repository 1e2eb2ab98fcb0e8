//! What a settlement line may do to a refund of ours: the guard of `repair_refund()`.
//!
//! **Promises**: [`repair`] is that function's guard, in the same order; a test runs both over the same rows. A refund
//! ends by a line that shows it whole: under its own key, or, by a person's order, under none of ours while it is the
//! only open one of its payment and amount. What a bank calls its entry is evidence, and no name of a refund. What a database that was restored still calls allowed, and the gateway
//! gave back in the lost time, is so not sent again (rules R4 and R17). Anything else that a line says is for people.
//!
//! **If this dies here**, nothing was decided.

use super::money::Money;
use super::refund::RefundStatus;
use super::repair::{Behind, NotRepaired};

/// How a line names its refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// By its id, which is the gateway's key of it.
    Key,
    /// By nothing of ours: it is the only open refund of its payment, amount and currency, and of the charge that the
    /// line names, if it names one.
    BeingTheOnlyOne,
}

/// A line, and what is known of the name that it gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenBack<'a> {
    /// Which refund it means.
    pub named_by: NamedBy,
    /// The gateway's name; empty: the line has none.
    pub reference: &'a str,
    /// That name is the gateway's own, and not one that a bank gave its entry.
    pub has_own_name: bool,
    /// What it says was given back; `None`: nothing that we could have asked for.
    pub amount: Option<Money>,
    /// That name is another refund's.
    pub is_anothers: bool,
}

/// A refund as a line finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRefund {
    /// Where it stands.
    pub status: RefundStatus,
    /// What it gives back.
    pub amount: Money,
    /// The gateway's name of it, where an answer gave one.
    pub reference: Option<String>,
    /// The last history row of its payment.
    pub version: i32,
}

/// May this line end the refund? `version` is the payment's that the asker saw, if that matters.
///
/// # Errors
/// [`NotRepaired`], the first that applies.
pub fn repair(
    of: &OpenRefund,
    line: &GivenBack<'_>,
    behind: Behind,
    version: Option<i32>,
) -> Result<(), NotRepaired> {
    if version.is_some_and(|seen| seen != of.version) {
        return Err(NotRepaired::Changed);
    }
    match of.status {
        RefundStatus::Approved | RefundStatus::Unknown => {}
        RefundStatus::Asked | RefundStatus::Declined | RefundStatus::Rejected => {
            return Err(NotRepaired::NothingToRepair);
        }
        RefundStatus::Sending => return Err(NotRepaired::InFlight),
        RefundStatus::Refunded => return Err(NotRepaired::OnRecord),
    }
    if line.has_own_name && line.reference.is_empty() {
        return Err(NotRepaired::ReferenceMissing);
    } else if line.has_own_name && line.is_anothers {
        return Err(NotRepaired::ReferenceTaken);
    }
    let is_known_otherwise =
        line.has_own_name && of.reference.as_deref().is_some_and(|known| known != line.reference);
    if is_known_otherwise || line.amount != Some(of.amount) {
        return Err(NotRepaired::NothingToRepair);
    }
    match (behind, line.named_by) {
        (Behind::Program(_), NamedBy::BeingTheOnlyOne) => Err(NotRepaired::NeedsPerson),
        (Behind::Program(_) | Behind::OnePerson | Behind::TwoPeople, NamedBy::Key)
        | (Behind::OnePerson | Behind::TwoPeople, NamedBy::BeingTheOnlyOne) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::refund_repair_cases::cases;

    #[test]
    fn every_case_of_the_table_holds_and_every_state_and_answer_is_met() {
        let cases = cases();
        for case in &cases {
            let got = repair(&case.refund, &case.line(), case.behind, case.version);
            assert_eq!(got, case.expect, "{}", case.name);
        }
        for status in RefundStatus::ALL {
            assert!(cases.iter().any(|case| case.refund.status == *status), "{status:?}");
        }
    }
}
