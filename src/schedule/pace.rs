//! What the workers of one gateway account share, kept in one row: read, thought about, and written if
//! nobody else has written since.
//!
//! **Promises.** Each beat sees all beats before it. One that changes nothing writes nothing, which is every
//! beat of a well account without a rate, but for counting its calls once a second. **Relies on** the rules of
//! `domain/pace.rs` and on the database's clock. **Why no lock**: a row held from the read to the write would
//! make every worker wait for the slowest one's network; two who meet here read again, which costs less.
//!
//! **If this dies here**, what was reserved is not used, and its time passes.

use super::failure::{at_commit, before_commit};
use super::port::ScheduleError;
use super::{Postgres, row, statements};
use crate::domain::ids::{GatewayName, WorkerName};
use crate::domain::pace::{Beat, Breaker, Grant, Lane, Pace, Terms, Window};
use crate::domain::switches::{Orders, Pause};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};

/// So often in a row others may have been faster; then the next beat tries.
const TRIES: usize = 16;

impl Postgres {
    /// Tells what a worker saw of an account, and answers what it may do until its next beat, and what people
    /// ordered about it.
    ///
    /// # Errors
    /// Any; then nothing may be started on the strength of it. The next beat may tell the same again.
    pub async fn beat_gateway(
        &self,
        gateway: &GatewayName,
        terms: &Terms,
        beat: &Beat,
    ) -> Result<Grant, ScheduleError> {
        for _ in 0..TRIES {
            let Some(Shared { now, beats, pace: before, orders, rate_limit }) =
                read(self.pool(), gateway).await?
            else {
                let made = sqlx::query(statements::MAKE_PACE).bind(&gateway.0).execute(self.pool()).await;
                made.map_err(at_commit)?;
                continue;
            };
            let mut after = before.clone();
            // An account without a rate has no permits to be fewer of.
            let terms = Terms { rate: rate_limit.map_or(terms.rate, |most| terms.rate.min(most)), ..*terms };
            let grant = Grant { orders, ..after.beat(&terms, beat, now) };
            if after == before || write(self.pool(), gateway, beats, &after).await? {
                return Ok(grant);
            }
        }
        Err(ScheduleError::Unavailable("other workers were faster each time".into()))
    }
}

/// The row of an account, with what else its workers have to know.
struct Shared {
    now: DateTime<Utc>,
    beats: i64,
    pace: Pace,
    orders: Orders,
    /// Calls a second that an operator allows at most.
    rate_limit: Option<u32>,
}

async fn read(pool: &PgPool, gateway: &GatewayName) -> Result<Option<Shared>, ScheduleError> {
    let row = sqlx::query(statements::READ_PACE).bind(&gateway.0).fetch_optional(pool).await;
    let Some(row) = row.map_err(before_commit)? else { return Ok(None) };
    shared(&row, gateway).map(Some).map_err(before_commit)
}

fn shared(row: &PgRow, gateway: &GatewayName) -> Result<Shared, Error> {
    let pause = match row.try_get("is_held")? {
        true => Pause::Held,
        false => Pause::None,
    };
    Ok(Shared {
        now: row.try_get("now")?,
        beats: row.try_get("beats")?,
        pace: pace(row)?,
        orders: Orders::of(gateway, pause, row::switches(row)?),
        rate_limit: row.try_get::<Option<i32>, _>("rate_limit")?.map(count),
    })
}

/// What is shared, as the rules know it.
pub(super) fn pace(row: &PgRow) -> Result<Pace, Error> {
    let until: Option<DateTime<Utc>> = row.try_get("breaker_until")?;
    let prober: Option<String> = row.try_get("prober")?;
    // The table's checks allow no other combinations.
    let breaker = match (until, prober) {
        (Some(until), Some(worker)) => Breaker::Probing { worker: WorkerName(worker), until },
        (Some(until), None) => Breaker::Open { until },
        (None, _) => Breaker::Closed,
    };
    let names: Vec<String> = row.try_get("lanes")?;
    let heard: Vec<DateTime<Utc>> = row.try_get("heard_at")?;
    let demands = counts(row.try_get("demands")?);
    let slots = counts(row.try_get("slots")?);
    let lanes = heard.into_iter().zip(demands).zip(slots);
    let lanes = lanes.map(|((heard_at, demand), slots)| Lane { heard_at, demand, slots });
    let window = Window {
        second: row.try_get("newest_second")?,
        calls: ten(row.try_get("calls")?),
        failed: ten(row.try_get("failed")?),
    };
    let cause: Option<String> = row.try_get("breaker_cause")?;
    Ok(Pace {
        charges_free_at: row.try_get("charges_free_at")?,
        lookups_free_at: row.try_get("lookups_free_at")?,
        throttle: row.try_get::<i32, _>("throttle")?.into(),
        throttled_at: row.try_get("throttled_at")?,
        paused_until: row.try_get("paused_until")?,
        cause: cause.filter(|_| breaker != Breaker::Closed),
        breaker,
        trips: count(row.try_get("trips")?),
        closed_at: row.try_get("closed_at")?,
        window,
        lanes: names.into_iter().zip(lanes).collect(),
    })
}

/// Whether it was written: nobody else has since `beats` was read.
async fn write(pool: &PgPool, gateway: &GatewayName, beats: i64, pace: &Pace) -> Result<bool, ScheduleError> {
    let (until, prober) = match &pace.breaker {
        Breaker::Closed => (None, None),
        Breaker::Open { until } => (Some(*until), None),
        Breaker::Probing { worker, until } => (Some(*until), Some(worker.0.as_str())),
    };
    let lanes = || pace.lanes.values();
    let written = sqlx::query(statements::WRITE_PACE)
        .bind(&gateway.0)
        .bind(beats)
        .bind(pace.charges_free_at)
        .bind(pace.lookups_free_at)
        .bind(i32::try_from(pace.throttle).unwrap_or(i32::MAX))
        .bind(pace.throttled_at)
        .bind(pace.paused_until)
        .bind(pace.breaker.kind())
        .bind(until)
        .bind(prober)
        .bind(stored(pace.trips))
        .bind(pace.closed_at)
        .bind(pace.window.second)
        .bind(pace.window.calls.map(stored).to_vec())
        .bind(pace.window.failed.map(stored).to_vec())
        .bind(pace.lanes.keys().cloned().collect::<Vec<_>>())
        .bind(lanes().map(|lane| lane.heard_at).collect::<Vec<_>>())
        .bind(lanes().map(|lane| stored(lane.demand)).collect::<Vec<_>>())
        .bind(lanes().map(|lane| stored(lane.slots)).collect::<Vec<_>>())
        .bind(pace.cause.as_deref())
        .execute(pool)
        .await
        .map_err(at_commit)?;
    Ok(written.rows_affected() == 1)
}

/// A count as the column takes it; two thousand millions stand for more.
fn stored(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The column's checks, and `stored`, let none be negative.
fn count(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

fn counts(stored: Vec<i32>) -> Vec<u32> {
    stored.into_iter().map(count).collect()
}

/// The table holds no other number of them.
fn ten(stored: Vec<i32>) -> [u32; 10] {
    let mut all = [0; 10];
    all.iter_mut().zip(counts(stored)).for_each(|(place, count)| *place = count);
    all
}
