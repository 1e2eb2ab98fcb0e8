//! What this worker may start at one gateway account: permits, the pause and the breaker, as its last beat
//! told.
//!
//! **Promises.** A permit is given out once, starts one charge at most, and is void soon after its window;
//! unused ones are told to the next beat, so that others get their time. Nothing is given out before the
//! first beat, in a pause, or while the breaker is open, but one probe; nor while people have closed the
//! gateway, and after a kill switch not even what was claimed is sent. Where the account has no rate and is
//! well, everything passes without a lock being waited for.
//!
//! **Relies on** the loop, which beats (`beat`), and on `domain/pace.rs` for who gets what. Instants are of
//! this host's clock, counted from the moment at which a beat's answer arrived: later than meant by its way
//! here, never earlier.
//!
//! **If this dies here** with the process, its permits' time passes, and its probe is given to another.

use super::failure::LastFailure;
use super::permits::{Kind, Permits, Ticket};
use crate::domain::ids::{ActorId, WorkerName};
use crate::domain::lease::Mono;
use crate::domain::money::Currency;
use crate::domain::pace::{Beat, Call, Gate, Grant, Probed, Seen, Terms};
use crate::domain::payment::Payment;
use crate::domain::switches::{Board, Closed, Watch};
use crate::domain::verdict::NotSent;
use crate::platform::clock::Clock;
use chrono::{DateTime, Utc};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a claimed payment waits for a permit, before its claim is given back.
const PATIENCE: Duration = Duration::from_secs(1);
/// Calls that went well are told no more often than this.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// So many failures are told at once.
const MANY: u32 = 10;

/// See the module's head; shared by the loop and its steps.
#[derive(Debug)]
pub struct Pacer {
    terms: Terms,
    state: Mutex<State>,
    changed: Notify,
    /// What people ordered, as the last beat told.
    board: Arc<Board>,
    pub(super) last_failure: LastFailure,
}

/// Whether calls may start, on this host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    /// Nothing was heard yet.
    Unheard,
    Open,
    Paused(Mono),
    Broken,
}

#[derive(Debug)]
struct State {
    door: Door,
    charges: Permits,
    lookups: Permits,
    /// Steps that wait for a permit: to look up, to charge.
    asking: (u32, u32),
    probe: Probe,
    seen: Seen,
    told_at: Mono,
}

/// Where this worker's probe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    None,
    Here,
    Out,
    Ended(Probed),
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Lookup,
    Charge,
}

impl Pacer {
    /// Gives out nothing until the first answer to a beat.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let state = State {
            door: Door::Unheard,
            charges: Permits::default(),
            lookups: Permits::default(),
            asking: (0, 0),
            probe: Probe::None,
            seen: Seen::default(),
            told_at: Mono(Duration::ZERO),
        };
        let (changed, last_failure) = (Notify::new(), LastFailure::default());
        Self { terms, state: Mutex::new(state), changed, board: Arc::default(), last_failure }
    }

    /// For steps without a loop: everything passes.
    #[must_use]
    pub fn unlimited() -> Self {
        let (length, share) = (Duration::from_secs(3_600), 10);
        let terms =
            Terms { rate: 0, lookup_share: share, in_flight: 0, longest_pause: length, probe_lease: length };
        let pacer = Self::new(terms);
        pacer.state().door = Door::Open;
        pacer
    }

    /// What is agreed with the account.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked under this lock held numbers, none of them half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why people have closed the gateway, if they have.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.board.closed()
    }

    /// Whether some of its payments are switched off and others are not.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        self.board.is_selective()
    }

    /// The kill switches as they concern this payment, for the check right before the write.
    #[must_use]
    pub fn watch(&self, payment: &Payment) -> Watch {
        self.watch_payer(payment.actor, payment.amount.currency)
    }

    /// The same of what this actor pays in this currency.
    #[must_use]
    pub fn watch_payer(&self, actor: ActorId, currency: Currency) -> Watch {
        Watch::new(&self.board, actor, currency)
    }

    /// How many charges may be claimed now.
    #[must_use]
    pub fn available(&self, now: Mono) -> usize {
        if self.closed().is_some() {
            return 0;
        }
        let mut state = self.state();
        match state.door_at(now) {
            Door::Unheard | Door::Paused(_) => 0,
            Door::Broken => usize::from(state.probe == Probe::Here),
            Door::Open if self.terms.rate == 0 => usize::MAX,
            // Who was claimed and waits comes first: else a claim that outlasts its permit never finds another.
            Door::Open => {
                let waiting = usize::try_from(state.asking.1).unwrap_or(usize::MAX);
                state.charges.available(now).saturating_sub(waiting)
            }
        }
    }

    /// When more may be claimed than now, as far as that is known.
    #[must_use]
    pub fn next_at(&self, now: Mono) -> Option<Mono> {
        if self.closed().is_some() {
            return None;
        }
        let mut state = self.state();
        match state.door_at(now) {
            Door::Paused(until) => Some(until),
            Door::Open => state.charges.next_at(now),
            Door::Unheard | Door::Broken => None,
        }
    }

    /// `count` tickets; those beyond what is available are void, and wait for a permit before they send.
    pub fn take(self: &Arc<Self>, count: usize, now: Mono) -> Vec<Ticket> {
        let mut state = self.state();
        let door = state.door_at(now);
        let mut one = || match door {
            Door::Broken if state.probe == Probe::Here => {
                state.probe = Probe::Out;
                Kind::Probe
            }
            Door::Open if self.terms.rate == 0 => Kind::Free,
            Door::Open => state.charges.take(now).map_or(Kind::Void, Kind::Paced),
            Door::Unheard | Door::Paused(_) | Door::Broken => Kind::Void,
        };
        let kinds: Vec<_> = (0..count).map(|_| one()).collect();
        drop(state);
        kinds.into_iter().map(|kind| Ticket::new(Arc::clone(self), kind)).collect()
    }

    /// A permit that was not used.
    pub(super) fn take_back(&self, kind: Kind) {
        let mut state = self.state();
        match kind {
            Kind::Paced(until) => state.charges.put_back(until),
            // Unless its call has told how it ended.
            Kind::Probe if state.probe == Probe::Out => state.probe = Probe::Ended(Probed::Unused),
            Kind::Probe => {}
            Kind::Free | Kind::Void => {}
        }
        drop(state);
        if matches!(kind, Kind::Paced(_)) {
            self.changed.notify_waiters();
        }
    }

    /// May this charge start now? Waits a moment for another permit where its own is void.
    ///
    /// # Errors
    /// Why not; nothing was sent.
    pub(super) async fn charges(
        &self,
        clock: &dyn Clock,
        ticket: Option<&mut Ticket>,
    ) -> Result<(), NotSent> {
        match ticket {
            // Steps without a loop have none.
            None => self.permitted(clock, Wanted::Charge, Kind::Free).await,
            Some(ticket) => {
                let kind = ticket.spend();
                if kind == Kind::Probe {
                    return Ok(());
                }
                self.permitted(clock, Wanted::Charge, kind).await
            }
        }
    }

    /// May a question, or a void, start now?
    ///
    /// # Errors
    /// Why not; nothing was asked.
    pub(super) async fn looks_up(
        &self,
        clock: &dyn Clock,
        ticket: Option<&mut Ticket>,
    ) -> Result<(), NotSent> {
        if ticket.is_some_and(|ticket| ticket.probes()) {
            return Ok(());
        }
        self.permitted(clock, Wanted::Lookup, Kind::Void).await
    }

    async fn permitted(&self, clock: &dyn Clock, wanted: Wanted, has: Kind) -> Result<(), NotSent> {
        let give_up = Mono(clock.mono().0 + PATIENCE);
        let mut has = Some(has);
        let mut asks = None;
        loop {
            if self.closed() == Some(Closed::Killed) {
                has.take().into_iter().for_each(|kind| self.take_back(kind));
                return Err(NotSent::Killed);
            }
            // Before the look, so that no change between look and wait is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let now = clock.mono();
            // The lock is free before anything is waited for.
            let asked = self.state().permit(wanted, has.take(), self.terms.rate, now);
            match asked {
                Asked::Granted => return Ok(()),
                Asked::Broken => return Err(NotSent::BreakerOpen),
                Asked::Later(_) if now >= give_up => return Err(NotSent::Paced),
                Asked::Later(at) => {
                    asks = asks.or_else(|| Some(Asking::new(self, wanted)));
                    let until = at.unwrap_or(give_up).min(give_up);
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = clock.sleep(until.0.saturating_sub(now.0)) => {}
                    }
                }
            }
        }
    }

    /// A call ended; `ticket` is the one that it started with.
    pub(super) fn ended(&self, call: Call, ticket: Option<&mut Ticket>, now: Mono) {
        let mut state = self.state();
        if ticket.is_some_and(|ticket| ticket.probes()) {
            let answered = matches!(call, Call::Answered | Call::RateLimited(_));
            state.probe = Probe::Ended(if answered { Probed::Answered } else { Probed::Failed });
        }
        state.seen.add(call);
        match (call, state.door) {
            // What others will hear with the next beat holds here at once.
            (Call::RateLimited(Some(length)), Door::Open) => {
                state.door = Door::Paused(Mono(now.0 + length.min(self.terms.longest_pause)));
            }
            (Call::Unauthorised, Door::Open | Door::Paused(_)) => state.door = Door::Broken,
            (
                Call::Answered | Call::Failed | Call::RateLimited(_) | Call::Unauthorised,
                Door::Unheard | Door::Open | Door::Paused(_) | Door::Broken,
            ) => {}
        }
    }

    /// Whether there is something that cannot wait for the usual beat.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        let state = self.state();
        let seen = &state.seen;
        seen.failed >= MANY
            || seen.rate_limited > 0
            || seen.unauthorised > 0
            || matches!(state.probe, Probe::Ended(_))
    }

    /// What the next beat tells. `demand`: calls that could start now; `in_use`: calls in flight, and with
    /// those that may begin before its answer is here.
    #[must_use]
    pub fn beat(
        &self,
        worker: &WorkerName,
        demand: usize,
        (in_use, may_use): (usize, usize),
        now: Mono,
    ) -> Beat {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let mut state = self.state();
        let is_paced = self.terms.rate > 0;
        let (lookups_asked, charges_asked) = state.asking;
        let demand = number(demand).saturating_add(charges_asked);
        // What is not needed any more is others' at once.
        let spare = state.charges.outstanding(now).saturating_sub(demand);
        state.charges.give_up(spare);
        let (charges, lookups) = (state.charges.outstanding(now), state.lookups.outstanding(now));
        if state.probe == Probe::Here && demand == 0 {
            // Others may have something to call for.
            state.probe = Probe::Ended(Probed::Unused);
        }
        let mut seen = state.seen;
        if !seen.is_trouble() && now.0 < state.told_at.0 + TOLD_EVERY {
            seen.answered = 0;
        }
        Beat {
            worker: worker.clone(),
            demand,
            wants: if is_paced { demand.saturating_sub(charges) } else { 0 },
            held: charges,
            lookups: if is_paced { lookups_asked.saturating_sub(lookups) } else { 0 },
            in_use: number(in_use),
            may_use: number(may_use),
            returned: state.charges.unused(),
            seen,
            probe: match state.probe {
                Probe::Ended(how) => Some(how),
                Probe::None | Probe::Here | Probe::Out => None,
            },
            cause: self.last_failure.told(),
        }
    }

    /// The answer to `told`, which arrived at `now`.
    pub fn answered(&self, told: &Beat, grant: &Grant, now: Mono) {
        let at = |instant: DateTime<Utc>| Mono(now.0 + (instant - grant.now).to_std().unwrap_or_default());
        self.board.set(grant.orders.clone());
        let has_failed = told.seen.failed > 0 || told.seen.unauthorised > 0;
        self.last_failure.beaten(!has_failed && grant.gate == Gate::Open);
        let mut state = self.state();
        state.forget(told, now);
        state.door = match grant.gate {
            Gate::Open => Door::Open,
            Gate::Paused(until) => Door::Paused(at(until)),
            Gate::Broken | Gate::Probe => Door::Broken,
        };
        match grant.gate {
            Gate::Probe => state.probe = Probe::Here,
            Gate::Open | Gate::Paused(_) if state.probe == Probe::Here => state.probe = Probe::None,
            Gate::Open | Gate::Paused(_) | Gate::Broken => {}
        }
        if let Some(reserved) = grant.charges {
            state.charges.add(at(reserved.from), at(reserved.until), reserved.calls);
        }
        if let Some(reserved) = grant.lookups {
            state.lookups.add(at(reserved.from), at(reserved.until), reserved.calls);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether calls may start, as a word for people; `None` if they may.
    #[must_use]
    pub fn closed_because(&self, now: Mono) -> Option<&'static str> {
        match self.closed() {
            Some(Closed::Killed) => return Some("a kill switch is thrown"),
            Some(Closed::Paused) => return Some("an operator has paused it"),
            None => {}
        }
        match self.state().door_at(now) {
            Door::Open => None,
            Door::Unheard => Some("the database has not told yet whether calls may start"),
            Door::Paused(_) => Some("the gateway asked for a pause"),
            Door::Broken => Some("the breaker is open"),
        }
    }
}

/// What became of a wish for a permit.
enum Asked {
    Granted,
    Broken,
    /// Not before then, if that is known.
    Later(Option<Mono>),
}

impl State {
    /// A pause ends by time passing.
    fn door_at(&mut self, now: Mono) -> Door {
        if matches!(self.door, Door::Paused(until) if until <= now) {
            self.door = Door::Open;
        }
        self.door
    }

    /// `has` is looked at the first time only: what was given back once is not there any more.
    fn permit(&mut self, wanted: Wanted, has: Option<Kind>, rate: u32, now: Mono) -> Asked {
        let door = self.door_at(now);
        if let (Some(Kind::Paced(until)), false) = (has, door == Door::Open) {
            self.charges.put_back(until);
        }
        match door {
            Door::Broken => return Asked::Broken,
            Door::Paused(until) => return Asked::Later(Some(until)),
            Door::Unheard => return Asked::Later(None),
            Door::Open if rate == 0 || has == Some(Kind::Free) => return Asked::Granted,
            Door::Open => {}
        }
        if let Some(Kind::Paced(until)) = has {
            if Permits::is_sendable(until, now) {
                return Asked::Granted;
            }
            self.charges.put_back(until);
        }
        let permits = match wanted {
            Wanted::Lookup => &mut self.lookups,
            Wanted::Charge => &mut self.charges,
        };
        match permits.take(now) {
            Some(_) => Asked::Granted,
            None => Asked::Later(permits.next_at(now)),
        }
    }

    fn forget(&mut self, told: &Beat, now: Mono) {
        let seen = &mut self.seen;
        if told.seen.calls() > 0 {
            self.told_at = now;
        }
        seen.answered = seen.answered.saturating_sub(told.seen.answered);
        seen.failed = seen.failed.saturating_sub(told.seen.failed);
        seen.rate_limited = seen.rate_limited.saturating_sub(told.seen.rate_limited);
        seen.unauthorised = seen.unauthorised.saturating_sub(told.seen.unauthorised);
        if seen.rate_limited == 0 {
            seen.retry_after = None;
        }
        self.charges.forget_unused(told.returned);
        if told.probe.is_some_and(|how| self.probe == Probe::Ended(how)) {
            self.probe = Probe::None;
        }
    }
}

/// Counts as waiting for a permit while it lives.
struct Asking<'a>(&'a Pacer, Wanted);

impl<'a> Asking<'a> {
    fn new(pacer: &'a Pacer, wanted: Wanted) -> Self {
        let asking = Self(pacer, wanted);
        *asking.place(&mut pacer.state()) += 1;
        asking
    }

    fn place<'s>(&self, state: &'s mut State) -> &'s mut u32 {
        match self.1 {
            Wanted::Lookup => &mut state.asking.0,
            Wanted::Charge => &mut state.asking.1,
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        *self.place(&mut self.0.state()) -= 1;
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
