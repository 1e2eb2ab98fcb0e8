//! What a sequence makes up: requests, gateways, answers.

use crate::schedule::world::{ACTOR, money, new_payment};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::declines::DeclineCaps;
use punctual::domain::facts::{Declines, Facts, LookupSupport, VoidSupport};
use punctual::domain::ids::{ClaimId, GatewayName, PaymentId, WorkerName};
use punctual::domain::intent::intent;
use punctual::domain::lease::{Lease, Mono};
use punctual::domain::money::{Minor, Money};
use punctual::domain::payment::{OnExhausted, OnSoftDecline, RetryPolicy};
use punctual::domain::verdict::{Decline, DeclineClass, Doubt, NotSent, Verdict};
use punctual::domain::window::Window;
use punctual::schedule::{Answer, ClaimTerms, How, NewPayment};
use rand::Rng;
use rand::rngs::StdRng;
use std::time::Duration;
use uuid::Uuid;

/// The same in every run, so that a seed makes the same ids.
const SECRET: [u8; 32] = [42; 32];
/// Held back by the reaper.
pub const MARGIN: Duration = Duration::from_secs(5);

pub fn one_of<T: Clone>(chance: &mut StdRng, choices: &[T]) -> T {
    choices[chance.random_range(0..choices.len())].clone()
}

pub fn claim_ids(chance: &mut StdRng, count: usize) -> Vec<ClaimId> {
    (0..count).map(|_| ClaimId(Uuid::from_u128(chance.random()))).collect()
}

fn gateway(chance: &mut StdRng) -> GatewayName {
    GatewayName(if chance.random_bool(0.12) { "other" } else { "sandbox" }.into())
}

pub fn terms(chance: &mut StdRng) -> ClaimTerms {
    let worker = one_of(chance, &["w1/1", "w2/1"]);
    let length = Duration::from_secs(one_of(chance, &[30, 60]));
    ClaimTerms {
        gateway: gateway(chance),
        account: one_of(chance, &["account-1", "account-1", "account-2"]).into(),
        renderer: one_of(chance, &[1, 1, 2]),
        worker: WorkerName(worker.into()),
        lease: Lease { length, margin: MARGIN, gateway_total: Duration::from_secs(20) },
        asked_at: Mono(Duration::from_millis(chance.random_range(0..1_000_000))),
    }
}

/// A request under this key; no two are due at the same instant.
pub fn request(chance: &mut StdRng, number: usize, now: DateTime<Utc>) -> NewPayment {
    let seconds = one_of(chance, &[-86_400, -3_600, -61, -20, -3, 0, 0, 2, 30, 600, 5_400]);
    let unique =
        TimeDelta::microseconds(i64::try_from(number).unwrap() + chance.random_range(0..900) * 1_000);
    let due_at = now + TimeDelta::seconds(seconds) + unique;
    let mut new = new_payment(&SECRET, &format!("key-{number}"), due_at);
    new.gateway = gateway(chance);
    new.lane = one_of(chance, &[0, 1, 2]);
    // Few, so that the payments of one destination meet.
    new.payee = one_of(chance, &["tok_1", "tok_1", "tok_1", "tok_2"]).into();
    new.amount.minor = Minor::new(chance.random_range(1..100_000)).unwrap();
    new.retry = RetryPolicy {
        max_sends: chance.random_range(1..=6),
        on_soft_decline: one_of(chance, &[OnSoftDecline::Retry, OnSoftDecline::Retry, OnSoftDecline::Fail]),
        on_exhausted: one_of(chance, &[OnExhausted::Park, OnExhausted::Fail]),
    };
    if chance.random_bool(0.3) {
        let after = TimeDelta::seconds(one_of(chance, &[2, 40, 400, 7_200]));
        new.execute_before = Some(due_at.max(now) + after + unique);
    }
    if number % 8 == 7 {
        let room = new.execute_before.map_or(i64::MAX, |deadline| (deadline - due_at).num_seconds());
        new.execute_within = Window::of_seconds([1, 20, 900][number / 8 % 3].min(room));
    }
    if chance.random_bool(0.35) {
        new.external_id = Some(format!("order-{}", chance.random_range(0..3)));
    }
    new
}

/// The same key with another body, and sometimes another due time and with it another id.
pub fn conflicting(chance: &mut StdRng, made: &NewPayment) -> NewPayment {
    let mut new = made.clone();
    new.request_hash[0] ^= 0xff;
    new.field_digests.insert("/amount".into(), "another".into());
    if chance.random_bool(0.5) {
        new.field_digests.insert("/externalId".into(), "one more".into());
    }
    if chance.random_bool(0.5) {
        new.due_at += TimeDelta::seconds(7);
        // It may not end by the deadline any more.
        new.execute_within = None;
        new.id = PaymentId::new(new.due_at, intent(&SECRET, ACTOR, &new.idempotency_key)).unwrap();
    }
    new
}

/// A gateway that replays declines and can be asked, or one of the other kinds.
pub fn facts(chance: &mut StdRng) -> Facts {
    Facts {
        account: "account-1".into(),
        renderer: 1,
        key_ttl: Duration::from_secs(one_of(chance, &[86_400, 7_200])),
        key_margin: Duration::from_secs(600),
        declines: one_of(chance, &[Declines::Replayed, Declines::Forgotten]),
        lookup: one_of(chance, &[LookupSupport::ByKey, LookupSupport::None]),
        voids: one_of(chance, &[VoidSupport::ByKey, VoidSupport::None]),
        async_final_within: one_of(chance, &[None, Some(Duration::from_secs(3_600))]),
        caps: DeclineCaps { per_day: one_of(chance, &[0, 1, 2]), per_30_days: one_of(chance, &[0, 0, 3]) },
    }
}

pub fn answer(chance: &mut StdRng, payment: PaymentId, amount: Money) -> Answer {
    let verdict = verdict(chance, payment, amount);
    let how = match &verdict {
        Verdict::NotSent { .. } => one_of(chance, &[How::NotStarted, How::LookedUp, How::Sent]),
        Verdict::Voided => How::Voided,
        _ => one_of(chance, &[How::Sent, How::Sent, How::LookedUp]),
    };
    let mut answer = Answer::silent(verdict, how);
    if how != How::NotStarted {
        answer.request_hash = Some([one_of(chance, &[9, 9, 8]); 32]);
        answer.http_status = one_of(chance, &[Some(200), Some(402), Some(503), None]);
        answer.took = Some(Duration::from_micros(chance.random_range(0..9_000_000)));
        answer.note = one_of(chance, &[None, Some("a \"note\" with an ü".to_owned())]);
    }
    answer
}

fn verdict(chance: &mut StdRng, payment: PaymentId, amount: Money) -> Verdict {
    let advice = one_of(chance, &[None, None, Some(Duration::from_secs(90))]);
    match chance.random_range(0..100) {
        0..12 => Verdict::Charged { reference: format!("ch_{payment}"), amount },
        12..14 => Verdict::Charged { reference: format!("ch_{payment}_again"), amount: money() },
        14..40 => Verdict::Declined(Decline {
            // Mostly what goes on.
            class: if chance.random_bool(0.3) {
                DeclineClass::Soft
            } else {
                one_of(chance, DeclineClass::ALL)
            },
            code: one_of(chance, &["insufficient_funds", "do_not_honor", "with \"quotes\""]).into(),
            network_code: None,
            reference: None,
            retry_after: advice,
        }),
        40..66 => Verdict::NotSent { why: one_of(chance, NotSent::ALL), retry_after: advice },
        66..72 => Verdict::InProgress { retry_after: advice },
        72..78 => Verdict::PendingAtGateway { reference: one_of(chance, &[None, Some("pi_1".to_owned())]) },
        78..94 => Verdict::Unknown(one_of(chance, Doubt::ALL)),
        94..97 => Verdict::ContractViolation { what: "two charges".into() },
        _ => Verdict::Voided,
    }
}
