//! One payment in memory with its claim, attempts and history, and every effect on it.
//!
//! Each function here is the counterpart of one SQL statement: the condition is `domain::guard`'s,
//! the effect `domain::effect`'s, so that both stores refuse and write the same. Panics stand where
//! the database has a CHECK.

use super::super::port::ClaimTerms;
use super::super::proof::{Answer, Answered, ClaimRow, Claimed, SettledAs};
use super::super::words;
use crate::domain::decision::Decision;
use crate::domain::declines::DeclineCounts;
use crate::domain::effect::{self, Evidence, Settling};
use crate::domain::guard::{self, Holding, SettleGuard};
use crate::domain::history::{Event, FIRST_PREV, HistoryRow, verify};
use crate::domain::ids::{ClaimId, Epoch, Fence, WorkerName};
use crate::domain::invariants::row_faults;
use crate::domain::lease::Mono;
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::{Cause, Status, advance};
use crate::platform::faults::{Sabotage, sabotaged};
use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// One claim and what came of it, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    /// From 1.
    pub attempt: i32,
    /// The key's epoch at the claim.
    pub epoch: Epoch,
    /// The claim's name.
    pub claim_id: ClaimId,
    /// The claim's fence.
    pub fence: Fence,
    /// The state claimed from.
    pub was: Status,
    /// Who claimed.
    pub worker: WorkerName,
    /// By the database clock.
    pub claimed_at: DateTime<Utc>,
    /// What its worker learned; `None` while open, or if it never said.
    pub answer: Option<Answer>,
    /// When its answer was recorded; `None` while open.
    pub settled_at: Option<DateTime<Utc>>,
    /// The state its settle entered; `None` if it was fenced or is open.
    pub entered: Option<Status>,
    /// Its answer came after the claim had ended.
    pub fenced: bool,
}

/// Account and payee; the database keeps a digest of both.
pub(super) type Destination = (String, String);

/// Whether a settle wants another claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Again,
    Rests,
}

/// The claim that holds a PROCESSING row, with what it was told.
#[derive(Debug)]
struct Held {
    holding: Holding,
    key_age: Option<Duration>,
    claimed_at: DateTime<Utc>,
    was: Status,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) payment: Payment,
    payee: SecretString,
    held: Option<Held>,
    pub(super) attempts: Vec<AttemptRow>,
    pub(super) history: Vec<HistoryRow>,
    hashes: Vec<[u8; 32]>,
}

impl Row {
    pub(super) fn created(payment: Payment, payee: SecretString, now: DateTime<Utc>) -> Self {
        assert_eq!(payment.status, Status::Pending, "a payment starts PENDING");
        let (attempts, history, hashes) = (Vec::new(), Vec::new(), Vec::new());
        let mut row = Self { payment, payee, held: None, attempts, history, hashes };
        row.payment.history_seq = 1;
        let by = row.owner();
        row.record(None, Event::Moved(Cause::Created), &by, "{}", now);
        row
    }

    pub(super) fn holding(&self) -> Option<Holding> {
        self.held.as_ref().map(|held| held.holding)
    }

    /// The claim itself (rule R1), once its guard said yes.
    pub(super) fn claim(&mut self, terms: &ClaimTerms, claim_id: ClaimId, now: DateTime<Utc>) {
        assert!(now >= self.payment.due_at || sabotaged(Sabotage::DueByWorkerClock), "claimed before due");
        assert!(!self.attempts.iter().any(|a| a.claim_id == claim_id), "a claim id was used twice");
        let key_age =
            self.payment.epoch_first_sent_at.map(|first| (now - first).to_std().unwrap_or_default());
        let was = effect::apply_claim(&mut self.payment, &terms.account, terms.renderer, now).unwrap();
        let holding = Holding { claim_id, lease_until: now + terms.lease.length };
        self.held = Some(Held { holding, key_age, claimed_at: now, was });
        self.attempts.push(AttemptRow {
            attempt: self.payment.attempt,
            epoch: self.payment.epoch,
            claim_id,
            fence: self.payment.fence,
            was,
            worker: terms.worker.clone(),
            claimed_at: now,
            answer: None,
            settled_at: None,
            entered: None,
            fenced: false,
        });
        let detail = format!("{{\"claimId\":\"{}\"}}", claim_id.0);
        self.record(Some(was), Event::Moved(Cause::Claimed), &terms.worker.0, &detail, now);
    }

    /// Where its next charge goes: account and payee.
    pub(super) fn destination(&self) -> Destination {
        (self.payment.gateway_account.clone().unwrap_or_default(), self.payee.expose_secret().to_owned())
    }

    /// When the claim that holds the row was made.
    pub(super) fn claimed_at(&self) -> DateTime<Utc> {
        self.held.as_ref().unwrap().claimed_at
    }

    /// Hands out the claim that holds the row.
    pub(super) fn claimed(&self, asked_at: Mono, declines: DeclineCounts) -> Claimed {
        let held = self.held.as_ref().unwrap();
        Claimed::new(ClaimRow {
            payment: self.payment.clone(),
            payee: SecretString::from(self.payee.expose_secret()),
            claim_id: held.holding.claim_id,
            was: held.was,
            asked_at,
            claimed_at: held.claimed_at,
            key_age: held.key_age,
            declines,
            traceparent: None,
        })
    }

    /// Whether this claim's answer is on record.
    pub(super) fn is_answered(&self, claim_id: ClaimId) -> bool {
        self.attempts.iter().any(|attempt| attempt.claim_id == claim_id && attempt.answer.is_some())
    }

    /// Whether this claim holds the row.
    pub(super) fn is_held_by(&self, claim_id: ClaimId) -> bool {
        self.payment.status == Status::Processing
            && self.holding().is_some_and(|holding| holding.claim_id == claim_id)
    }

    /// Rule R2: is the claim of this answer the one that holds the row?
    pub(super) fn is_current(&self, answered: &Answered) -> bool {
        let claimed = answered.claimed();
        let (fence, claim_id) = (claimed.payment().fence, claimed.claim_id());
        let current = guard::settle(&self.payment, self.holding(), fence, claim_id) == SettleGuard::Current;
        current || (sabotaged(Sabotage::NoFence) && self.payment.status == Status::Processing)
    }

    /// The settle (rule R2): under the fence and the claim id, or as evidence beside it.
    pub(super) fn settle(
        &mut self,
        answered: &Answered,
        decision: &Decision,
        now: DateTime<Utc>,
    ) -> (SettledAs, Outcome) {
        let claim_id = answered.claimed().claim_id();
        let place = self.attempts.iter().position(|attempt| attempt.claim_id == claim_id).unwrap();
        if self.is_current(answered) {
            self.write(place, answered.answer(), decision, now)
        } else {
            self.evidence(place, answered.answer(), now)
        }
    }

    fn write(
        &mut self,
        place: usize,
        answer: &Answer,
        decision: &Decision,
        now: DateTime<Utc>,
    ) -> (SettledAs, Outcome) {
        let attempt = &mut self.attempts[place];
        attempt.answer = Some(answer.clone());
        attempt.settled_at = Some(now);
        attempt.entered = Some(decision.to);
        let (was, worker) = (attempt.was, attempt.worker.clone());
        let opened_key = self.held.as_ref().unwrap().key_age.is_none() || sabotaged(Sabotage::AgeTakenBack);
        let (verdict, request_hash) = (&answer.verdict, answer.request_hash);
        let settling = Settling { decision, was, verdict, opened_key, request_hash };
        effect::apply_settle(&mut self.payment, &settling, now).unwrap();
        if let (Some(next), true) = (decision.next_attempt_at, sabotaged(Sabotage::WishForgotten)) {
            self.payment.next_attempt_at = next;
        }
        self.held = None;
        let detail = words::detail(answer, decision.reason);
        self.record(Some(Status::Processing), Event::Moved(decision.cause), &worker.0, &detail, now);
        let outcome = if decision.to.is_claimable() { Outcome::Again } else { Outcome::Rests };
        (SettledAs::Written(decision.to), outcome)
    }

    /// Our own COMMIT got through earlier, or a zombie's late answer.
    fn evidence(&mut self, place: usize, answer: &Answer, now: DateTime<Utc>) -> (SettledAs, Outcome) {
        let status = self.payment.status;
        let attempt = &mut self.attempts[place];
        if let Some(known) = &attempt.answer {
            assert_eq!(known, answer, "one claim with two different answers");
            return (attempt.entered.map_or(SettledAs::Fenced, SettledAs::Written), Outcome::Rests);
        }
        attempt.answer = Some(answer.clone());
        attempt.settled_at = Some(now);
        attempt.fenced = true;
        let worker = attempt.worker.clone();
        let evidence = effect::fenced(&answer.verdict, attempt.epoch, self.payment.epoch);
        effect::apply_fenced(&mut self.payment, evidence, now);
        self.record(Some(status), Event::Fenced, &worker.0, &words::detail(answer, None), now);
        // Where the row was overdue already, its notice is out or the late scan has it.
        let asks =
            evidence == Evidence::Charged && status == Status::Unknown && self.payment.next_attempt_at >= now;
        (SettledAs::Fenced, if asks { Outcome::Again } else { Outcome::Rests })
    }

    /// The lease, granted anew; never shorter than it is.
    pub(super) fn renew(&mut self, until: DateTime<Utc>) {
        let holding = &mut self.held.as_mut().unwrap().holding;
        holding.lease_until = holding.lease_until.max(until);
    }

    /// The reaper's move: UNKNOWN, never PENDING; its possible send stays open.
    pub(super) fn expire(&mut self, now: DateTime<Utc>) {
        effect::apply_reap(&mut self.payment, now).unwrap();
        self.held = None;
        self.record(Some(Status::Processing), Event::Moved(Cause::LeaseExpired), "keeper", "{}", now);
        if sabotaged(Sabotage::LeaseToPending) {
            self.force(Status::Pending, now);
        }
    }

    pub(super) fn cancel(&mut self, now: DateTime<Utc>) {
        effect::apply_cancel(&mut self.payment, now).unwrap();
        let by = self.owner();
        self.record(Some(Status::Pending), Event::Moved(Cause::Cancelled), &by, "{}", now);
    }

    /// The recorded wish to cancel: a row of history, and no move.
    pub(super) fn wish(&mut self, now: DateTime<Utc>) {
        let rung = self.payment.next_attempt_at;
        effect::apply_wish(&mut self.payment, now);
        if sabotaged(Sabotage::WishForgotten) {
            self.payment.next_attempt_at = rung;
        }
        let (status, by) = (self.payment.status, self.owner());
        self.record(Some(status), Event::CancelWished, &by, "{}", now);
    }

    pub(super) fn fail_by_deadline(&mut self, now: DateTime<Utc>) {
        effect::apply_deadline(&mut self.payment, now).unwrap();
        self.record(Some(Status::Pending), Event::Moved(Cause::DeadlinePassed), "keeper", "{}", now);
    }

    /// A row that no batch can carry is parked by itself.
    pub(super) fn park_poisoned(&mut self, now: DateTime<Utc>) {
        let from = self.payment.status;
        self.payment.status = advance(Some(from), Cause::Poisoned, Status::Parked).unwrap();
        self.payment.reason = Some(Reason::Poisoned);
        self.payment.last_moved_at = now;
        self.payment.history_seq += 1;
        self.record(Some(from), Event::Moved(Cause::Poisoned), "schedule", "{}", now);
    }

    /// The history row of what was just applied; an illegal move is a failed test.
    fn record(&mut self, from: Option<Status>, event: Event, by: &str, detail: &str, now: DateTime<Utc>) {
        let payment = &self.payment;
        if let Event::Moved(cause) = event {
            advance(from, cause, payment.status).unwrap();
        }
        let row = HistoryRow {
            payment: payment.id,
            seq: payment.history_seq,
            from,
            to: payment.status,
            event,
            by: by.to_owned(),
            fence: payment.fence,
            attempt: payment.attempt,
            epoch: payment.epoch,
            at: now,
            detail: detail.to_owned(),
        };
        let prev = self.hashes.last().copied().unwrap_or(FIRST_PREV);
        self.hashes.push(row.hash(&prev));
        self.history.push(row);
        assert_eq!(row_faults(payment), Vec::new(), "a CHECK would refuse {payment:?}");
        assert_eq!(
            payment.status == Status::Processing,
            self.held.is_some(),
            "a claim and a status that differ"
        );
    }

    /// How history names the client.
    fn owner(&self) -> String {
        format!("actor:{}", self.payment.actor.0)
    }

    /// The chain's hashes, oldest first.
    pub(super) fn hashes(&self) -> &[[u8; 32]] {
        &self.hashes
    }

    /// What is wrong with the chain, or with its end against the row's state.
    pub(super) fn history_fault(&self) -> Option<String> {
        let last = match verify(self.history.iter().zip(self.hashes.iter().copied())) {
            Ok(_) => self.history.last()?,
            Err(fault) => return Some(fault.to_string()),
        };
        let (ends, stands) = ((last.to, last.seq), (self.payment.status, self.payment.history_seq));
        (ends != stands).then(|| format!("history ends in {ends:?}, the row says {stands:?}"))
    }

    /// Of seeded bugs alone: the row is called clean although its sends are open.
    pub(super) fn force(&mut self, status: Status, now: DateTime<Utc>) {
        self.held = None;
        let payment = &mut self.payment;
        (payment.status, payment.unanswered, payment.asks, payment.sends) = (status, 0, 0, 0);
        payment.last_moved_at = now;
    }
}
