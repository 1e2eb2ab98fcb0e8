//! The registry of reasons: why a payment stands where it stands, as stored, answered and alerted.
//!
//! One table; a test holds that each entry is reachable and documented.

use super::texts::texts;
use serde::{Deserialize, Serialize};

texts! { #[derive(Serialize, Deserialize)] #[serde(rename_all = "snake_case")] Reason, "Why a payment stands where it stands.":
    DeclinedHard = "declined_hard": "The gateway refused for good.",
    DeclinedNeedsCustomer = "declined_needs_customer": "The gateway refused until the payer acts.",
    DeclinedSoft = "declined_soft": "The gateway refused for now; the payment waits on its retry ladder.",
    DeclinedAmbiguous = "declined_ambiguous": "The gateway refused without a usable reason.",
    DeclinedUnmapped = "declined_unmapped": "The gateway refused with a code that is not in the decline table.",
    DeclinedTooOften = "declined_too_often": "The gateway refused for now, and has refused this destination as often as is tolerated: no further try is made.",
    BudgetExhausted = "budget_exhausted": "Every send that the retry policy allows was refused.",
    DeadlinePassed = "deadline_passed": "executeBefore passed before any charge could start.",
    GatewayUnreachable = "gateway_unreachable": "The gateway could not be reached; nothing was sent.",
    GatewayRateLimited = "gateway_rate_limited": "The gateway asked us to slow down; nothing was executed.",
    GatewayRefusedUs = "gateway_refused_us": "The gateway refused our credentials; nothing was executed.",
    GatewayRejected = "gateway_rejected": "The gateway rejected the request as invalid; nothing was executed.",
    NotSent = "not_sent": "The claim was given back before anything was sent.",
    HeldBackTooLong = "held_back_too_long": "The gateway took nothing for 24 hours or 50 tries in a row.",
    OutcomeUnknown = "outcome_unknown": "A request may have reached the gateway and no trustworthy answer came.",
    VoidUnanswered = "void_unanswered": "A void of the gateway key was asked for and no trustworthy answer came.",
    InProgressAtGateway = "in_progress_at_gateway": "The gateway is still executing an earlier request under this key.",
    PendingAtGateway = "pending_at_gateway": "The gateway accepted the request and will know its outcome later.",
    LeaseExpired = "lease_expired": "The worker that claimed it recorded no outcome in time.",
    KeyExpiredUndecided = "key_expired_undecided": "The gateway key is too old to be sent again and a look-up does not decide.",
    UnknownTooLong = "unknown_too_long": "The outcome stayed unknown to the end of the re-ask ladder.",
    UnprovenDecline = "unproven_decline": "Refused, but an earlier send of the same key is still without an answer.",
    ContractViolation = "contract_violation": "The gateway's answer contradicts what was asked.",
    AccountChanged = "account_changed": "The gateway account or the request format changed while this key was open.",
    RequestChanged = "request_changed": "The request bytes would differ from those first sent under this key.",
    CannotRender = "cannot_render": "No request can be made for this gateway from this payment.",
    Poisoned = "poisoned": "The database refused this row in a batch; it was parked by itself.",
    ChargedBefore = "charged_before": "The gateway charged it before a restore lost that: it is not charged again, and waits for reconciliation.",
    CancelledByClient = "cancelled_by_client": "The client cancelled it before submission started.",
    CancelledByOperator = "cancelled_by_operator": "An operator cancelled it for the client before submission started.",
    Redriven = "redriven": "An operator released it from parking; its key is looked up before anything is sent.",
    ResolvedNotCharged = "resolved_not_charged": "An operator ended it with evidence that nothing was charged.",
    ChargeFound = "charge_found": "The gateway's settlement report shows a charge of it that nobody here knew of.",
    ExternalIdTakenBack = "external_id_taken_back": "Its external id went back to an older payment that the gateway's settlement report shows as charged.",
    VoidProven = "void_proven": "The gateway proved that no charge under this key can happen any more.",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_distinct_read_back_and_equal_to_the_serialised_form() {
        let mut seen = std::collections::BTreeSet::new();
        for reason in Reason::ALL {
            assert!(seen.insert(reason.as_str()), "{reason:?}");
            assert_eq!(Reason::from_text(reason.as_str()), Some(*reason));
            assert_eq!(serde_json::to_value(reason).expect("plain"), reason.as_str());
            assert!(reason.explanation().ends_with('.'));
        }
        assert_eq!(Reason::from_text("DECLINED_HARD"), None);
    }
}
