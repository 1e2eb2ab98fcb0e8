//! Rule R1: the conditional update that gives one worker the right to call the gateway.
//!
//! A batch is one transaction. What a notice did not win is explained by a second statement in it,
//! which sees newer rows than the first. One bad row must not stop a batch: the batch is split, and
//! the bad one is parked by itself.

use super::days::by_day;
use super::failure::{before_commit, commit, is_bad_data};
use super::port::{ClaimTerms, ScheduleError};
use super::proof::{ClaimAnswer, Claimed, Early, Refused, RefusedBecause};
use super::{row, statements};
use crate::domain::guard::{self, ClaimGuard, Lineage, PAUSE};
use crate::domain::ids::{ClaimId, PaymentId};
use crate::domain::notice::Notice;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::types::PgInterval;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

/// One notice with its fresh claim id.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) notice: Notice,
    pub(super) claim_id: ClaimId,
}

/// A length as Postgres wants it; longer than 292,000 years is cut.
pub(super) fn interval(length: Duration) -> PgInterval {
    let microseconds = i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}

pub(super) async fn claim(
    pool: PgPool,
    terms: ClaimTerms,
    asks: Vec<Ask>,
) -> Result<Vec<ClaimAnswer>, ScheduleError> {
    match batch(&pool, &terms, &asks).await {
        Err(Failure::BadData(error)) if asks.len() > 1 => {
            tracing::warn!(%error, "a claim batch is split to find its bad row");
            let mut answers = Vec::with_capacity(asks.len());
            for ask in asks {
                answers.extend(Box::pin(claim(pool.clone(), terms.clone(), vec![ask])).await?);
            }
            Ok(answers)
        }
        Err(Failure::BadData(error)) => park(&pool, &terms, &asks, &error).await,
        Err(Failure::Schedule(error)) => Err(error),
        Ok(answers) => Ok(answers),
    }
}

enum Failure {
    BadData(Error),
    Schedule(ScheduleError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if is_bad_data(&error) { Self::BadData(error) } else { Self::Schedule(before_commit(error)) }
    }
}

async fn batch(pool: &PgPool, terms: &ClaimTerms, asks: &[Ask]) -> Result<Vec<ClaimAnswer>, Failure> {
    let mut transaction = pool.begin().await?;
    let mut answers: HashMap<usize, ClaimAnswer> = HashMap::with_capacity(asks.len());
    for (day, mut open) in by_day(asks, |ask| ask.notice.payment) {
        // The second try is for rows that moved back to claimable between the two statements.
        for last_try in [false, true] {
            for claimed in won(&mut transaction, terms, day, asks, &open).await? {
                let place = open.iter().position(|place| asks[*place].claim_id == claimed.claim_id());
                if let Some(place) = place {
                    answers.insert(open.swap_remove(place), ClaimAnswer::Claimed(Box::new(claimed)));
                }
            }
            if !open.is_empty() {
                open = explain(&mut transaction, terms, day, asks, open, last_try, &mut answers).await?;
            }
            if open.is_empty() {
                break;
            }
        }
    }
    commit(transaction).await.map_err(Failure::Schedule)?;
    // Every place was answered: `explain` leaves none open at the last try.
    Ok((0..asks.len()).filter_map(|place| answers.remove(&place)).collect())
}

/// Claims one day's open asks. Not a proof before the transaction has committed.
async fn won(
    transaction: &mut PgConnection,
    terms: &ClaimTerms,
    day: NaiveDate,
    asks: &[Ask],
    open: &[usize],
) -> Result<Vec<Claimed>, Error> {
    let pick = |of: &dyn Fn(&Ask) -> Uuid| open.iter().map(|place| of(&asks[*place])).collect::<Vec<_>>();
    let attempts: Vec<i32> = open.iter().map(|place| asks[*place].notice.attempt).collect();
    let rows = sqlx::query(statements::CLAIM)
        .bind(day)
        .bind(pick(&|ask| ask.notice.payment.as_uuid()))
        .bind(attempts)
        .bind(pick(&|ask| ask.claim_id.0))
        .bind(&terms.gateway.0)
        .bind(&terms.account)
        .bind(terms.renderer)
        .bind(&terms.worker.0)
        .bind(interval(terms.lease.length))
        .fetch_all(transaction)
        .await?;
    rows.iter().map(|found| row::claimed(found, terms.asked_at)).collect()
}

/// Says why each open ask won nothing; answers the places of those that still look claimable, which
/// is none at the last try.
async fn explain(
    transaction: &mut PgConnection,
    terms: &ClaimTerms,
    day: NaiveDate,
    asks: &[Ask],
    open: Vec<usize>,
    last_try: bool,
    answers: &mut HashMap<usize, ClaimAnswer>,
) -> Result<Vec<usize>, Error> {
    let ids: Vec<Uuid> = open.iter().map(|place| asks[*place].notice.payment.as_uuid()).collect();
    let rows = sqlx::query(statements::EXPLAIN).bind(day).bind(ids).fetch_all(transaction).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for explained in &rows {
        let released: bool = explained.try_get("released")?;
        let at: DateTime<Utc> = explained.try_get("at")?;
        let payment = row::payment(explained)?;
        found.insert(payment.id, (payment, at, released));
    }
    let mut again = Vec::new();
    for place in open {
        let notice = &asks[place].notice;
        let Some((payment, at, released)) = found.get(&notice.payment) else {
            let refused = Refused::new(RefusedBecause::NoSuchPayment);
            answers.insert(place, ClaimAnswer::Refused(refused));
            continue;
        };
        let lineage = if *released { Lineage::Released } else { Lineage::Quarantined };
        let answer = match guard::claim(Some(payment), notice, &terms.gateway, *at, lineage) {
            ClaimGuard::Win if !last_try => {
                again.push(place);
                continue;
            }
            ClaimGuard::Win => ClaimAnswer::Early { until: *at + PAUSE, why: Early::Contended },
            ClaimGuard::Early { until, why } => ClaimAnswer::Early { until, why },
            ClaimGuard::Refused(because) => ClaimAnswer::Refused(Refused::new(because)),
        };
        answers.insert(place, answer);
    }
    Ok(again)
}

/// Parks the only row of a batch whose data the database refuses.
async fn park(
    pool: &PgPool,
    terms: &ClaimTerms,
    asks: &[Ask],
    error: &Error,
) -> Result<Vec<ClaimAnswer>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    for ask in asks {
        poison(&mut transaction, ask.notice.payment, None, &terms.worker.0, error)
            .await
            .map_err(before_commit)?;
    }
    commit(transaction).await?;
    Ok(asks.iter().map(|_| ClaimAnswer::Refused(Refused::new(RefusedBecause::Parked))).collect())
}

/// Moves one row to PARKED because the database refused its data.
pub(super) async fn poison(
    transaction: &mut PgConnection,
    payment: PaymentId,
    fence: Option<i64>,
    by: &str,
    error: &Error,
) -> Result<(), Error> {
    tracing::error!(%payment, %error, "a row that the database refuses is parked");
    // Postgres's own message can quote values; the code and the constraint cannot.
    let database = error.as_database_error();
    let detail = serde_json::json!({
        "sqlstate": database.and_then(|db| db.code()).map(|code| code.into_owned()),
        "constraint": database.and_then(|db| db.constraint()),
    });
    sqlx::query(statements::POISON)
        .bind(payment.due_day())
        .bind(payment.as_uuid())
        .bind(fence)
        .bind(by)
        .bind(detail.to_string())
        .execute(transaction)
        .await?;
    Ok(())
}

/// Claims what is at least `late_by` overdue, oldest first: the same claim rule, fed by a scan.
pub(super) async fn claim_late(
    pool: PgPool,
    terms: ClaimTerms,
    late_by: Duration,
    claim_ids: Vec<ClaimId>,
) -> Result<Vec<Claimed>, ScheduleError> {
    match late_batch(&pool, &terms, late_by, &claim_ids).await {
        Err(Failure::BadData(error)) if claim_ids.len() > 1 => {
            tracing::warn!(%error, "a late batch is split to find its bad row");
            let mut claimed = Vec::new();
            for claim_id in claim_ids {
                let one = Box::pin(claim_late(pool.clone(), terms.clone(), late_by, vec![claim_id]));
                claimed.extend(one.await?);
            }
            Ok(claimed)
        }
        Err(Failure::BadData(error)) => {
            park_oldest(&pool, &terms, late_by, &error).await?;
            Ok(Vec::new())
        }
        Err(Failure::Schedule(error)) => Err(error),
        Ok(claimed) => Ok(claimed),
    }
}

async fn late_batch(
    pool: &PgPool,
    terms: &ClaimTerms,
    late_by: Duration,
    claim_ids: &[ClaimId],
) -> Result<Vec<Claimed>, Failure> {
    let mut transaction = pool.begin().await?;
    let late = candidates(&mut transaction, terms, late_by, claim_ids.len()).await?;
    let mut days: std::collections::BTreeMap<NaiveDate, Vec<usize>> = std::collections::BTreeMap::new();
    for (place, (day, _, _)) in late.iter().enumerate() {
        days.entry(*day).or_default().push(place);
    }
    let mut claimed = Vec::with_capacity(late.len());
    for (day, places) in days {
        let ids: Vec<Uuid> = places.iter().map(|place| late[*place].1).collect();
        let attempts: Vec<i32> = places.iter().map(|place| late[*place].2).collect();
        let names: Vec<Uuid> = places.iter().map(|place| claim_ids[*place].0).collect();
        let rows = sqlx::query(statements::CLAIM)
            .bind(day)
            .bind(ids)
            .bind(attempts)
            .bind(names)
            .bind(&terms.gateway.0)
            .bind(&terms.account)
            .bind(terms.renderer)
            .bind(&terms.worker.0)
            .bind(interval(terms.lease.length))
            .fetch_all(&mut *transaction)
            .await?;
        for found in &rows {
            claimed.push(row::claimed(found, terms.asked_at)?);
        }
    }
    commit(transaction).await.map_err(Failure::Schedule)?;
    claimed.sort_by_key(|claimed| (claimed.payment().next_attempt_at, claimed.payment().id));
    Ok(claimed)
}

async fn candidates(
    transaction: &mut PgConnection,
    terms: &ClaimTerms,
    late_by: Duration,
    limit: usize,
) -> Result<Vec<(NaiveDate, Uuid, i32)>, Error> {
    let bounds = sqlx::query(statements::OPEN_DAYS).fetch_one(&mut *transaction).await?;
    if !bounds.try_get::<bool, _>("released")? {
        return Ok(Vec::new());
    }
    sqlx::query_as(statements::CLAIM_LATE_CANDIDATES)
        .bind(bounds.try_get::<NaiveDate, _>("oldest_open_day")?)
        .bind(bounds.try_get::<NaiveDate, _>("today")?)
        .bind(&terms.gateway.0)
        .bind(interval(late_by))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(transaction)
        .await
}

async fn park_oldest(
    pool: &PgPool,
    terms: &ClaimTerms,
    late_by: Duration,
    error: &Error,
) -> Result<(), ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let oldest = candidates(&mut transaction, terms, late_by, 1).await.map_err(before_commit)?;
    for (_, id, _) in oldest {
        let Ok(id) = PaymentId::from_uuid(id) else { continue };
        poison(&mut transaction, id, None, &terms.worker.0, error).await.map_err(before_commit)?;
    }
    commit(transaction).await
}

/// Rule R3: proves or disproves claims whose COMMIT was not answered, by a write.
pub(super) async fn recover(
    pool: PgPool,
    terms: ClaimTerms,
    claims: Vec<(PaymentId, ClaimId)>,
) -> Result<Vec<Claimed>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let mut ours = Vec::new();
    for (day, places) in by_day(&claims, |claim| claim.0) {
        let ids: Vec<Uuid> = places.iter().map(|place| claims[*place].0.as_uuid()).collect();
        let names: Vec<Uuid> = places.iter().map(|place| claims[*place].1.0).collect();
        let rows = sqlx::query(statements::RECOVER)
            .bind(day)
            .bind(ids)
            .bind(names)
            .fetch_all(&mut *transaction)
            .await
            .map_err(before_commit)?;
        for found in &rows {
            ours.push(row::claimed(found, terms.asked_at).map_err(before_commit)?);
        }
    }
    commit(transaction).await?;
    Ok(ours)
}
