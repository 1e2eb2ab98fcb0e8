//! One payment of one actor with its attempts, in one statement and so in one snapshot: a reader never
//! sees a state without the attempt that made it.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::records::PaymentView;
use super::{row, statements};
use crate::domain::ids::{ActorId, PaymentId};
use sqlx::{Error, PgConnection, PgPool};

pub(super) async fn find(
    pool: PgPool,
    actor: ActorId,
    id: PaymentId,
) -> Result<Option<PaymentView>, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    view(&mut connection, actor, id).await.map_err(before_commit)
}

pub(super) async fn view(
    connection: &mut PgConnection,
    actor: ActorId,
    id: PaymentId,
) -> Result<Option<PaymentView>, Error> {
    let rows = sqlx::query(statements::FIND)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .bind(actor.0)
        .fetch_all(connection)
        .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let mut view = row::view(first)?;
    for attempt in &rows {
        view.attempts.extend(row::attempt(attempt)?);
    }
    view.first_claimed_at = view.attempts.first().map(|first| first.claimed_at);
    Ok(Some(view))
}
