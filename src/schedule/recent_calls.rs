//! How gateways answer now, for people: of the newest attempts alone, found by the due times in their ids. Bounded, and
//! nothing decides by it.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::ids::GatewayName;
use chrono::{DateTime, Utc};
use sqlx::{Error, PgPool, Row};
use std::time::Duration;
use uuid::Uuid;

/// Newest attempts looked at.
const MOST: i64 = 1_000;

/// How one gateway answered lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallsSeen {
    /// Which.
    pub gateway: GatewayName,
    /// Answers that were looked at.
    pub calls: i64,
    /// Half of them took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// Those after which nobody knew what became of it.
    pub unclear: i64,
}

impl Postgres {
    /// How long gateways took for what was due between the two instants, of the newest attempts.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; ask again later.
    pub async fn recent_calls(
        &self,
        since: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<Vec<CallsSeen>, ScheduleError> {
        calls(self.pool(), since, now).await.map_err(before_commit)
    }
}

/// The lowest id of a payment that is due then.
fn lowest_id(at: DateTime<Utc>) -> Uuid {
    Uuid::from_u128(u128::from(at.timestamp_millis().unsigned_abs()) << 80)
}

async fn calls(pool: &PgPool, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Vec<CallsSeen>, Error> {
    let mut seen = Vec::new();
    // Right behind midnight the day before still says more than nothing.
    for day in [now.date_naive(), since.date_naive()] {
        if !seen.is_empty() {
            break;
        }
        let query =
            sqlx::query(statements::RECENT_CALLS).bind(day).bind(lowest_id(since)).bind(lowest_id(now));
        for row in &query.bind(MOST).fetch_all(pool).await? {
            let took = |column| -> Result<Duration, Error> {
                let ms: i32 = row.try_get(column)?;
                Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
            };
            seen.push(CallsSeen {
                gateway: GatewayName(row.try_get("gateway")?),
                calls: row.try_get("calls")?,
                p50: took("p50_ms")?,
                p99: took("p99_ms")?,
                unclear: row.try_get("unclear")?,
            });
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::PaymentId;
    use chrono::TimeDelta;

    #[test]
    fn the_ids_between_two_instants_lie_between_their_lowest_ids() {
        let start: DateTime<Utc> = "2026-11-30T21:14:00Z".parse().unwrap();
        let (low, high) = (lowest_id(start), lowest_id(start + TimeDelta::minutes(1)));
        for (ms, is_in) in [(0, true), (59_999, true), (-1, false), (60_000, false)] {
            for byte in [0x00, 0xff] {
                let id = PaymentId::new(start + TimeDelta::milliseconds(ms), [byte; 10]).unwrap().as_uuid();
                assert_eq!(id >= low && id < high, is_in, "{ms} {byte}");
            }
        }
    }
}
