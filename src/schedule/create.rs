//! Key, payment, details, history, external id and due notice: one transaction, one statement.
//!
//! The statement is its own transaction: one round trip, and one COMMIT inside the server. There is no
//! in-flight marker to get stuck: the idempotency key commits with its payment or not at all, and a
//! concurrent duplicate waits for that COMMIT and then replays. If our own COMMIT's answer is lost,
//! the same key is asked again.

use super::cancel::acknowledge;
use super::failure::{
    at_commit, before_commit, commit, daily_cap, is_charged_before, is_external_id_taken,
    is_missing_partition,
};
use super::find::view;
use super::port::ScheduleError;
use super::records::{CreateAnswer, NewPayment, PaymentView};
use super::{lineage, row, statements};
use crate::domain::bucket::shard;
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::window::Window;
use secrecy::ExposeSecret;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// How often a create is repeated for a reason that passes by itself within milliseconds.
pub(super) const TRIES: usize = 4;

pub(super) async fn create(pool: PgPool, new: NewPayment) -> Result<CreateAnswer, ScheduleError> {
    let mut unknown = None;
    for _ in 0..TRIES {
        match once(&pool, &new).await {
            Ok(Some(answer)) => return Ok(answer),
            // The key or the external id was freed between two looks.
            Ok(None) => {}
            Err(ScheduleError::CommitUnknown(source)) => unknown = Some(source),
            // After an unknown COMMIT, "not reachable" does not mean "nothing happened".
            Err(ScheduleError::Unavailable(source)) if unknown.is_none() => {
                return Err(ScheduleError::Unavailable(source));
            }
            Err(ScheduleError::Unavailable(_)) => {}
            Err(defect @ ScheduleError::Defect(_)) => return Err(defect),
        }
    }
    // Both are answered 503, and the client repeats under the same key.
    Err(match unknown {
        Some(source) => ScheduleError::CommitUnknown(source),
        None => ScheduleError::Unavailable("the key or the external id keeps changing hands".into()),
    })
}

async fn once(pool: &PgPool, new: &NewPayment) -> Result<Option<CreateAnswer>, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    match insert(&mut connection, new).await {
        Ok(Some(view)) => Ok(Some(CreateAnswer::Created(view))),
        Ok(None) => {
            drop(connection);
            made_earlier(pool, new.actor, &new.idempotency_key, &new.request_hash, &new.field_digests).await
        }
        Err(error) if is_missing_partition(&error) => Ok(Some(CreateAnswer::DayNotReady)),
        Err(error) if is_external_id_taken(&error) => {
            taken_external_id(&mut connection, new).await.map_err(before_commit)
        }
        Err(error) if is_charged_before(&error) => {
            let lost = lineage::lost_charges(&mut connection, &[new.id]).await.map_err(before_commit)?;
            // None: a comparison has withdrawn it since.
            Ok(lost.get(&new.id).map(|lost| CreateAnswer::ChargedBefore { payment: lost.charged_as }))
        }
        Err(error) => match daily_cap(&error) {
            Some(cap) => Ok(Some(CreateAnswer::DailyCapReached(cap))),
            // The statement was its own transaction.
            None => Err(at_commit(error)),
        },
    }
}

async fn insert(connection: &mut PgConnection, new: &NewPayment) -> Result<Option<Box<PaymentView>>, Error> {
    let (on_soft_decline, on_exhausted) = row::choices(new.retry);
    let made = sqlx::query(statements::CREATE)
        .bind(new.actor.0)
        .bind(&new.idempotency_key)
        .bind(new.request_hash.as_slice())
        .bind(new.id.as_uuid())
        .bind(new.id.due_day())
        .bind(new.due_at)
        .bind(new.execute_before)
        .bind(&new.gateway.0)
        .bind(new.amount.minor.get())
        .bind(new.amount.currency.as_str())
        .bind(new.retry.max_sends)
        .bind(on_soft_decline)
        .bind(on_exhausted)
        .bind(new.lane)
        .bind(new.payee.expose_secret().as_bytes())
        .bind(&new.description)
        .bind(Json(&new.metadata))
        .bind(&new.external_id)
        .bind(&new.traceparent)
        .bind(Json(&new.field_digests))
        .bind(shard(new.id))
        .bind(new.first_attempt_at())
        .bind(new.execute_within.map(Window::seconds))
        .fetch_optional(connection)
        .await?;
    made.map(|made| view_of(&made, new).map(Box::new)).transpose()
}

/// A payment as its create left it.
pub(super) fn view_of(made: &PgRow, new: &NewPayment) -> Result<PaymentView, Error> {
    Ok(PaymentView {
        payment: row::payment(made)?,
        payee: new.payee.clone(),
        description: new.description.clone(),
        metadata: new.metadata.clone(),
        external_id: new.external_id.clone(),
        attempts: Vec::new(),
        first_claimed_at: None,
    })
}

/// The JSON pointers whose values two requests do not share, in order.
pub(super) fn differing(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Vec<String> {
    let pointers = one.keys().chain(other.keys()).collect::<std::collections::BTreeSet<_>>();
    pointers.into_iter().filter(|pointer| one.get(*pointer) != other.get(*pointer)).cloned().collect()
}

/// What the key made earlier, acknowledged by a COMMIT of its own: a plain read can see a payment that
/// the standby never got (rule R3), and a replayed 201 promises it.
async fn made_earlier(
    pool: &PgPool,
    actor: ActorId,
    key: &str,
    request_hash: &[u8; 32],
    digests: &BTreeMap<String, String>,
) -> Result<Option<CreateAnswer>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let made = found(&mut transaction, actor, key, request_hash, digests).await.map_err(before_commit)?;
    acknowledge(&mut transaction).await?;
    commit(transaction).await?;
    Ok(made)
}

async fn taken_external_id(
    connection: &mut PgConnection,
    new: &NewPayment,
) -> Result<Option<CreateAnswer>, Error> {
    let holder: Option<Uuid> = sqlx::query_scalar(statements::FOUND_EXTERNAL_ID)
        .bind(new.actor.0)
        .bind(&new.external_id)
        .fetch_optional(connection)
        .await?;
    let holder = holder.and_then(|id| PaymentId::from_uuid(id).ok());
    Ok(holder.map(|payment| CreateAnswer::ExternalIdTaken { payment }))
}

/// What the key made earlier; `None` if it made nothing after all.
async fn found(
    connection: &mut PgConnection,
    actor: ActorId,
    key: &str,
    request_hash: &[u8; 32],
    digests: &BTreeMap<String, String>,
) -> Result<Option<CreateAnswer>, Error> {
    let found =
        sqlx::query(statements::FOUND_KEY).bind(actor.0).bind(key).fetch_optional(&mut *connection).await?;
    let Some(found) = found else { return Ok(None) };
    let payment = row::payment_id(&found, "payment_id")?;
    let day = payment.due_day();
    if found.try_get::<Vec<u8>, _>("request_hash")? == request_hash {
        let made = view(connection, actor, payment).await?;
        return Ok(made.map(|made| CreateAnswer::Replayed(Box::new(made))));
    }
    let found = sqlx::query(statements::FOUND_DIGESTS)
        .bind(day)
        .bind(payment.as_uuid())
        .fetch_optional(connection)
        .await?;
    let Some(found) = found else { return Ok(None) };
    let stored: Json<BTreeMap<String, String>> = found.try_get("field_digests")?;
    Ok(Some(CreateAnswer::KeyReused {
        payment,
        status: row::status(&found, "status")?,
        differs: differing(&stored.0, digests),
    }))
}

/// What this key made, without making anything; waits for a create of it that is in flight.
pub(super) async fn replay(
    pool: PgPool,
    actor: ActorId,
    key: String,
    request_hash: [u8; 32],
    digests: BTreeMap<String, String>,
) -> Result<Option<CreateAnswer>, ScheduleError> {
    // The probe waits for a create of this key that is in flight, and is always rolled back.
    let mut probe = pool.begin().await.map_err(before_commit)?;
    let free: Option<Uuid> = sqlx::query_scalar(statements::AWAIT_KEY)
        .bind(actor.0)
        .bind(&key)
        .bind(request_hash.as_slice())
        .fetch_optional(&mut *probe)
        .await
        .map_err(before_commit)?;
    probe.rollback().await.map_err(before_commit)?;
    if free.is_some() {
        return Ok(None);
    }
    made_earlier(&pool, actor, &key, &request_hash, &digests).await
}
