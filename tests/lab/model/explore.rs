//! What can happen next: the protocol's steps, the gateway's, the client's, time's, and every fault.
//!
//! Breadth first, so that the first counterexample is a shortest one. Every step uses something up
//! (time, claims, a worker's progress, a request, a fault), so no path has a cycle and what the
//! checker calls "eventually" is sound: it is asked of every state in which nothing can happen.
//!
//! **Faults end.** After [`Action::Heal`] nothing is lost, refused for a moment or paused, and time
//! passes only when there is nothing else to do. L1 says that a payment then comes to its end.

use super::gateway::{Choice, Held, Kept, Refusal, Request, Wants, Word, answered_by_key, voided};
use super::invariants::{CHECKED, holds};
use super::protocol::{Protocol, Shown};
use super::state::{By, Doing, State};
use super::terms::{Break, KEY_TTL, KEYS, TRAVEL, Tick};
use punctual::domain::facts::{Declines, LookupSupport};
use punctual::domain::invariants::Invariant;
use punctual::domain::parked::KeyWanted;
use punctual::domain::state::Status;
use stateright::{Model, Property};

/// The names of the properties.
pub const SAFETY: &str = "every invariant holds";
pub const LIVENESS: &str = "every payment comes to its end";

/// Ticks after the horizon in which a healed payment must have ended: the rest of a key's life, and
/// the longest wait on each side of it.
const AFTER_HEAL: Tick = 8;

/// One step. Numbers are places in the state's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// An hour passes.
    Tick,
    /// Faults end.
    Heal,
    /// A worker claims, and its COMMIT is answered.
    Claim,
    /// A worker claims, and its COMMIT is not answered.
    ClaimUnanswered,
    /// A worker's claim fails at its COMMIT, unknown to it.
    ClaimInVain,
    /// A worker finds out whether its claim was committed.
    Recover(usize),
    /// A worker plans, and looks up if so planned.
    Plan(usize, Shown),
    /// A worker checks and sends.
    Send(usize),
    /// A request arrives; `None` where its key alone decides.
    Arrive(usize, Option<Choice>),
    /// A pending charge is decided.
    Resolve(usize, Choice),
    /// A worker hears its answer.
    Hear(usize),
    /// A worker gives up waiting.
    GiveUp(usize),
    /// A worker settles, and its COMMIT is answered.
    Settle(usize),
    /// A worker settles, and its COMMIT is not answered.
    SettleUnanswered(usize),
    /// A worker dies, or is forgotten.
    Crash(usize),
    /// The reaper passes.
    Reap,
    /// The keeper looks at deadlines.
    Deadline,
    /// The client cancels.
    Cancel,
    /// The database fails over.
    Failover,
    /// An operator releases the lineage.
    Release,
    /// A worker of another version comes into service.
    Deploy,
    /// A person releases the payment from parking.
    Redrive(KeyWanted),
}

impl Protocol {
    fn worker_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let faulty = !state.healed;
        for (at, worker) in state.workers.iter().enumerate() {
            match worker.doing {
                Doing::Unsure => actions.push(Action::Recover(at)),
                Doing::Claimed => {
                    actions.push(Action::Plan(at, Shown::Truth));
                    let looks = worker.was == Status::Unknown || worker.view.redriven;
                    let asks = self.terms.lookup == LookupSupport::ByKey && looks;
                    if faulty && asks {
                        let kept = state.keys[usize::from(self.key(worker))];
                        if kept.is_some_and(|kept| kept.since == state.now) {
                            actions.push(Action::Plan(at, Shown::NotYet));
                        }
                        actions.push(Action::Plan(at, Shown::Failure));
                    }
                }
                Doing::AtGate(_) => actions.push(Action::Send(at)),
                Doing::Sent(_, answer) => {
                    let travels = state.travelling.iter().any(|request| request.claim == worker.claim);
                    if answer.is_some() {
                        actions.push(Action::Hear(at));
                    }
                    if faulty || (answer.is_none() && !travels) {
                        actions.push(Action::GiveUp(at));
                    }
                }
                Doing::Knows { .. } | Doing::Parks => {
                    actions.push(Action::Settle(at));
                    if faulty && self.terms.unanswered_settles {
                        actions.push(Action::SettleUnanswered(at));
                    }
                }
            }
            // Without an end of faults a crash is a pause that lasts.
            if faulty && (self.terms.heals || self.terms.crashes) {
                actions.push(Action::Crash(at));
            }
        }
    }

    fn gateway_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, request) in state.travelling.iter().enumerate() {
            let kept = state.keys[usize::from(request.key)];
            let by_key = answered_by_key(&self.terms, kept, request.body, state.now).is_some();
            if by_key || request.wants == Wants::Void {
                actions.push(Action::Arrive(at, None));
                continue;
            }
            let choices = [Choice::Charge, Choice::DeclineSoft, Choice::DeclineHard];
            actions.extend(choices.map(|choice| Action::Arrive(at, Some(choice))));
            if !state.healed && self.terms.limits {
                actions.push(Action::Arrive(at, Some(Choice::Limit)));
            }
            if self.terms.pends {
                actions.push(Action::Arrive(at, Some(Choice::Pend)));
            }
        }
        for (key, kept) in state.keys.iter().enumerate() {
            if kept.is_some_and(|kept| kept.held == Held::Pending) {
                actions.push(Action::Resolve(key, Choice::Charge));
                actions.push(Action::Resolve(key, Choice::DeclineSoft));
            }
        }
    }

    fn row_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let faulty = !state.healed;
        let status = state.row.status;
        if status.is_claimable() && state.workers.len() < self.terms.workers {
            if !faulty || state.claims < self.terms.claims {
                actions.push(Action::Claim);
            }
            if faulty && self.terms.unanswered_claims && state.claims < self.terms.claims {
                actions.extend([Action::ClaimUnanswered, Action::ClaimInVain]);
            }
        }
        if status == Status::Processing {
            actions.push(Action::Reap);
        }
        if status == Status::Pending && self.terms.deadline.is_some() {
            actions.push(Action::Deadline);
        }
        if self.terms.cancels && faulty && !state.is_at_end() {
            actions.push(Action::Cancel);
        }
        if state.quarantined {
            actions.push(Action::Release);
        }
        if faulty && self.terms.failover && state.failovers == 0 {
            actions.push(Action::Failover);
        }
        if faulty && self.terms.deploys && state.deployed == 1 {
            actions.push(Action::Deploy);
        }
        if self.may_redrive(state) {
            actions.extend([KeyWanted::Same, KeyWanted::New].map(Action::Redrive));
        }
    }

    fn time_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let overdue = |kept: &Kept| kept.must_be_decided(state.now);
        if state.keys.iter().flatten().any(overdue) {
            return;
        }
        if state.healed {
            let idle = actions.iter().all(|action| self.after(state, *action).is_none());
            if idle && state.now < self.terms.horizon + AFTER_HEAL {
                actions.push(Action::Tick);
            }
            return;
        }
        if state.now < self.terms.horizon {
            actions.push(Action::Tick);
        }
        if self.terms.heals {
            actions.push(Action::Heal);
        }
    }

    /// The state after one step; `None` if a guard refuses it.
    fn after(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick => next.pass_time(),
            Action::Heal => next.healed = true,
            Action::Claim => self.claim(&mut next, true)?,
            Action::ClaimUnanswered => self.claim(&mut next, false)?,
            Action::ClaimInVain => self.claim_in_vain(&mut next)?,
            Action::Recover(at) => self.recover(&mut next, at)?,
            Action::Plan(at, shown) => self.plan(&mut next, at, shown)?,
            Action::Send(at) => self.send(&mut next, at)?,
            Action::Arrive(at, choice) => self.arrive(&mut next, at, choice),
            Action::Resolve(key, choice) => next.decide_under(key, choice),
            Action::Hear(at) | Action::GiveUp(at) => next.hear(at, action == Action::Hear(at)),
            Action::Settle(at) => self.settle(&mut next, at, true)?,
            Action::SettleUnanswered(at) => self.settle_unanswered(&mut next, at)?,
            Action::Crash(at) => next.leave(at),
            Action::Reap => self.reap(&mut next)?,
            Action::Deadline => self.fail_by_deadline(&mut next)?,
            Action::Cancel => self.cancel(&mut next)?,
            Action::Failover => self.fail_over(&mut next)?,
            Action::Release => next.quarantined = false,
            Action::Deploy => next.deployed = 2,
            Action::Redrive(key) => self.redrive(&mut next, key)?,
        }
        Some(next.canonical())
    }

    /// A settle that is repeated after its COMMIT got through changes nothing more.
    fn settle_unanswered(&self, state: &mut State, at: usize) -> Option<()> {
        let claim = 1 << state.workers[at].claim;
        (state.closed & claim == 0).then_some(())?;
        self.settle(state, at, false)
    }

    fn fail_over(&self, state: &mut State) -> Option<()> {
        state.failovers += 1;
        if self.terms.broken == Break::LostCommit {
            let (row, holding, closed) = state.before?;
            if let Some(held) = state.holding.filter(|held| Some(*held) != holding) {
                state.ghost.lost |= 1 << held.claim;
            }
            (state.row, state.holding, state.closed) = (row, holding, closed);
        } else {
            state.quarantined = true;
        }
        Some(())
    }

    fn arrive(&self, state: &mut State, at: usize, choice: Option<Choice>) {
        let request = state.travelling[at];
        if request.again {
            state.travelling[at].again = false;
        } else {
            state.travelling.remove(at);
        }
        let key = usize::from(request.key);
        if request.wants == Wants::Void {
            let word = voided(&self.terms, state.keys[key], state.now).unwrap_or_else(|| {
                if !self.breaks(Break::NoTombstone) {
                    state.keys[key] = Some(Kept { since: state.now, held: Held::Voided, body: request.body });
                }
                Word::Voided
            });
            return state.answer(request.claim, word);
        }
        let by_key = answered_by_key(&self.terms, state.keys[key], request.body, state.now);
        let other_bytes = state.keys[key].is_some_and(|kept| kept.body != request.body);
        state.ghost.demand(Invariant::M4, !other_bytes);
        let word = match (by_key, choice) {
            (Some(word), _) => word,
            (None, None | Some(Choice::Limit)) => Word::Limited,
            (None, Some(choice)) => {
                let kept = Kept { since: state.now, held: Held::Pending, body: request.body };
                state.keys[key] = Some(kept);
                state.decide_under(key, choice);
                state.keys[key].map_or(Word::Silence, |kept| kept.word())
            }
        };
        state.answer(request.claim, word);
    }

    /// The ghost's word on a new epoch: was the old key's refusal final for every request under it?
    pub fn is_proven_uncharged(&self, state: &State, epoch: u8) -> bool {
        if self.terms.broken == Break::KeyPerAttempt {
            return true;
        }
        let kept = state.keys[usize::from(epoch)];
        let refuses_all = |request: &Request| {
            let last = request.sent_at + TRAVEL;
            self.terms.declines == Declines::Replayed && kept.is_some_and(|kept| last < kept.since + KEY_TTL)
        };
        let declined = kept.is_none_or(|kept| matches!(kept.held, Held::Declined(_) | Held::Voided));
        let charges = |request: &&Request| request.key == epoch && request.wants == Wants::Charge;
        let under_way = state.travelling.iter().filter(charges);
        declined && under_way.into_iter().all(refuses_all)
    }
}

impl State {
    /// What did not arrive in time never does.
    fn pass_time(&mut self) {
        self.now += 1;
        let now = self.now;
        self.travelling.retain(|request| now <= request.sent_at + TRAVEL);
    }

    /// A worker is gone, and with it what only its claim could still do.
    pub fn leave(&mut self, at: usize) {
        let worker = self.workers.remove(at);
        self.ghost.sent &= !(1 << worker.claim);
        self.ghost.lost &= !(1 << worker.claim);
    }

    /// An answer comes back to whoever waits for it.
    fn answer(&mut self, claim: u8, word: Word) {
        let waiting = self.workers.iter_mut().find(|worker| worker.claim == claim);
        if let Some(Doing::Sent(_, answer @ None)) = waiting.map(|worker| &mut worker.doing) {
            *answer = Some(word);
        }
    }

    /// A void moves no money: what it learns is learned by asking.
    fn hear(&mut self, at: usize, hears: bool) {
        let Doing::Sent(wants, answer) = self.workers[at].doing else { return };
        let word = answer.filter(|_| hears).unwrap_or(Word::Silence);
        let by = if wants == Wants::Charge { By::Sending } else { By::Voiding };
        self.workers[at].doing = Doing::Knows { word, by, at: self.now };
    }

    fn decide_under(&mut self, key: usize, choice: Choice) {
        let held = match choice {
            Choice::Charge => {
                self.ghost.charges += 1;
                Held::Charged(self.ghost.charges)
            }
            Choice::DeclineSoft => Held::Declined(Refusal::Soft),
            Choice::DeclineHard => Held::Declined(Refusal::Hard),
            Choice::Pend | Choice::Limit => Held::Pending,
        };
        if let Some(kept) = &mut self.keys[key] {
            (kept.held, kept.since) = (held, self.now);
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(usize::from(self.terms.claims) <= KEYS, "a key for every claim");
        vec![State::new()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.is_at_end() && state.is_quiet() && !self.may_redrive(state) {
            return;
        }
        self.worker_actions(state, actions);
        self.gateway_actions(state, actions);
        self.row_actions(state, actions);
        self.time_actions(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.after(state, action)
    }

    /// One property of each kind, however many invariants there are: the checker looks each up in
    /// every state.
    fn properties(&self) -> Vec<Property<Self>> {
        let sound: fn(&Self, &State) -> bool = |protocol, state| match protocol.wanted {
            Some(wanted) => holds(wanted, state),
            None => {
                protocol.met.look_at(state);
                CHECKED.iter().all(|invariant| holds(*invariant, state))
            }
        };
        let mut all = Vec::new();
        if self.wanted != Some(Invariant::L1) {
            all.push(Property::always(SAFETY, sound));
        }
        if self.terms.heals {
            all.push(Property::eventually(LIVENESS, |_, state: &State| state.is_at_end()));
        }
        all
    }
}
