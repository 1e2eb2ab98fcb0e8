//! Held notices whose rows the late scan owns: a read, since it promises nothing that a lost commit
//! could break. A row that a failover took back was never answered for.

use super::days::by_day;
use super::failure::before_commit;
use super::port::ScheduleError;
use super::proof::Deferred;
use super::statements;
use crate::domain::notice::Notice;
use sqlx::PgPool;
use std::collections::HashSet;
use uuid::Uuid;

pub(super) async fn defer(
    pool: PgPool,
    notices: Vec<Notice>,
) -> Result<Vec<Option<Deferred>>, ScheduleError> {
    let mut owned: HashSet<(Uuid, i32)> = HashSet::new();
    for (day, places) in by_day(&notices, |notice| notice.payment) {
        let ids: Vec<Uuid> = places.iter().map(|place| notices[*place].payment.as_uuid()).collect();
        let attempts: Vec<i32> = places.iter().map(|place| notices[*place].attempt).collect();
        let found: Vec<(Uuid, i32)> = sqlx::query_as(statements::DEFER)
            .bind(day)
            .bind(ids)
            .bind(attempts)
            .fetch_all(&pool)
            .await
            .map_err(before_commit)?;
        owned.extend(found);
    }
    let is_owned = |notice: &Notice| owned.contains(&(notice.payment.as_uuid(), notice.attempt));
    Ok(notices.iter().map(|notice| is_owned(notice).then(Deferred::new)).collect())
}
