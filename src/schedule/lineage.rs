//! Rule R17: a database that was restored, promoted, or proven to have lost commits claims nothing
//! until an operator releases it.

use super::failure::at_commit;
use super::port::ScheduleError;
use super::statements;
use sqlx::PgPool;

pub(super) async fn quarantine(pool: PgPool, why: String) -> Result<(), ScheduleError> {
    sqlx::query(statements::QUARANTINE).bind(why).execute(&pool).await.map_err(at_commit)?;
    Ok(())
}

pub(super) async fn release(pool: PgPool) -> Result<(), ScheduleError> {
    sqlx::query(statements::RELEASE_LINEAGE).execute(&pool).await.map_err(at_commit)?;
    Ok(())
}
