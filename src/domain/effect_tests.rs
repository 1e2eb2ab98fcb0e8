//! Every effect on a row by name, and that a refused one changes nothing.

use super::*;
use crate::domain::guard_cases::payment;
use crate::domain::invariants::row_faults;
use crate::domain::verdict::{Decline, DeclineClass, Doubt, NotSent};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_960_020, 0).expect("in range")
}

fn decision(to: Status) -> Decision {
    Decision {
        to,
        cause: Cause::Settled,
        reason: None,
        next_attempt_at: matches!(to, Status::Pending | Status::Unknown)
            .then(|| now() + TimeDelta::minutes(1)),
        answered: SendsAnswered::Own,
        budget: Budget::Keep,
        epoch: EpochChange::Same,
        gateway_ref: None,
    }
}

fn not_sent() -> Verdict {
    Verdict::NotSent { why: NotSent::Refused, retry_after: None }
}

fn declined() -> Verdict {
    Verdict::Declined(Decline {
        class: DeclineClass::Soft,
        code: "insufficient_funds".into(),
        network_code: None,
        reference: None,
        retry_after: None,
    })
}

/// By the claim that opened the key.
fn settle(row: &mut Payment, decision: &Decision, was: Status, verdict: &Verdict) -> Result<(), Refusal> {
    let settling = Settling { decision, was, verdict, opened_key: true, request_hash: Some([1; 32]) };
    apply_settle(row, &settling, now())
}

fn claimed(status: Status) -> Payment {
    let mut row = payment(now(), 1, status);
    apply_claim(&mut row, "account", 3, now()).expect("claimable");
    row
}

#[test]
fn a_first_claim_opens_the_key_and_counts_a_send() {
    let mut row = payment(now(), 1, Status::Pending);
    (row.attempt, row.sends, row.fence.0) = (0, 0, 0);
    (row.gateway_account, row.renderer) = (None, None);
    assert_eq!(apply_claim(&mut row, "account", 3, now()), Ok(Status::Pending));
    assert_eq!((row.status, row.attempt, row.fence.0), (Status::Processing, 1, 1));
    assert_eq!((row.unanswered, row.sends), (1, 1));
    assert_eq!(row.epoch_first_sent_at, Some(now()));
    assert_eq!((row.gateway_account.as_deref(), row.renderer), (Some("account"), Some(3)));
    assert_eq!(row_faults(&row), Vec::new());
}

#[test]
fn a_claim_that_asks_again_counts_a_possible_send_but_no_budget_and_keeps_the_key() {
    let before = payment(now(), 1, Status::Unknown);
    let mut row = before.clone();
    assert_eq!(apply_claim(&mut row, "another", 9, now()), Ok(Status::Unknown));
    assert_eq!((row.unanswered, row.sends), (before.unanswered + 1, before.sends));
    assert_eq!(row.epoch_first_sent_at, before.epoch_first_sent_at);
    assert_eq!((&row.gateway_account, row.renderer), (&before.gateway_account, before.renderer));
    assert_eq!(row.asks, before.asks, "the rung it stands on");
}

#[test]
fn only_pending_and_unknown_can_be_claimed() {
    for status in Status::ALL.into_iter().filter(|status| !status.is_claimable()) {
        let mut row = payment(now(), 1, status);
        let before = row.clone();
        assert!(matches!(apply_claim(&mut row, "a", 1, now()), Err(Refusal::Illegal(_))));
        assert_eq!(row, before);
    }
}

#[test]
fn no_settle_calls_a_payment_clean_while_a_send_is_open() {
    for to in [Status::Pending, Status::Failed, Status::Cancelled] {
        let mut row = claimed(Status::Unknown);
        let before = row.clone();
        let refusal = settle(&mut row, &decision(to), Status::Unknown, &declined());
        assert_eq!(refusal, Err(Refusal::OpenSend { to, unanswered: 1 }));
        assert_eq!(row, before);
        let all = Decision { answered: SendsAnswered::All, ..decision(to) };
        assert_eq!(settle(&mut row, &all, Status::Unknown, &declined()), Ok(()));
        assert_eq!((row.status, row.unanswered), (to, 0));
    }
}

#[test]
fn the_key_s_age_is_taken_back_only_by_a_not_sent_of_the_claim_that_opened_it() {
    let mut clean = claimed(Status::Pending);
    settle(&mut clean, &decision(Status::Pending), Status::Pending, &not_sent()).expect("legal");
    assert_eq!((clean.unanswered, clean.epoch_first_sent_at), (0, None));

    // An earlier send was answered by a late decline: the gateway's record of it grows old.
    let mut used = claimed(Status::Pending);
    let settling = Settling {
        decision: &decision(Status::Pending),
        was: Status::Pending,
        verdict: &not_sent(),
        opened_key: false,
        request_hash: None,
    };
    apply_settle(&mut used, &settling, now()).expect("legal");
    assert_eq!((used.unanswered, used.epoch_first_sent_at), (0, Some(now())));

    let mut open = claimed(Status::Unknown);
    settle(&mut open, &decision(Status::Unknown), Status::Unknown, &not_sent()).expect("legal");
    assert_eq!(open.unanswered, 1);
    assert!(open.epoch_first_sent_at.is_some());

    let mut answered = claimed(Status::Pending);
    settle(&mut answered, &decision(Status::Parked), Status::Pending, &declined()).expect("legal");
    assert_eq!(answered.unanswered, 0);
    assert!(answered.epoch_first_sent_at.is_some());
}

#[test]
fn the_next_epoch_starts_without_a_key() {
    let mut row = claimed(Status::Pending);
    row.unanswered = 3;
    let next =
        Decision { answered: SendsAnswered::All, epoch: EpochChange::Next, ..decision(Status::Pending) };
    settle(&mut row, &next, Status::Pending, &declined()).expect("legal");
    assert_eq!((row.epoch, row.unanswered), (Epoch(1), 0));
    assert_eq!((row.epoch_first_sent_at, row.request_hash), (None, None));
    assert_eq!((row.gateway_account, row.renderer), (None, None));
}

#[test]
fn the_first_recorded_request_hash_stays_for_the_epoch() {
    let mut row = claimed(Status::Pending);
    settle(&mut row, &decision(Status::Unknown), Status::Pending, &Verdict::Unknown(Doubt::TimedOut))
        .expect("legal");
    assert_eq!(row.request_hash, Some([1; 32]));
    row.request_hash = Some([7; 32]);
    apply_claim(&mut row, "account", 3, now()).expect("claimable");
    settle(&mut row, &decision(Status::Unknown), Status::Unknown, &not_sent()).expect("legal");
    assert_eq!(row.request_hash, Some([7; 32]));
}

#[test]
fn a_send_is_handed_back_only_if_the_claim_counted_one() {
    for (was, budget, sends, held_back) in [
        (Status::Pending, Budget::Keep, 2, 0),
        (Status::Pending, Budget::HandBack, 1, 5),
        (Status::Pending, Budget::Untouched, 1, 4),
        (Status::Unknown, Budget::Keep, 1, 0),
        (Status::Unknown, Budget::HandBack, 1, 5),
        (Status::Unknown, Budget::Untouched, 1, 4),
    ] {
        let since = now() - TimeDelta::hours(2);
        let mut row = claimed(was);
        (row.held_back, row.held_back_since) = (4, Some(since));
        let decision = Decision { budget, ..decision(Status::Unknown) };
        settle(&mut row, &decision, was, &not_sent()).expect("legal");
        assert_eq!((row.sends, row.held_back), (sends, held_back), "{was:?} {budget:?}");
        assert_eq!(row.held_back_since, (held_back > 0).then_some(since));
    }
    let mut first = claimed(Status::Pending);
    let decision = Decision { budget: Budget::HandBack, ..decision(Status::Pending) };
    settle(&mut first, &decision, Status::Pending, &not_sent()).expect("legal");
    assert_eq!((first.held_back, first.held_back_since), (1, Some(now())));
}

#[test]
fn asks_count_only_towards_unknown() {
    let mut row = claimed(Status::Pending);
    for asks in 1..4 {
        settle(&mut row, &decision(Status::Unknown), Status::Unknown, &Verdict::Unknown(Doubt::TimedOut))
            .expect("legal");
        assert_eq!(row.asks, asks);
        apply_claim(&mut row, "account", 3, now()).expect("claimable");
    }
    settle(&mut row, &decision(Status::Parked), Status::Unknown, &declined()).expect("legal");
    assert_eq!(row.asks, 0);
}

#[test]
fn a_late_answer_lowers_the_open_sends_of_its_own_epoch_only() {
    let charged =
        Verdict::Charged { reference: "ch_1".into(), amount: payment(now(), 1, Status::Pending).amount };
    for (verdict, epoch, evidence, unanswered) in [
        (declined(), 1, Evidence::AnswersOne, 1),
        (not_sent(), 1, Evidence::AnswersOne, 1),
        (declined(), 0, Evidence::Nothing, 2),
        (not_sent(), 0, Evidence::Nothing, 2),
        (declined(), 2, Evidence::Nothing, 2),
        (not_sent(), 2, Evidence::Nothing, 2),
        (charged.clone(), 0, Evidence::Charged, 2),
        (charged, 1, Evidence::Charged, 2),
        (Verdict::Unknown(Doubt::TimedOut), 1, Evidence::Nothing, 2),
        (Verdict::Voided, 1, Evidence::Nothing, 2),
    ] {
        let mut row = claimed(Status::Unknown);
        row.epoch = Epoch(1);
        let seq = row.history_seq;
        assert_eq!(fenced(&verdict, Epoch(epoch), row.epoch), evidence, "{verdict:?}");
        apply_fenced(&mut row, evidence, now());
        assert_eq!((row.unanswered, row.history_seq), (unanswered, seq + 1), "{verdict:?}");
        assert!(row.epoch_first_sent_at.is_some());
    }
}

#[test]
fn a_late_charge_makes_an_unknown_payment_ask_at_once() {
    let mut row = payment(now(), 1, Status::Unknown);
    row.next_attempt_at = now() + TimeDelta::hours(1);
    apply_fenced(&mut row, Evidence::Charged, now());
    assert_eq!(row.next_attempt_at, now());
    let mut held = claimed(Status::Unknown);
    let before = held.next_attempt_at;
    apply_fenced(&mut held, Evidence::Charged, now());
    assert_eq!(held.next_attempt_at, before);
}

#[test]
fn a_wish_makes_an_unknown_payment_ask_at_once_and_moves_nothing() {
    let mut row = payment(now(), 1, Status::Unknown);
    row.next_attempt_at = now() + TimeDelta::hours(1);
    let before = row.clone();
    apply_wish(&mut row, now());
    assert_eq!((row.cancel_wish_at, row.next_attempt_at), (Some(now()), now()));
    assert_eq!((row.status, row.last_moved_at, row.unanswered), (before.status, before.last_moved_at, 1));
    assert_eq!(row.history_seq, before.history_seq + 1);
    let mut held = claimed(Status::Unknown);
    let next = held.next_attempt_at;
    apply_wish(&mut held, now() - TimeDelta::seconds(1));
    assert_eq!(held.next_attempt_at, next, "its settle sees the wish");
    assert_eq!(
        held.cancel_wish_at,
        Some(now() + TimeDelta::microseconds(1)),
        "which is later than the claim"
    );
}

#[test]
fn a_wish_that_came_under_the_claim_survives_its_settle_and_is_due_at_once() {
    let later = now() + TimeDelta::seconds(3);
    for to in [Status::Unknown, Status::Pending] {
        let mut row = claimed(Status::Unknown);
        row.unanswered = 1;
        apply_wish(&mut row, now() + TimeDelta::seconds(1));
        let decision = decision(to);
        let settling = Settling {
            decision: &decision,
            was: Status::Unknown,
            verdict: &declined(),
            opened_key: false,
            request_hash: None,
        };
        apply_settle(&mut row, &settling, later).expect("legal");
        assert_eq!((row.status, row.next_attempt_at), (to, later));
        assert_eq!(row.cancel_wish_at, Some(now() + TimeDelta::seconds(1)));
    }
    let mut known = payment(now(), 1, Status::Unknown);
    apply_wish(&mut known, now());
    apply_claim(&mut known, "account", 3, now()).expect("claimable");
    let unknown = decision(Status::Unknown);
    settle(&mut known, &unknown, Status::Unknown, &Verdict::Unknown(Doubt::TimedOut)).expect("legal");
    assert_eq!(Some(known.next_attempt_at), unknown.next_attempt_at, "its claim knew: the ladder's rung");
}

#[test]
fn the_reaper_leaves_the_send_open_and_never_leads_to_pending() {
    let mut row = claimed(Status::Pending);
    apply_reap(&mut row, now()).expect("held");
    assert_eq!((row.status, row.unanswered, row.asks), (Status::Unknown, 1, 1));
    assert_eq!(row.reason, Some(Reason::LeaseExpired));
    assert_eq!(row_faults(&row), Vec::new());
    assert!(apply_reap(&mut row, now()).is_err());
}

#[test]
fn cancel_and_deadline_end_only_clean_pending_payments() {
    for apply in [apply_cancel, apply_deadline] {
        for status in Status::ALL {
            let mut row = payment(now(), 1, status);
            let before = row.clone();
            let done = apply(&mut row, now());
            assert_eq!(done.is_ok(), status == Status::Pending, "{status:?}");
            assert_eq!(row == before, done.is_err());
        }
        let mut open = payment(now(), 1, Status::Pending);
        open.unanswered = 1;
        assert!(matches!(apply(&mut open, now()), Err(Refusal::OpenSend { unanswered: 1, .. })));
    }
}
