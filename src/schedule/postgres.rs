//! The schedule in Postgres.

use super::port::ScheduleError;
use super::records::{ApiKeyRecord, CancelAnswer, CreateAnswer, NewPayment, PaymentView};
use crate::domain::ids::{ActorId, PaymentId};

/// The schedule in Postgres. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Postgres {
    secret: std::sync::Arc<[u8; 32]>,
}

fn stub<T>() -> Result<T, ScheduleError> {
    Err(ScheduleError::Defect("stub".into()))
}

impl Postgres {
    /// The installation's secret (rules R17, R18), read once at connect.
    #[must_use]
    pub fn installation_secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Creates a payment with its idempotency key, history and due notice in one transaction.
    ///
    /// # Errors
    /// `CommitUnknown` is resolved inside by asking again under the same key; what is left is
    /// `Unavailable` (safe to repeat) or `Defect`.
    pub async fn create(&self, new: &NewPayment) -> Result<CreateAnswer, ScheduleError> {
        let _ = new;
        stub()
    }

    /// What this key created earlier, compared with this request; `None` if it created nothing. Never
    /// creates: intake asks it for a request that its rules refuse *now*, such as a due time that
    /// has passed since, which may have been accepted before under the same key. It waits for a
    /// create of this key that is in flight.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn replay(
        &self,
        actor: ActorId,
        idempotency_key: &str,
        request_hash: &[u8; 32],
        field_digests: &std::collections::BTreeMap<String, String>,
    ) -> Result<Option<CreateAnswer>, ScheduleError> {
        let _ = (actor, idempotency_key, request_hash, field_digests);
        stub()
    }

    /// One payment of this actor with its attempts.
    pub async fn find(&self, actor: ActorId, id: PaymentId) -> Result<Option<PaymentView>, ScheduleError> {
        let _ = (actor, id);
        stub()
    }

    /// Cancels if the state allows it, answered only after an acknowledged commit (rule R3).
    pub async fn cancel(&self, actor: ActorId, id: PaymentId) -> Result<CancelAnswer, ScheduleError> {
        let _ = (actor, id);
        stub()
    }

    /// A key that is neither revoked nor expired, by SHA-256 of its text.
    pub async fn api_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKeyRecord>, ScheduleError> {
        let _ = hash;
        stub()
    }

    /// Stores a new key for an actor made (or found) by name.
    pub async fn add_api_key(
        &self,
        actor_name: &str,
        hash: &[u8; 32],
        hint: &str,
        scopes: &[String],
    ) -> Result<ActorId, ScheduleError> {
        let _ = (actor_name, hash, hint, scopes);
        stub()
    }

    /// Can this process serve? Cheap; asked by `/readyz`.
    pub async fn ping(&self) -> Result<(), ScheduleError> {
        stub()
    }
}
