//! Refunds of this gateway: one under one key, and in sum never more than the charge.
//!
//! **Promises** as the book of charges: judged without changing anything, and changed by the line alone, so that a
//! restart remembers the same things. A key is kept for ever. What a charge's destination says of its refunds
//! (`sim_refund_…`) counts for the first request of each key.

use super::book::{Book, Door, Impossible, Mood, Refused, Reply, Ruling};
use super::entry::Known;
use super::judged::{Judged, Then};
use super::line::{Line, Request, Verdict};
use super::name::Name;
use super::wire::{self, Heads, RefundBody};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// Epochs of a payment's key that are looked through for its charge.
const EPOCHS: u32 = 32;

/// What refunds left behind.
#[derive(Debug, Default)]
pub(super) struct Refunds {
    keys: HashMap<Name, Given>,
    /// Given back, by the line of the charge.
    sums: HashMap<u64, i64>,
}

/// What stands under a refund's key.
#[derive(Debug)]
struct Given {
    fingerprint: u64,
    /// The newest thing that became of it.
    came_to: CameTo,
}

#[derive(Debug, Clone, PartialEq)]
enum CameTo {
    /// A request was lost.
    Nothing,
    Refunded(Value),
    Declined(&'static str),
}

impl Book {
    /// Judges one physical request to give money back, and remembers it.
    pub(super) fn receive_refund(
        &mut self,
        now: DateTime<Utc>,
        door: Door,
        heads: &Heads,
        body: Result<&RefundBody, Refused>,
    ) -> Result<Ruling, Impossible> {
        let judged = match Judged::at_the_door(door, heads, body.as_ref().err()) {
            Some(judged) => judged,
            None => match &body {
                Ok(body) => self.judge_refund(now, heads, body),
                // Said by the door.
                Err(_) => Judged::refuse(Verdict::Invalid, 400, "invalid_request", "body", heads),
            },
        };
        let body = body.ok();
        let line = Line {
            seq: self.next_seq(),
            at: now,
            key: heads.key.clone(),
            payment_id: body.map(|body| body.payment_id.clone()),
            epoch: None,
            claim_id: heads.claim_id.clone(),
            fence: heads.fence,
            due_at: None,
            amount: body.map(|body| body.amount),
            currency: body.map(|body| body.currency.clone()),
            payee: None,
            verdict: judged.verdict,
            charged: false,
            request: Request::Refund,
            charge: body.map(|body| body.charge.clone()),
            taken: None,
        };
        self.absorb(&line)?;
        let reply = match judged.then {
            Then::Say(reply) => reply,
            Then::TellEntry(_) => self.tell_refund(heads, line.verdict == Verdict::Replayed),
        };
        Ok(Ruling { line, reply, slow: Duration::ZERO, in_flight: false })
    }

    fn judge_refund(&self, now: DateTime<Utc>, heads: &Heads, body: &RefundBody) -> Judged {
        let known = heads.key.as_deref().and_then(|key| self.refunds.keys.get(&Name::of(key)));
        if let Some(known) = known {
            if self.rules.compares_body && known.fingerprint != body.fingerprint() {
                return Judged::refuse(Verdict::KeyReused, 422, "key_reused", "key_reused", heads);
            }
            match known.came_to {
                CameTo::Refunded(_) => return Judged::replay(told()),
                CameTo::Declined(_) if self.rules.replays_declines => return Judged::replay(told()),
                CameTo::Declined(_) | CameTo::Nothing => {}
            }
        }
        let Some((charge, mood)) = self.charge_of(now, body) else {
            return declined();
        };
        if self.why_not(charge, body).is_some() {
            return declined();
        }
        let refunded = |then| Judged { verdict: Verdict::Refunded, charged: false, then };
        match mood {
            Mood::RefusesRefunds => declined(),
            Mood::LosesRefunds if known.is_none() => {
                Judged { verdict: Verdict::NotCharged, charged: false, then: Then::Say(Reply::Hold) }
            }
            Mood::HidesRefunds => refunded(Then::Say(Reply::Hold)),
            Mood::ResetsRefunds => refunded(Then::Say(Reply::Reset)),
            Mood::LosesRefunds | Mood::Plain | Mood::LosesTheFirst | Mood::Refuses(_) => refunded(told()),
        }
    }

    /// The charge that is named, by its line, with what was charged and what its destination says.
    fn charge_of(&self, now: DateTime<Utc>, body: &RefundBody) -> Option<(Charge, Mood)> {
        let seq: u64 = body.charge.strip_prefix("ch_")?.parse().ok()?;
        let keys = (0..EPOCHS).map(|epoch| match epoch {
            0 => body.payment_id.clone(),
            epoch => format!("{}:{epoch}", body.payment_id),
        });
        for key in keys {
            let Some(known) = self.keys.get(&Name::of(&key)) else { continue };
            let Some(entry) = known.entries.iter().find(|entry| entry.seq == seq) else { continue };
            let charge = Charge { seq, amount: entry.amount_said, currency: entry.currency_said };
            return (entry.known(now) == Known::Charged).then_some((charge, known.mood));
        }
        None
    }

    fn why_not(&self, charge: Charge, body: &RefundBody) -> Option<&'static str> {
        let given = self.refunds.sums.get(&charge.seq).copied().unwrap_or(0);
        if charge.currency.as_str() != body.currency {
            Some("currency_differs")
        } else if body.amount > charge.amount - given {
            Some("above_charge")
        } else {
            None
        }
    }

    /// Changes the memory by one line of a refund.
    pub(super) fn absorb_refund(&mut self, line: &Line) -> Result<(), Impossible> {
        match line.verdict {
            Verdict::Refunded | Verdict::Declined | Verdict::NotCharged => {}
            // It was not looked at, or answered from what stands.
            _ => return Ok(()),
        }
        let (Some(key), Some(payment_id), Some(amount), Some(currency), Some(charge)) = (
            line.key.as_deref(),
            line.payment_id.as_deref(),
            line.amount,
            line.currency.as_deref(),
            line.charge.as_deref(),
        ) else {
            return Err(Impossible("it gave back without a key or a whole body"));
        };
        let body = RefundBody {
            refund_id: key.to_owned(),
            charge: charge.to_owned(),
            payment_id: payment_id.to_owned(),
            amount,
            currency: currency.to_owned(),
        };
        let came_to = match line.verdict {
            Verdict::Refunded => {
                let (charge, _) =
                    self.charge_of(line.at, &body).ok_or(Impossible("it gave back what was not charged"))?;
                let sum = self.refunds.sums.entry(charge.seq).or_default();
                *sum += amount;
                if *sum > charge.amount {
                    return Err(Impossible("it gave back more than was charged"));
                }
                CameTo::Refunded(object(line.seq, "refunded", &body))
            }
            Verdict::Declined => {
                let found = self.charge_of(line.at, &body);
                let why = found.map_or(Some("charge_not_found"), |(charge, _)| self.why_not(charge, &body));
                CameTo::Declined(why.unwrap_or("refund_not_possible"))
            }
            _ => CameTo::Nothing,
        };
        let given = Given { fingerprint: body.fingerprint(), came_to };
        self.refunds.keys.insert(Name::of(key), given);
        Ok(())
    }

    fn tell_refund(&self, heads: &Heads, replayed: bool) -> Reply {
        let name = heads.key.as_deref().unwrap_or_default();
        let (status, body) = match self.refunds.keys.get(&Name::of(name)).map(|given| &given.came_to) {
            Some(CameTo::Refunded(object)) => (200, object.clone()),
            Some(CameTo::Declined(code)) => (402, wire::error("declined", code, Some(name))),
            Some(CameTo::Nothing) | None => return Reply::unavailable(),
        };
        Reply::Json { status, body, retry_after_s: None, replayed }
    }

    /// What a look-up shows of a refund's key.
    pub(super) fn look_up_refund(&self, key: &str) -> Option<Value> {
        match &self.refunds.keys.get(&Name::of(key))?.came_to {
            CameTo::Refunded(object) => Some(object.clone()),
            CameTo::Declined(_) | CameTo::Nothing => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Charge {
    seq: u64,
    amount: i64,
    currency: wire::Code,
}

fn declined() -> Judged {
    Judged { verdict: Verdict::Declined, charged: false, then: told() }
}

fn told() -> Then {
    Then::TellEntry(super::judged::After::Replay)
}

fn object(seq: u64, status: &str, body: &RefundBody) -> Value {
    json!({
        "id": wire::refund_reference(seq),
        "status": status,
        "key": body.refund_id,
        "refundId": body.refund_id,
        "charge": body.charge,
        "paymentId": body.payment_id,
        "amount": body.amount,
        "currency": body.currency,
    })
}

#[cfg(test)]
#[path = "refunds_tests.rs"]
mod tests;
