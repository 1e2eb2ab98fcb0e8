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
use chrono::{DateTime, TimeDelta, Utc};

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
/// A wish to cancel that came while the claim was at work was not seen by its decision. It stays, and the
/// next claim comes at once to honour it, whatever rung the decision chose: `last_moved_at` is the instant
/// of the claim as long as it holds the row.
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
        let wished_meanwhile = row.cancel_wish_at.is_some_and(|at| at > row.last_moved_at);
        row.next_attempt_at = if wished_meanwhile { now.max(row.due_at) } else { next };
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

/// The effect of a recorded wish to cancel, once per payment: a history row from a state to itself, and a
/// payment that waits on the re-ask ladder is asked about at once. Under a claim the row's instant stays,
/// and the wish is dated after the claim, so that the settle can tell it from one that the claim saw: the
/// two may have read the clock in the other order before one of them waited for the row.
pub fn apply_wish(row: &mut Payment, now: DateTime<Utc>) {
    let after_claim = row.last_moved_at + TimeDelta::microseconds(1);
    row.cancel_wish_at = Some(if row.status == Status::Processing { now.max(after_claim) } else { now });
    row.history_seq += 1;
    if row.status == Status::Unknown {
        row.next_attempt_at = row.next_attempt_at.min(now).max(row.due_at);
    }
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
#[path = "effect_tests.rs"]
mod tests;
