//! The gateway's memory: what stands under each key, and what the next request gets. No I/O, no clock.
//!
//! **Promises** one charge under one key while the key lives; afterwards the same key is a *new*
//! charge, as with real gateways. **Why one path**: [`Book::receive`] judges without changing
//! anything, writes a line, and [`Book::absorb`] alone changes the memory from that line; a restart
//! absorbs the same lines and therefore remembers the same things. **Bound**: a key is kept for ever,
//! as a gateway keeps its charges, in about 350 bytes with its payment; resends and replays add none.

use super::behaviour::{Behaviour, Chain};
use super::entry::{Entry, Known, Stored};
use super::judged::{After, Judged, Then, server_error};
use super::line::{Line, Request, Taken, Verdict};
use super::name::Name;
use super::refunds::Refunds;
use super::summary::Summary;
use super::wire::{self, ChargeBody, Code, Heads};
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// How this gateway treats keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) key_ttl: Duration,
    pub(super) replays_declines: bool,
    pub(super) replays_5xx: bool,
    pub(super) compares_body: bool,
    pub(super) voids_by_key: bool,
}

/// What is answered to one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    /// A JSON answer.
    Json { status: u16, body: Value, retry_after_s: Option<u64>, replayed: bool },
    /// 200 with a body that is not JSON.
    Garbage,
    /// No answer while the client waits.
    Hold,
    /// A TCP reset.
    Reset,
}

impl Reply {
    /// 503, as what stands before a gateway answers for it.
    pub(super) fn unavailable() -> Self {
        let body = wire::error("unavailable", "unavailable", None);
        Self::Json { status: 503, body, retry_after_s: None, replayed: false }
    }
}

/// One request judged: the line to make durable, then the reply.
#[derive(Debug)]
pub(super) struct Ruling {
    pub(super) line: Line,
    pub(super) reply: Reply,
    /// How long the answer takes beyond the usual latency.
    pub(super) slow: Duration,
    /// The key is in flight until [`Book::land`] is called.
    pub(super) in_flight: bool,
}

/// Why a request was refused before any key was looked at.
#[derive(Debug, Clone)]
pub(super) enum Refused {
    Unauthorized,
    Malformed(wire::Malformed),
}

/// What a request meets before this gateway looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// It is looked at.
    Open,
    /// Too many calls; another one passes after so many seconds.
    OverRate(u64),
    /// An outage answers 503 in this gateway's place.
    Unavailable,
    /// An outage swallows it.
    Silent,
}

/// A movement of money as this gateway books it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Booking {
    pub(super) moved_at: DateTime<Utc>,
    /// As this gateway says it, in minor units.
    pub(super) amount: i64,
    pub(super) currency: Code,
}

#[derive(Debug)]
pub(super) struct Key {
    first_at: DateTime<Utc>,
    fingerprint: u64,
    pub(super) entries: Vec<Entry>,
    stored: Stored,
    /// The line that is being answered; 0: none.
    in_flight: u64,
    /// What voids and refunds of it get,
    pub(super) mood: Mood,
    /// and how many came.
    voids: u32,
}

/// What voids of a key, and refunds of its charge, get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Plain,
    /// The first one is performed and not answered.
    LosesTheFirst,
    /// So many are refused.
    Refuses(u32),
    /// Refunds are performed and not answered,
    HidesRefunds,
    /// or the connection is reset,
    ResetsRefunds,
    /// or the first request is lost,
    LosesRefunds,
    /// or all are declined.
    RefusesRefunds,
}

impl Key {
    fn fresh(first_at: DateTime<Utc>, fingerprint: u64, mood: Mood) -> Self {
        let (entries, stored) = (Vec::new(), Stored::Nothing);
        Self { first_at, fingerprint, entries, stored, in_flight: 0, mood, voids: 0 }
    }
}

#[derive(Debug, Default)]
struct Payment {
    calls: u32,
    charges: u32,
    limited_at: Option<DateTime<Utc>>,
}

/// A line that this gateway cannot have written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Impossible(pub(super) &'static str);

/// Everything this gateway remembers.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) rules: Rules,
    pub(super) keys: HashMap<Name, Key>,
    payments: HashMap<Name, Payment>,
    pub(super) refunds: Refunds,
    summary: Summary,
}

impl Book {
    pub(super) fn new(rules: Rules) -> Self {
        let (keys, payments) = (HashMap::new(), HashMap::new());
        Self { rules, keys, payments, refunds: Refunds::default(), summary: Summary::default() }
    }

    pub(super) fn summary(&self) -> Summary {
        self.summary
    }

    /// Judges one physical request and remembers it. The line must be durable before the reply.
    pub(super) fn receive(
        &mut self,
        now: DateTime<Utc>,
        door: Door,
        heads: &Heads,
        body: Result<&ChargeBody, Refused>,
    ) -> Result<Ruling, Impossible> {
        let judged = self.judge(now, door, heads, body.as_ref().copied());
        let mut line = Line {
            seq: self.next_seq(),
            at: now,
            key: heads.key.clone(),
            payment_id: body.as_ref().ok().map(|body| body.payment_id.clone()),
            epoch: heads.epoch(),
            claim_id: heads.claim_id.clone(),
            fence: heads.fence,
            due_at: heads.due_at,
            amount: body.as_ref().ok().map(|body| body.amount),
            currency: body.as_ref().ok().map(|body| body.currency.clone()),
            payee: body.as_ref().ok().map(|body| body.payee.clone()),
            verdict: judged.verdict,
            charged: judged.charged,
            request: Request::Charge,
            charge: None,
            taken: None,
        };
        self.absorb(&line)?;
        line.taken = self.taken_otherwise(&line);
        let (reply, slow) = match judged.then {
            Then::Say(reply) => (reply, Duration::ZERO),
            Then::TellEntry(after) => self.tell(now, heads, after),
        };
        let in_flight = line.verdict.executed();
        let name = heads.key.as_deref().filter(|_| in_flight).map(Name::of);
        if let Some(key) = name.and_then(|name| self.keys.get_mut(&name)) {
            key.in_flight = line.seq;
        }
        Ok(Ruling { line, reply, slow, in_flight })
    }

    /// Judges one void and remembers it; `heads` carries the body's key.
    pub(super) fn receive_void(
        &mut self,
        now: DateTime<Utc>,
        door: Door,
        heads: &Heads,
        refused: Option<&Refused>,
    ) -> Result<Ruling, Impossible> {
        let judged = self.judge_void(now, door, heads, refused);
        let payment_id = heads.key.as_deref().map(|key| key.split(':').next().unwrap_or(key).to_owned());
        let line = Line {
            seq: self.next_seq(),
            at: now,
            key: heads.key.clone(),
            payment_id,
            epoch: heads.epoch(),
            claim_id: heads.claim_id.clone(),
            fence: heads.fence,
            due_at: heads.due_at,
            amount: None,
            currency: None,
            payee: None,
            verdict: judged.verdict,
            charged: false,
            request: Request::Void,
            charge: None,
            taken: None,
        };
        self.absorb(&line)?;
        let (reply, slow) = match judged.then {
            Then::Say(reply) => (reply, Duration::ZERO),
            Then::TellEntry(after) => self.tell(now, heads, after),
        };
        Ok(Ruling { line, reply, slow, in_flight: false })
    }

    /// Whether a void left its tombstone under this key.
    pub(super) fn is_voided(&self, key: &str) -> bool {
        self.keys.get(&Name::of(key)).is_some_and(|key| key.stored == Stored::Tombstone)
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.summary.requests + self.summary.voids + self.summary.refund_requests + 1
    }

    /// The request under this key has been answered.
    pub(super) fn land(&mut self, key: &str) {
        if let Some(key) = self.keys.get_mut(&Name::of(key)) {
            key.in_flight = 0;
        }
    }

    /// What a look-up shows of a key: every entry visible now, oldest first.
    pub(super) fn look_up(&self, now: DateTime<Utc>, key: &str) -> Vec<Value> {
        let Some(known) = self.keys.get(&Name::of(key)) else { return Vec::new() };
        let entries = known.entries.iter().filter(|entry| entry.is_shown(now));
        entries
            .map(|entry| {
                let flying = known.in_flight == entry.seq;
                let what = if flying { Known::InProgress } else { entry.known(now) };
                wire::charge_object(key, entry, &what)
            })
            .collect()
    }

    /// When what is pending under this key will be decided.
    pub(super) fn decides_at(&self, key: &str) -> Option<DateTime<Utc>> {
        self.keys.get(&Name::of(key))?.entries.last()?.decides_at()
    }

    /// How the money that a charging line moved is booked; `None` if this gateway has no such line.
    pub(super) fn booking(&self, key: &str, seq: u64, line_at: DateTime<Utc>) -> Option<Booking> {
        let entry = self.entry(key, seq)?;
        let moved_at = entry.moved_at(line_at)?;
        Some(Booking { moved_at, amount: entry.amount_said, currency: entry.currency_said })
    }

    /// The same of the money that the payer's bank took back of it.
    pub(super) fn charged_back(&self, key: &str, seq: u64) -> Option<Booking> {
        let entry = self.entry(key, seq)?;
        let moved_at = entry.charged_back_at()?;
        Some(Booking { moved_at, amount: entry.amount_said, currency: entry.currency_said })
    }

    fn entry(&self, key: &str, seq: u64) -> Option<&Entry> {
        self.keys.get(&Name::of(key))?.entries.iter().find(|entry| entry.seq == seq)
    }

    /// What the charge of this line took, where that is not what it asked.
    fn taken_otherwise(&self, line: &Line) -> Option<Taken> {
        let known = self.keys.get(&Name::of(line.key.as_deref().filter(|_| line.charged)?))?;
        let entry = known.entries.iter().find(|entry| entry.seq == line.seq)?;
        let (amount, currency) = (entry.amount_said, entry.currency_said.as_str());
        let as_asked = line.amount == Some(amount) && line.currency.as_deref() == Some(currency);
        (!as_asked).then(|| Taken { amount, currency: currency.to_owned() })
    }

    fn judge(
        &self,
        now: DateTime<Utc>,
        door: Door,
        heads: &Heads,
        body: Result<&ChargeBody, &Refused>,
    ) -> Judged {
        let body = match (Judged::at_the_door(door, heads, body.err()), body) {
            (Some(judged), _) => return judged,
            (None, Ok(body)) => body,
            // Said by the door.
            (None, Err(_)) => return Judged::refuse(Verdict::Invalid, 400, "invalid_request", "body", heads),
        };
        let Some(chain) = Chain::parse(&body.payee) else {
            return Judged::refuse(Verdict::Invalid, 400, "invalid_request", "invalid_destination", heads);
        };
        let key = heads.key.as_deref().and_then(|key| self.keys.get(&Name::of(key)));
        if let Some(key) = key {
            // Before anything else, and whatever was forgotten since.
            if key.stored == Stored::Tombstone {
                return Judged::refuse(Verdict::Tombstoned, 409, "voided", "voided", heads);
            }
            if key.in_flight != 0 {
                return Judged::refuse(Verdict::Concurrent, 409, "in_use", "in_use", heads);
            }
            if !self.expired(key, now) {
                if self.rules.compares_body && key.fingerprint != fingerprint(body) {
                    return Judged::refuse(Verdict::KeyReused, 422, "key_reused", "key_reused", heads);
                }
                match key.stored {
                    Stored::Nothing | Stored::Tombstone => {}
                    Stored::Entry => return Judged::replay(Then::TellEntry(After::Replay)),
                    Stored::ServerError => return Judged::replay(Then::Say(server_error(true))),
                }
            }
        }
        let payment = self.payments.get(&Name::of(&body.payment_id));
        let (link, repeat) = chain.link(payment.map_or(0, |payment| payment.calls));
        let limited_at = payment.and_then(|payment| payment.limited_at);
        Judged::execute(link, repeat, limited_at, now, heads)
    }

    /// A key that was decided is answered with what became of it; a decline decides only where it is replayed.
    /// Every other one is voided, also one that this gateway has forgotten: it cannot know better.
    fn judge_void(&self, now: DateTime<Utc>, door: Door, heads: &Heads, refused: Option<&Refused>) -> Judged {
        if let Some(judged) = Judged::at_the_door(door, heads, refused) {
            return judged;
        }
        if !self.rules.voids_by_key {
            return Judged::refuse(Verdict::Invalid, 404, "not_found", "no_voids", heads);
        }
        let name = heads.key.as_deref().unwrap_or_default();
        let told =
            Reply::Json { status: 200, body: wire::voided(name), retry_after_s: None, replayed: false };
        let Some(key) = self.keys.get(&Name::of(name)) else { return Judged::voided(told) };
        if key.in_flight != 0 {
            return Judged::refuse(Verdict::Concurrent, 409, "in_use", "in_use", heads);
        }
        match key.mood {
            Mood::Refuses(count) if key.voids < count => return Judged::void_refused(),
            Mood::Plain
            | Mood::LosesTheFirst
            | Mood::Refuses(_)
            | Mood::HidesRefunds
            | Mood::ResetsRefunds
            | Mood::LosesRefunds
            | Mood::RefusesRefunds => {}
        }
        match key.stored {
            Stored::Entry | Stored::ServerError if !self.expired(key, now) => {
                Judged::replay(Then::TellEntry(After::Replay))
            }
            Stored::Entry | Stored::ServerError | Stored::Nothing | Stored::Tombstone => {
                let is_lost = key.mood == Mood::LosesTheFirst && key.voids == 0;
                Judged::voided(if is_lost { Reply::Reset } else { told })
            }
        }
    }

    fn expired(&self, key: &Key, now: DateTime<Utc>) -> bool {
        (now - key.first_at).to_std().is_ok_and(|age| age >= self.rules.key_ttl)
    }

    /// Changes the memory by one line; the only way in, for new lines and for a restart alike.
    pub(super) fn absorb(&mut self, line: &Line) -> Result<(), Impossible> {
        if line.seq != self.next_seq() {
            return Err(Impossible("its seq does not follow the line before"));
        }
        match line.request {
            Request::Charge if line.verdict.executed() => self.absorb_executed(line)?,
            Request::Charge => {}
            Request::Void => self.absorb_void(line)?,
            Request::Refund => self.absorb_refund(line)?,
        }
        self.summary.count(line);
        Ok(())
    }

    fn absorb_void(&mut self, line: &Line) -> Result<(), Impossible> {
        let is_voided = match line.verdict {
            Verdict::Voided => true,
            Verdict::Replayed | Verdict::VoidRefused => false,
            // It was not looked at.
            _ => return Ok(()),
        };
        let name = line.key.as_deref().ok_or(Impossible("it voided nothing"))?;
        let fresh = || Key::fresh(line.at, 0, Mood::Plain);
        let key = self.keys.entry(Name::of(name)).or_insert_with(fresh);
        key.voids += 1;
        if is_voided {
            key.stored = Stored::Tombstone;
        }
        Ok(())
    }

    fn absorb_executed(&mut self, line: &Line) -> Result<(), Impossible> {
        let (Some(key), Some(payment_id), Some(amount), Some(currency), Some(payee)) = (
            line.key.as_deref(),
            line.payment_id.as_deref(),
            line.amount,
            line.currency.as_deref(),
            line.payee.as_deref(),
        ) else {
            return Err(Impossible("it was executed without a key or a whole body"));
        };
        let chain = Chain::parse(payee).ok_or(Impossible("it was executed with an unknown destination"))?;
        let code = Code::read(currency).ok_or(Impossible("it was executed in an unreadable currency"))?;
        let payment_name = Name::of(payment_id);
        let payment = self.payments.entry(payment_name.clone()).or_default();
        let link = chain.link(payment.calls).0;
        payment.calls += 1;
        payment.limited_at = match line.verdict {
            Verdict::RateLimited => payment.limited_at.or(Some(line.at)),
            _ => None,
        };
        if line.charged {
            payment.charges += 1;
            self.summary.payments_charged += u64::from(payment.charges == 1);
            self.summary.payments_charged_more_than_once += u64::from(payment.charges == 2);
        }
        let mood = match link {
            Behaviour::VoidLost => Mood::LosesTheFirst,
            Behaviour::VoidRefused(count) => Mood::Refuses(*count),
            Behaviour::Refund(mood) => *mood,
            _ => Mood::Plain,
        };
        let fresh = || Key::fresh(line.at, wire::fingerprint(payment_id, amount, currency, payee), mood);
        let ttl = self.rules.key_ttl;
        let key = self.keys.entry(Name::of(key)).or_insert_with(fresh);
        if (line.at - key.first_at).to_std().is_ok_and(|age| age >= ttl) {
            // The gateway forgot the key; its own list of charges keeps the old one.
            *key = Key { entries: std::mem::take(&mut key.entries), ..fresh() };
        }
        if let Some(entry) = Entry::of(line, link, payment_name, amount, code) {
            key.stored = entry.stored(link, self.rules);
            // Most keys never get a second one, and there are millions.
            key.entries.reserve_exact(1);
            key.entries.push(entry);
        }
        Ok(())
    }

    /// The reply that tells the key's newest entry.
    fn tell(&self, now: DateTime<Utc>, heads: &Heads, after: After) -> (Reply, Duration) {
        let name = heads.key.as_deref().unwrap_or_default();
        let Some(entry) = self.keys.get(&Name::of(name)).and_then(|key| key.entries.last()) else {
            return (server_error(false), Duration::ZERO);
        };
        let (status, body) = match entry.known(now) {
            Known::Declined(code) => (402, wire::declined(&code, name, entry.seq)),
            known @ (Known::Pending | Known::InProgress) => (202, wire::charge_object(name, entry, &known)),
            known @ Known::Charged => (200, wire::charge_object(name, entry, &known)),
        };
        let (replayed, slow) = match after {
            After::Replay => (true, Duration::ZERO),
            After::Execution(slow) => (false, slow),
        };
        (Reply::Json { status, body, retry_after_s: None, replayed }, slow)
    }
}

fn fingerprint(body: &ChargeBody) -> u64 {
    wire::fingerprint(&body.payment_id, body.amount, &body.currency, &body.payee)
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
