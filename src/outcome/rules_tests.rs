//! The money rules, stated without looking at how `decide` comes to its answer, and tried on random
//! rows, verdicts, gateways and policies.

use super::decide_tests::{claimed, decline, facts, not_sent, now};
use super::{Plan, View, decide, plan};
use crate::domain::decision::{Decision, EpochChange, SendsAnswered};
use crate::domain::declines::{DeclineCaps, DeclineCounts};
use crate::domain::effect::{Settling, apply_settle};
use crate::domain::facts::{Declines, Facts, LookupSupport, VoidSupport};
use crate::domain::invariants::row_faults;
use crate::domain::money::Minor;
use crate::domain::payment::{OnExhausted, OnSoftDecline, Payment, RetryPolicy};
use crate::domain::reason::Reason;
use crate::domain::retry::{Ladders, PerMille};
use crate::domain::state::Status;
use crate::domain::verdict::{DeclineClass, Doubt, NotSent, Verdict};
use crate::schedule::{Answer, How};
use chrono::TimeDelta;
use proptest::prelude::*;
use std::time::Duration;

fn verdicts() -> impl Strategy<Value = Verdict> {
    let amount = claimed(Status::Pending, 0).amount;
    let wrong = Minor::new(amount.minor.get() + 1).expect("positive");
    prop_oneof![
        ("ch_[01]", prop_oneof![Just(amount.minor), Just(wrong)]).prop_map(move |(reference, minor)| {
            Verdict::Charged { reference, amount: crate::domain::money::Money { minor, ..amount } }
        }),
        proptest::sample::select(DeclineClass::ALL).prop_map(decline),
        proptest::sample::select(NotSent::ALL).prop_map(not_sent),
        proptest::sample::select(Doubt::ALL).prop_map(Verdict::Unknown),
        Just(Verdict::InProgress { retry_after: None }),
        Just(Verdict::PendingAtGateway { reference: None }),
        Just(Verdict::ContractViolation { what: "x".into() }),
        Just(Verdict::Voided),
    ]
}

prop_compose! {
    fn rows()(
        unknown in any::<bool>(), others in 0..4_i32, sends in 1..7_i16, more in 0..3_i32, asks in 0..9_i16,
        held_back in prop_oneof![Just(0_i16), 1..60_i16], held_minutes in 0..3_000_i64,
        age_minutes in 0..2_000_i64, deadline in proptest::option::of(-9..9_i64), wish in any::<bool>(),
        fails_soft in any::<bool>(), fails_spent in any::<bool>(), max_sends in 1..7_i16, known in any::<bool>(),
        reason in proptest::option::of(proptest::sample::select(Reason::ALL)), due_ahead in prop_oneof![4 => Just(0_i64), 1 => 1..500_i64],
    ) -> (Payment, Status) {
        let was = if unknown { Status::Unknown } else { Status::Pending };
        // A claim from PENDING finds every earlier send answered.
        let mut row = claimed(was, if unknown { others } else { 0 });
        row.sends = sends.min(max_sends);
        row.attempt = i32::from(row.sends).max(row.unanswered) + more;
        row.asks = asks;
        row.held_back = held_back;
        row.held_back_since = (held_back > 0).then(|| now() - TimeDelta::minutes(held_minutes));
        row.epoch_first_sent_at = Some(now() - TimeDelta::minutes(age_minutes));
        row.execute_before = deadline.map(|minutes| now() + TimeDelta::minutes(minutes));
        row.cancel_wish_at = wish.then(now);
        row.retry = RetryPolicy {
            max_sends,
            on_soft_decline: if fails_soft { OnSoftDecline::Fail } else { OnSoftDecline::Retry },
            on_exhausted: if fails_spent { OnExhausted::Fail } else { OnExhausted::Park },
        };
        row.gateway_ref = known.then(|| "ch_0".to_owned());
        row.reason = reason;
        if due_ahead > 0 {
            // A worker whose clock is behind the database's: `now` before the due instant.
            row.due_at = now() + TimeDelta::milliseconds(due_ahead);
            row.next_attempt_at = row.due_at;
            row.id = crate::domain::ids::PaymentId::new(row.due_at, [3; 10]).expect("in range");
        }
        (row, was)
    }
}

prop_compose! {
    fn gateways()(replays in any::<bool>(), lookup in any::<bool>(), voids in any::<bool>(), within in proptest::option::of(1..200_000_u64), cap in 0..3_u32) -> Facts {
        Facts {
            declines: if replays { Declines::Replayed } else { Declines::Forgotten },
            lookup: if lookup { LookupSupport::ByKey } else { LookupSupport::None },
            voids: if voids { VoidSupport::ByKey } else { VoidSupport::None },
            async_final_within: within.map(Duration::from_secs),
            // 1: every decline is one too many.
            caps: DeclineCaps { per_day: cap, per_30_days: 0 },
            ..facts()
        }
    }
}

/// One settled attempt.
#[derive(Debug)]
struct Settled {
    before: Payment,
    was: Status,
    opened_key: bool,
    how: How,
    verdict: Verdict,
    facts: Facts,
    decision: Decision,
    after: Payment,
}

prop_compose! {
    fn settled()(
        (before, was) in rows(), facts in gateways(), verdict in verdicts(), is_first in any::<bool>(),
        how in prop_oneof![Just(How::Sent), Just(How::LookedUp), Just(How::Voided)], jitter in 0..1_000_u32,
    ) -> Settled {
        // With others open the key was used before; otherwise it may have been.
        let used = !is_first || before.unanswered > 1;
        let key_age = used.then(|| (now() - before.epoch_first_sent_at.expect("claimed")).to_std().expect("past"));
        let view = View { payment: &before, was, key_age, declines: DeclineCounts::default() };
        let answer = Answer::silent(verdict.clone(), how);
        let decision = decide(&view, &answer, &facts, &Ladders::default(), now(), PerMille(jitter));
        let mut after = before.clone();
        let opened_key = key_age.is_none();
        let settling = Settling { decision: &decision, was, verdict: &verdict, opened_key, request_hash: None };
        // An illegal move, and a clean state with a send open, are refused here.
        let done = apply_settle(&mut after, &settling, now());
        assert_eq!(done, Ok(()), "{decision:?} on {before:?}");
        Settled { before, was, opened_key, how, verdict, facts, decision, after }
    }
}

impl Settled {
    fn others(&self) -> i32 {
        self.before.unanswered - 1
    }

    fn late(&self) -> bool {
        self.before.execute_before.is_some_and(|deadline| deadline <= now())
    }

    fn key_age(&self) -> TimeDelta {
        now() - self.before.epoch_first_sent_at.expect("claimed")
    }

    fn declined(&self) -> Option<DeclineClass> {
        if let Verdict::Declined(decline) = &self.verdict { Some(decline.class) } else { None }
    }

    fn charged_as_asked(&self) -> bool {
        let Verdict::Charged { reference, amount } = &self.verdict else { return false };
        *amount == self.before.amount
            && self.before.gateway_ref.as_ref().is_none_or(|known| known == reference)
    }

    /// Rule R4, in its own words: every other send answered, or a replaying gateway whose key
    /// outlives them by an hour, or a look-up about the only send that was ever made.
    fn decline_is_proof(&self) -> bool {
        self.declined().is_some()
            && (self.others() == 0
                || (self.facts.declines == Declines::Replayed && self.key_age() < TimeDelta::hours(23))
                || (self.how != How::Sent && self.before.attempt == 2 && self.others() == 1))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn the_row_is_sound_after_every_settle(s in settled()) {
        prop_assert_eq!(row_faults(&s.after), Vec::new());
        prop_assert!(s.after.sends <= s.before.retry.max_sends);
    }

    #[test]
    fn no_payment_is_called_clean_while_a_request_of_ours_can_still_move_money(s in settled()) {
        if let Status::Pending | Status::Failed | Status::Cancelled = s.after.status {
            prop_assert_eq!(s.after.unanswered, 0);
            let nothing_went_out = matches!(s.verdict, Verdict::NotSent { .. }) && s.others() == 0;
            let tombstone = s.verdict == Verdict::Voided && s.after.status != Status::Pending;
            prop_assert!(s.decline_is_proof() || nothing_went_out || tombstone, "{s:?}");
        }
    }

    #[test]
    fn open_sends_of_other_claims_are_closed_only_by_proof_for_the_whole_key(s in settled()) {
        if s.after.unanswered < s.others() {
            let tombstone = s.verdict == Verdict::Voided;
            prop_assert!(s.charged_as_asked() || s.decline_is_proof() || tombstone, "{s:?}");
        }
    }

    #[test]
    fn a_send_without_a_definitive_answer_stays_open(s in settled()) {
        let open = match s.verdict {
            Verdict::InProgress { .. } | Verdict::PendingAtGateway { .. } | Verdict::Unknown(_)
            | Verdict::ContractViolation { .. } => true,
            Verdict::Charged { .. } | Verdict::Declined(_) | Verdict::NotSent { .. } | Verdict::Voided => false,
        };
        if open && s.how == How::Sent {
            prop_assert_eq!(s.after.unanswered, s.before.unanswered);
            prop_assert!(matches!(s.after.status, Status::Unknown | Status::Parked));
        }
    }

    #[test]
    fn a_new_key_follows_only_a_proven_decline(s in settled()) {
        let grown = s.after.epoch.0 - s.before.epoch.0;
        prop_assert!(grown == 0 || (grown == 1 && s.decline_is_proof()), "{s:?}");
    }

    #[test]
    fn all_sends_are_written_off_only_where_the_key_is_left_behind(s in settled()) {
        if s.decision.answered == SendsAnswered::All {
            prop_assert!(s.after.status.is_final() || s.decision.epoch == EpochChange::Next, "{s:?}");
        }
    }

    #[test]
    fn completed_means_charged_as_asked_and_nothing_else_does(s in settled()) {
        prop_assert_eq!(s.after.status == Status::Completed, s.charged_as_asked());
        if let Verdict::Charged { reference, .. } = &s.verdict {
            prop_assert_eq!(s.after.gateway_ref.as_ref(), Some(reference));
            prop_assert!(matches!(s.after.status, Status::Completed | Status::Parked));
        }
    }

    #[test]
    fn the_next_attempt_is_named_exactly_for_claimable_states_and_lies_ahead(s in settled()) {
        prop_assert_eq!(s.decision.next_attempt_at.is_some(), s.decision.to.is_claimable());
        if let Some(next) = s.decision.next_attempt_at {
            prop_assert!(next >= s.before.due_at && next > now());
        }
    }

    #[test]
    fn not_found_never_leads_to_a_clean_state_and_never_closes_the_last_send(s in settled()) {
        // Released under a key that nobody used, and that this claim did not use: there is nothing to find.
        let is_unused = s.opened_key && s.before.reason == Some(Reason::Redriven) && s.others() == 0;
        if s.verdict == not_sent(NotSent::OnlyAsked) && is_unused {
            prop_assert_eq!(s.after.unanswered, 0);
            prop_assert!(s.after.epoch_first_sent_at.is_none() || s.after.status == Status::Parked);
        } else if s.verdict == not_sent(NotSent::OnlyAsked) {
            prop_assert!(matches!(s.after.status, Status::Unknown | Status::Parked));
            prop_assert!(s.after.unanswered >= 1 && s.after.unanswered >= s.others());
        }
    }

    #[test]
    fn nothing_is_sent_again_after_a_final_decline(s in settled()) {
        if let Some(DeclineClass::Hard | DeclineClass::NeedsCustomer | DeclineClass::Unmapped) = s.declined() {
            prop_assert!(matches!(s.after.status, Status::Failed | Status::Parked));
        }
    }

    #[test]
    fn a_pending_payment_may_be_sent_again(s in settled()) {
        if s.after.status == Status::Pending {
            prop_assert!(s.before.cancel_wish_at.is_none(), "a wish forbids it");
            prop_assert!(!s.late(), "its deadline forbids it");
            prop_assert!(s.after.sends < s.after.retry.max_sends, "its budget forbids it");
        }
    }

    #[test]
    fn cancelled_means_wished(s in settled()) {
        if s.after.status == Status::Cancelled {
            let by_gate = s.verdict == not_sent(NotSent::CancelWished);
            prop_assert!(s.before.cancel_wish_at.is_some() || by_gate);
        }
    }

    #[test]
    fn budget_is_spent_by_what_the_gateway_took_and_by_nothing_else(s in settled()) {
        let counted = i16::from(s.was == Status::Pending);
        let taken = !matches!(s.verdict, Verdict::NotSent { .. });
        prop_assert_eq!(s.after.sends, s.before.sends - if taken { 0 } else { counted });
        if s.after.held_back > s.before.held_back {
            prop_assert_eq!(s.after.held_back, s.before.held_back + 1);
            let too_long = s.after.held_back >= 50
                || s.before.held_back_since.is_some_and(|since| now() - since >= TimeDelta::hours(24));
            prop_assert!(!too_long || s.after.status == Status::Parked);
        }
    }

    #[test]
    fn an_unknown_payment_always_has_a_way_to_be_asked_about(s in settled()) {
        if s.after.status == Status::Unknown && s.facts.lookup == LookupSupport::None {
            let held_back = matches!(s.verdict, Verdict::NotSent { .. });
            let charges = s.before.cancel_wish_at.is_none() && !s.late();
            let voids = s.facts.voids == VoidSupport::ByKey && s.key_age() < TimeDelta::hours(23);
            prop_assert!(held_back || charges || voids, "{s:?}");
        }
    }

    #[test]
    fn a_plan_never_sends_past_deadline_wish_or_key_and_never_gives_up_an_open_send(
        (row, was) in rows(), facts in gateways(),
    ) {
        let view = View { payment: &row, was, key_age: None, declines: DeclineCounts::default() };
        let planned = plan(&view, &facts, now());
        let others = row.unanswered - 1;
        let aged = now() - row.epoch_first_sent_at.expect("claimed") >= TimeDelta::hours(23);
        let late = row.execute_before.is_some_and(|deadline| deadline <= now());
        match planned {
            Plan::Charge | Plan::LookUpThenCharge => {
                prop_assert!(!aged && !late && row.cancel_wish_at.is_none());
                prop_assert!(others == 0 || planned == Plan::LookUpThenCharge || facts.lookup == LookupSupport::None);
            }
            Plan::LookUpOnly => prop_assert!(others > 0 && facts.lookup == LookupSupport::ByKey),
            Plan::Void => {
                prop_assert!(others > 0 && facts.voids == VoidSupport::ByKey);
                prop_assert!(!aged && (late || row.cancel_wish_at.is_some()), "a void where a charge may go");
            }
            Plan::GiveBack(_) => prop_assert_eq!(others, 0),
            Plan::Park(_) => prop_assert!(others > 0 && facts.lookup == LookupSupport::None),
        }
    }
}
