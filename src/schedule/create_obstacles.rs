//! What stood in the way of a batch of creates whose statement the database refused: a day that is not made, an
//! external id that is taken, a cap, a charge that a restore lost.
//!
//! **Promise.** Answers only of payments that it names; what it leaves out may be tried again. What a key made earlier
//! is answered before any obstacle: it costs nothing again. Nothing is written here; if this dies here, nothing was.

use super::caps;
use super::create_batch::{AskedKey, made_earlier, replays};
use super::failure::before_commit;
use super::lineage;
use super::port::ScheduleError;
use super::records::{CreateAnswer, NewPayment};
use super::{days, partitions, row, statements};
use crate::domain::ids::PaymentId;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::{BTreeMap, HashMap, HashSet};

/// After a day without a partition was met: those due on such a day, or what their keys made earlier, as of single
/// creates. None: it is there by now.
pub(super) async fn on_missing_days(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
) -> Result<BTreeMap<usize, CreateAnswer>, ScheduleError> {
    let mut missing = Vec::new();
    for (day, at) in days::by_day(rows, |place| new[*place].id) {
        if !partitions::is_attached(pool.clone(), day).await? {
            missing.extend(at.into_iter().map(|at| rows[at]));
        }
    }
    let mut earlier = made_earlier(pool, new, &missing).await?;
    let answer = |place: usize| (place, earlier.remove(&place).unwrap_or(CreateAnswer::DayNotReady));
    Ok(missing.into_iter().map(answer).collect())
}

/// After a cap was met: what the keys of these made earlier, which costs nothing again, and which of the others do
/// not fit into what is left, taken in their order. Those without an answer fit, as it looks now.
pub(super) async fn beyond_caps(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
) -> Result<BTreeMap<usize, CreateAnswer>, ScheduleError> {
    let actor = new[0].actor;
    let asked = rows.iter().map(|place| AskedKey::of(&new[*place])).collect();
    let earlier = replays(pool.clone(), actor, asked).await?;
    let mut left = caps::left(pool, actor).await?;
    let judged = |(place, earlier): (&usize, Option<CreateAnswer>)| {
        let refused = || left.take(new[*place].amount).err().map(CreateAnswer::DailyCapReached);
        Some((*place, earlier.or_else(refused)?))
    };
    Ok(rows.iter().zip(earlier).filter_map(judged).collect())
}

/// Those of these whose external id another payment holds and whose own key is free: a key that is taken
/// replays, and its payment may well be the holder.
pub(super) async fn external_ids_taken(
    connection: &mut PgConnection,
    new: &[NewPayment],
    rows: &[usize],
) -> Result<Vec<(usize, CreateAnswer)>, Error> {
    let named: Vec<(usize, &str)> =
        rows.iter().filter_map(|place| Some((*place, new[*place].external_id.as_deref()?))).collect();
    let names: Vec<&str> = named.iter().map(|(_, name)| *name).collect();
    let keys: Vec<&str> = named.iter().map(|(place, _)| new[*place].idempotency_key.as_str()).collect();
    let actor = new[0].actor.0;
    let taken =
        sqlx::query(statements::FOUND_KEYS).bind(actor).bind(keys).fetch_all(&mut *connection).await?;
    let taken = taken.iter().map(|row| row.try_get("key")).collect::<Result<HashSet<String>, _>>()?;
    let held = sqlx::query(statements::FOUND_EXTERNAL_IDS).bind(actor).bind(names);
    let mut holders: HashMap<String, PaymentId> = HashMap::new();
    for row in &held.fetch_all(connection).await? {
        holders.insert(row.try_get("external_id")?, row::payment_id(row, "payment_id")?);
    }
    let answer = |(place, name): (usize, &str)| {
        let payment = *holders.get(name)?;
        let is_free = !taken.contains(&new[place].idempotency_key);
        is_free.then_some((place, CreateAnswer::ExternalIdTaken { payment }))
    };
    Ok(named.into_iter().filter_map(answer).collect())
}

/// After a charge of before a restore was met (rule R18): those that were charged under another due time, or what
/// their keys made earlier.
pub(super) async fn charged_before(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
) -> Result<BTreeMap<usize, CreateAnswer>, ScheduleError> {
    let ids: Vec<PaymentId> = rows.iter().map(|place| new[*place].id).collect();
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    let lost = lineage::lost_charges(&mut connection, &ids).await.map_err(before_commit)?;
    drop(connection);
    let other = |place: &usize| {
        lost.get(&new[*place].id).map(|lost| lost.charged_as).filter(|id| *id != new[*place].id)
    };
    let places: Vec<usize> = rows.iter().copied().filter(|place| other(place).is_some()).collect();
    let mut earlier = made_earlier(pool, new, &places).await?;
    let answer = |place: usize| {
        let refused = other(&place).map(|payment| CreateAnswer::ChargedBefore { payment });
        Some((place, earlier.remove(&place).or(refused)?))
    };
    Ok(places.into_iter().filter_map(answer).collect())
}
