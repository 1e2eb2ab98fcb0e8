//! Stage 5: one batch of notices → as many settled payments. The whole story is on this page.
//!
//! **Why a charge happens at most once.** `claim` commits before anything is sent, and of all who
//! try only one wins (`sql/claim.sql`). The [`Claimed`] it hands out is consumed by the one call
//! that `send` makes, so this attempt sends at most once. A later attempt, after a crash or silence,
//! sends the same bytes under the same gateway key, which the gateway executes once; the key changes
//! only after a proven refusal (`outcome::decide`). And the outcome is written under the claim's
//! fence, so a worker that slept through its lease undoes nothing that came after.
//!
//! **Charge, or ask first?** `course` plans each claim (`outcome::plan`). With no other send open under
//! the key, it charges. With one open it looks the key up: what the gateway shows is the answer; "not
//! found" proves nothing (R7) and only allows the same bytes again (R5). Nothing is charged any more once
//! `executeBefore` has passed (R10), the client wishes to cancel, or the key is older than the gateway
//! remembers it, less a margin (R6): there the same bytes would be a new charge. The key is voided then,
//! where the gateway does that and still remembers it, or only looked up; where neither can decide, the
//! payment parks. `send`'s gate asks the same of executeBefore, key and lease
//! once more right before the first byte, since a plan ages while it waits for a connection.
//!
//! **Promises.** Every record given to a step leaves it with a proof for its offset, or is presented
//! to `claim` again; there is no third way. Calls of one batch run together, and answers are settled
//! in groups as they come: a slow call holds up no other outcome.
//!
//! **Relies on** the database clock for "due" and for the lease, on the host's only to be *stricter*
//! (rules R9, R14). Spawns nothing and draws from `Clock` and `Dice` alone, so that the simulation
//! replays it exactly.
//!
//! **If this dies here**: before the claim's COMMIT nothing happened; after it the lease runs out,
//! and the payment is UNKNOWN and asked about under the same key, never assumed unsent.

use super::brake::Brake;
use super::clock_guard::Clocks;
use super::course::{Course, course, view};
use super::failure::Failure;
use super::pacer::Pacer;
use super::patience::Patience;
use super::permits::Ticket;
use super::place::Record;
use super::progress::Progress;
use super::renewal::{Renewals, Watched};
use super::seat::{Permit, Seat};
use super::tally::Tally;
use super::traced;
use crate::domain::decision::Decision;
use crate::domain::facts::Facts;
use crate::domain::ids::WorkerName;
use crate::domain::lease::{Lease, Mono, SendGate};
use crate::domain::pace::Call;
use crate::domain::retry::{Ladders, PerMille};
use crate::domain::state::Status;
use crate::domain::verdict::{NotSent, Verdict};
use crate::gateway::{FrozenRequest, Gateway};
use crate::outcome::{self, AfterLookup, Plan};
use crate::platform::clock::SharedClock;
use crate::platform::dice::SharedDice;
use crate::platform::failpoints::{Point, reach};
use crate::platform::trace::Span;
use crate::schedule::{
    Answer, Answered, ClaimAnswer, ClaimTerms, Claimed, How, Refused, Schedule, SettleFailed,
};
use chrono::{DateTime, Utc};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// What a worker's steps at one gateway account work with; shared by all of them.
pub struct Step<S> {
    /// The truth.
    pub schedule: Arc<S>,
    /// The account that moves the money.
    pub gateway: Arc<dyn Gateway>,
    /// What that gateway promises.
    pub facts: Facts,
    /// When to try and ask again.
    pub ladders: Arc<Ladders>,
    /// The host's clocks.
    pub clock: SharedClock,
    /// Claim ids and jitter.
    pub dice: SharedDice,
    /// Who claims.
    pub worker: WorkerName,
    /// How long a claim holds.
    pub lease: Lease,
    /// Keeps leases from running out, at a gateway that may be slower than one.
    pub renewals: Option<Arc<Renewals>>,
    /// Thrown to start no more charges.
    pub brake: Arc<Brake>,
    /// Fed with each claim's instant (rule R9).
    pub clocks: Arc<Clocks>,
    /// Counts.
    pub progress: Arc<Progress>,
    /// Permits, the pause and the breaker.
    pub pacer: Arc<Pacer>,
    /// Takes records to be presented again, with the instant from which. Unbounded, but never more
    /// than were given out.
    pub again: UnboundedSender<(Record, DateTime<Utc>)>,
    /// Takes records that prove lost commits (rule R17); the other end completes them.
    pub lost: UnboundedSender<(Record, Refused)>,
}

/// How long an answer waits for others of its batch before it is written.
const GATHER: Duration = Duration::from_millis(10);

/// Claims of one late scan, not sent yet.
#[derive(Debug)]
pub struct Late {
    terms: ClaimTerms,
    seated: Vec<(Seat, Claimed)>,
}

impl Late {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.seated.len()
    }

    /// The lanes of those that were not sent before, or were refused and wait for their next send.
    pub(super) fn lanes(&self) -> BTreeSet<i16> {
        let sends = self.seated.iter().filter(|(_, claimed)| claimed.was() == Status::Pending);
        sends.map(|(_, claimed)| claimed.payment().lane).collect()
    }
}

/// What one claim came to.
type Outcome = (Answered, Decision);

impl<S: Schedule> Step<S> {
    /// Notices that are due: claim, charge or ask, decide, settle, complete.
    pub async fn present(&self, records: Vec<(Record, Permit)>) {
        let terms = self.terms();
        let (mut ours, mut left) = (Vec::new(), Vec::new());
        for (record, permit, answer) in self.claim(&terms, records).await {
            match answer {
                ClaimAnswer::Claimed(claimed) => ours.push((Seat::new(Some(record), permit), *claimed)),
                ClaimAnswer::Early { until, why } => left.extend(self.early(record, until, why)),
                ClaimAnswer::Refused(proof) => self.refused(record, proof),
            }
        }
        self.defer(left).await;
        self.carry_out(&terms, ours).await;
    }

    /// At most `permits.len()` rows that Kafka did not bring in time: the same story without notices.
    pub async fn present_late(&self, late_by: Duration, permits: Vec<Permit>) {
        let overdue = self.find_late(late_by, &[], permits).await;
        self.carry_out_late(overdue).await;
    }

    /// Claims them, passing over `but_lanes`; to be carried out at once. Apart from that, so that the next
    /// scan need not wait for this one's slowest call.
    pub async fn find_late(&self, late_by: Duration, but_lanes: &[i16], permits: Vec<Permit>) -> Late {
        let terms = self.terms();
        let ours = self.claim_late(&terms, late_by, but_lanes, permits.len()).await;
        // Slots beyond the claims are given back here, by the end of the zip.
        let seats = permits.into_iter().map(|permit| Seat::new(None, permit));
        Late { seated: seats.zip(ours).collect(), terms }
    }

    /// The second half of the late scan.
    pub async fn carry_out_late(&self, late: Late) {
        self.carry_out(&late.terms, late.seated).await;
    }

    /// All claims of a batch at once; outcomes are settled while other calls still run, in groups: a
    /// statement costs more than a row does, so the first answer waits a moment for those behind it.
    async fn carry_out(&self, terms: &ClaimTerms, ours: Vec<(Seat, Claimed)>) {
        let mut unanswered = ours.len();
        if unanswered > 0 {
            reach(Point::AfterClaim);
        }
        let claiming_took = traced::claiming_took(self.clock.as_ref(), terms.asked_at);
        let calls = ours.into_iter().map(|(mut seat, claimed)| async move {
            seat.span = traced::attempt(&claimed, claiming_took);
            let outcome = self.pay(claimed, seat.ticket(), &seat.span).await;
            traced::decided(&mut seat.span, &outcome);
            (seat, outcome)
        });
        let mut calls = calls.collect::<FuturesUnordered<_>>().ready_chunks(unanswered.max(1));
        // One settle at a time: what is answered meanwhile makes the next group.
        let mut settling = FuturesUnordered::new();
        let mut renewing = std::pin::pin!(self.renew_leases());
        let mut answered = Vec::new();
        let mut gather_until = self.clock.mono();
        loop {
            let gathers = unanswered > 0 && self.clock.mono() < gather_until;
            if settling.is_empty() && !answered.is_empty() && !gathers {
                settling.push(self.settle(terms, std::mem::take(&mut answered)));
            }
            let moment = gather_until.0.saturating_sub(self.clock.mono().0);
            tokio::select! {
                biased;
                Some(()) = settling.next() => {}
                Some(group) = calls.next() => {
                    if answered.is_empty() {
                        gather_until = Mono(self.clock.mono().0 + GATHER);
                    }
                    unanswered -= group.len();
                    answered.extend(group);
                }
                never = &mut renewing, if unanswered > 0 => match never {},
                () = self.clock.sleep(moment), if settling.is_empty() && !answered.is_empty() => {}
                else => return,
            }
        }
    }

    /// One claim → its one answer and what that does to the payment: charge, or ask first.
    async fn pay(&self, claimed: Claimed, mut ticket: Option<Ticket>, span: &Span) -> Outcome {
        if let Some(why) = self.brake.thrown() {
            return self.give_back(claimed, why);
        }
        let watched = self.renewals.as_ref().map(|renewals| renewals.watch(&claimed));
        match course(self.gateway.as_ref(), &self.facts, &claimed, self.now(&claimed)) {
            Course::Send(request) => self.send(claimed, request, watched, ticket, span).await,
            Course::AskThenSend(request) => {
                match self.ask(&claimed, Plan::LookUpThenCharge, watched.as_ref(), &mut ticket, span).await {
                    Ok(AfterLookup::Charge) => self.send(claimed, request, watched, ticket, span).await,
                    Ok(AfterLookup::Settle(verdict)) => self.looked_up(claimed, verdict),
                    Err(why) => self.give_back(claimed, why),
                }
            }
            Course::Ask => {
                ticket.iter_mut().for_each(Ticket::is_not_needed);
                match self.ask(&claimed, Plan::LookUpOnly, watched.as_ref(), &mut ticket, span).await {
                    Ok(AfterLookup::Charge) => self.give_back(claimed, NotSent::OnlyAsked),
                    Ok(AfterLookup::Settle(verdict)) => self.looked_up(claimed, verdict),
                    Err(why) => self.give_back(claimed, why),
                }
            }
            Course::Void => self.void(claimed, watched, ticket, span).await,
            Course::GiveBack(why) => self.give_back(claimed, why),
            Course::Park(reason) => (claimed.not_started(NotSent::NotStarted), outcome::parked(reason)),
        }
    }

    /// The only call that can move money: it takes the claim away. Sent if time is left, and checked
    /// again by the gateway right before the first byte.
    async fn send(
        &self,
        claimed: Claimed,
        request: FrozenRequest,
        watched: Option<Watched>,
        mut ticket: Option<Ticket>,
        span: &Span,
    ) -> Outcome {
        if let Err(why) = self.pacer.charges(self.clock.as_ref(), ticket.as_mut()).await {
            return self.give_back(claimed, why);
        }
        reach(Point::BeforeGate);
        let mut gate = outcome::gate(&view(&claimed), claimed.asked_at(), &self.lease, &self.facts);
        self.call_begins(&mut gate, &claimed, watched.as_ref());
        match gate.check(self.clock.wall(), self.clock.mono()).err().or_else(|| self.brake.thrown()) {
            Some(why) => self.give_back(claimed, why),
            None => {
                let charging = self.gateway.charge(claimed, request, gate);
                let answered = traced::call(span, "charge", charging).await;
                self.call_answered(answered.answer(), &mut ticket);
                self.decided(answered)
            }
        }
    }

    /// The gate learns what may still change until the first byte: kill switches, and, where leases are renewed
    /// while a call lasts, that it begins now and that the lease counts from its last grant.
    fn call_begins(&self, gate: &mut SendGate, claimed: &Claimed, watched: Option<&Watched>) {
        gate.switches = Some(self.pacer.watch(claimed.payment()));
        if let Some(watched) = watched {
            watched.calls(self.clock.mono());
            gate.send_before = watched.send_before(&self.lease);
        }
    }

    /// What became of the key; moves no money.
    async fn ask(
        &self,
        claimed: &Claimed,
        plan: Plan,
        watched: Option<&Watched>,
        ticket: &mut Option<Ticket>,
        span: &Span,
    ) -> Result<AfterLookup, NotSent> {
        self.pacer.looks_up(self.clock.as_ref(), ticket.as_mut()).await?;
        if let Some(watched) = watched {
            watched.calls(self.clock.mono());
        }
        let found = traced::call(span, "look up", self.gateway.lookup(claimed.payment())).await;
        self.pacer.last_failure.note(Failure::of_lookup(&found));
        self.call_ended(Some(Call::of_lookup(&found)), ticket);
        Ok(outcome::after_lookup(plan, found))
    }

    /// Forbids every later charge under the key, or hears what became of it; moves no money. The gate is a
    /// send's: a void of a forgotten key would prove nothing.
    async fn void(
        &self,
        claimed: Claimed,
        watched: Option<Watched>,
        mut ticket: Option<Ticket>,
        span: &Span,
    ) -> Outcome {
        ticket.iter_mut().for_each(Ticket::is_not_needed);
        if let Err(why) = self.pacer.looks_up(self.clock.as_ref(), ticket.as_mut()).await {
            return self.give_back(claimed, why);
        }
        let mut gate = outcome::void_gate(&view(&claimed), claimed.asked_at(), &self.lease, &self.facts);
        self.call_begins(&mut gate, &claimed, watched.as_ref());
        match gate.check(self.clock.wall(), self.clock.mono()).err().or_else(|| self.brake.thrown()) {
            Some(why) => self.give_back(claimed, why),
            None => {
                let answer = traced::call(span, "void", self.gateway.void(&claimed, gate)).await;
                self.call_answered(&answer, &mut ticket);
                self.decided(claimed.answered(answer))
            }
        }
    }

    fn call_answered(&self, answer: &Answer, ticket: &mut Option<Ticket>) {
        self.pacer.last_failure.note(Failure::of(&answer.verdict, answer.http_status));
        self.call_ended(Call::of(&answer.verdict), ticket);
    }

    fn call_ended(&self, call: Option<Call>, ticket: &mut Option<Ticket>) {
        if let Some(call) = call {
            self.pacer.ended(call, ticket.as_mut(), self.clock.mono());
        }
    }

    /// Writes a group of outcomes under their fences, again and again while the lease lasts; only
    /// the proof of that completes a record.
    async fn settle(&self, terms: &ClaimTerms, group: Vec<(Seat, Outcome)>) {
        let (mut seats, mut batch): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let settling = traced::settling(&seats);
        let tallies: Vec<_> = batch.iter().map(Tally::of).collect();
        let mut patience = Patience::until(self.leased_since(terms.asked_at), self.lease.length);
        reach(Point::BeforeSettle);
        let proofs = loop {
            match self.schedule.settle(batch).await {
                Ok(proofs) => break proofs,
                Err(SettleFailed { batch: given_back, error }) => {
                    batch = given_back;
                    if !patience.goes_on(&error, self.clock.as_ref()).await {
                        break Vec::new();
                    }
                }
            }
        };
        reach(Point::AfterSettle);
        traced::settled(settling, &mut seats, &proofs);
        self.settled(seats, tallies, proofs);
    }

    fn give_back(&self, claimed: Claimed, why: NotSent) -> Outcome {
        self.decided(claimed.not_started(why))
    }

    fn looked_up(&self, claimed: Claimed, verdict: Verdict) -> Outcome {
        self.decided(claimed.answered(Answer::silent(verdict, How::LookedUp)))
    }

    fn decided(&self, answered: Answered) -> Outcome {
        let claimed = answered.claimed();
        let (now, jitter) = (self.now(claimed), PerMille(self.dice.per_mille()));
        let decision =
            outcome::decide(&view(claimed), answered.answer(), &self.facts, &self.ladders, now, jitter);
        (answered, decision)
    }
}
