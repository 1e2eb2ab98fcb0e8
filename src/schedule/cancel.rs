//! The cancel of a client, or of an operator for one: a compare-and-swap on the same row that a claim locks. Whoever comes first
//! wins, and the loser is told the state that it lost to.
//!
//! While the outcome is unknown there is nothing to swap: no answer of ours could be kept. What can be kept
//! is the promise that no later claim charges, so the wish is recorded, where the gateway voids by key.
//!
//! **Promises.** `Cancelled` and `Wished` answers stand on an acknowledged COMMIT of this call (rule R3),
//! also when the payment had been cancelled, or the wish recorded, before. If this dies here, the client
//! repeats it.

use super::acts::{self, Act};
use super::claim::park_charged_before;
use super::failure::{before_commit, commit};
use super::find::view;
use super::key_acts::By;
use super::port::ScheduleError;
use super::records::CancelAnswer;
use super::statements;
use crate::domain::bucket::shard;
use crate::domain::facts::VoidSupport;
use crate::domain::guard::{self, CancelGuard, Lineage};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::reason::Reason;
use serde_json::json;
use sqlx::{Error, PgConnection, PgPool, Postgres, Row, Transaction};

/// Who cancels: the client itself, or an operator with a reason.
#[derive(Debug, Clone)]
pub(super) enum Canceller {
    /// The actor whose payment it is.
    Client,
    /// A person, for the actor.
    Operator(By),
}

impl Canceller {
    /// As the history has it.
    fn done_by(&self, actor: ActorId) -> String {
        match self {
            Self::Client => format!("actor:{}", actor.0),
            Self::Operator(by) => by.operator.0.clone(),
        }
    }

    fn reason(&self) -> Reason {
        match self {
            Self::Client => Reason::CancelledByClient,
            Self::Operator(_) => Reason::CancelledByOperator,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Client => "{}".to_owned(),
            Self::Operator(by) => json!({"reason": by.reason}).to_string(),
        }
    }

    /// A person's act is in the operators' audit as well.
    async fn record(&self, transaction: &mut PgConnection, id: PaymentId) -> Result<(), Error> {
        let by = match self {
            Self::Client => return Ok(()),
            Self::Operator(by) => by.clone(),
        };
        let act = Act {
            operator: by.operator,
            act: "cancel",
            subject: id.to_string(),
            reason: by.reason,
            detail: json!({}),
        };
        acts::record(transaction, &act).await
    }
}

pub(super) async fn cancel(
    pool: PgPool,
    actor: ActorId,
    id: PaymentId,
    canceller: Canceller,
) -> Result<CancelAnswer, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let gone = sqlx::query(statements::CANCEL)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .bind(actor.0)
        .bind(canceller.done_by(actor))
        .bind(canceller.reason().as_str())
        .bind(canceller.detail())
        .fetch_optional(&mut *transaction)
        .await
        .map_err(before_commit)?;
    let Some(view) = view(&mut transaction, actor, id).await.map_err(before_commit)? else {
        transaction.rollback().await.map_err(before_commit)?;
        return Ok(CancelAnswer::NotFound);
    };
    if gone.is_some() {
        canceller.record(&mut transaction, id).await.map_err(before_commit)?;
        commit(transaction).await?;
        return Ok(CancelAnswer::Cancelled(Box::new(view)));
    }
    // As if the gateway voided and the database were released: the statement that records the wish asks
    // for both in its own snapshot. Repeated cancels and wishes write nothing but the proof of their commit.
    match guard::cancel(&view.payment, VoidSupport::ByKey, Lineage::Released) {
        // Clean and PENDING, and yet not won: this database is in quarantine (R17), or the row came
        // back to PENDING between the two statements. Either way the client asks again. Or it was charged
        // before a restore (R18), and waits for people from now on.
        CancelGuard::Win | CancelGuard::Quarantined => charged_before(transaction, actor, id).await,
        CancelGuard::Refused(_) => {
            transaction.rollback().await.map_err(before_commit)?;
            Ok(CancelAnswer::Refused(Box::new(view)))
        }
        CancelGuard::Already => {
            acknowledge(&mut transaction).await?;
            commit(transaction).await?;
            Ok(CancelAnswer::Cancelled(Box::new(view)))
        }
        CancelGuard::Wish => wish(transaction, actor, id, canceller).await,
        CancelGuard::Wished => {
            if !is_released(&mut transaction).await? {
                return not_now(transaction).await;
            }
            acknowledge(&mut transaction).await?;
            commit(transaction).await?;
            Ok(CancelAnswer::Wished(Box::new(view)))
        }
    }
}

/// Parks what was charged before a restore, as a claim would have: nobody is told 200 for money that moved.
async fn charged_before(
    mut transaction: Transaction<'static, Postgres>,
    actor: ActorId,
    id: PaymentId,
) -> Result<CancelAnswer, ScheduleError> {
    let parked = park_charged_before(&mut transaction, id.due_day(), vec![id.as_uuid()], "api").await;
    if parked.map_err(before_commit)? == 0 {
        return not_now(transaction).await;
    }
    let Some(view) = view(&mut transaction, actor, id).await.map_err(before_commit)? else {
        return not_now(transaction).await;
    };
    commit(transaction).await?;
    Ok(CancelAnswer::Refused(Box::new(view)))
}

async fn wish(
    mut transaction: Transaction<'static, Postgres>,
    actor: ActorId,
    id: PaymentId,
    canceller: Canceller,
) -> Result<CancelAnswer, ScheduleError> {
    let answer = sqlx::query(statements::WISH)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .bind(actor.0)
        .bind(shard(id))
        .bind(canceller.done_by(actor))
        .bind(canceller.detail())
        .fetch_one(&mut *transaction)
        .await
        .map_err(before_commit)?;
    let recorded: bool = answer.try_get("recorded").map_err(before_commit)?;
    let voids: bool = answer.try_get("voids").map_err(before_commit)?;
    if !recorded && voids {
        return not_now(transaction).await;
    }
    let Some(view) = view(&mut transaction, actor, id).await.map_err(before_commit)? else {
        return not_now(transaction).await;
    };
    if recorded {
        canceller.record(&mut transaction, id).await.map_err(before_commit)?;
        commit(transaction).await?;
        return Ok(CancelAnswer::Wished(Box::new(view)));
    }
    match guard::cancel(&view.payment, VoidSupport::None, Lineage::Released) {
        CancelGuard::Refused(_) => {
            transaction.rollback().await.map_err(before_commit)?;
            Ok(CancelAnswer::Refused(Box::new(view)))
        }
        // It moved between the two looks.
        CancelGuard::Win
        | CancelGuard::Already
        | CancelGuard::Wish
        | CancelGuard::Wished
        | CancelGuard::Quarantined => not_now(transaction).await,
    }
}

/// What cannot be granted or refused at this instant; nothing was written.
async fn not_now(transaction: Transaction<'static, Postgres>) -> Result<CancelAnswer, ScheduleError> {
    transaction.rollback().await.map_err(before_commit)?;
    Err(ScheduleError::Unavailable("the payment cannot be cancelled at this instant".into()))
}

async fn is_released(connection: &mut PgConnection) -> Result<bool, ScheduleError> {
    sqlx::query_scalar(statements::LINEAGE_IS_RELEASED).fetch_one(connection).await.map_err(before_commit)
}

/// Writes something, so that the COMMIT that follows is a proof for what was read (rule R3).
pub(super) async fn acknowledge(connection: &mut PgConnection) -> Result<(), ScheduleError> {
    sqlx::query(statements::ACKNOWLEDGE).execute(connection).await.map_err(before_commit)?;
    Ok(())
}
