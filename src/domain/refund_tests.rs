//! The rules of refunds, row by row.

use super::super::guard_cases::price;
use super::super::refund_cases::cases;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NONE: PerMille = PerMille(0);

#[test]
fn every_case_of_asking_is_answered_as_the_table_says() {
    let mut names = BTreeSet::new();
    let mut refusals = BTreeSet::new();
    for case in cases() {
        assert!(names.insert(case.name), "{}", case.name);
        let amount = case.amount.map(|minor| Minor::new(minor).expect("positive"));
        let answer = ask(&case.of, amount, case.lineage).map(Minor::get);
        assert_eq!(answer, case.expect, "{}", case.name);
        refusals.extend(case.expect.err());
    }
    // The one that no row can stand for.
    refusals.insert(RefundRefused::NoSuchPayment);
    assert_eq!(refusals.into_iter().collect::<Vec<_>>(), RefundRefused::ALL, "each is reached");
}

#[test]
fn a_refund_s_id_is_the_same_for_the_same_asker_and_key_and_no_other() {
    let (one, other) = (ActorId(Uuid::from_u128(1)), ActorId(Uuid::from_u128(2)));
    let id = RefundId::of(&[7; 32], one, "k");
    assert_eq!(id, RefundId::of(&[7; 32], one, "k"));
    for another in [
        RefundId::of(&[7; 32], one, "l"),
        RefundId::of(&[7; 32], other, "k"),
        RefundId::of(&[8; 32], one, "k"),
    ] {
        assert_ne!(id, another);
    }
    assert_eq!((id.0.get_version_num(), id.key().len()), (8, 36));
}

/// The key has a day left.
const KEY_ENDS_AT: Option<DateTime<Utc>> = DateTime::from_timestamp(86_400, 0);

/// As the first claim after those that are open.
fn view(others_open: i32, by: LearnedBy) -> RefundView {
    let key_ends_at = KEY_ENDS_AT.filter(|_| others_open > 0);
    let asks = i16::try_from(others_open).expect("few");
    RefundView { amount: price(), others_open, by, asks, attempt: others_open + 1, key_ends_at }
}

fn decided(view: &RefundView, verdict: &RefundVerdict, replays: bool) -> (RefundStatus, bool, RefundSends) {
    let decision = decide(view, verdict, replays, &Ladders::default(), DateTime::<Utc>::UNIX_EPOCH, NONE);
    (decision.to, decision.next_at.is_some(), decision.answered)
}

fn refunded() -> RefundVerdict {
    RefundVerdict::Refunded { reference: "re_1".into(), amount: price() }
}

fn declined() -> RefundVerdict {
    RefundVerdict::Declined { code: "charge_disputed".into() }
}

fn not_sent(why: NotSent) -> RefundVerdict {
    RefundVerdict::NotSent { why, retry_after: None }
}

#[test]
fn what_an_answer_makes_of_a_refund() {
    use LearnedBy::{LookUp, Request};
    use RefundSends::{All, None, Own};
    use RefundStatus::{Approved, Declined, Refunded, Unknown};
    let short = Money { minor: Minor::new(1).expect("positive"), ..price() };
    let wrong = RefundVerdict::Refunded { reference: "re_1".into(), amount: short };
    let violation = RefundVerdict::ContractViolation { what: "x".into() };
    let underway = RefundVerdict::Underway { retry_after: Option::None };
    let timed_out = RefundVerdict::Unknown(Doubt::TimedOut);
    for (what, others, by, verdict, replays, expect) in [
        ("refunded", 0, Request, refunded(), false, (Refunded, false, All)),
        ("refunded, an older send open", 3, Request, refunded(), false, (Refunded, false, All)),
        ("found refunded", 1, LookUp, refunded(), false, (Refunded, false, All)),
        ("another amount", 0, Request, wrong, false, (Unknown, false, None)),
        ("what cannot be", 0, Request, violation, false, (Unknown, false, None)),
        ("declined alone", 0, Request, declined(), false, (Declined, false, All)),
        ("declined, an older send open", 1, Request, declined(), false, (Unknown, true, Own)),
        ("declined, a replaying gateway", 1, Request, declined(), true, (Declined, false, All)),
        ("found declined after one send", 1, LookUp, declined(), false, (Declined, false, All)),
        ("found declined after two sends", 2, LookUp, declined(), false, (Unknown, true, Own)),
        ("not taken", 0, Request, not_sent(NotSent::RateLimited), false, (Approved, true, Own)),
        (
            "not taken, an older send open",
            1,
            Request,
            not_sent(NotSent::Refused),
            false,
            (Unknown, true, Own),
        ),
        (
            "only asked, an older send open",
            1,
            LookUp,
            not_sent(NotSent::OnlyAsked),
            false,
            (Unknown, true, Own),
        ),
        ("called wrong", 0, Request, not_sent(NotSent::Rejected), false, (Declined, false, All)),
        (
            "called wrong, an older send open",
            1,
            Request,
            not_sent(NotSent::Rejected),
            false,
            (Unknown, true, Own),
        ),
        ("runs", 0, Request, underway.clone(), false, (Unknown, true, None)),
        ("found running", 1, LookUp, underway, false, (Unknown, true, None)),
        ("no answer", 0, Request, timed_out, false, (Unknown, true, None)),
    ] {
        assert_eq!(decided(&view(others, by), &verdict, replays), expect, "{what}");
    }
    // Declined again and again, and of the older send nothing is heard: a person looks.
    let late = RefundView { asks: 5, ..view(1, Request) };
    assert_eq!(decided(&late, &declined(), false), (Unknown, false, Own));
}

#[test]
fn a_decline_that_a_look_up_finds_speaks_for_the_only_request_and_for_none_of_two() {
    let only = view(1, LearnedBy::LookUp);
    assert_eq!(decided(&only, &declined(), false).0, RefundStatus::Declined);
    // The first request was lost, the second refused; the look-up shows the second, and the first may still arrive.
    let third = RefundView { asks: 2, ..only };
    assert_eq!(decided(&third, &declined(), false), (RefundStatus::Unknown, true, RefundSends::Own));
}

#[test]
fn a_replayed_decline_closes_open_sends_only_while_the_key_outlives_them() {
    let by = LearnedBy::Request;
    let ends_in = |minutes: i64| RefundView {
        key_ends_at: Some(DateTime::<Utc>::UNIX_EPOCH + TimeDelta::minutes(minutes)),
        ..view(1, by)
    };
    assert_eq!(decided(&ends_in(61), &declined(), true).0, RefundStatus::Declined);
    assert_eq!(decided(&ends_in(60), &declined(), true), (RefundStatus::Unknown, true, RefundSends::Own));
}

#[test]
fn what_the_gateway_may_have_forgotten_and_does_not_show_is_for_people() {
    let over = RefundView { key_ends_at: Some(DateTime::<Utc>::UNIX_EPOCH), ..view(1, LearnedBy::Request) };
    let forgotten = (RefundStatus::Unknown, false, RefundSends::Own);
    assert_eq!(decided(&over, &not_sent(NotSent::KeyExpired), false), forgotten);
    // It lives, or nobody could be asked: the question goes on.
    for (view, why) in [(view(1, LearnedBy::Request), NotSent::KeyExpired), (over, NotSent::OnlyAsked)] {
        assert_eq!(
            decided(&view, &not_sent(why), false),
            (RefundStatus::Unknown, true, RefundSends::Own),
            "{why:?}"
        );
    }
    assert_eq!(decided(&over, &refunded(), false).0, RefundStatus::Refunded);
}

fn verdicts() -> impl Strategy<Value = RefundVerdict> {
    let whys = prop::sample::select(NotSent::ALL).prop_map(not_sent);
    let doubts = prop::sample::select(Doubt::ALL).prop_map(RefundVerdict::Unknown);
    let others = prop::sample::select(vec![
        refunded(),
        declined(),
        RefundVerdict::Underway { retry_after: None },
        RefundVerdict::ContractViolation { what: "x".into() },
    ]);
    prop_oneof![whys, doubts, others]
}

proptest! {
    #[test]
    fn a_refund_is_never_called_undone_while_an_older_send_of_it_may_have_moved_money(
        verdict in verdicts(), others in 1..9_i32, asks in 1..99_i16, asked in any::<bool>(),
    ) {
        // Of one request a look-up tells; with two, or with a send of this claim, nothing tells for all.
        let (by, asks) = if asked { (LearnedBy::LookUp, asks + 1) } else { (LearnedBy::Request, asks) };
        let view = RefundView { asks, ..view(others, by) };
        let (to, _, _) = decided(&view, &verdict, false);
        prop_assert!(!matches!(to, RefundStatus::Declined | RefundStatus::Approved | RefundStatus::Rejected));
    }

    #[test]
    fn money_comes_back_only_by_the_gateway_s_own_word(
        verdict in verdicts(), others in 0..9_i32, replays in any::<bool>(),
    ) {
        let (to, _, _) = decided(&view(others, LearnedBy::Request), &verdict, replays);
        prop_assert_eq!(to == RefundStatus::Refunded, verdict == refunded());
    }

    #[test]
    fn what_is_under_way_is_claimed_again_later_and_never_at_once(
        verdict in verdicts(), others in 0..9_i32, asks in 0..99_i16, per_mille in 0..1_000_u32,
    ) {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        let view = RefundView { asks, ..view(others, LearnedBy::Request) };
        let decision = decide(&view, &verdict, false, &Ladders::default(), now, PerMille(per_mille));
        if let Some(next_at) = decision.next_at {
            prop_assert!(next_at >= now + TimeDelta::seconds(1));
        }
    }
}
