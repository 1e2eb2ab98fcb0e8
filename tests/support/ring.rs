//! Topic prefixes to lease, so that tests of several processes share a few ready-made rings.
//!
//! A lease is a session's advisory lock in the database for administration: it ends with the
//! value, or with the process.

use super::{database, eventually};
use sqlx::postgres::PgConnection;
use std::time::Duration;

/// How many rings there are.
pub const RINGS: i32 = 6;
/// The first half of the locks' key; the second is the ring's number.
const LOCK_CLASS: i32 = 0x7269_6e67;

/// The right to use one prefix.
#[derive(Debug)]
pub struct RingLease {
    /// 0 ≤ n < [`RINGS`].
    pub number: i32,
    /// Put before `payments.due.…`, as `t3.`.
    pub prefix: String,
    _session: PgConnection,
}

/// Waits up to two minutes for a free ring.
pub async fn lease() -> RingLease {
    let session = database::admin().await;
    let session = std::sync::Arc::new(tokio::sync::Mutex::new(session));
    let number = eventually("a free ring", Duration::from_secs(120), || try_all(session.clone())).await;
    let session = std::sync::Arc::into_inner(session).expect("the condition has ended").into_inner();
    RingLease { number, prefix: format!("t{number}."), _session: session }
}

async fn try_all(session: std::sync::Arc<tokio::sync::Mutex<PgConnection>>) -> Option<i32> {
    let mut session = session.lock().await;
    for number in 0..RINGS {
        let locked: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock($1, $2)")
            .bind(LOCK_CLASS)
            .bind(number)
            .fetch_one(&mut *session)
            .await
            .expect("Postgres answers");
        if locked {
            return Some(number);
        }
    }
    None
}
