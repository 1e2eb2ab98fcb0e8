//! Closing by people's word, row by row; and the sums of the charge, whatever people say.

use super::super::guard_cases::price;
use super::super::refund_resolution_cases::{ASKED, CLAIMS, cases, money, waiting};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn every_case_of_closing_is_answered_as_the_table_says() {
    let now = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(20_000);
    let mut names = BTreeSet::new();
    let mut refusals = BTreeSet::new();
    for case in cases(now) {
        assert!(names.insert(case.name), "{}", case.name);
        let answer = resolve(&case.of, case.word, case.seen, case.lineage, now);
        assert_eq!(answer, case.expect, "{}", case.name);
        refusals.extend(case.expect.err());
    }
    // Those that no row can stand for.
    refusals.extend([RefundUnresolved::NoSuchRefund, RefundUnresolved::NeedsApproval]);
    assert_eq!(refusals, RefundUnresolved::ALL.iter().copied().collect(), "each is reached");
}

proptest! {
    #[test]
    fn whatever_people_say_no_more_is_called_given_back_than_was_charged(
        reserved_beside in 0..=7_345_i64, refunded in 0..=7_345_i64, given in 1..20_000_i64, says in any::<bool>(),
    ) {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        let sums = ChargeSums {
            charge_minor: price().minor.get(),
            reserved_minor: ASKED + reserved_beside,
            refunded_minor: refunded.min(reserved_beside),
        };
        let of = OpenRefund { sums, ..waiting(now) };
        let word = if says {
            RefundWord::Refunded { reference: "re_1", amount: Some(money(given)) }
        } else {
            RefundWord::NotRefunded
        };
        let answer = resolve(&of, word, CLAIMS, Lineage::Released, now);
        let after = sums.after(of.amount.minor, word);
        let holds = 0 <= after.refunded_minor
            && after.refunded_minor <= after.reserved_minor
            && after.reserved_minor <= after.charge_minor;
        // Not only never above it: it is refused for nothing less.
        prop_assert_eq!(answer.is_ok(), holds);
    }
}
