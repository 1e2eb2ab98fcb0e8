//! What a granted move does to the row, as pure functions: the SET clauses of the statements whose
//! WHERE clauses are in [`super::guard`].
//!
//! **Promise**: after each of them [`super::invariants::row_faults`] finds nothing that it did not
//! find before. The in-memory schedule and the model apply these; a table test holds the SQL equal.
//!
//! Two columns decide about money and each has one rule. `unanswered` counts the possible sends of
//! this epoch that have no definitive answer: a claim raises it from the moment it commits, and only
//! an answer (or a proof that nothing was sent) lowers it, always relatively, because a fenced late
//! answer may have lowered it meanwhile. `epoch_first_sent_at` starts the key's age: set when null,
//! cleared by a new epoch, and by a NotSent of the very claim that opened the key: an answered send is
//! still a send, whose record at the gateway grows old, and a copy of which may still be under way.

use super::decision::{Budget, Decision, EpochChange, SendsAnswered};
use super::ids::Epoch;
use super::payment::Payment;
use super::reason::Reason;
use super::state::{Cause, IllegalMove, Status, advance};
use super::verdict::Verdict;
use chrono::{DateTime, Utc};

/// A move that must not be written; the row is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not in the table of moves.
    #[error(transparent)]
    Illegal(#[from] IllegalMove),
    /// It would call a payment clean (PENDING, FAILED, CANCELLED) while a send has no answer.
    #[error("{to:?} with {unanswered} sends unanswered")]
    OpenSend {
        /// The state asked for.
        to: Status,
        /// Sends that would be left open.
        unanswered: i32,
    },
}

fn moved(row: &mut Payment, to: Status, now: DateTime<Utc>) {
    row.status = to;
    row.last_moved_at = now;
    row.history_seq += 1;
    row.asks = if to == Status::Unknown { row.asks.saturating_add(1) } else { 0 };
}

/// The effect of a claim; answers the state it was claimed from.
///
/// The claim counts as a possible send from here on. It spends budget only from PENDING: a re-ask
/// of an unknown outcome repeats a send that was counted. `account` and `renderer` open the epoch's
/// key where none did. `asks` is kept: it is the rung of the ladder that this claim stands on.
///
/// # Errors
/// The state is not claimable.
pub fn apply_claim(
    row: &mut Payment,
    account: &str,
    renderer: i16,
    now: DateTime<Utc>,
) -> Result<Status, Refusal> {
    let was = row.status;
    let to = advance(Some(was), Cause::Claimed, Status::Processing)?;
    let asks = row.asks;
    moved(row, to, now);
    row.asks = asks;
    row.attempt += 1;
    row.fence.0 += 1;
    row.unanswered += 1;
    if was == Status::Pending {
        row.sends += 1;
    }
    row.epoch_first_sent_at.get_or_insert(now);
    row.gateway_account.get_or_insert_with(|| account.to_owned());
    row.renderer.get_or_insert(renderer);
    Ok(was)
}

/// A settle, with what its effect depends on besides the decision.
#[derive(Debug, Clone, Copy)]
pub struct Settling<'a> {
    /// The whole effect.
    pub decision: &'a Decision,
    /// The state the claim was made from: only a claim from PENDING counted a send.
    pub was: Status,
    /// Only a NotSent may take the key's age back,
    pub verdict: &'a Verdict,
    /// and only of the claim that found the epoch's key without an age.
    pub opened_key: bool,
    /// SHA-256 of the bytes; the first one recorded stays for the epoch (rule R5).
    pub request_hash: Option<[u8; 32]>,
}

/// The effect of a settle by the claim that holds the row.
///
/// # Errors
/// See [`Refusal`]; the row is unchanged.
pub fn apply_settle(row: &mut Payment, settling: &Settling<'_>, now: DateTime<Utc>) -> Result<(), Refusal> {
    let Settling { decision, was, verdict, opened_key, request_hash } = *settling;
    let to = advance(Some(row.status), decision.cause, decision.to)?;
    let unanswered = match decision.answered {
        SendsAnswered::None => row.unanswered,
        SendsAnswered::Own => (row.unanswered - 1).max(0),
        SendsAnswered::All => 0,
    };
    match to {
        Status::Pending | Status::Failed | Status::Cancelled if unanswered > 0 => {
            return Err(Refusal::OpenSend { to, unanswered });
        }
        Status::Pending
        | Status::Failed
        | Status::Cancelled
        | Status::Processing
        | Status::Unknown
        | Status::Completed
        | Status::Parked
        | Status::Refunded => {}
    }
    row.unanswered = unanswered;
    if opened_key && unanswered == 0 && matches!(verdict, Verdict::NotSent { .. }) {
        row.epoch_first_sent_at = None;
    }
    row.request_hash = row.request_hash.or(request_hash);
    match decision.epoch {
        EpochChange::Same => {}
        EpochChange::Next => open_next_epoch(row),
    }
    spend(row, decision.budget, was, now);
    row.reason = decision.reason;
    if let Some(reference) = &decision.gateway_ref {
        row.gateway_ref = Some(reference.clone());
    }
    if let Some(next) = decision.next_attempt_at {
        row.next_attempt_at = next;
    }
    moved(row, to, now);
    Ok(())
}

fn open_next_epoch(row: &mut Payment) {
    row.epoch.0 += 1;
    row.unanswered = 0;
    row.epoch_first_sent_at = None;
    row.request_hash = None;
    row.gateway_account = None;
    row.renderer = None;
}

fn spend(row: &mut Payment, budget: Budget, was: Status, now: DateTime<Utc>) {
    let counted = i16::from(was == Status::Pending);
    match budget {
        Budget::Keep => (row.held_back, row.held_back_since) = (0, None),
        Budget::HandBack => {
            row.sends = (row.sends - counted).max(0);
            row.held_back = row.held_back.saturating_add(1);
            row.held_back_since.get_or_insert(now);
        }
        Budget::Untouched => row.sends = (row.sends - counted).max(0),
    }
}

/// What a late answer is worth that the fence kept off the status (rule R2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A definitive answer to one send of the row's own epoch.
    AnswersOne,
    /// A charge: page, and ask again. It answers no other send.
    Charged,
    /// Nothing.
    Nothing,
}

/// Weighs a fenced answer of an attempt under `attempt_epoch`.
#[must_use]
pub fn fenced(verdict: &Verdict, attempt_epoch: Epoch, row_epoch: Epoch) -> Evidence {
    match verdict {
        Verdict::Charged { .. } => Evidence::Charged,
        Verdict::Declined(_) | Verdict::NotSent { .. } if attempt_epoch == row_epoch => Evidence::AnswersOne,
        Verdict::Declined(_)
        | Verdict::NotSent { .. }
        | Verdict::InProgress { .. }
        | Verdict::PendingAtGateway { .. }
        | Verdict::Unknown(_)
        | Verdict::ContractViolation { .. }
        | Verdict::Voided => Evidence::Nothing,
    }
}

/// The effect of a fenced answer, once per attempt: the FENCED history row, and what the evidence
/// is worth. The key's age is not taken back, since the current claim may be sending under it.
///
/// A look-up's decline reaches `AnswersOne` too: the attempt that looked up sent nothing itself.
pub fn apply_fenced(row: &mut Payment, evidence: Evidence, now: DateTime<Utc>) {
    row.history_seq += 1;
    match evidence {
        Evidence::AnswersOne => row.unanswered = (row.unanswered - 1).max(0),
        Evidence::Charged if row.status == Status::Unknown => {
            row.next_attempt_at = row.next_attempt_at.min(now).max(row.due_at);
        }
        Evidence::Charged | Evidence::Nothing => {}
    }
}

/// The effect of the reaper on an expired claim: UNKNOWN, asked at once, for it has been unknown for
/// longer than a lease. Its send stays open and its fence is the row's, so a late settle is fenced
/// by the state.
///
/// # Errors
/// The row is not PROCESSING.
pub fn apply_reap(row: &mut Payment, now: DateTime<Utc>) -> Result<(), Refusal> {
    let to = advance(Some(row.status), Cause::LeaseExpired, Status::Unknown)?;
    row.reason = Some(Reason::LeaseExpired);
    row.next_attempt_at = now.max(row.due_at);
    moved(row, to, now);
    Ok(())
}

/// The effect of a granted cancel.
///
/// # Errors
/// The row is not PENDING, or not clean.
pub fn apply_cancel(row: &mut Payment, now: DateTime<Utc>) -> Result<(), Refusal> {
    end_clean(row, Cause::Cancelled, Status::Cancelled, Reason::CancelledByClient, now)
}

/// The effect of a deadline that passed on a clean payment.
///
/// # Errors
/// The row is not PENDING, or not clean.
pub fn apply_deadline(row: &mut Payment, now: DateTime<Utc>) -> Result<(), Refusal> {
    end_clean(row, Cause::DeadlinePassed, Status::Failed, Reason::DeadlinePassed, now)
}

fn end_clean(
    row: &mut Payment,
    cause: Cause,
    to: Status,
    reason: Reason,
    now: DateTime<Utc>,
) -> Result<(), Refusal> {
    let to = advance(Some(row.status), cause, to)?;
    if row.unanswered > 0 {
        return Err(Refusal::OpenSend { to, unanswered: row.unanswered });
    }
    row.reason = Some(reason);
    moved(row, to, now);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guard_cases::payment;
    use crate::domain::invariants::row_faults;
    use crate::domain::verdict::{Decline, DeclineClass, Doubt, NotSent};
    use chrono::TimeDelta;

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
}
