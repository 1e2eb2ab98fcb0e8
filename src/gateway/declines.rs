//! What a decline code means off-session: one table, one row a code.
//!
//! **Promises** a class for every code, by exact text; a code without a row is
//! [`DeclineClass::Unmapped`], which is never retried and is alerted on. **Relies on** nothing.
//! **Why a table**: reclassifying a code is one row and one line of a test, and a reader can check
//! it against a gateway's own list. Codes follow the card industry's common names (Stripe's list of
//! decline codes, ISO 8583 response texts).

use crate::domain::verdict::DeclineClass::{self, Ambiguous, Hard, NeedsCustomer, Soft};

/// Advice of a gateway or a network that makes any decline final, whatever its code.
pub const FINAL_ADVICE: &[&str] = &["do_not_try_again", "do_not_retry"];

/// May something be sent again after a decline of this class?
#[must_use]
pub fn may_retry(class: DeclineClass) -> bool {
    match class {
        Soft | Ambiguous => true,
        Hard | NeedsCustomer | DeclineClass::Unmapped => false,
    }
}

/// Every known code with its class.
pub const TABLE: &[(&str, DeclineClass)] = &[
    ("account_closed", Hard),
    ("bank_account_restricted", Hard),
    ("card_not_supported", Hard),
    ("closed_account", Hard),
    ("currency_not_supported", Hard),
    ("do_not_try_again", Hard),
    ("expired_card", Hard),
    ("fraudulent", Hard),
    ("invalid_account", Hard),
    ("invalid_amount", Hard),
    ("invalid_number", Hard),
    ("lost_card", Hard),
    ("merchant_blacklist", Hard),
    ("new_account_information_available", Hard),
    ("no_account", Hard),
    ("not_permitted", Hard),
    ("pickup_card", Hard),
    ("restricted_card", Hard),
    ("revocation_of_all_authorizations", Hard),
    ("revocation_of_authorization", Hard),
    ("security_violation", Hard),
    ("service_not_allowed", Hard),
    ("stolen_card", Hard),
    ("stop_payment_order", Hard),
    ("transaction_not_allowed", Hard),
    ("authentication_required", NeedsCustomer),
    ("incorrect_cvc", NeedsCustomer),
    ("incorrect_pin", NeedsCustomer),
    ("incorrect_zip", NeedsCustomer),
    ("invalid_cvc", NeedsCustomer),
    ("invalid_pin", NeedsCustomer),
    ("mandate_required", NeedsCustomer),
    ("offline_pin_required", NeedsCustomer),
    ("online_or_offline_pin_required", NeedsCustomer),
    ("pin_try_exceeded", NeedsCustomer),
    ("approve_with_id", Soft),
    ("card_velocity_exceeded", Soft),
    ("insufficient_funds", Soft),
    ("issuer_not_available", Soft),
    ("issuer_unavailable", Soft),
    ("processing_error", Soft),
    ("reenter_transaction", Soft),
    ("try_again_later", Soft),
    ("velocity_exceeded", Soft),
    ("withdrawal_count_limit_exceeded", Soft),
    ("call_issuer", Ambiguous),
    ("do_not_honor", Ambiguous),
    ("do_not_honour", Ambiguous),
    ("generic_decline", Ambiguous),
    ("no_action_taken", Ambiguous),
];

/// The class of one decline; `advice` is the gateway's own, where it gave one.
#[must_use]
pub fn class(code: &str, advice: Option<&str>) -> DeclineClass {
    if advice.is_some_and(|advice| FINAL_ADVICE.contains(&advice)) {
        return Hard;
    }
    TABLE.iter().find(|(known, _)| *known == code).map_or(DeclineClass::Unmapped, |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_code_has_two_rows() {
        let codes: BTreeSet<_> = TABLE.iter().map(|(code, _)| code).collect();
        assert_eq!(codes.len(), TABLE.len());
    }

    #[test]
    fn a_code_is_matched_whole_and_exactly() {
        assert_eq!(class("insufficient_funds", None), Soft);
        assert_eq!(class("Insufficient_Funds", None), DeclineClass::Unmapped);
        assert_eq!(class("insufficient_funds ", None), DeclineClass::Unmapped);
        assert_eq!(class("", None), DeclineClass::Unmapped);
    }

    #[test]
    fn one_example_of_each_class_has_the_class_that_money_depends_on() {
        let expected = [
            ("stolen_card", Hard),
            ("revocation_of_authorization", Hard),
            ("authentication_required", NeedsCustomer),
            ("issuer_unavailable", Soft),
            ("do_not_honor", Ambiguous),
            ("a_code_of_tomorrow", DeclineClass::Unmapped),
        ];
        for (code, wanted) in expected {
            assert_eq!(class(code, None), wanted, "{code}");
        }
    }

    #[test]
    fn advice_not_to_try_again_makes_any_decline_hard() {
        assert_eq!(class("insufficient_funds", Some("do_not_try_again")), Hard);
        assert_eq!(class("a_code_of_tomorrow", Some("do_not_retry")), Hard);
        assert_eq!(class("insufficient_funds", Some("try_again_later")), Soft);
    }
}
