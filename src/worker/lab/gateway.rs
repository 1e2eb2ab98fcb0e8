//! A gateway that follows a script and keeps a ledger, honouring keys as the contract says.
//!
//! It is the opposite party: it knows what really happened, including what its caller was never
//! told, so a test can count charges instead of believing states.

use crate::domain::declines::DeclineCaps;
use crate::domain::ids::{ClaimId, GatewayName, PaymentId, gateway_key};
use crate::domain::lease::SendGate;
use crate::domain::money::Money;
use crate::domain::payment::Payment;
use crate::domain::verdict::{Decline, DeclineClass, Doubt, Lookup, NotSent, Verdict};
use crate::gateway::{CannotRender, FrozenRequest, Gateway, Pacing, Profile};
use crate::platform::clock::SharedClock;
use crate::schedule::{Answer, Answered, Claimed, How};
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the gateway does with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Executes it and says so.
    Charge,
    /// Refuses it and says so.
    Decline(DeclineClass),
    /// Executes it; the answer is lost.
    ChargeSilently,
    /// The request is lost on its way; nobody answers.
    Lose,
    /// The request is executed only after this many seconds, when its caller has long given up.
    ChargeLate(u32),
    /// Refuses it; the answer is lost.
    DeclineSilently(DeclineClass),
    /// Proves that nothing was sent.
    NotSent(NotSent),
    /// Answers nonsense that needs a person.
    Nonsense,
}

/// One request as the gateway saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerLine {
    /// The idempotency key.
    pub key: String,
    /// For whom.
    pub payment: PaymentId,
    /// Under which claim.
    pub claim: ClaimId,
    /// How much.
    pub amount: Money,
    /// SHA-256 of the body.
    pub hash: [u8; 32],
    /// When it arrived, by the true clock.
    pub at: DateTime<Utc>,
    /// Whether this request moved money (a replay under a used key does not).
    pub moved_money: bool,
}

#[derive(Debug, Default)]
struct Books {
    ledger: Vec<LedgerLine>,
    /// What is stored under a key: the charge's reference.
    charged: BTreeMap<String, String>,
    /// The newest decline under a key; forgotten by the key, but shown to look-ups.
    declined: BTreeMap<String, Decline>,
    bodies: BTreeMap<String, [u8; 32]>,
    late: Vec<(DateTime<Utc>, LedgerLine)>,
    /// Keys with a tombstone.
    voided: BTreeSet<String>,
    /// Every void that arrived, by its key.
    voids: Vec<String>,
}

/// See the module's head. Requests beyond the script are charged.
pub struct ScriptedGateway {
    profile: Profile,
    true_time: SharedClock,
    host: SharedClock,
    script: Mutex<VecDeque<(Act, Duration)>>,
    lookups_down: Mutex<u32>,
    lookups_take: Mutex<Duration>,
    voids_lost: Mutex<u32>,
    voids_take: Mutex<Duration>,
    unrenderable: AtomicBool,
    books: Mutex<Books>,
}

impl std::fmt::Debug for ScriptedGateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedGateway").field("books", &self.books).finish_non_exhaustive()
    }
}

impl ScriptedGateway {
    /// A gateway that keeps `true_time`; its callers check the gate by `host`.
    #[must_use]
    pub fn new(profile: Profile, true_time: SharedClock, host: SharedClock) -> Self {
        let (script, lookups_down) = (Mutex::new(VecDeque::new()), Mutex::new(0));
        Self {
            profile,
            true_time,
            host,
            script,
            lookups_down,
            lookups_take: Mutex::default(),
            voids_lost: Mutex::new(0),
            voids_take: Mutex::new(Duration::ZERO),
            unrenderable: AtomicBool::new(false),
            books: Mutex::default(),
        }
    }

    /// The next request meets this act, `after` so long.
    pub fn will(&self, act: Act, after: Duration) {
        self.script.lock().unwrap().push_back((act, after));
    }

    /// Forgets the rest of the script: from now on every request is charged.
    pub fn heal(&self) {
        self.script.lock().unwrap().clear();
        self.lookups_fail(0);
    }

    /// The next `count` look-ups learn nothing.
    pub fn lookups_fail(&self, count: u32) {
        *self.lookups_down.lock().unwrap() = count;
    }

    /// From now on each look-up takes so long.
    pub fn lookups_take(&self, length: Duration) {
        *self.lookups_take.lock().unwrap() = length;
    }

    /// The next `count` voids are performed, and their answers are lost.
    pub fn voids_lose_their_answer(&self, count: u32) {
        *self.voids_lost.lock().unwrap() = count;
    }

    /// From now on voids are answered this long after they arrived.
    pub fn voids_take(&self, length: Duration) {
        *self.voids_take.lock().unwrap() = length;
    }

    /// The keys of all voids that arrived, oldest first.
    pub fn voids(&self) -> Vec<String> {
        self.books.lock().unwrap().voids.clone()
    }

    /// From now on no request can be made any more.
    pub fn cannot_render(&self) {
        self.unrenderable.store(true, Ordering::SeqCst);
    }

    /// Somebody used this payment's first key with other bytes.
    pub fn spoil_key(&self, payment: PaymentId) {
        let key = gateway_key(payment, crate::domain::ids::Epoch(0));
        self.books.lock().unwrap().bodies.insert(key, [0xEE; 32]);
    }

    /// Every request that arrived, oldest first.
    pub fn ledger(&self) -> Vec<LedgerLine> {
        self.arrive_late();
        self.books.lock().unwrap().ledger.clone()
    }

    /// How often money moved for this payment, over all its keys: the number that must be 0 or 1.
    pub fn charges(&self, payment: PaymentId) -> usize {
        self.ledger().iter().filter(|line| line.payment == payment && line.moved_money).count()
    }

    /// Executes what was under way when its time came.
    fn arrive_late(&self) {
        let now = self.true_time.wall();
        let mut books = self.books.lock().unwrap();
        let (arrived, still): (Vec<_>, Vec<_>) =
            std::mem::take(&mut books.late).into_iter().partition(|(at, _)| *at <= now);
        books.late = still;
        for (at, line) in arrived {
            let refused = self.profile.replays_declines && books.declined.contains_key(&line.key);
            if books.voided.contains(&line.key) {
                books.ledger.push(LedgerLine { at, ..line });
            } else if !refused {
                books.execute(LedgerLine { at, ..line });
            }
        }
    }

    fn perform(&self, act: Act, line: LedgerLine) -> Verdict {
        self.arrive_late();
        let mut books = self.books.lock().unwrap();
        let (key, amount) = (line.key.clone(), line.amount);
        if self.profile.compares_body && books.bodies.get(&key).is_some_and(|used| *used != line.hash) {
            return Verdict::Unknown(Doubt::KeyMismatch);
        }
        let lost = Verdict::Unknown(Doubt::TimedOut);
        if books.voided.contains(&key) {
            books.ledger.push(line);
            return Verdict::Voided;
        }
        // A stored charge is replayed whatever the script says about this request's fate.
        let stored = books.charged.get(&key).cloned();
        let refused = books.declined.get(&key).filter(|_| self.profile.replays_declines).cloned();
        let act = match (refused, act) {
            (Some(decline), Act::Decline(_) | Act::Charge | Act::Nonsense) => Act::Decline(decline.class),
            (Some(decline), Act::DeclineSilently(_) | Act::ChargeSilently) => {
                Act::DeclineSilently(decline.class)
            }
            (_, act) => act,
        };
        match act {
            Act::NotSent(why) => Verdict::NotSent { why, retry_after: None },
            Act::Lose => lost,
            Act::ChargeLate(seconds) => {
                let at = line.at + Duration::from_secs(u64::from(seconds));
                books.late.push((at, line));
                lost
            }
            Act::ChargeSilently => {
                books.execute(line);
                lost
            }
            Act::Charge => Verdict::Charged { reference: books.execute(line), amount },
            Act::Decline(_) | Act::DeclineSilently(_) | Act::Nonsense if stored.is_some() => {
                Verdict::Charged { reference: books.execute(line), amount }
            }
            Act::Decline(class) => Verdict::Declined(books.refuse(line, class)),
            Act::DeclineSilently(class) => {
                books.refuse(line, class);
                lost
            }
            Act::Nonsense => {
                books.refuse(line, DeclineClass::Hard);
                Verdict::ContractViolation { what: "nonsense".into() }
            }
        }
    }
}

impl Books {
    /// Charges once a key; answers the stored reference.
    fn execute(&mut self, line: LedgerLine) -> String {
        let number = self.charged.len() + 1;
        let fresh = !self.charged.contains_key(&line.key);
        let reference =
            self.charged.entry(line.key.clone()).or_insert_with(|| format!("ch_{number}")).clone();
        self.bodies.insert(line.key.clone(), line.hash);
        self.ledger.push(LedgerLine { moved_money: fresh, ..line });
        reference
    }

    /// Refuses; the key may be used again, as with gateways that forget declines.
    fn refuse(&mut self, line: LedgerLine, class: DeclineClass) -> Decline {
        let decline = Decline {
            class,
            code: format!("{class:?}").to_lowercase(),
            network_code: None,
            reference: None,
            retry_after: None,
        };
        self.bodies.insert(line.key.clone(), line.hash);
        self.declined.insert(line.key.clone(), decline.clone());
        self.ledger.push(LedgerLine { moved_money: false, ..line });
        decline
    }
}

impl Gateway for ScriptedGateway {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn prepare(&self, claimed: &Claimed) -> Result<FrozenRequest, CannotRender> {
        let payment = claimed.payment();
        let payee = claimed.payee().expose_secret();
        if payee.is_empty() || self.unrenderable.load(Ordering::SeqCst) {
            return Err(CannotRender("no payee".into()));
        }
        let body =
            format!("{} {} {} {payee}", payment.id, payment.amount.minor.get(), payment.amount.currency);
        let hash = Sha256::digest(&body).into();
        Ok(FrozenRequest {
            key: gateway_key(payment.id, payment.epoch),
            body: SecretString::from(body),
            hash,
        })
    }

    fn charge(&self, claimed: Claimed, request: FrozenRequest, gate: SendGate) -> BoxFuture<'_, Answered> {
        Box::pin(async move {
            let (act, after) =
                self.script.lock().unwrap().pop_front().unwrap_or((Act::Charge, Duration::ZERO));
            let began = self.host.mono();
            if let Err(why) = gate.check(self.host.wall(), began) {
                return claimed.not_started(why);
            }
            let payment = claimed.payment();
            let line = LedgerLine {
                key: request.key,
                payment: payment.id,
                claim: claimed.claim_id(),
                amount: payment.amount,
                hash: request.hash,
                at: self.true_time.wall(),
                moved_money: false,
            };
            let verdict = self.perform(act, line);
            if !after.is_zero() {
                self.host.sleep(after).await;
            }
            let took = self.host.mono().0.saturating_sub(began.0);
            let how = if matches!(verdict, Verdict::NotSent { .. }) { How::NotStarted } else { How::Sent };
            let request_hash = Some(request.hash);
            claimed.answered(Answer { request_hash, took: Some(took), ..Answer::silent(verdict, how) })
        })
    }

    fn lookup<'a>(&'a self, payment: &'a Payment) -> BoxFuture<'a, Lookup> {
        Box::pin(async move {
            let length = *self.lookups_take.lock().unwrap();
            if !length.is_zero() {
                self.host.sleep(length).await;
            }
            let mut down = self.lookups_down.lock().unwrap();
            if *down > 0 {
                *down -= 1;
                return Lookup::Unavailable { retry_after: None };
            }
            drop(down);
            self.arrive_late();
            let books = self.books.lock().unwrap();
            let key = gateway_key(payment.id, payment.epoch);
            match (books.charged.get(&key), books.declined.get(&key)) {
                (Some(reference), _) => {
                    Lookup::Found(Verdict::Charged { reference: reference.clone(), amount: payment.amount })
                }
                (None, Some(decline)) => Lookup::Found(Verdict::Declined(decline.clone())),
                (None, None) => Lookup::NotFound { visible_after: None },
            }
        })
    }

    fn void<'a>(&'a self, claimed: &'a Claimed, gate: SendGate) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if let Err(why) = gate.check(self.host.wall(), self.host.mono()) {
                return Answer::silent(Verdict::NotSent { why, retry_after: None }, How::NotStarted);
            }
            self.arrive_late();
            let payment = claimed.payment();
            let key = gateway_key(payment.id, payment.epoch);
            let verdict = {
                let mut books = self.books.lock().unwrap();
                books.voids.push(key.clone());
                let declined = books.declined.get(&key).filter(|_| self.profile.replays_declines);
                match (books.charged.get(&key), declined) {
                    (Some(reference), _) => {
                        Verdict::Charged { reference: reference.clone(), amount: payment.amount }
                    }
                    (None, Some(decline)) => Verdict::Declined(decline.clone()),
                    (None, None) => {
                        books.voided.insert(key);
                        Verdict::Voided
                    }
                }
            };
            let length = *self.voids_take.lock().unwrap();
            if !length.is_zero() {
                self.host.sleep(length).await;
            }
            let mut lost = self.voids_lost.lock().unwrap();
            if *lost > 0 {
                *lost -= 1;
                return Answer::silent(Verdict::Unknown(Doubt::TimedOut), How::Voided);
            }
            Answer::silent(verdict, How::Voided)
        })
    }
}

/// A gateway like the sandbox: compares bodies, forgets declines, can be asked.
#[must_use]
pub fn sandbox_profile() -> Profile {
    Profile {
        name: GatewayName("sandbox".into()),
        account: "sandbox-1".into(),
        renderer: 1,
        key_ttl: Duration::from_secs(86_400),
        key_margin: Duration::from_secs(3_600),
        replays_declines: false,
        replays_5xx: false,
        compares_body: true,
        lookup: true,
        not_found_horizon: Duration::from_secs(60),
        voids_by_key: false,
        refunds: false,
        async_final_within: None,
        caps: DeclineCaps::default(),
        connect_timeout: Duration::from_secs(5),
        total_timeout: Duration::from_secs(20),
        renews_lease: false,
        max_in_flight: 16,
        pacing: Pacing::default(),
    }
}
