//! The gateway of a simulated world: its own books, its own memory of keys, and the network before it.
//!
//! It knows what really happened, including what its callers were never told. A request that left its
//! process arrives whatever becomes of the process, perhaps long after everybody has given it up. Of a
//! key it remembers the first body, a charge, and the newest decline, for exactly as long as it says;
//! whether a decline is replayed is its nature. One key is executed once at a time: who comes meanwhile
//! is told so. Look-ups go by the merchant's reference and still find what the key has forgotten, and
//! show what happened only after a while.

use super::dials::{Chance, Faults, LONGEST_TRAVEL, Truth};
use super::trace::{Met, Trace};
use crate::domain::ids::{ClaimId, Fence, PaymentId};
use crate::domain::money::Money;
use crate::domain::verdict::{Decline, DeclineClass, Doubt, Lookup, NotSent, Verdict};
use crate::platform::clock::Clock;
use crate::schedule::Memory;
use crate::worker::lab::VirtualTime;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One request as the gateway saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LedgerLine {
    /// The idempotency key.
    pub key: String,
    /// For whom.
    pub payment: PaymentId,
    /// Under which claim.
    pub claim: ClaimId,
    /// The claim's fence.
    pub fence: Fence,
    /// How much.
    pub amount: Money,
    /// The body, as it came.
    pub body: String,
    /// When its sender last checked whether it may leave, by the true clock.
    pub left_at: DateTime<Utc>,
    /// When it arrived, by the true clock.
    pub at: DateTime<Utc>,
    /// When this request moved money, if it did (a replay under a used key does not).
    pub moved_at: Option<DateTime<Utc>>,
    /// Whether the gateway refused it for good.
    pub declined: Option<DeclineClass>,
}

/// What became of a key; shown to look-ups for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fact {
    Charged {
        reference: String,
        amount: Money,
    },
    Declined(Decline),
    /// Accepted, and not decided yet.
    Open,
}

#[derive(Debug)]
struct Key {
    first_at: DateTime<Utc>,
    body: String,
    busy_until: DateTime<Utc>,
    fact: Option<Fact>,
}

/// What the bank has written down; nothing, to begin with.
#[derive(Debug, Default)]
pub(super) struct Books {
    ledger: Vec<LedgerLine>,
    keys: BTreeMap<String, Key>,
    /// By key, with the instant from which it is shown.
    known: BTreeMap<String, Vec<(DateTime<Utc>, Fact)>>,
    /// What is decided when, by its line of the ledger.
    open: BTreeMap<(DateTime<Utc>, usize), Fact>,
    charges: u64,
    /// Keys with a tombstone, for ever.
    voided: BTreeSet<String>,
}

/// See the module's head; one a world.
#[derive(Debug)]
pub(super) struct Bank {
    pub(super) truth: Truth,
    pub(super) declines: u64,
    pub(super) lookup_lag: Duration,
    pub(super) work: (Duration, Duration),
    /// The longest that it takes.
    pub(super) slowest: Duration,
    pub(super) time: VirtualTime,
    pub(super) chance: Arc<Chance>,
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) trace: Trace,
    pub(super) memory: Arc<Memory>,
    pub(super) books: Mutex<Books>,
}

/// What the network and the gateway will do to one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    /// `None`: it never arrives.
    pub(super) way: Option<Duration>,
    /// From the arrival to the answer.
    pub(super) work: Duration,
    pub(super) answer_lost: bool,
    answer: Nature,
}

#[derive(Debug, Clone, Copy)]
enum Nature {
    Charge,
    Decline(DeclineClass),
    Pending {
        within: Duration,
        charges: bool,
    },
    Unsent(NotSent),
    /// 5xx, having charged or not.
    Broken {
        charges: bool,
    },
}

const CLASSES: [DeclineClass; 7] = [
    DeclineClass::Soft,
    DeclineClass::Soft,
    DeclineClass::Soft,
    DeclineClass::Hard,
    DeclineClass::NeedsCustomer,
    DeclineClass::Ambiguous,
    DeclineClass::Unmapped,
];

impl Bank {
    pub(super) fn fate(&self, within: Option<Duration>) -> Fate {
        let faults = self.faults.lock().unwrap().clone();
        let chance = &self.chance;
        let answer = if chance.hits(faults.server_error) {
            Nature::Broken { charges: chance.hits(500) }
        } else if chance.hits(faults.gateway_unsent) {
            let refusals = [NotSent::RateLimited, NotSent::NotAuthorised, NotSent::RateLimited];
            Nature::Unsent(chance.pick(&refusals))
        } else if chance.hits(self.declines) {
            Nature::Decline(chance.pick(&CLASSES))
        } else if let (Some(within), true) = (within, chance.hits(faults.pending)) {
            Nature::Pending {
                within: chance.between(Duration::from_secs(1), within),
                charges: chance.hits(700),
            }
        } else {
            Nature::Charge
        };
        let way = if chance.hits(faults.request_lost) {
            None
        } else if chance.hits(faults.request_late) {
            Some(chance.between(Duration::from_secs(1), LONGEST_TRAVEL))
        } else {
            Some(chance.between(Duration::from_micros(200), Duration::from_millis(20)))
        };
        let slow = chance.hits(faults.gateway_slow);
        let work = if slow {
            chance.between(self.work.1, self.slowest)
        } else {
            chance.between(self.work.0, self.work.1)
        };
        Fate { way, work, answer_lost: chance.hits(faults.answer_lost), answer }
    }

    /// A request arrives; answers what its sender would be told.
    pub(super) fn arrives(&self, line: LedgerLine, fate: &Fate) -> Verdict {
        let now = self.time.wall();
        let line = LedgerLine { at: now, ..line };
        self.tell_arrival(&line);
        let mut books = self.books.lock().unwrap();
        books.decide(now, &self.trace);
        self.forget(&mut books, &line.key, now);
        let key = line.key.clone();
        if books.voided.contains(&key) {
            self.trace.met(Met::Tombstoned, Some(line.payment), 0);
            books.ledger.push(line);
            return Verdict::Voided;
        }
        if let Some(known) = books.keys.get(&key) {
            if known.body != line.body {
                return Verdict::Unknown(Doubt::KeyMismatch);
            }
            if now < known.busy_until {
                self.trace.met(Met::InUse, Some(line.payment), 0);
                return Verdict::InProgress { retry_after: None };
            }
            match &known.fact {
                Some(Fact::Charged { reference, amount }) => {
                    let verdict = Verdict::Charged { reference: reference.clone(), amount: *amount };
                    books.ledger.push(line.clone());
                    self.trace.met(Met::Collapsed, Some(line.payment), 0);
                    return verdict;
                }
                Some(Fact::Declined(decline)) if self.truth.replays_declines => {
                    let decline = decline.clone();
                    self.trace.met(Met::Declined, Some(line.payment), 0);
                    books.ledger.push(line);
                    return Verdict::Declined(decline);
                }
                Some(Fact::Open) => {
                    self.trace.met(Met::Pending, Some(line.payment), 1);
                    return Verdict::PendingAtGateway { reference: None };
                }
                Some(Fact::Declined(_)) | None => {}
            }
        }
        self.execute(&mut books, line, fate)
    }

    fn execute(&self, books: &mut Books, line: LedgerLine, fate: &Fate) -> Verdict {
        let (now, payment) = (line.at, Some(line.payment));
        if let Nature::Unsent(why) = fate.answer {
            self.trace.met(Met::NotSent, payment, why as u64);
            let retry_after = (why == NotSent::RateLimited).then_some(Duration::from_secs(2));
            return Verdict::NotSent { why, retry_after };
        }
        let busy_until = now + fate.work;
        let entry = books.keys.entry(line.key.clone()).or_insert_with(|| Key {
            first_at: now,
            body: line.body.clone(),
            busy_until,
            fact: None,
        });
        entry.busy_until = busy_until;
        match fate.answer {
            Nature::Charge => self.charge(books, line),
            Nature::Decline(class) => self.decline(books, line, class),
            Nature::Pending { within, charges } => {
                self.trace.met(Met::Pending, payment, 0);
                let then = if charges {
                    books.charges += 1;
                    Fact::Charged { reference: format!("ch_{}", books.charges), amount: line.amount }
                } else {
                    Fact::Declined(decline_of(DeclineClass::Hard))
                };
                books.learn(&line.key, now, Fact::Open);
                books.open.insert((now + within, books.ledger.len()), then);
                books.ledger.push(line);
                Verdict::PendingAtGateway { reference: None }
            }
            Nature::Broken { charges } => {
                self.trace.met(Met::ServerError, payment, u64::from(charges));
                if charges {
                    self.trace.met(Met::ServerErrorCharged, payment, 0);
                    self.charge(books, line);
                } else {
                    books.ledger.push(line);
                }
                Verdict::Unknown(Doubt::ServerError)
            }
            // Answered above.
            Nature::Unsent(why) => Verdict::NotSent { why, retry_after: None },
        }
    }

    fn charge(&self, books: &mut Books, line: LedgerLine) -> Verdict {
        books.charges += 1;
        let (reference, amount) = (format!("ch_{}", books.charges), line.amount);
        self.trace.met(Met::Charged, Some(line.payment), books.charges);
        books.learn(&line.key, line.at + self.lag(), Fact::Charged { reference: reference.clone(), amount });
        books.ledger.push(LedgerLine { moved_at: Some(line.at), ..line });
        Verdict::Charged { reference, amount }
    }

    fn decline(&self, books: &mut Books, line: LedgerLine, class: DeclineClass) -> Verdict {
        let met = match class {
            DeclineClass::Soft => Met::DeclinedSoft,
            DeclineClass::Hard => Met::DeclinedHard,
            DeclineClass::NeedsCustomer => Met::DeclinedNeedsCustomer,
            DeclineClass::Ambiguous => Met::DeclinedAmbiguous,
            DeclineClass::Unmapped => Met::DeclinedUnmapped,
        };
        self.trace.met(met, Some(line.payment), 0);
        let decline = decline_of(class);
        books.learn(&line.key, line.at + self.lag(), Fact::Declined(decline.clone()));
        books.ledger.push(LedgerLine { declined: Some(class), ..line });
        Verdict::Declined(decline)
    }

    fn lag(&self) -> TimeDelta {
        TimeDelta::from_std(self.lookup_lag).unwrap()
    }

    /// A void arrives. A key that was decided is answered with what became of it; every other one gets a
    /// tombstone, also one that was forgotten, for nobody here knows better.
    pub(super) fn voids(&self, key: &str, payment: PaymentId) -> Verdict {
        let now = self.time.wall();
        let met = |what| self.trace.met(what, Some(payment), 1);
        let mut books = self.books.lock().unwrap();
        books.decide(now, &self.trace);
        self.forget(&mut books, key, now);
        if let Some(known) = books.keys.get(key) {
            if now < known.busy_until {
                met(Met::InUse);
                return Verdict::InProgress { retry_after: None };
            }
            match &known.fact {
                Some(Fact::Charged { reference, amount }) => {
                    met(Met::VoidTooLate);
                    return Verdict::Charged { reference: reference.clone(), amount: *amount };
                }
                Some(Fact::Declined(decline)) if self.truth.replays_declines => {
                    met(Met::VoidTooLate);
                    return Verdict::Declined(decline.clone());
                }
                Some(Fact::Open) => {
                    met(Met::Pending);
                    return Verdict::PendingAtGateway { reference: None };
                }
                Some(Fact::Declined(_)) | None => {}
            }
        }
        met(Met::Voided);
        if self.truth.voids {
            books.voided.insert(key.to_owned());
        }
        Verdict::Voided
    }

    fn forget(&self, books: &mut Books, key: &str, now: DateTime<Utc>) {
        let life = TimeDelta::from_std(self.truth.key_ttl).unwrap();
        if books.keys.get(key).is_some_and(|known| now - known.first_at >= life) {
            books.keys.remove(key);
        }
    }

    /// A request of a claim that is not the row's any more: its worker was a zombie, or its way long.
    fn tell_arrival(&self, line: &LedgerLine) {
        let row = self.memory.payment(line.payment);
        if row.is_some_and(|row| {
            row.fence != line.fence || row.status != crate::domain::state::Status::Processing
        }) {
            self.trace.met(Met::Zombie, Some(line.payment), line.fence.0 as u64);
        }
    }

    /// What the gateway shows of a key.
    pub(super) fn shows(&self, key: &str, payment: PaymentId) -> Lookup {
        let now = self.time.wall();
        let mut books = self.books.lock().unwrap();
        books.decide(now, &self.trace);
        let known = books.known.get(key).map_or(&[][..], Vec::as_slice);
        let shown: Vec<&Fact> = known.iter().filter(|(from, _)| *from <= now).map(|(_, fact)| fact).collect();
        let hidden = known.len() > shown.len();
        let charge = shown.iter().find(|fact| matches!(fact, Fact::Charged { .. }));
        let met = |what| self.trace.met(what, Some(payment), 0);
        let is_open = shown.last().is_some_and(|fact| **fact == Fact::Open);
        if charge.is_none() && !is_open && books.voided.contains(key) {
            return Lookup::Found(Verdict::Voided);
        }
        match charge.or(shown.last()) {
            Some(Fact::Charged { reference, amount }) => {
                met(Met::LookedUpCharge);
                Lookup::Found(Verdict::Charged { reference: reference.clone(), amount: *amount })
            }
            Some(Fact::Declined(decline)) => {
                met(Met::LookedUpDecline);
                Lookup::Found(Verdict::Declined(decline.clone()))
            }
            Some(Fact::Open) => {
                met(Met::LookedUpPending);
                Lookup::Found(Verdict::PendingAtGateway { reference: None })
            }
            None => {
                met(if hidden { Met::LookupBehind } else { Met::NotFound });
                Lookup::NotFound { visible_after: None }
            }
        }
    }

    /// Every request that arrived, oldest first; everything that was open and is decided by now.
    pub(super) fn ledger(&self) -> Vec<LedgerLine> {
        let mut books = self.books.lock().unwrap();
        books.decide(self.time.wall(), &self.trace);
        books.ledger.clone()
    }
}

impl Books {
    fn learn(&mut self, key: &str, shown_from: DateTime<Utc>, fact: Fact) {
        if let Some(known) = self.keys.get_mut(key) {
            known.fact = Some(fact.clone());
        }
        self.known.entry(key.to_owned()).or_default().push((shown_from, fact));
    }

    /// Decides what was open until now: money moves at that instant.
    fn decide(&mut self, now: DateTime<Utc>, trace: &Trace) {
        while let Some(first) = self.open.first_entry()
            && first.key().0 <= now
        {
            let ((at, number), fact) = first.remove_entry();
            let line = &mut self.ledger[number];
            match &fact {
                Fact::Charged { .. } => {
                    line.moved_at = Some(at);
                    trace.met(Met::Charged, Some(line.payment), number as u64);
                }
                Fact::Declined(decline) => line.declined = Some(decline.class),
                Fact::Open => {}
            }
            let key = line.key.clone();
            if let Some(known) = self.keys.get_mut(&key) {
                known.fact = Some(fact.clone());
            }
            let facts = self.known.entry(key).or_default();
            facts.retain(|(_, known)| *known != Fact::Open);
            facts.push((at, fact));
        }
    }
}

fn decline_of(class: DeclineClass) -> Decline {
    Decline {
        class,
        code: format!("{class:?}").to_lowercase(),
        network_code: None,
        reference: None,
        retry_after: None,
    }
}
