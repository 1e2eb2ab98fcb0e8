//! What a gateway or a bank says it moved: one line of its report, whatever the format it came in.
//!
//! **Promises**: whole minor units of currencies that we know, signs that mean the same in every format, and a
//! key that is of our form or somebody else's. **Why here**: the readers make lines, the schedule stores and compares
//! them, and neither knows the other.
//!
//! A line is a claim of somebody else's. It moves nothing by itself; a repair takes it as evidence.

use super::ids::{Epoch, PaymentId};
use super::money::Currency;
use super::refund::RefundId;
use super::texts::texts;
use chrono::NaiveDate;
use uuid::Uuid;

/// Longest key or reference that a line carries, in characters; the wire of a gateway allows no more.
pub const REFERENCE_MAX_LEN: usize = 255;

texts! { Kind, "What a line says was done.":
    Charge = "charge": "Money moved as a payment asked; the amount is above zero.",
    Refund = "refund": "A charge was given back, below zero; above zero, a refund that came back.",
    Chargeback = "chargeback": "The payer's bank took a charge back or it failed after all, below zero; above zero, that was reversed.",
    Fee = "fee": "What the gateway or the bank takes for itself.",
    Payout = "payout": "The balance was moved to or from a bank account.",
    Other = "other": "Something that is no business of a payment.",
}

/// One movement, as the report says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Which of the report's lines it is, from 1, without gaps: unique where one line of text holds many.
    pub number: u64,
    /// On which line of the file it begins, from 1: where a person looks.
    pub at_line: u64,
    /// The key under which it was asked for, as the report has it; [`payment_of`] and [`refund_of`] read it.
    pub key: Option<String>,
    /// The gateway's name for it.
    pub gateway_ref: Option<String>,
    /// The gateway's name for the charge that a refund or chargeback belongs to; of a charge, another name of it.
    pub charge_ref: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// What was moved, in `currency`: a charge above zero, what takes one back below.
    pub gross_minor: i64,
    /// The currency that the payment asked for.
    pub currency: Currency,
    /// What lies between gross and net, in `net_currency`. Below zero where it was put on top, as a bank does
    /// with what leaves an account.
    pub fee_minor: i64,
    /// What is left of it, in `net_currency`. Where both currencies are one, gross = fee + net.
    pub net_minor: i64,
    /// The currency of the account; another one than `currency` where the gateway converts.
    pub net_currency: Currency,
    /// The day on which it was booked, as the report counts days.
    pub booked_on: NaiveDate,
    /// The day on which it happened (UTC), where the report tells.
    pub executed_on: Option<NaiveDate>,
    /// SHA-256 of the line's own bytes in the file, without the line end.
    pub raw_hash: [u8; 32],
}

/// Are references of this format the names that the gateway itself uses, so that our history has them too? A bank names
/// what it booked, whatever the gateway called it.
#[must_use]
pub fn has_own_names(format: &str) -> bool {
    !format.starts_with("camt.")
}

/// The payment and epoch that a key was made of: the inverse of [`super::ids::gateway_key`]. `None` for a key that
/// is not of our form: somebody else's.
///
/// Banks keep 35 characters and may change the case, so 32 hex digits without hyphens are read too, in either
/// case. The id says when the payment was due, so whoever looks it up names its day; that it is of this
/// installation only the store knows.
#[must_use]
pub fn payment_of(key: &str) -> Option<(PaymentId, Epoch)> {
    let (id, epoch) = match key.split_once(':') {
        None => (key, 0),
        Some((id, epoch)) => (id, epoch_of(epoch)?),
    };
    PaymentId::from_uuid(uuid_of(id)?).ok().map(|payment| (payment, Epoch(epoch)))
}

/// The refund that a key may name: the inverse of [`RefundId::key`].
///
/// Ids of refunds and of payments are of one form, so of a line of kind [`Kind::Refund`] a key may be either: of
/// the refund, as the http gateway's, or of the payment, as where a gateway repeats the charge's reference.
/// Refunds are looked up first, by their key.
#[must_use]
pub fn refund_of(key: &str) -> Option<RefundId> {
    uuid_of(key).filter(|uuid| PaymentId::from_uuid(*uuid).is_ok()).map(RefundId)
}

/// As it is written: digits without a leading zero. `:0` is read too, since it names the same key.
fn epoch_of(text: &str) -> Option<i32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

/// 36 characters with hyphens, or 32 without: no braces, no `urn:`.
fn uuid_of(text: &str) -> Option<Uuid> {
    matches!(text.len(), 32 | 36).then(|| Uuid::try_parse(text).ok()).flatten()
}

/// The key as a bank carries it in `EndToEndId`, which holds 35 characters: 32 hex digits. A bank's payment is
/// sent once under it, so it has no epoch.
#[must_use]
pub fn bank_key(payment: PaymentId) -> String {
    payment.as_uuid().as_simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ActorId;
    use crate::domain::ids::gateway_key;
    use crate::domain::intent::Secret;
    use chrono::DateTime;
    use proptest::prelude::*;

    const SECRET: Secret = [0x42; 32];

    fn payment(ms: i64, intent: [u8; 10]) -> PaymentId {
        PaymentId::new(DateTime::from_timestamp_millis(ms).expect("in range"), intent).expect("in range")
    }

    #[test]
    fn a_key_is_read_as_banks_and_gateways_give_it_back() {
        let id = payment(1_795_960_020_123, [9; 10]);
        for key in [
            id.to_string(),
            format!("{id}:0"),
            bank_key(id),
            id.to_string().to_uppercase(),
            bank_key(id).to_uppercase(),
        ] {
            assert_eq!(payment_of(&key), Some((id, Epoch(0))), "{key}");
        }
        assert_eq!(payment_of(&format!("{id}:12")), Some((id, Epoch(12))));
        assert!(bank_key(id).len() <= 35);
    }

    #[test]
    fn a_refund_s_key_names_it_and_has_no_epoch() {
        let refund = RefundId::of(&SECRET, ActorId(Uuid::from_u128(1)), "refund-1");
        assert_eq!(refund_of(&refund.key()), Some(refund));
        assert_eq!(refund_of(&refund.0.as_simple().to_string()), Some(refund), "as a bank carries it");
        assert_eq!(refund_of(&format!("{refund}:1")), None);
        assert_eq!(refund_of(&Uuid::from_u128(7).to_string()), None, "no id of ours is of another version");
    }

    #[test]
    fn what_is_not_of_our_form_is_somebody_else_s() {
        let id = payment(1_795_960_020_123, [9; 10]);
        for key in [
            "",
            ":",
            "order-17",
            "NOTPROVIDED",
            &format!("{id}:"),
            &format!("{id}:01"),
            &format!("{id}:-1"),
            &format!("{id}:+1"),
            &format!("{id}:1:1"),
            &format!("{id}:99999999999"),
            &format!("{{{id}}}"),
            &format!("urn:uuid:{id}"),
            &format!(" {id}"),
            &bank_key(id)[1..],
        ] {
            assert_eq!(payment_of(key), None, "{key}");
        }
    }

    proptest! {
        #[test]
        fn every_key_of_ours_names_its_payment(ms in 0..(1_i64 << 48), intent: [u8; 10], epoch in 0..=i32::MAX) {
            let id = payment(ms, intent);
            prop_assert_eq!(payment_of(&gateway_key(id, Epoch(epoch))), Some((id, Epoch(epoch))));
            prop_assert_eq!(payment_of(&bank_key(id)), Some((id, Epoch(0))));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            let _ = (payment_of(&text), refund_of(&text));
        }
    }
}
