//! One payment of one actor, and its cancel.
//!
//! The cancel is a compare-and-swap on the same row that a claim locks: whoever comes first wins,
//! and the loser is told the state that it lost to.

use super::failure::{before_commit, commit};
use super::port::ScheduleError;
use super::records::{CancelAnswer, PaymentView};
use super::{row, statements};
use crate::domain::guard::{self, CancelGuard, Lineage};
use crate::domain::ids::{ActorId, PaymentId};
use sqlx::{Error, PgConnection, PgPool};

pub(super) async fn find(
    pool: PgPool,
    actor: ActorId,
    id: PaymentId,
) -> Result<Option<PaymentView>, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    whole(&mut connection, actor, id).await.map_err(before_commit)
}

async fn whole(
    connection: &mut PgConnection,
    actor: ActorId,
    id: PaymentId,
) -> Result<Option<PaymentView>, Error> {
    let found = sqlx::query(statements::FIND)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .bind(actor.0)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(found) = found else { return Ok(None) };
    let mut view = row::view(&found)?;
    with_attempts(connection, &mut view).await?;
    Ok(Some(view))
}

async fn with_attempts(connection: &mut PgConnection, view: &mut PaymentView) -> Result<(), Error> {
    if view.payment.attempt == 0 {
        return Ok(());
    }
    let id = view.payment.id;
    let rows = sqlx::query(statements::FIND_ATTEMPTS)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .fetch_all(connection)
        .await?;
    view.attempts = rows.iter().map(row::attempt).collect::<Result<_, _>>()?;
    view.first_claimed_at = view.attempts.first().map(|first| first.claimed_at);
    Ok(())
}

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
    if let Some(gone) = gone {
        let mut view = row::view(&gone).map_err(before_commit)?;
        with_attempts(&mut transaction, &mut view).await.map_err(before_commit)?;
        commit(transaction).await?;
        return Ok(CancelAnswer::Cancelled(Box::new(view)));
    }
    let Some(view) = whole(&mut transaction, actor, id).await.map_err(before_commit)? else {
        return Ok(CancelAnswer::NotFound);
    };
    match guard::cancel(&view.payment, Lineage::Released) {
        // Clean and PENDING, and yet not won: this database is in quarantine (R17), or the row came
        // back to PENDING between the two statements. Either way the client asks again.
        CancelGuard::Win | CancelGuard::Quarantined => {
            Err(ScheduleError::Unavailable("the payment cannot be cancelled at this instant".into()))
        }
        CancelGuard::Refused(_) => Ok(CancelAnswer::Refused(Box::new(view))),
        CancelGuard::Already => {
            // R3: a 200 that was only read is repeated after a write whose COMMIT was answered.
            sqlx::query(statements::ACKNOWLEDGE)
                .bind(id.due_day())
                .bind(id.as_uuid())
                .execute(&mut *transaction)
                .await
                .map_err(before_commit)?;
            commit(transaction).await?;
            Ok(CancelAnswer::Cancelled(Box::new(view)))
        }
    }
}
