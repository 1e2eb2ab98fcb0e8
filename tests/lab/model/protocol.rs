//! The protocol's steps. Every rule is asked of the product's own functions; what is restated here
//! is only what they leave to others, each in one place:
//!
//! | here | stands for |
//! |---|---|
//! | [`Protocol::claim`], [`Protocol::recover`] | `schedule/sql/claim.sql`, `recover.sql` around `guard::claim` and `effect::apply_claim` |
//! | [`Protocol::plan`], [`Protocol::send`] | `worker/course.rs` and `worker/step.rs`: plan, look up, render, check, write |
//! | [`Protocol::settle`] | `schedule/settle.rs` and `fence.rs`: current, written earlier, or evidence |
//! | [`Protocol::write`] | one transaction: the effect, and the CHECKs as `row_faults` |
//!
//! A worker pauses by not being chosen, for as long as the explorer likes. Each [`Break`] is asked
//! for at the place where its rule is applied.

use super::gateway::{Held as Kept, Request, Wants, Word, not_sent};
use super::invariants::Met;
use super::row::{Row, template};
use super::state::{By, Doing, Held, State, Worker};
use super::terms::{Break, DUE, KEY_MARGIN, KEY_TTL, Terms, Tick, instant, ladders, mono};
use punctual::domain::decision::{Decision, SendsAnswered};
use punctual::domain::declines::DeclineCounts;
use punctual::domain::effect::{self, Refusal, Settling};
use punctual::domain::facts::Facts;
use punctual::domain::guard::{self, CancelGuard, ClaimGuard, Holding, Lineage, SettleGuard};
use punctual::domain::guard_cases::notice;
use punctual::domain::ids::{ClaimId, Epoch, Fence};
use punctual::domain::invariants::{Invariant, row_faults};
use punctual::domain::lease::{Lease, Mono};
use punctual::domain::payment::Payment;
use punctual::domain::reason::Reason;
use punctual::domain::retry::{Ladders, PerMille};
use punctual::domain::state::{Cause, MOVES, Status};
use punctual::domain::switches::Switches;
use punctual::domain::verdict::{Lookup, NotSent};
use punctual::outcome::{
    AfterLookup, Plan, View, after_lookup, decide, gate, parked, plan, void_gate, with_request,
};
use punctual::schedule::{Answer, How};
use std::time::Duration;

/// What a look-up does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// It shows what the gateway keeps.
    Truth,
    /// It does not show what is there, because it is fresh.
    NotYet,
    /// It fails.
    Failure,
}

/// One exploration's rules, with what is the same in all of its states made once.
pub struct Protocol {
    pub terms: Terms,
    /// The one invariant looked for where a rule is left out; all of them where none is.
    pub wanted: Option<Invariant>,
    pub met: Met,
    template: Payment,
    facts: [Facts; 2],
    lease: Lease,
    ladders: Ladders,
}

fn claim_id(claim: u8) -> ClaimId {
    ClaimId(uuid::Uuid::from_u128(claim.into()))
}

impl Protocol {
    pub fn new(terms: Terms, wanted: Option<Invariant>) -> Self {
        Self {
            terms,
            wanted,
            met: Met::default(),
            template: template(&terms),
            facts: [terms.facts(1), terms.facts(2)],
            lease: terms.lease(),
            ladders: ladders(),
        }
    }

    pub fn breaks(&self, rule: Break) -> bool {
        self.terms.broken == rule
    }

    fn facts(&self, renderer: u8) -> &Facts {
        &self.facts[usize::from(renderer - 1)]
    }

    pub fn payment(&self, row: &Row) -> Payment {
        row.payment(&self.template)
    }

    fn holding(&self, state: &State) -> Option<Holding> {
        state.holding.map(|held| Holding {
            claim_id: claim_id(held.claim),
            lease_until: instant(held.since) + self.lease.length,
        })
    }

    pub fn lineage(state: &State) -> Lineage {
        if state.quarantined { Lineage::Quarantined } else { Lineage::Released }
    }

    /// One transaction. `None`: the effect refuses, as the database's own check would.
    pub fn write(
        &self,
        state: &mut State,
        cause: Option<Cause>,
        change: impl FnOnce(&mut Payment) -> Result<(), Refusal>,
    ) -> Option<()> {
        let before = self.payment(&state.row);
        let mut after = before.clone();
        change(&mut after).ok()?;
        if self.breaks(Break::LostCommit) {
            state.before = Some((state.row, state.holding, state.closed));
        }
        let ghost = &mut state.ghost;
        let legal = cause.map_or(before.status == after.status, |cause| {
            MOVES.contains(&(Some(before.status), cause, after.status))
        });
        ghost.demand(Invariant::H1, legal && after.history_seq == before.history_seq + 1);
        ghost.demand(Invariant::H5, !before.status.is_final() || before.status == after.status);
        for fault in row_faults(&after) {
            ghost.demand(fault.breaks(), false);
        }
        state.row = Row::of(&after);
        Some(())
    }

    /// Rule R1. `answered`: whether its COMMIT was.
    pub fn claim(&self, state: &mut State, answered: bool) -> Option<()> {
        let now = instant(state.now);
        let judged_at = if self.breaks(Break::Early) { instant(DUE) } else { now };
        let row = self.payment(&state.row);
        let guard = guard::claim(
            Some(&row),
            &notice(&row),
            &row.gateway,
            judged_at,
            Self::lineage(state),
            &Switches::default(),
        );
        if guard != ClaimGuard::Win {
            return None;
        }
        let key_age = state.row.first_sent_at.map(|first| state.now - first);
        let facts = self.facts(state.deployed);
        let mut was = row.status;
        self.write(state, Some(Cause::Claimed), |row| {
            was = effect::apply_claim(row, &facts.account, facts.renderer, now)?;
            Ok(())
        })?;
        state.claims += 1;
        state.ghost.demand(Invariant::H3, state.row.fence > state.ghost.fence);
        state.ghost.fence = state.row.fence;
        let claim = state.claims;
        state.holding = Some(Held { claim, since: state.now });
        let doing =
            if answered || self.breaks(Break::UncommittedClaim) { Doing::Claimed } else { Doing::Unsure };
        let (view, asked_at, renderer) = (state.row, state.now, state.deployed);
        state.workers.push(Worker { claim, was, view, asked_at, key_age, renderer, doing });
        Some(())
    }

    /// A claim that never happened: its COMMIT failed, and its worker was not told.
    pub fn claim_in_vain(&self, state: &mut State) -> Option<()> {
        let (row, holding, fence) = (state.row, state.holding, state.ghost.fence);
        self.claim(state, false)?;
        state.ghost.lost |= 1 << state.claims;
        (state.row, state.holding, state.ghost.fence) = (row, holding, fence);
        Some(())
    }

    /// Rule R3: a claim whose COMMIT was not answered is proven by a write of its own, or forgotten.
    pub fn recover(&self, state: &mut State, at: usize) -> Option<()> {
        if state.holding.is_some_and(|held| held.claim == state.workers[at].claim) {
            state.workers[at].doing = Doing::Claimed;
        } else {
            state.leave(at);
        }
        Some(())
    }

    /// Plans one claim and, where the plan says so, looks up.
    pub fn plan(&self, state: &mut State, at: usize, shown: Shown) -> Option<()> {
        let worker = state.workers[at];
        let anew = self.breaks(Break::BodyAnew);
        let unwished = Row { wish: false, ..worker.view };
        let seen = if self.breaks(Break::ChargeAfterWish) { unwished } else { worker.view };
        let facts = self.facts(if anew { worker.view.renderer? } else { worker.renderer });
        let row = self.payment(&seen);
        let view = View {
            payment: &row,
            was: worker.was,
            key_age: worker.key_age.map(age),
            declines: DeclineCounts::default(),
        };
        let now = instant(state.now);
        let planned = plan(&view, facts, now);
        let planned = if anew { planned } else { with_request(planned, &row, facts, &[worker.renderer; 32]) };
        let knows = |word, by| Doing::Knows { word, by, at: state.now };
        if self.breaks(Break::VoidPastKey) && seen.wish && seen.unanswered > 1 {
            state.workers[at].doing = Doing::AtGate(Wants::Void);
            return Some(());
        }
        state.workers[at].doing = match planned {
            Plan::Charge => Doing::AtGate(Wants::Charge),
            Plan::GiveBack(why) => knows(not_sent(why), By::Itself),
            Plan::Park(_) => Doing::Parks,
            Plan::Void => Doing::AtGate(Wants::Void),
            Plan::LookUpThenCharge | Plan::LookUpOnly => {
                let found = self.look_up(state, &worker, shown);
                if self.breaks(Break::NotFoundIsClean) && matches!(found, Lookup::NotFound { .. }) {
                    state.workers[at].view.unanswered = 1;
                    knows(not_sent(NotSent::NotStarted), By::Asking)
                } else {
                    match after_lookup(planned, found) {
                        AfterLookup::Charge => Doing::AtGate(Wants::Charge),
                        AfterLookup::Settle(verdict) => knows(Word::of(&verdict), By::Asking),
                    }
                }
            }
        };
        Some(())
    }

    fn look_up(&self, state: &State, worker: &Worker, shown: Shown) -> Lookup {
        let kept = state.keys[usize::from(self.key(worker))].filter(|kept| kept.is_known(state.now));
        match (shown, kept) {
            (Shown::Failure, _) => Lookup::Unavailable { retry_after: None },
            (Shown::Truth, Some(kept)) => Lookup::Found(kept.word().verdict()),
            (Shown::NotYet, _) | (Shown::Truth, None) => Lookup::NotFound { visible_after: None },
        }
    }

    /// Rule R4: the key is a function of payment and epoch.
    pub fn key(&self, worker: &Worker) -> u8 {
        if self.breaks(Break::KeyPerAttempt) { worker.claim - 1 } else { worker.view.epoch }
    }

    /// The one check right before the write, and the write.
    pub fn send(&self, state: &mut State, at: usize) -> Option<()> {
        let worker = state.workers[at];
        let row = self.payment(&worker.view);
        let view = View {
            payment: &row,
            was: worker.was,
            key_age: worker.key_age.map(age),
            declines: DeclineCounts::default(),
        };
        let Doing::AtGate(wants) = worker.doing else { return None };
        let gate_of = if wants == Wants::Void { void_gate } else { gate };
        let mut gate = gate_of(&view, mono(worker.asked_at), &self.lease, self.facts(worker.renderer));
        match self.terms.broken {
            Break::VoidPastKey => (gate.key_usable_until, gate.key_usable_until_mono) = (None, None),
            Break::SendAfterLease => gate.send_before = Mono(Duration::MAX),
            Break::KeyAgeAtClaimOnly => (gate.key_usable_until, gate.key_usable_until_mono) = (None, None),
            Break::Early => gate.not_before = instant(0),
            _ => {}
        }
        state.workers[at].doing = match gate.check(instant(state.now), mono(state.now)) {
            Err(why) => Doing::Knows { word: not_sent(why), by: By::Itself, at: state.now },
            Ok(()) => {
                if wants == Wants::Charge {
                    self.ask_the_ledger(state, &worker);
                }
                self.put_on_the_wire(state, &worker, wants);
                if self.breaks(Break::HiddenRetry) {
                    self.ask_the_ledger(state, &worker);
                    self.put_on_the_wire(state, &worker, wants);
                }
                Doing::Sent(wants, None)
            }
        };
        Some(())
    }

    fn put_on_the_wire(&self, state: &mut State, worker: &Worker, wants: Wants) {
        let key =
            if wants == Wants::Void && self.breaks(Break::VoidOfAnotherEpoch) { 0 } else { self.key(worker) };
        state.travelling.push(Request {
            wants,
            key,
            claim: worker.claim,
            sent_at: state.now,
            body: worker.renderer,
            again: self.terms.duplicates,
        });
    }

    /// A request that can move money leaves: here the ledger's side of M2, M3, M5, M6, M8, M11, H9 is read.
    fn ask_the_ledger(&self, state: &mut State, worker: &Worker) {
        let key = self.key(worker);
        let (now, claim) = (state.now, 1_u16 << worker.claim);
        let committed = matches!(worker.doing, Doing::AtGate(_)) && state.ghost.lost & claim == 0;
        let kept = state.keys[usize::from(key)];
        let too_old = |since| now >= since + (KEY_TTL - KEY_MARGIN);
        let undecided = |held| match held {
            Kept::Charged(_) | Kept::Pending => true,
            Kept::Declined(_) | Kept::Voided => false,
        };
        let ghost = &mut state.ghost;
        ghost.demand(Invariant::M2, committed);
        ghost.demand(Invariant::M3, now >= DUE);
        ghost.demand(Invariant::M5, !worker.view.first_sent_at.is_some_and(too_old));
        ghost.demand(Invariant::M5, !kept.is_some_and(|kept| undecided(kept.held) && too_old(kept.since)));
        ghost.demand(Invariant::M6, ghost.sent & claim == 0);
        ghost.demand(Invariant::M8, state.row.status != Status::Parked);
        ghost.demand(Invariant::M11, ghost.wished.is_none_or(|claims| worker.claim <= claims));
        ghost.demand(Invariant::H9, !ghost.hard);
        ghost.sent |= claim;
    }

    /// What one answer does, decided in the tick in which it came.
    fn decision(&self, worker: &Worker) -> Option<(Decision, Answer)> {
        let silent = |word: Word, how| Answer::silent(word.verdict(), how);
        let (word, by, at) = match worker.doing {
            Doing::Parks => {
                let answer = silent(not_sent(NotSent::NotStarted), How::NotStarted);
                return Some((parked(Reason::AccountChanged), answer));
            }
            Doing::Knows { word, by, at } => (word, by, at),
            Doing::Unsure | Doing::Claimed | Doing::AtGate(_) | Doing::Sent(..) => return None,
        };
        let request_hash = (by == By::Sending).then_some([worker.renderer; 32]);
        let answer = Answer { request_hash, ..silent(word, by.how()) };
        let mut seen = self.payment(&worker.view);
        match (self.terms.broken, word) {
            (Break::EpochWithOpenSend, Word::Soft) | (Break::FailedWithOpenSend, Word::Hard) => {
                seen.unanswered = 1;
            }
            _ => {}
        }
        let view = View {
            payment: &seen,
            was: worker.was,
            key_age: worker.key_age.map(age),
            declines: DeclineCounts::default(),
        };
        let facts = self.facts(worker.renderer);
        let mut decision = decide(&view, &answer, facts, &self.ladders, instant(at), PerMille(0));
        if self.breaks(Break::UnknownIsFailed) && decision.to == Status::Unknown {
            decision = Decision { answered: SendsAnswered::All, ..parked(Reason::OutcomeUnknown) };
            decision.to = Status::Failed;
        }
        if self.breaks(Break::NotFoundIsClean) && by == By::Asking && decision.to == Status::Pending {
            decision.answered = SendsAnswered::All;
        }
        Some((decision, answer))
    }

    /// Rule R2. `answered`: whether its COMMIT was; if not, the worker settles again.
    pub fn settle(&self, state: &mut State, at: usize, answered: bool) -> Option<()> {
        let worker = state.workers[at];
        let (decision, answer) = self.decision(&worker)?;
        let row = self.payment(&state.row);
        let fence = Fence(worker.view.fence.into());
        let current = guard::settle(&row, self.holding(state), fence, claim_id(worker.claim));
        let claim = 1_u16 << worker.claim;
        let written = match self.terms.broken {
            Break::NoFence => row.status == Status::Processing,
            Break::StaleSettle => true,
            _ => current == SettleGuard::Current,
        };
        if written {
            self.write_outcome(state, &worker, &decision, &answer)?;
        } else if state.closed & claim == 0 || self.breaks(Break::OwnCommitForgotten) {
            let evidence = effect::fenced(&answer.verdict, Epoch(worker.view.epoch.into()), row.epoch);
            let now = instant(state.now);
            self.write(state, None, |row| {
                effect::apply_fenced(row, evidence, now);
                Ok(())
            })?;
        }
        if self.terms.redrives > 0 {
            state.on_record.hear(&answer.verdict, worker.view.epoch);
        }
        if self.terms.unanswered_settles {
            state.closed |= claim;
        }
        if answered {
            state.leave(at);
        }
        Some(())
    }

    fn write_outcome(
        &self,
        state: &mut State,
        worker: &Worker,
        decision: &Decision,
        answer: &Answer,
    ) -> Option<()> {
        let (epoch, now) = (state.row.epoch, instant(state.now));
        let holds = state.row.status == Status::Processing
            && state.holding.is_some_and(|held| held.claim == worker.claim);
        let settling = Settling {
            decision,
            was: worker.was,
            verdict: &answer.verdict,
            opened_key: worker.key_age.is_none() || self.breaks(Break::AgeTakenBack),
            request_hash: answer.request_hash,
        };
        self.write(state, Some(decision.cause), |row| {
            if self.breaks(Break::StaleSettle) {
                row.status = Status::Processing;
            }
            effect::apply_settle(row, &settling, now)
        })?;
        if self.breaks(Break::WishLost) {
            state.row.wish = worker.view.wish;
        }
        state.holding = None;
        state.ghost.demand(Invariant::H4, holds);
        let hard = matches!(worker.doing, Doing::Knows { word: Word::Hard, .. });
        state.ghost.hard |= hard;
        if state.row.epoch > epoch {
            let proven = self.is_proven_uncharged(state, epoch);
            state.ghost.demand(Invariant::M5, proven);
        }
        Some(())
    }

    /// A cancel of the client: granted, refused, or noted as a wish.
    pub fn cancel(&self, state: &mut State) -> Option<()> {
        let row = self.payment(&state.row);
        let now = instant(state.now);
        let answer = guard::cancel(&row, self.facts(1).voids, Self::lineage(state));
        if answer == CancelGuard::Win {
            self.write(state, Some(Cause::Cancelled), |row| effect::apply_cancel(row, now))?;
            state.ghost.cancelled = true;
        } else if row.status == Status::Unknown && self.breaks(Break::CancelFromUnknown) {
            (state.row.status, state.row.unanswered) = (Status::Cancelled, 0);
            state.ghost.cancelled = true;
        } else if answer == CancelGuard::Wish {
            // A claim that asks again does not see the wish; the next one does.
            self.write(state, None, |row| {
                effect::apply_wish(row, now);
                Ok(())
            })?;
            state.ghost.wished = Some(state.claims);
            if self.breaks(Break::CancelledAtWish) {
                (state.row.status, state.row.unanswered, state.holding) = (Status::Cancelled, 0, None);
                state.ghost.cancelled = true;
            }
        } else {
            return None;
        }
        Some(())
    }

    pub fn fail_by_deadline(&self, state: &mut State) -> Option<()> {
        let now = instant(state.now);
        if !guard::fail_by_deadline(&self.payment(&state.row), now, Self::lineage(state)) {
            return None;
        }
        self.write(state, Some(Cause::DeadlinePassed), |row| effect::apply_deadline(row, now))
    }

    pub fn reap(&self, state: &mut State) -> Option<()> {
        let now = instant(state.now);
        let row = self.payment(&state.row);
        if self.breaks(Break::NoReaper) || !guard::reap(&row, self.holding(state), self.lease.margin, now) {
            return None;
        }
        self.write(state, Some(Cause::LeaseExpired), |row| effect::apply_reap(row, now))?;
        state.holding = None;
        if self.breaks(Break::LeaseToPending) {
            (state.row.status, state.row.unanswered) = (Status::Pending, 0);
        }
        Some(())
    }
}

/// Ticks as a length.
fn age(ticks: Tick) -> Duration {
    Duration::from_secs(u64::from(ticks) * 3_600)
}
