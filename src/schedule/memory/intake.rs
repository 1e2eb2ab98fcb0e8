//! Creating in memory as the API does it: under an idempotency key and, where given, an external id.
//!
//! The counterpart of `create.sql` and of what is asked when it made nothing.

use super::super::port::ScheduleError;
use super::super::records::{CreateAnswer, NewPayment};
use super::{Memory, State, Verb};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Asked {
    payment: PaymentId,
    request_hash: [u8; 32],
    digests: BTreeMap<String, String>,
}

/// Idempotency keys and external ids, by actor.
#[derive(Debug, Default)]
pub(super) struct Desk {
    keys: BTreeMap<(ActorId, String), Asked>,
    external: BTreeMap<(ActorId, String), PaymentId>,
}

impl Memory {
    /// As `Postgres::create`, without what only the API shows.
    ///
    /// # Errors
    /// The fault of the moment.
    pub async fn request(&self, new: &NewPayment) -> Result<CreateAnswer<Payment>, ScheduleError> {
        self.transact(Verb::Create, |state, now| state.request(new, now)).await
    }
}

impl State {
    fn request(&mut self, new: &NewPayment, now: DateTime<Utc>) -> CreateAnswer<Payment> {
        let key = (new.actor, new.idempotency_key.clone());
        if let Some(asked) = self.desk.keys.get(&key) {
            return self.made_earlier(asked, new);
        }
        let external = new.external_id.clone().map(|name| (new.actor, name));
        if let Some(payment) = external.as_ref().and_then(|name| self.holder(name)) {
            return CreateAnswer::ExternalIdTaken { payment };
        }
        let (payment, payee) = (fresh(new, now), SecretString::from(new.payee.expose_secret()));
        let (request_hash, digests) = (new.request_hash, new.field_digests.clone());
        self.desk.keys.insert(key, Asked { payment: new.id, request_hash, digests });
        self.desk.external.extend(external.map(|name| (name, new.id)));
        self.insert(payment, payee, now);
        CreateAnswer::Created(Box::new(self.rows[&new.id].payment.clone()))
    }

    fn made_earlier(&self, asked: &Asked, new: &NewPayment) -> CreateAnswer<Payment> {
        let made = &self.rows[&asked.payment].payment;
        if asked.request_hash == new.request_hash {
            return CreateAnswer::Replayed(Box::new(made.clone()));
        }
        let pointers: BTreeSet<_> = asked.digests.keys().chain(new.field_digests.keys()).collect();
        let differs = |pointer: &&String| asked.digests.get(*pointer) != new.field_digests.get(*pointer);
        let differs = pointers.into_iter().filter(differs).cloned().collect();
        CreateAnswer::KeyReused { payment: made.id, status: made.status, differs }
    }

    /// Whose an external id is; a payment that will never be charged has given it back.
    fn holder(&self, name: &(ActorId, String)) -> Option<PaymentId> {
        let holder = self.desk.external.get(name)?;
        let lives = !matches!(self.rows[holder].payment.status, Status::Failed | Status::Cancelled);
        lives.then_some(*holder)
    }
}

fn fresh(new: &NewPayment, now: DateTime<Utc>) -> Payment {
    Payment {
        execute_before: new.execute_before,
        execute_within: new.execute_within,
        next_attempt_at: new.first_attempt_at(),
        retry: new.retry,
        lane: new.lane,
        ..Payment::created(new.id, new.actor, new.gateway.clone(), new.amount, new.due_at, now)
    }
}
