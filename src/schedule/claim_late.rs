//! What Kafka did not bring in time is claimed straight from the schedule, oldest first: the same
//! claim rule, fed by a scan that skips what others hold.

use super::claim::{Candidate, Terms, park, park_charged_before, won};
use super::failure::{BatchFailure, before_commit, commit};
use super::length::interval;
use super::poison::Poisoned;
use super::port::ScheduleError;
use super::proof::Claimed;
use super::witness::LogMark;
use super::{lineage, row, statements};
use crate::domain::ids::{ClaimId, PaymentId};
use crate::domain::switches::SwitchKind;
use chrono::NaiveDate;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Nobody may be reading some of the partitions: only what is being claimed just now is left alone.
const LATE_WHILE_AWAY: Duration = Duration::from_secs(2);

/// Due day, id and claims so far of a late row.
type Late = (NaiveDate, Uuid, i32);

/// What a scan found.
#[derive(Default)]
struct Scanned {
    late: Vec<Late>,
    /// There are charges of payments that a restore lost.
    any_lost: bool,
}

/// Which late rows.
pub(super) struct Wanted {
    pub(super) late_by: Duration,
    /// Lanes whose rows are passed over.
    pub(super) but_lanes: Vec<i16>,
}

pub(super) async fn claim_late(
    pool: PgPool,
    terms: Terms,
    wanted: Wanted,
    claim_ids: Vec<ClaimId>,
) -> Result<Vec<Claimed>, ScheduleError> {
    let mut late = Vec::new();
    match batch(&pool, &terms, &wanted, &claim_ids, &mut late).await {
        Err(BatchFailure::BadRow(error)) => {
            tracing::warn!(%error, rows = late.len(), "a late batch holds a bad row");
            shed_bad_rows(&pool, &terms, late, error).await?;
            // The good ones are found again by the next scan.
            Ok(Vec::new())
        }
        Err(BatchFailure::Whole(error)) => Err(error),
        Ok(claimed) => Ok(claimed),
    }
}

async fn batch(
    pool: &PgPool,
    terms: &Terms,
    wanted: &Wanted,
    claim_ids: &[ClaimId],
    late: &mut Vec<Late>,
) -> Result<Vec<Claimed>, BatchFailure> {
    let mut transaction = pool.begin().await?;
    let scanned = scan(&mut transaction, terms, wanted, claim_ids.len()).await?;
    *late = scanned.late;
    let mut days: BTreeMap<NaiveDate, Vec<Candidate>> = BTreeMap::new();
    for ((day, id, attempt), claim_id) in late.iter().zip(claim_ids) {
        let candidate = Candidate { id: *id, attempt: *attempt, claim_id: *claim_id };
        days.entry(*day).or_default().push(candidate);
    }
    let mut claimed = Vec::with_capacity(late.len());
    for (day, candidates) in days {
        let won = won(&mut transaction, terms, day, &candidates).await?;
        if scanned.any_lost && won.len() < candidates.len() {
            // Without this they would be the oldest of every scan.
            let ids = candidates.iter().map(|it| it.id).collect();
            park_charged_before(&mut transaction, day, ids, &terms.terms.worker.0).await?;
        }
        claimed.extend(won);
    }
    commit(transaction).await.map_err(BatchFailure::Whole)?;
    claimed.sort_by_key(|claimed| (claimed.payment().next_attempt_at, claimed.payment().id));
    Ok(claimed)
}

pub(super) async fn leave(pool: PgPool, slot: String, length: Duration) -> Result<(), ScheduleError> {
    let left = sqlx::query(statements::WORKER_LEAVES).bind(slot).bind(interval(length)).execute(&pool).await;
    left.map(drop).map_err(before_commit)
}

/// Locks late rows, in the order of their lateness: two scans skip each other's rows, and a batch by
/// id that waits for one of ours holds none that we wait for, because we never wait.
async fn scan(
    transaction: &mut PgConnection,
    terms: &Terms,
    wanted: &Wanted,
    limit: usize,
) -> Result<Scanned, Error> {
    let known = terms.witness.mark();
    let bounds = sqlx::query(statements::OPEN_DAYS).fetch_one(&mut *transaction).await?;
    if !bounds.try_get::<bool, _>("released")? {
        return Ok(Scanned::default());
    }
    // Before any payment is locked; see the head of `claim`.
    if let Some(loss) = terms.witness.told(known, LogMark::of(&bounds, "at")?) {
        lineage::enter(transaction, &loss).await?;
        return Ok(Scanned::default());
    }
    let switches = row::switches(&bounds)?;
    if switches.stops_gateway(&terms.terms.gateway) {
        return Ok(Scanned::default());
    }
    let late_by = match bounds.try_get::<bool, _>("someone_is_away")? {
        true => wanted.late_by.min(LATE_WHILE_AWAY),
        false => wanted.late_by,
    };
    let late = sqlx::query_as(statements::CLAIM_LATE_CANDIDATES)
        .bind(bounds.try_get::<NaiveDate, _>("oldest_open_day")?)
        .bind(bounds.try_get::<NaiveDate, _>("today")?)
        .bind(&terms.terms.gateway.0)
        .bind(interval(late_by))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(&wanted.but_lanes)
        .bind(switches.values(SwitchKind::Actor))
        .bind(switches.values(SwitchKind::Currency))
        .fetch_all(transaction)
        .await?;
    Ok(Scanned { late, any_lost: bounds.try_get("any_lost")? })
}

/// Tries each row's claim alone, in a transaction that is always rolled back, and parks those that the
/// database refuses.
async fn shed_bad_rows(
    pool: &PgPool,
    terms: &Terms,
    late: Vec<Late>,
    error: Error,
) -> Result<(), ScheduleError> {
    let mut bad = Vec::new();
    for (day, id, attempt) in &late {
        let mut trial = pool.begin().await.map_err(before_commit)?;
        // The id is written nowhere, so the row's own may stand for a fresh one.
        let candidate = Candidate { id: *id, attempt: *attempt, claim_id: ClaimId(*id) };
        let tried = won(&mut trial, terms, *day, &[candidate]).await;
        trial.rollback().await.map_err(before_commit)?;
        match tried.map_err(BatchFailure::from) {
            Ok(_) => {}
            Err(BatchFailure::BadRow(error)) => bad.push((*id, error)),
            Err(BatchFailure::Whole(error)) => return Err(error),
        }
    }
    if bad.len() == late.len() && bad.len() > 1 {
        return Err(BatchFailure::all_refused(error));
    }
    for (id, error) in bad {
        let Ok(id) = PaymentId::from_uuid(id) else { continue };
        park(pool, &Poisoned::unclaimed(id, &terms.terms.worker.0, &error)).await?;
    }
    Ok(())
}
