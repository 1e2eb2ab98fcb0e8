//! Rule R1: the conditional update that gives one worker the right to call the gateway.
//!
//! A batch is one transaction. What a notice did not win is explained by a second statement in it,
//! which sees newer rows than the first. One bad row must not stop a batch: the batch is split, and
//! the bad one is parked by itself. If this dies here before COMMIT nothing happened; after it, the
//! lease runs out and the payment is asked about.
//!
//! **Order of locks.** The row of the installation comes before payments, for everybody. So a claim that finds
//! that the server lost commits (rule R17) gives its rows back first, and says so in a transaction of its own.

use super::days::by_day;
use super::failure::{BatchFailure, before_commit, commit};
use super::length::interval;
use super::lineage::{self, Loss};
use super::poison::{Poisoned, poison};
use super::port::{ClaimTerms, ScheduleError};
use super::proof::{ClaimAnswer, Claimed, Early, Refused, RefusedBecause};
use super::witness::{LogMark, Witness};
use super::{row, statements};
use crate::domain::declines::DestinationKeys;
use crate::domain::guard::{self, ClaimGuard, Lineage, PAUSE};
use crate::domain::ids::ClaimId;
use crate::domain::notice::Notice;
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::{Cause, Status};
use crate::domain::switches::Switches;
use crate::platform::metrics;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::HashMap;
use uuid::Uuid;

/// One notice with its fresh claim id.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) notice: Notice,
    pub(super) claim_id: ClaimId,
}

/// One row that may be claimed: id, claims so far, the fresh claim's name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) id: Uuid,
    pub(super) attempt: i32,
    pub(super) claim_id: ClaimId,
}

/// The terms of a claim, with what finds a destination's declines.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) terms: ClaimTerms,
    pub(super) destinations: DestinationKeys,
    /// What this process remembers of the server's log.
    pub(super) witness: Witness,
}

pub(super) async fn claim(
    pool: PgPool,
    terms: Terms,
    asks: Vec<Ask>,
) -> Result<Vec<ClaimAnswer>, ScheduleError> {
    match batch(&pool, &terms, &asks).await {
        Err(BatchFailure::BadRow(error)) => one_by_one(&pool, &terms, asks, error).await,
        Err(BatchFailure::Whole(error)) => Err(error),
        Ok(answers) => Ok(answers),
    }
}

/// Claims one by one, since one row of the batch cannot be written; that one is parked.
///
/// An error in the middle leaves claims behind that nobody was told of: as `CommitUnknown` does, it
/// sends the caller to `recover`, which finds them.
async fn one_by_one(
    pool: &PgPool,
    terms: &Terms,
    asks: Vec<Ask>,
    error: Error,
) -> Result<Vec<ClaimAnswer>, ScheduleError> {
    tracing::warn!(%error, rows = asks.len(), "a claim batch is split to find its bad row");
    let mut answers: Vec<Option<ClaimAnswer>> = Vec::with_capacity(asks.len());
    let mut bad = Vec::new();
    for (place, ask) in asks.iter().enumerate() {
        match batch(pool, terms, std::slice::from_ref(ask)).await {
            Ok(answer) => answers.extend(answer.into_iter().map(Some)),
            Err(BatchFailure::BadRow(error)) => {
                bad.push((place, error));
                answers.push(None);
            }
            Err(BatchFailure::Whole(error)) => return Err(half_way(error)),
        }
    }
    if bad.len() == asks.len() && bad.len() > 1 {
        return Err(BatchFailure::all_refused(error));
    }
    for (place, error) in bad {
        let poisoned = Poisoned::unclaimed(asks[place].notice.payment, &terms.terms.worker.0, &error);
        park(pool, &poisoned).await.map_err(half_way)?;
        answers[place] = Some(ClaimAnswer::Refused(Refused::new(RefusedBecause::Parked)));
    }
    Ok(answers.into_iter().flatten().collect())
}

fn half_way(error: ScheduleError) -> ScheduleError {
    match error {
        ScheduleError::Unavailable(source) | ScheduleError::CommitUnknown(source) => {
            ScheduleError::CommitUnknown(source)
        }
        defect @ ScheduleError::Defect(_) => defect,
    }
}

/// Parks one row in a transaction of its own.
pub(super) async fn park(pool: &PgPool, poisoned: &Poisoned<'_>) -> Result<(), ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    poison(&mut transaction, poisoned).await.map_err(before_commit)?;
    commit(transaction).await
}

async fn batch(pool: &PgPool, terms: &Terms, asks: &[Ask]) -> Result<Vec<ClaimAnswer>, BatchFailure> {
    let loss = match attempt(pool, terms, asks).await? {
        Attempted::Answered(answers) => return Ok(answers),
        Attempted::Lost(loss) => loss,
    };
    lineage::note(pool, loss).await.map_err(BatchFailure::Whole)?;
    match attempt(pool, terms, asks).await? {
        Attempted::Answered(answers) => Ok(answers),
        // Released and lost again within the two: whoever asks again is told.
        Attempted::Lost(loss) => Err(BatchFailure::Whole(ScheduleError::Unavailable(loss.why.into()))),
    }
}

/// What one transaction came to.
enum Attempted {
    Answered(Vec<ClaimAnswer>),
    /// It was given up: the server came back from its past.
    Lost(Loss),
}

async fn attempt(pool: &PgPool, terms: &Terms, asks: &[Ask]) -> Result<Attempted, BatchFailure> {
    let mut transaction = pool.begin().await?;
    let mut answers: HashMap<usize, ClaimAnswer> = HashMap::with_capacity(asks.len());
    for (day, mut open) in by_day(asks, |ask| ask.notice.payment) {
        // The second try is for rows that moved back to claimable between the two statements.
        for last_try in [false, true] {
            let candidates: Vec<Candidate> = open.iter().map(|place| candidate(&asks[*place])).collect();
            for claimed in won(&mut transaction, terms, day, &candidates).await? {
                let place = open.iter().position(|place| asks[*place].claim_id == claimed.claim_id());
                if let Some(place) = place {
                    answers.insert(open.swap_remove(place), ClaimAnswer::Claimed(Box::new(claimed)));
                }
            }
            if !open.is_empty() {
                let seen = match explained(&mut transaction, terms, day, asks, &open).await? {
                    Explained::Seen(seen) => seen,
                    Explained::Lost(loss) => {
                        transaction.rollback().await?;
                        return Ok(Attempted::Lost(loss));
                    }
                };
                open = seen.answer(&terms.terms, asks, open, last_try, &mut answers);
            }
            if open.is_empty() {
                break;
            }
        }
    }
    commit(transaction).await.map_err(BatchFailure::Whole)?;
    // Every place was answered: `answer` leaves none open at the last try.
    Ok(Attempted::Answered((0..asks.len()).filter_map(|place| answers.remove(&place)).collect()))
}

fn candidate(ask: &Ask) -> Candidate {
    Candidate { id: ask.notice.payment.as_uuid(), attempt: ask.notice.attempt, claim_id: ask.claim_id }
}

/// Claims candidates of one day. Not a proof before the transaction has committed: whoever calls this
/// keeps what it answers to himself until then.
pub(super) async fn won(
    transaction: &mut PgConnection,
    terms: &Terms,
    day: NaiveDate,
    candidates: &[Candidate],
) -> Result<Vec<Claimed>, Error> {
    let Terms { terms, destinations, witness } = terms;
    let known = witness.mark();
    let ids: Vec<Uuid> = candidates.iter().map(|it| it.id).collect();
    let attempts: Vec<i32> = candidates.iter().map(|it| it.attempt).collect();
    let claim_ids: Vec<Uuid> = candidates.iter().map(|it| it.claim_id.0).collect();
    let rows = sqlx::query(statements::CLAIM)
        .bind(day)
        .bind(ids)
        .bind(attempts)
        .bind(claim_ids)
        .bind(&terms.gateway.0)
        .bind(&terms.account)
        .bind(terms.renderer)
        .bind(&terms.worker.0)
        .bind(interval(terms.lease.length))
        .bind(&destinations.inner)
        .bind(&destinations.outer)
        .bind(known.releases)
        .bind(known.log_at)
        .fetch_all(transaction)
        .await?;
    if let Some(first) = rows.first() {
        // Claimed, so no shorter than was known.
        let _longer = witness.told(known, LogMark::of(first, "claimed_at")?);
    }
    rows.iter().map(|found| row::claimed(found, terms.asked_at)).collect()
}

/// Parks those of these that were charged before a restore (rule R18); not done before the caller's COMMIT.
pub(super) async fn park_charged_before(
    transaction: &mut PgConnection,
    day: NaiveDate,
    ids: Vec<Uuid>,
    by: &str,
) -> Result<i32, Error> {
    let parked: i32 = sqlx::query_scalar(statements::PARK_CHARGED_BEFORE)
        .bind(day)
        .bind(ids)
        .bind(by)
        .fetch_one(transaction)
        .await?;
    if parked > 0 {
        // A COMMIT that fails after this has them parked and counted once more: too many rather than too few.
        let count = u64::from(parked.unsigned_abs());
        metrics::PARKED.add(count, [Reason::ChargedBefore.as_str()]);
        metrics::PAYMENT_TRANSITIONS.add(count, [Status::Parked.as_str(), Cause::Reconciled.as_str()]);
        tracing::error!(parked, %day, "payments that were charged before a restore are parked, not charged again");
    }
    Ok(parked)
}

/// What the second statement saw.
struct Seen {
    lineage: Lineage,
    log: LogMark,
    /// There are charges of payments that a restore lost.
    any_lost: bool,
    at: DateTime<Utc>,
    switches: Switches,
    rows: HashMap<Uuid, Payment>,
}

/// What the second statement says of a batch.
enum Explained {
    Seen(Box<Seen>),
    /// Nothing of it stands: the server came back from its past.
    Lost(Loss),
}

/// Why these were not won; what was charged before a restore is parked on the way.
async fn explained(
    transaction: &mut PgConnection,
    terms: &Terms,
    day: NaiveDate,
    asks: &[Ask],
    open: &[usize],
) -> Result<Explained, Error> {
    let known = terms.witness.mark();
    let mut seen = explain(transaction, day, asks, open).await?;
    if seen.lineage == Lineage::Quarantined {
        return Ok(Explained::Seen(Box::new(seen)));
    }
    if let Some(loss) = terms.witness.told(known, seen.log) {
        return Ok(Explained::Lost(loss));
    }
    if seen.any_lost {
        let ids = open.iter().map(|place| asks[*place].notice.payment.as_uuid()).collect();
        if park_charged_before(transaction, day, ids, &terms.terms.worker.0).await? > 0 {
            seen = explain(transaction, day, asks, open).await?;
        }
    }
    Ok(Explained::Seen(Box::new(seen)))
}

async fn explain(
    transaction: &mut PgConnection,
    day: NaiveDate,
    asks: &[Ask],
    open: &[usize],
) -> Result<Seen, Error> {
    let ids: Vec<Uuid> = open.iter().map(|place| asks[*place].notice.payment.as_uuid()).collect();
    let found = sqlx::query(statements::EXPLAIN).bind(day).bind(ids).fetch_all(transaction).await?;
    let first = found.first().ok_or(Error::RowNotFound)?;
    let lineage = if first.try_get("released")? { Lineage::Released } else { Lineage::Quarantined };
    let at = first.try_get("at")?;
    let switches = row::switches(first)?;
    let mut rows = HashMap::with_capacity(found.len());
    for explained in &found {
        if explained.try_get::<Option<Uuid>, _>("id")?.is_some() {
            let payment = row::payment(explained)?;
            rows.insert(payment.id.as_uuid(), payment);
        }
    }
    let (log, any_lost) = (LogMark::of(first, "at")?, first.try_get("any_lost")?);
    Ok(Seen { lineage, log, any_lost, at, switches, rows })
}

impl Seen {
    /// Says why each open ask won nothing; answers the places of those that still look claimable,
    /// which is none at the last try.
    fn answer(
        &self,
        terms: &ClaimTerms,
        asks: &[Ask],
        open: Vec<usize>,
        last_try: bool,
        answers: &mut HashMap<usize, ClaimAnswer>,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        for place in open {
            let notice = &asks[place].notice;
            let row = self.rows.get(&notice.payment.as_uuid());
            let guard = guard::claim(row, notice, &terms.gateway, self.at, self.lineage, &self.switches);
            let answer = match guard {
                ClaimGuard::Win if !last_try => {
                    again.push(place);
                    continue;
                }
                ClaimGuard::Win => ClaimAnswer::Early { until: self.at + PAUSE, why: Early::Contended },
                ClaimGuard::Early { until, why } => ClaimAnswer::Early { until, why },
                ClaimGuard::Refused(because) => ClaimAnswer::Refused(Refused::new(because)),
            };
            answers.insert(place, answer);
        }
        again
    }
}
