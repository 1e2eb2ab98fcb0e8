//! What people and programs are told of a day.

use super::*;
use crate::domain::repair::NotRepaired;
use crate::reconcile::Apart;
use crate::reconcile::read::Report;
use crate::schedule::{Compared, DaySum, Difference};
use std::collections::BTreeMap;

fn told(open: u64, repairs: Repairs) -> Told {
    let found = Difference {
        class: Class::AmountMismatch,
        status: ItemStatus::Open,
        payment: None,
        refund: None,
        key: Some("k\u{1b}1".into()),
        reference: Some("ch_7".into()),
        field: "amount".into(),
        ours: Some("1250".into()),
        theirs: None,
        amount_minor: Some(-1),
        currency: Some("EUR".into()),
        evidence: json!({"line": 17}),
    };
    let compared = Compared {
        matched: 9,
        counts: BTreeMap::from([(Class::AmountMismatch, open), (Class::Late, 2)]),
        new: BTreeMap::from([(Class::AmountMismatch, open)]),
        lost: 1,
        open,
        waiting: 2,
        is_complete: true,
        sample: vec![found],
        ..Compared::default()
    };
    let report = Report {
        source_id: None,
        day: None,
        booked: None,
        is_complete: true,
        lines: 71,
        passed_over: 0,
        sha256: [7; 32],
        size_bytes: 1_000,
        sums: Vec::new(),
    };
    let sum = DaySum { currency: "EUR".into(), ..DaySum::default() };
    let apart = vec![Apart { due_day: "2030-01-30".parse().unwrap(), sum }];
    let done = Reconciled { report, counted: Counted::Not, compared, repairs, apart };
    Told::of(GatewayName("sandbox".into()), "2030-01-31".parse().unwrap(), done)
}

#[test]
fn people_read_what_was_found_and_what_is_left_and_nothing_drives_their_terminal() {
    assert_eq!(
        told(60, Repairs::default()).text(),
        "sandbox 2030-01-31: complete; 71 lines, tried and not kept\n\
         \u{20} matched           9\n\
         \u{20} amount_mismatch   60, 60 of them new\n\
         \u{20} late              2\n\
         \u{20} lost              1 charge under an id that has no row here\n\
         \u{20} open              60\n\
         \u{20} waiting           2\n\
         \u{20} apart             2030-01-30 EUR: payments, attempts, history and settlement do not add up to the same\n\
         \u{20}         k 1: amount_mismatch amount, ours 1250, theirs nothing, line 17\n\
         … and 10 more: punctual reconcile items --status open --gateway sandbox --day 2030-01-31 --all\n"
    );
}

#[test]
fn what_was_repaired_is_counted_and_what_was_not_has_its_reason() {
    let repairs = Repairs {
        completed: 1,
        refunds: 3,
        others: 2,
        refused: BTreeMap::from([(NotRepaired::InFlight, 1)]),
        ..Repairs::default()
    };
    assert_eq!(
        repaired(&repairs),
        "1 completed, 3 refunds ended, 2 parked for their external id; 1 not repaired: A worker holds it, or the payment \
         that took its external id: try again in a minute."
    );
    assert_eq!(repaired(&Repairs::default()), "nothing");
}

#[test]
fn a_payment_that_was_charged_twice_is_said_at_the_end_also_while_it_waits() {
    assert_eq!(told(1, Repairs::default()).stop_first(), None);
    let mut twice = told(0, Repairs::default());
    twice.done.compared.counts.insert(Class::DuplicateCharge, 1);
    assert!(twice.stop_first().is_some_and(|said| said.starts_with("duplicate_charge was found")));
    twice.done.compared.waiting = 0;
    assert_eq!(twice.stop_first(), None, "people have decided");
}

#[test]
fn programs_read_the_same_and_that_a_trial_is_none() {
    let document = told(1, Repairs::default()).document();
    assert_eq!(
        (&document["dryRun"], &document["report"], &document["open"]),
        (&json!(true), &Value::Null, &json!(1))
    );
    assert_eq!(document["counts"], json!({"amount_mismatch": 1, "late": 2}));
    assert_eq!(document["items"][0]["gatewayReference"], "ch_7");
    assert_eq!(document["apart"][0]["day"], "2030-01-30");
}
