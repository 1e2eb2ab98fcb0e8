//! The clients of a simulated world: they create, repeat themselves when no answer came, and cancel.

use super::checks::payee_of;
use super::dials::{Chance, Dials, Faults};
use super::trace::{Met, Trace};
use crate::domain::guard::CancelGuard;
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::intent::intent;
use crate::domain::invariants::Invariant;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::payment::{OnExhausted, OnSoftDecline, Payment, RetryPolicy};
use crate::platform::clock::Clock;
use crate::schedule::Memory;
use crate::worker::lab::VirtualTime;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a client was told of one payment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// 201.
    pub(super) acknowledged: bool,
    /// 200 CANCELLED.
    pub(super) cancelled: bool,
}

/// All clients of a world.
pub(super) struct Clients {
    pub(super) memory: Arc<Memory>,
    pub(super) time: VirtualTime,
    pub(super) chance: Arc<Chance>,
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) trace: Trace,
    pub(super) told: Arc<Mutex<BTreeMap<PaymentId, Told>>>,
}

const SECRET: [u8; 32] = [7; 32];

impl Clients {
    /// One payment's client, from its create to its last cancel.
    pub(super) async fn live(self: Arc<Self>, number: usize, dials: Arc<Dials>) {
        let lead = self.chance.between(Duration::ZERO, dials.spread);
        self.time.sleep(lead).await;
        let now = self.time.wall();
        let due_at = match self.chance.below(4) {
            // Already due, or within the relay's guard.
            0 => now,
            // A crowd on the minute.
            1 => crate::domain::bucket::minute_start(now) + TimeDelta::minutes(1),
            _ => now + TimeDelta::from_std(self.chance.between(Duration::ZERO, dials.spread)).unwrap(),
        };
        let payment = self.payment(number, due_at.trunc_subsecs(3), now, &dials);
        let id = payment.id;
        self.create(payment).await;
        if self.chance.hits(250) {
            let mean = (id.due_ms() - now.timestamp_millis()).max(1).unsigned_abs();
            // Around the due instant, where it races with claims.
            let wait = self.chance.below(mean * 2 + 8_000);
            self.time.sleep(Duration::from_millis(wait)).await;
            self.cancel(id).await;
        }
        if dials.profile.voids_by_key && self.chance.hits(400) {
            self.insist(id).await;
        }
    }

    /// Cancels again and again from the due instant on, until it is told that it is cancelled or final.
    async fn insist(&self, id: PaymentId) {
        let until_due = id.due_ms() - self.time.wall().timestamp_millis();
        self.time.sleep(Duration::from_millis(until_due.max(0).unsigned_abs())).await;
        for _ in 0..12 {
            self.time.sleep(self.chance.between(Duration::from_millis(200), Duration::from_secs(9))).await;
            self.cancel(id).await;
            if self.memory.payment(id).is_none_or(|row| row.status.is_final()) {
                return;
            }
        }
    }

    fn payment(&self, number: usize, due_at: DateTime<Utc>, now: DateTime<Utc>, dials: &Dials) -> Payment {
        let actor = ActorId(uuid::Uuid::from_u128(7));
        let id = PaymentId::new(due_at, intent(&SECRET, actor, &format!("key-{number}"))).unwrap();
        let minor = i64::try_from(1 + self.chance.below(1_000_000)).unwrap();
        let chance = &self.chance;
        let execute_before = chance.hits(dials.deadlines).then(|| {
            due_at
                + TimeDelta::from_std(chance.between(Duration::from_secs(1), Duration::from_secs(60)))
                    .unwrap()
        });
        Payment {
            amount: Money {
                minor: Minor::new(minor).unwrap(),
                currency: Currency::from_code("EUR").unwrap(),
            },
            execute_before,
            gateway: dials.profile.name.clone(),
            // Of two actors, one of whom has nine in ten.
            lane: i16::from(number.is_multiple_of(10)),
            retry: RetryPolicy {
                max_sends: i16::try_from(1 + chance.below(6)).unwrap(),
                on_soft_decline: if chance.hits(150) { OnSoftDecline::Fail } else { OnSoftDecline::Retry },
                on_exhausted: if chance.hits(400) { OnExhausted::Fail } else { OnExhausted::Park },
            },
            ..fresh(id, due_at, now)
        }
    }

    /// Repeats itself under the same key until it is told that it was done.
    async fn create(&self, payment: Payment) {
        let id = payment.id;
        for turn in 0..50 {
            let faults = self.faults.lock().unwrap().clone();
            self.time.sleep(self.chance.between(Duration::from_micros(100), Duration::from_millis(5))).await;
            if !self.chance.hits(faults.db_error) {
                let made = self.memory.create(payment.clone(), SecretString::from(payee_of(id)));
                if made && turn > 0 {
                    self.trace.met(Met::Created, Some(id), turn);
                } else {
                    self.trace.met(if made { Met::Created } else { Met::CreatedAgain }, Some(id), turn);
                }
                if !made && turn == 0 {
                    self.trace.broke(Invariant::L3, Some(id), "a key that was never used names a payment");
                }
                if !self.chance.hits(faults.db_lost) {
                    self.told.lock().unwrap().entry(id).or_default().acknowledged = true;
                    return;
                }
                self.trace.met(Met::CreateLost, Some(id), turn);
            }
            self.time.sleep(Duration::from_millis(200)).await;
        }
    }

    async fn cancel(&self, id: PaymentId) {
        let faults = self.faults.lock().unwrap().clone();
        if self.chance.hits(faults.db_error) {
            return;
        }
        match self.memory.cancel(id) {
            Some(CancelGuard::Win | CancelGuard::Already | CancelGuard::Wish | CancelGuard::Wished)
                if self.chance.hits(faults.db_lost) =>
            {
                self.trace.met(Met::CancelLost, Some(id), 0);
            }
            Some(CancelGuard::Win | CancelGuard::Already) => {
                self.trace.met(Met::CancelGranted, Some(id), 0);
                self.told.lock().unwrap().entry(id).or_default().cancelled = true;
            }
            Some(CancelGuard::Wish | CancelGuard::Wished) => self.trace.met(Met::CancelWished, Some(id), 0),
            Some(CancelGuard::Refused(_) | CancelGuard::Quarantined) => {
                self.trace.met(Met::CancelRefused, Some(id), 0);
            }
            None => {}
        }
    }
}

/// A payment as intake makes it, of 12.34 EUR.
pub(super) fn fresh(id: PaymentId, due_at: DateTime<Utc>, now: DateTime<Utc>) -> Payment {
    Payment { id, ..crate::worker::lab::payment(0, due_at, now) }
}
