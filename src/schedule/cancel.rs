//! The client's cancel: a compare-and-swap on the same row that a claim locks. Whoever comes first
//! wins, and the loser is told the state that it lost to.
//!
//! **Promises.** A `Cancelled` answer stands on an acknowledged COMMIT of this call (rule R3), also
//! when the payment had been cancelled before. If this dies here, the client repeats it.

use super::failure::{before_commit, commit};
use super::find::view;
use super::port::ScheduleError;
use super::records::CancelAnswer;
use super::statements;
use crate::domain::guard::{self, CancelGuard, Lineage};
use crate::domain::ids::{ActorId, PaymentId};
use sqlx::{PgConnection, PgPool};

pub(super) async fn cancel(
    pool: PgPool,
    actor: ActorId,
    id: PaymentId,
) -> Result<CancelAnswer, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let gone = sqlx::query(statements::CANCEL)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .bind(actor.0)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(before_commit)?;
    let Some(view) = view(&mut transaction, actor, id).await.map_err(before_commit)? else {
        transaction.rollback().await.map_err(before_commit)?;
        return Ok(CancelAnswer::NotFound);
    };
    if gone.is_some() {
        commit(transaction).await?;
        return Ok(CancelAnswer::Cancelled(Box::new(view)));
    }
    match guard::cancel(&view.payment, Lineage::Released) {
        // Clean and PENDING, and yet not won: this database is in quarantine (R17), or the row came
        // back to PENDING between the two statements. Either way the client asks again.
        CancelGuard::Win | CancelGuard::Quarantined => {
            transaction.rollback().await.map_err(before_commit)?;
            Err(ScheduleError::Unavailable("the payment cannot be cancelled at this instant".into()))
        }
        CancelGuard::Refused(_) => {
            transaction.rollback().await.map_err(before_commit)?;
            Ok(CancelAnswer::Refused(Box::new(view)))
        }
        CancelGuard::Already => {
            acknowledge(&mut transaction).await?;
            commit(transaction).await?;
            Ok(CancelAnswer::Cancelled(Box::new(view)))
        }
    }
}

/// Writes something, so that the COMMIT that follows is a proof for what was read (rule R3).
pub(super) async fn acknowledge(connection: &mut PgConnection) -> Result<(), ScheduleError> {
    sqlx::query(statements::ACKNOWLEDGE).execute(connection).await.map_err(before_commit)?;
    Ok(())
}
