//! From a guard's "why not" to what a person is told.

use crate::domain::ids::PaymentId;
use crate::domain::parked::WhyNot;
use crate::domain::state::Status;
use crate::intake::{Code, Problem};

/// A refused act on one payment.
pub(super) fn refusal(why: WhyNot, payment: PaymentId, status: Option<Status>) -> Problem {
    match why {
        WhyNot::NoSuchPayment => Problem::new(Code::PaymentNotFound).detail(why.explanation()),
        WhyNot::NotParked => about(Code::NotParked, why, payment, status),
        // Passes once an operator has released the database.
        WhyNot::Quarantined => {
            Problem::new(Code::DatabaseUnavailable).detail(why.explanation()).retry_after(10)
        }
        WhyNot::Changed => about(Code::PaymentChanged, why, payment, status),
        WhyNot::ChargeOnRecord => about(Code::ChargeOnRecord, why, payment, status),
        WhyNot::DeclinedForGood => about(Code::DeclinedForGood, why, payment, status),
        WhyNot::OpenSend => about(Code::OpenSend, why, payment, status),
        WhyNot::KeyUnused => about(Code::KeyUnused, why, payment, status),
        WhyNot::NoChargeWanted => about(Code::NoChargeWanted, why, payment, status),
        WhyNot::NotProven => about(Code::NotProven, why, payment, status),
        // Asked for here before the schedule could say so.
        WhyNot::NeedsApproval => Problem::new(Code::Internal),
        WhyNot::ReferenceMissing => {
            Problem::at(Code::MissingField, "/evidence/gatewayReference", why.explanation())
        }
        WhyNot::AmountDiffers => Problem::at(Code::EvidenceDiffers, "/evidence/amount", why.explanation()),
        WhyNot::ReferenceDiffers => {
            Problem::at(Code::EvidenceDiffers, "/evidence/gatewayReference", why.explanation())
        }
        WhyNot::ReferenceTaken => about(Code::ReferenceTaken, why, payment, status),
    }
}

fn about(code: Code, why: WhyNot, payment: PaymentId, status: Option<Status>) -> Problem {
    Problem::new(code).detail(why.explanation()).about(payment, status)
}
