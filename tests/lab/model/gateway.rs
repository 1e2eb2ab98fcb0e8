//! The gateway: it keeps the promises of its profile and no others.
//!
//! It charges once per key for as long as it remembers the key, and what it does with a request it
//! has not decided is chosen by the explorer. It restates nothing of ours: its ledger (`charges`) is
//! what the money invariants are read from.

use super::row::reference;
use super::terms::{KEY_TTL, PENDING_WITHIN, Terms, Tick};
use punctual::domain::facts::Declines;
use punctual::domain::guard_cases;
use punctual::domain::money::Money;
use punctual::domain::state::Status;
use punctual::domain::verdict::{Decline, DeclineClass, Doubt, NotSent, Verdict};

/// What a request says back, or what a worker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// This charge, by its number.
    Charged(u8),
    /// Refused for now.
    Soft,
    /// Refused for good.
    Hard,
    /// Nothing was executed: the gateway's own word.
    Limited,
    /// It will know later.
    Pending,
    /// The key is in use with another body.
    Mismatch,
    /// A tombstone: nothing is charged under the key, ever.
    Voided,
    /// No answer.
    Silence,
    /// Nothing was sent, by our own word; the number says why, by [`not_sent`].
    NotSent(u8),
}

/// Reasons of our own for not sending.
const OUR_REASONS: [NotSent; 7] = [
    NotSent::OnlyAsked,
    NotSent::LeaseTooShort,
    NotSent::KeyExpired,
    NotSent::DeadlinePassed,
    NotSent::CancelWished,
    NotSent::HostClockEarly,
    NotSent::NotStarted,
];

/// The word for one of our own reasons not to send.
pub fn not_sent(why: NotSent) -> Word {
    let at = OUR_REASONS.iter().position(|reason| *reason == why);
    Word::NotSent(at.and_then(|at| u8::try_from(at).ok()).expect("a reason of the list"))
}

fn amount() -> Money {
    guard_cases::payment(super::terms::instant(2), 1, Status::Pending).amount
}

fn declined(class: DeclineClass) -> Verdict {
    let code = "code".into();
    Verdict::Declined(Decline { class, code, network_code: None, reference: None, retry_after: None })
}

impl Word {
    /// As the product reads it.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Charged(n) => Verdict::Charged { reference: reference(n), amount: amount() },
            Self::Soft => declined(DeclineClass::Soft),
            Self::Hard => declined(DeclineClass::Hard),
            Self::Limited => Verdict::NotSent { why: NotSent::RateLimited, retry_after: None },
            Self::Pending => Verdict::PendingAtGateway { reference: None },
            Self::Mismatch => Verdict::Unknown(Doubt::KeyMismatch),
            Self::Voided => Verdict::Voided,
            Self::Silence => Verdict::Unknown(Doubt::TimedOut),
            Self::NotSent(at) => Verdict::NotSent { why: OUR_REASONS[usize::from(at)], retry_after: None },
        }
    }

    /// Reads what a look-up settles with.
    pub fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Charged { reference, .. } => {
                Self::Charged(u8::try_from(reference.len()).expect("few charges"))
            }
            Verdict::Declined(decline) if decline.class == DeclineClass::Hard => Self::Hard,
            Verdict::Declined(_) => Self::Soft,
            Verdict::NotSent { why, .. } => not_sent(*why),
            Verdict::PendingAtGateway { .. } => Self::Pending,
            Verdict::Voided => Self::Voided,
            Verdict::Unknown(_) | Verdict::InProgress { .. } | Verdict::ContractViolation { .. } => {
                panic!("this gateway does not say {verdict:?}")
            }
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wants {
    Charge,
    /// That nothing is ever charged under the key.
    Void,
}

/// A request under way. It is on its way whatever becomes of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    pub wants: Wants,
    /// Which of the payment's keys.
    pub key: u8,
    /// The claim under which it was sent.
    pub claim: u8,
    /// When.
    pub sent_at: Tick,
    /// The version of its bytes.
    pub body: u8,
    /// The network delivers it once more.
    pub again: bool,
}

/// What the gateway decided under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    Charged(u8),
    Declined(Refusal),
    Pending,
    /// A tombstone.
    Voided,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    Soft,
    Hard,
}

/// What it keeps of a key. An entry that is forgotten stays as a trace for the invariants alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kept {
    pub since: Tick,
    pub held: Held,
    pub body: u8,
}

impl Kept {
    /// Does the gateway still know the key? What is pending is not forgotten, and a tombstone never is.
    pub fn is_known(&self, now: Tick) -> bool {
        matches!(self.held, Held::Pending | Held::Voided) || now < self.since + KEY_TTL
    }

    /// Is a pending charge as old as it may get?
    pub fn must_be_decided(&self, now: Tick) -> bool {
        self.held == Held::Pending && now + 1 >= self.since + PENDING_WITHIN
    }

    /// As a look-up shows it.
    pub fn word(&self) -> Word {
        match self.held {
            Held::Charged(n) => Word::Charged(n),
            Held::Declined(Refusal::Soft) => Word::Soft,
            Held::Declined(Refusal::Hard) => Word::Hard,
            Held::Pending => Word::Pending,
            Held::Voided => Word::Voided,
        }
    }
}

/// What the explorer has the gateway do with a request that it executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Choice {
    Charge,
    DeclineSoft,
    DeclineHard,
    /// 429.
    Limit,
    /// Accept, and know later.
    Pend,
}

/// The word under a key in use, if the key alone decides; otherwise the request is executed.
pub fn answered_by_key(terms: &Terms, kept: Option<Kept>, body: u8, now: Tick) -> Option<Word> {
    let kept = kept.filter(|kept| kept.is_known(now))?;
    let decides = match (kept.held, terms.declines) {
        (Held::Charged(_) | Held::Pending | Held::Voided, _) | (Held::Declined(_), Declines::Replayed) => {
            true
        }
        (Held::Declined(_), Declines::Forgotten) => false,
    };
    let compares = terms.compares_body && kept.held != Held::Voided;
    decides.then(|| if compares && kept.body != body { Word::Mismatch } else { kept.word() })
}

/// What a void is answered: what became of the key, if that is final; otherwise a tombstone now stands
/// under it. A decline that another request may still turn into a charge is not final.
pub fn voided(terms: &Terms, kept: Option<Kept>, now: Tick) -> Option<Word> {
    let known = kept.filter(|kept| kept.is_known(now))?;
    answered_by_key(terms, Some(known), known.body, now)
}
