//! The world of one payment: the real guards, effects, plans and decisions, workers that hold
//! claims, requests that travel, and a gateway that keeps only the promises its profile makes.

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use punctual::domain::decision::{Decision, SendsAnswered};
use punctual::domain::declines::DeclineCounts;
use punctual::domain::effect::{self, Settling};
use punctual::domain::facts::{Declines, Facts, VoidSupport};
use punctual::domain::guard::{self, Holding, Lineage, SettleGuard};
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::{ClaimId, Epoch, Fence, gateway_key};
use punctual::domain::invariants::row_faults;
use punctual::domain::lease::{Lease, Mono, SendGate};
use punctual::domain::payment::Payment;
use punctual::domain::retry::{Ladders, PerMille};
use punctual::domain::state::Status;
use punctual::domain::switches::Switches;
use punctual::domain::verdict::{Decline, DeclineClass, Doubt, Lookup, NotSent, Verdict};
use punctual::outcome::{AfterLookup, Plan, View, after_lookup, decide, gate, parked, plan};
use punctual::schedule::{Answer, How};
use std::collections::BTreeMap;
use std::time::Duration;

const LEASE: Lease = Lease {
    length: Duration::from_secs(30),
    margin: Duration::from_secs(5),
    gateway_total: Duration::from_secs(20),
};
/// How long a request may travel; less than the key's margin.
const TRAVEL: TimeDelta = TimeDelta::minutes(50);

/// One step of the adversary. Numbers choose among what is there.
#[derive(Debug, Clone)]
pub enum Step {
    /// Time passes.
    Wait(u32),
    /// Time passes until the payment may be claimed.
    WaitUntilClaimable,
    /// A worker claims.
    Claim,
    /// A worker that holds a claim, current or not, goes on: plans, looks up, sends.
    Act(usize),
    /// A request under way arrives, and the gateway answers like this if it executes it.
    Arrive(usize, Reply),
    /// A worker gets its answer, or gives up on it.
    Hear(usize, Heard),
    /// The reaper passes.
    Reap,
    /// The keeper looks at deadlines.
    Deadline,
    /// The client cancels, or leaves a wish where that is possible.
    Cancel,
}

#[derive(Debug, Clone, Copy)]
pub enum Reply {
    Charge,
    Decline(DeclineClass),
    RateLimited,
    /// Charged, and answered with a 500.
    ChargeAndFail,
}

#[derive(Debug, Clone, Copy)]
pub enum Heard {
    Answer,
    Nothing,
}

/// What the gateway keeps of a key.
#[derive(Debug, Clone)]
struct Kept {
    since: DateTime<Utc>,
    charged: Option<String>,
    declined: Option<DeclineClass>,
}

/// A worker with a claim.
#[derive(Debug, Clone)]
struct Worker {
    view: Payment,
    was: Status,
    key_age: Option<Duration>,
    claim_id: ClaimId,
    fence: Fence,
    epoch: Epoch,
    gate: SendGate,
    state: Doing,
}

#[derive(Debug, Clone)]
enum Doing {
    /// Nothing done under the claim yet.
    Claimed,
    /// A request is on its way or has arrived.
    Sent { answer: Option<Verdict> },
    /// Has its answer.
    Knows { verdict: Verdict, how: How },
    /// Must park without a call.
    Parks(punctual::domain::reason::Reason),
    /// Has settled, or was fenced.
    Done,
}

#[derive(Debug, Clone)]
pub struct Request {
    key: String,
    worker: usize,
    sent_at: DateTime<Utc>,
}

pub struct World {
    now: DateTime<Utc>,
    start: DateTime<Utc>,
    pub row: Payment,
    holding: Option<Holding>,
    workers: Vec<Worker>,
    pub travelling: Vec<Request>,
    gateway: BTreeMap<String, Kept>,
    charges: u32,
    facts: Facts,
    /// What the gateway really does with declines, and for how long it keeps a key.
    truth: Facts,
    broken: Broken,
}

/// A rule left out; the adversary must find the payment charged twice, or after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Every rule holds.
    Nothing,
    /// An expired lease goes back to PENDING (which no legal move does).
    LeaseToPending,
    /// A cancel is granted while the outcome is unknown.
    CancelFromUnknown,
    /// Each attempt has a key of its own (against R4).
    KeyPerAttempt,
    /// A key is used however old it is (against R6).
    AgelessKey,
    /// A gateway that forgets declines is believed to replay them (against R8).
    FalseReplay,
    /// A settle is written whoever holds the claim (against R2).
    NoFence,
    /// Whatever was answered last is believed to answer for every send (against R4, R8).
    OpenSendsForgotten,
    /// "Not found" is believed to mean "not charged" (against R7).
    NotFoundIsClean,
}

impl World {
    pub fn new(facts: Facts, deadline: Option<i64>, max_sends: i16, broken: Broken) -> Self {
        let truth = facts.clone();
        let facts = match broken {
            Broken::AgelessKey => Facts { key_ttl: Duration::from_secs(90 * 86_400), ..facts },
            Broken::FalseReplay => Facts { declines: Declines::Replayed, ..facts },
            Broken::Nothing
            | Broken::LeaseToPending
            | Broken::CancelFromUnknown
            | Broken::KeyPerAttempt
            | Broken::NoFence
            | Broken::OpenSendsForgotten
            | Broken::NotFoundIsClean => facts,
        };
        let now = DateTime::from_timestamp(1_795_960_020, 0).expect("in range");
        let mut row = payment(now, 1, Status::Pending);
        (row.attempt, row.sends, row.fence) = (0, 0, Fence(0));
        (row.gateway_account, row.renderer) = (None, None);
        row.retry.max_sends = max_sends;
        row.execute_before = deadline.map(|minutes| now + TimeDelta::minutes(minutes));
        Self {
            now,
            start: now,
            row,
            holding: None,
            workers: Vec::new(),
            travelling: Vec::new(),
            gateway: BTreeMap::new(),
            charges: 0,
            facts,
            truth,
            broken,
        }
    }

    fn mono(&self) -> Mono {
        Mono((self.now - self.start).to_std().unwrap_or_default())
    }

    pub fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Wait(seconds) => self.now += TimeDelta::seconds(i64::from(*seconds)),
            Step::WaitUntilClaimable => self.now = self.now.max(self.row.next_attempt_at),
            Step::Claim => self.claim(),
            Step::Act(n) => self.act(*n),
            Step::Arrive(n, reply) => self.arrive(*n, *reply),
            Step::Hear(n, heard) => self.hear(*n, *heard)?,
            Step::Reap => {
                if guard::reap(&self.row, self.holding, LEASE.margin, self.now) {
                    effect::apply_reap(&mut self.row, self.now).expect("the guard allowed it");
                    self.holding = None;
                    if self.broken == Broken::LeaseToPending {
                        self.forget_open_sends(Status::Pending);
                    }
                }
            }
            Step::Deadline => {
                if guard::fail_by_deadline(&self.row, self.now, Lineage::Released) {
                    effect::apply_deadline(&mut self.row, self.now).expect("the guard allowed it");
                }
            }
            Step::Cancel => {
                if guard::cancel(&self.row, VoidSupport::None, Lineage::Released) == guard::CancelGuard::Win {
                    effect::apply_cancel(&mut self.row, self.now).expect("the guard allowed it");
                } else if self.row.status == Status::Unknown && self.broken == Broken::CancelFromUnknown {
                    self.forget_open_sends(Status::Cancelled);
                } else if self.row.status == Status::Unknown {
                    self.row.cancel_wish_at.get_or_insert(self.now);
                }
            }
        }
        self.check()
    }

    fn forget_open_sends(&mut self, status: Status) {
        (self.row.status, self.row.unanswered, self.row.asks) = (status, 0, 0);
    }

    fn claim(&mut self) {
        let zero = Duration::ZERO;
        let gateway = self.row.gateway.clone();
        if !guard::claim_late(&self.row, &gateway, zero, self.now, Lineage::Released, &Switches::default()) {
            return;
        }
        let first = self.row.epoch_first_sent_at;
        let was = effect::apply_claim(&mut self.row, &self.facts.account, self.facts.renderer, self.now)
            .expect("the guard allowed it");
        let number = u128::try_from(self.workers.len()).expect("few");
        let claim_id = ClaimId(uuid::Uuid::from_u128(number));
        let lease_until = self.now + TimeDelta::from_std(LEASE.length).expect("short");
        self.holding = Some(Holding { claim_id, lease_until });
        let key_age = first.map(|first| (self.now - first).to_std().unwrap_or_default());
        let view = View { payment: &self.row, was, key_age, declines: DeclineCounts::default() };
        let gate = gate(&view, self.mono(), &LEASE, &self.facts);
        self.workers.push(Worker {
            view: self.row.clone(),
            was,
            key_age,
            claim_id,
            fence: self.row.fence,
            epoch: self.row.epoch,
            gate,
            state: Doing::Claimed,
        });
    }

    /// The `n`th of the workers that are in a state that `pick` accepts.
    fn pick(&self, n: usize, pick: impl Fn(&Doing) -> bool) -> Option<usize> {
        let able: Vec<_> = (0..self.workers.len()).filter(|at| pick(&self.workers[*at].state)).collect();
        (!able.is_empty()).then(|| able[n % able.len()])
    }

    fn act(&mut self, n: usize) {
        let Some(at) = self.pick(n, |state| matches!(state, Doing::Claimed)) else { return };
        let worker = &self.workers[at];
        let view = View {
            payment: &worker.view,
            was: worker.was,
            key_age: worker.key_age,
            declines: DeclineCounts::default(),
        };
        let planned = plan(&view, &self.facts, self.now);
        let not_sent = |why| Verdict::NotSent { why, retry_after: None };
        let mut key = gateway_key(worker.view.id, worker.epoch);
        if self.broken == Broken::KeyPerAttempt {
            key = format!("{key}/{}", worker.view.attempt);
        }
        let state = match planned {
            Plan::GiveBack(why) => Doing::Knows { verdict: not_sent(why), how: How::NotStarted },
            Plan::Park(reason) => Doing::Parks(reason),
            Plan::Void => unreachable!("this gateway does not void"),
            Plan::Charge => self.send(at, key),
            Plan::LookUpThenCharge | Plan::LookUpOnly => {
                let found = self.look_up(&key);
                if self.broken == Broken::NotFoundIsClean && matches!(found, Lookup::NotFound { .. }) {
                    let verdict = not_sent(NotSent::NotStarted);
                    self.workers[at].view.unanswered = 1;
                    self.workers[at].state = Doing::Knows { verdict, how: How::LookedUp };
                    return;
                }
                match after_lookup(planned, found) {
                    AfterLookup::Settle(verdict) => Doing::Knows { verdict, how: How::LookedUp },
                    AfterLookup::Charge => self.send(at, key),
                }
            }
        };
        self.workers[at].state = state;
    }

    fn send(&mut self, at: usize, key: String) -> Doing {
        match self.workers[at].gate.check(self.now, self.mono()) {
            Err(why) => {
                Doing::Knows { verdict: Verdict::NotSent { why, retry_after: None }, how: How::NotStarted }
            }
            Ok(()) => {
                self.travelling.push(Request { key, worker: at, sent_at: self.now });
                Doing::Sent { answer: None }
            }
        }
    }

    /// The gateway may not show a fresh record yet: look-ups lag a minute.
    fn look_up(&self, key: &str) -> Lookup {
        let Some(kept) = self.gateway.get(key).filter(|kept| self.now - kept.since > TimeDelta::minutes(1))
        else {
            return Lookup::NotFound { visible_after: None };
        };
        match (&kept.charged, kept.declined) {
            (Some(reference), _) => {
                Lookup::Found(Verdict::Charged { reference: reference.clone(), amount: self.row.amount })
            }
            (None, Some(class)) => Lookup::Found(declined(class)),
            (None, None) => Lookup::NotFound { visible_after: None },
        }
    }

    fn arrive(&mut self, n: usize, reply: Reply) {
        self.travelling.retain(|request| self.now - request.sent_at < TRAVEL);
        if self.travelling.is_empty() {
            return;
        }
        let request = self.travelling.remove(n % self.travelling.len());
        let ttl = TimeDelta::from_std(self.truth.key_ttl).expect("short");
        let now = self.now;
        self.gateway.retain(|_, kept| now - kept.since < ttl);
        let verdict = self.execute(&request.key, reply);
        if let Doing::Sent { answer } = &mut self.workers[request.worker].state {
            *answer = Some(verdict);
        }
    }

    /// What the gateway does with a request, by its profile alone.
    fn execute(&mut self, key: &str, reply: Reply) -> Verdict {
        let amount = self.row.amount;
        if let Some(kept) = self.gateway.get(key) {
            if let Some(reference) = kept.charged.clone() {
                return Verdict::Charged { reference, amount };
            }
            if let (Some(class), Declines::Replayed) = (kept.declined, self.truth.declines) {
                return declined(class);
            }
        }
        let mut keep = |charged: Option<String>, class: Option<DeclineClass>| {
            let fresh = Kept { since: self.now, charged: None, declined: None };
            let kept = self.gateway.entry(key.to_owned()).or_insert(fresh);
            kept.charged = charged;
            kept.declined = class;
        };
        match reply {
            Reply::Charge | Reply::ChargeAndFail => {
                self.charges += 1;
                let reference = format!("ch_{}", self.charges);
                keep(Some(reference.clone()), None);
                match reply {
                    Reply::ChargeAndFail => Verdict::Unknown(Doubt::ServerError),
                    Reply::Charge | Reply::Decline(_) | Reply::RateLimited => {
                        Verdict::Charged { reference, amount }
                    }
                }
            }
            Reply::Decline(class) => {
                keep(None, Some(class));
                declined(class)
            }
            Reply::RateLimited => Verdict::NotSent { why: NotSent::RateLimited, retry_after: None },
        }
    }

    /// A worker's answer is settled, or kept as evidence if its claim is no longer the current one.
    fn hear(&mut self, n: usize, heard: Heard) -> Result<(), TestCaseError> {
        let Some(at) = self.pick(n, |state| !matches!(state, Doing::Claimed | Doing::Done)) else {
            return Ok(());
        };
        let worker = self.workers[at].clone();
        // Its request goes on travelling, but nobody waits for it any more.
        self.workers[at].state = Doing::Done;
        let (answer, forced) = match (&worker.state, heard) {
            (Doing::Parks(reason), _) => {
                let why = NotSent::NotStarted;
                let verdict = Verdict::NotSent { why, retry_after: None };
                (Answer::silent(verdict, How::NotStarted), Some(parked(*reason)))
            }
            (Doing::Knows { verdict, how }, _) => (Answer::silent(verdict.clone(), *how), None),
            (Doing::Sent { answer: Some(verdict) }, Heard::Answer) => {
                (Answer::silent(verdict.clone(), How::Sent), None)
            }
            (Doing::Sent { .. }, Heard::Answer | Heard::Nothing) => {
                (Answer::silent(Verdict::Unknown(Doubt::TimedOut), How::Sent), None)
            }
            (Doing::Claimed | Doing::Done, _) => unreachable!("not picked"),
        };
        let current = guard::settle(&self.row, self.holding, worker.fence, worker.claim_id);
        let unfenced = self.broken == Broken::NoFence && self.row.status == Status::Processing;
        if current == SettleGuard::Current || unfenced {
            return self.settle(&worker, &answer, forced);
        }
        let evidence = effect::fenced(&answer.verdict, worker.epoch, self.row.epoch);
        effect::apply_fenced(&mut self.row, evidence, self.now);
        Ok(())
    }

    fn settle(
        &mut self,
        worker: &Worker,
        answer: &Answer,
        forced: Option<Decision>,
    ) -> Result<(), TestCaseError> {
        let mut seen = worker.view.clone();
        if self.broken == Broken::OpenSendsForgotten {
            seen.unanswered = 1;
        }
        let view = View {
            payment: &seen,
            was: worker.was,
            key_age: worker.key_age,
            declines: DeclineCounts::default(),
        };
        let mut decision = forced.unwrap_or_else(|| {
            decide(&view, answer, &self.facts, &Ladders::default(), self.now, PerMille(0))
        });
        if seen.unanswered == 1 && decision.answered == SendsAnswered::Own {
            decision.answered = match self.broken {
                Broken::OpenSendsForgotten | Broken::NotFoundIsClean => SendsAnswered::All,
                Broken::Nothing
                | Broken::LeaseToPending
                | Broken::CancelFromUnknown
                | Broken::KeyPerAttempt
                | Broken::AgelessKey
                | Broken::FalseReplay
                | Broken::NoFence => decision.answered,
            };
        }
        let settling = Settling {
            decision: &decision,
            was: worker.was,
            verdict: &answer.verdict,
            opened_key: worker.key_age.is_none(),
            request_hash: None,
        };
        let done = effect::apply_settle(&mut self.row, &settling, self.now);
        if self.broken == Broken::NoFence && done.is_err() {
            // The second line of defence: the effect refuses to call an open send clean. Gone on
            // without it, so that the money itself is seen to suffer.
            return Ok(());
        }
        prop_assert_eq!(done, Ok(()), "decisions are legal");
        self.holding = None;
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.charges <= 1, "M1: charged {} times", self.charges);
        let clean = matches!(self.row.status, Status::Pending | Status::Failed | Status::Cancelled);
        prop_assert!(!clean || self.charges == 0, "M8: {:?} and charged", self.row.status);
        prop_assert!(self.row.status != Status::Completed || self.charges == 1, "H6");
        if self.broken == Broken::Nothing {
            // With a rule left out the row may show it first; the money is what must show it.
            prop_assert_eq!(row_faults(&self.row), Vec::new());
        }
        Ok(())
    }
}

fn declined(class: DeclineClass) -> Verdict {
    let code = "code".into();
    Verdict::Declined(Decline { class, code, network_code: None, reference: None, retry_after: None })
}
