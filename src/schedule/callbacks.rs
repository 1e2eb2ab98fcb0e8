//! What a gateway says on its own: a hint, never a truth.
//!
//! **Promises.** The most that a callback does is to have an UNKNOWN payment asked about at once, by the same
//! claim and look-up as ever; no state changes by it, and the same callback does it once. If this dies here,
//! the payment is asked about on its ladder, and the sender repeats itself.

use super::failure::{at_commit, whole};
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::bucket::shard;
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::texts::texts;
use sqlx::PgPool;

texts! { CallbackTaken, "What became of one callback.":
    Hinted = "hinted": "The payment is due now: it will be asked about.",
    AlreadyDue = "already_due": "It was due already.",
    Duplicate = "duplicate": "This callback had been taken.",
    InFlight = "in_flight": "A claim holds the payment: to be sent again once its own outcome is written.",
    Final = "final": "Nothing is left to be asked.",
    Parked = "parked": "It waits for a human.",
    Pending = "pending": "Nothing of it is open at the gateway.",
    NoSuchPayment = "no_such_payment": "The gateway has no payment of this id from us.",
}

impl Postgres {
    /// Takes one callback of `gateway` whose signature was checked; `webhook_id` is the sender's own name of it,
    /// 1 to 255 characters.
    ///
    /// # Errors
    /// Any; the sender repeats it.
    pub async fn take_callback(
        &self,
        gateway: &GatewayName,
        webhook_id: &str,
        payment: PaymentId,
    ) -> Result<CallbackTaken, ScheduleError> {
        whole(take(self.pool().clone(), gateway.clone(), webhook_id.to_owned(), payment)).await
    }

    /// Deletes at most `limit` callbacks that no sender repeats any more; answers how many.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn forget_callbacks(&self, limit: u32) -> Result<u64, ScheduleError> {
        whole(forget(self.pool().clone(), limit)).await
    }
}

async fn take(
    pool: PgPool,
    gateway: GatewayName,
    webhook_id: String,
    payment: PaymentId,
) -> Result<CallbackTaken, ScheduleError> {
    let taken: String = sqlx::query_scalar(statements::TAKE_CALLBACK)
        .bind(gateway.0)
        .bind(webhook_id)
        .bind(payment.due_day())
        .bind(payment.as_uuid())
        .bind(shard(payment))
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    CallbackTaken::from_text(&taken)
        .ok_or_else(|| ScheduleError::Defect(format!("a callback was taken as {taken:?}").into()))
}

async fn forget(pool: PgPool, limit: u32) -> Result<u64, ScheduleError> {
    let deleted = sqlx::query(statements::FORGET_CALLBACKS).bind(i64::from(limit)).execute(&pool).await;
    deleted.map(|deleted| deleted.rows_affected()).map_err(at_commit)
}
