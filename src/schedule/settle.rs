//! Rule R2: outcomes are written only under the claim that holds the row.
//!
//! A claim that is not current any more is looked up by its id first: the same outcome there means
//! that our own COMMIT got through and only its answer was lost, so repeating a settle is safe.
//! Otherwise the answer is a zombie's, kept as evidence and never as the status.

use super::claim::poison;
use super::days::by_day;
use super::failure::{before_commit, commit, is_bad_data};
use super::port::{ScheduleError, SettleFailed};
use super::proof::{Answer, Answered, How, Settled, SettledAs};
use super::{row, statements};
use crate::domain::bucket::shard;
use crate::domain::decision::{Budget, Decision, EpochChange, SendsAnswered};
use crate::domain::effect::{Evidence, fenced};
use crate::domain::state::Status;
use crate::domain::verdict::{Doubt, Verdict};
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::HashMap;
use uuid::Uuid;

/// One outcome to be written.
type Outcome = (Answered, Decision);

pub(super) async fn settle(pool: PgPool, batch: Vec<Outcome>) -> Result<Vec<Settled>, SettleFailed> {
    match write(&pool, &batch).await {
        Ok(results) => Ok(results.into_iter().map(Settled::new).collect()),
        Err(Failure::BadData(error)) => single(&pool, batch, &error).await,
        Err(Failure::Schedule(error)) => Err(SettleFailed { batch, error }),
    }
}

/// Writes one by one, since one row of the batch cannot be written; that one is parked.
async fn single(pool: &PgPool, batch: Vec<Outcome>, error: &Error) -> Result<Vec<Settled>, SettleFailed> {
    tracing::warn!(%error, rows = batch.len(), "a settle batch is split to find its bad row");
    let mut results = Vec::with_capacity(batch.len());
    let failed = loop {
        let Some(outcome) = batch.get(results.len()) else { break None };
        match write(pool, std::slice::from_ref(outcome)).await {
            Ok(written) => results.extend(written),
            Err(Failure::BadData(error)) => match park(pool, outcome, &error).await {
                Ok(()) => results.push(SettledAs::Written(Status::Parked)),
                Err(error) => break Some(error),
            },
            Err(Failure::Schedule(error)) => break Some(error),
        }
    };
    match failed {
        // What was written already is found written when the whole batch comes again.
        Some(error) => Err(SettleFailed { batch, error }),
        None => Ok(results.into_iter().map(Settled::new).collect()),
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

async fn write(pool: &PgPool, batch: &[Outcome]) -> Result<Vec<SettledAs>, Failure> {
    let mut transaction = pool.begin().await?;
    let mut results: HashMap<usize, SettledAs> = HashMap::with_capacity(batch.len());
    for (day, places) in by_day(batch, |(answered, _)| answered.claimed().payment().id) {
        let written = written(&mut transaction, day, batch, &places).await?;
        let mut late = Vec::new();
        for place in places {
            let claim = batch[place].0.claimed().claim_id().0;
            match written.get(&claim) {
                Some(status) => drop(results.insert(place, SettledAs::Written(*status))),
                None => late.push(place),
            }
        }
        if !late.is_empty() {
            fence_off(&mut transaction, day, batch, late, &mut results).await?;
        }
    }
    commit(transaction).await.map_err(Failure::Schedule)?;
    Ok((0..batch.len()).filter_map(|place| results.remove(&place)).collect())
}

/// The columns of one settle statement, in its own order.
#[derive(Default)]
struct Columns {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    claims: Vec<Uuid>,
    states: Vec<&'static str>,
    causes: Vec<&'static str>,
    reasons: Vec<Option<&'static str>>,
    next_at: Vec<Option<DateTime<Utc>>>,
    answered: Vec<i16>,
    budgets: Vec<i16>,
    next_epoch: Vec<bool>,
    not_sent: Vec<bool>,
    references: Vec<Option<String>>,
    request_hashes: Vec<Option<Vec<u8>>>,
    details: Vec<String>,
    verdicts: Vec<&'static str>,
    how: Vec<&'static str>,
    codes: Vec<Option<String>>,
    http_status: Vec<Option<i16>>,
    took_ms: Vec<Option<i32>>,
    notes: Vec<Option<String>>,
    shards: Vec<i16>,
}

impl Columns {
    fn push(&mut self, (answered, decision): &Outcome) {
        let claimed = answered.claimed();
        let answer = answered.answer();
        let payment = claimed.payment();
        self.ids.push(payment.id.as_uuid());
        self.fences.push(payment.fence.0);
        self.claims.push(claimed.claim_id().0);
        self.states.push(decision.to.as_str());
        self.causes.push(decision.cause.as_str());
        self.reasons.push(decision.reason.map(crate::domain::reason::Reason::as_str));
        self.next_at.push(decision.next_attempt_at);
        self.answered.push(match decision.answered {
            SendsAnswered::None => 0,
            SendsAnswered::Own => 1,
            SendsAnswered::All => 2,
        });
        self.budgets.push(match decision.budget {
            Budget::Keep => 0,
            Budget::HandBack => 1,
            Budget::Untouched => 2,
        });
        self.next_epoch.push(decision.epoch == EpochChange::Next);
        self.not_sent.push(matches!(answer.verdict, Verdict::NotSent { .. }));
        self.references.push(decision.gateway_ref.clone());
        self.request_hashes.push(answer.request_hash.map(Vec::from));
        self.details.push(detail(answer));
        self.verdicts.push(name(&answer.verdict));
        self.how.push(how(answer.how));
        self.codes.push(code(&answer.verdict));
        self.http_status.push(answer.http_status.and_then(|status| i16::try_from(status).ok()));
        self.took_ms.push(took_ms(answer));
        self.notes.push(answer.note.clone());
        self.shards.push(shard(payment.id));
    }
}

/// Writes one day's outcomes; answers the new state by claim id for those that were current.
async fn written(
    transaction: &mut PgConnection,
    day: NaiveDate,
    batch: &[Outcome],
    places: &[usize],
) -> Result<HashMap<Uuid, Status>, Error> {
    let mut columns = Columns::default();
    for place in places {
        columns.push(&batch[*place]);
    }
    let rows = sqlx::query(statements::SETTLE)
        .bind(day)
        .bind(columns.ids)
        .bind(columns.fences)
        .bind(columns.claims)
        .bind(columns.states)
        .bind(columns.causes)
        .bind(columns.reasons)
        .bind(columns.next_at)
        .bind(columns.answered)
        .bind(columns.budgets)
        .bind(columns.next_epoch)
        .bind(columns.not_sent)
        .bind(columns.references)
        .bind(columns.request_hashes)
        .bind(columns.details)
        .bind(columns.verdicts)
        .bind(columns.how)
        .bind(columns.codes)
        .bind(columns.http_status)
        .bind(columns.took_ms)
        .bind(columns.notes)
        .bind(columns.shards)
        .fetch_all(transaction)
        .await?;
    rows.iter().map(|found| Ok((found.try_get("claim_id")?, row::status(found, "status")?))).collect()
}

/// What became of claims that are not current: written by ourselves earlier, or fenced.
async fn fence_off(
    transaction: &mut PgConnection,
    day: NaiveDate,
    batch: &[Outcome],
    late: Vec<usize>,
    results: &mut HashMap<usize, SettledAs>,
) -> Result<(), Error> {
    let of = |place: &usize| batch[*place].0.claimed();
    let ids: Vec<Uuid> = late.iter().map(|place| of(place).payment().id.as_uuid()).collect();
    let claims: Vec<Uuid> = late.iter().map(|place| of(place).claim_id().0).collect();
    let rows = sqlx::query(statements::SETTLED_ATTEMPTS)
        .bind(day)
        .bind(ids)
        .bind(claims)
        .fetch_all(&mut *transaction)
        .await?;
    let mut ours: HashMap<Uuid, Status> = HashMap::new();
    for found in &rows {
        let fenced: bool = found.try_get("fenced")?;
        let settled_to: Option<String> = found.try_get("settled_to")?;
        if let (false, Some(status)) = (fenced, settled_to.as_deref().and_then(Status::from_text)) {
            ours.insert(found.try_get("claim_id")?, status);
        }
    }
    for place in late {
        let (answered, _) = &batch[place];
        let result = match ours.get(&answered.claimed().claim_id().0) {
            Some(status) => SettledAs::Written(*status),
            None => {
                keep_evidence(transaction, day, answered).await?;
                SettledAs::Fenced
            }
        };
        results.insert(place, result);
    }
    Ok(())
}

async fn keep_evidence(
    transaction: &mut PgConnection,
    day: NaiveDate,
    answered: &Answered,
) -> Result<(), Error> {
    let claimed = answered.claimed();
    let answer = answered.answer();
    let payment = claimed.payment();
    // The statement compares the attempt's epoch with the row's, as `effect::fenced` would.
    let evidence = fenced(&answer.verdict, payment.epoch, payment.epoch);
    if evidence == Evidence::Charged {
        tracing::error!(payment = %payment.id, "a fenced answer says charged; the payment is asked again");
    }
    sqlx::query(statements::FENCE)
        .bind(day)
        .bind(payment.id.as_uuid())
        .bind(claimed.claim_id().0)
        .bind(name(&answer.verdict))
        .bind(how(answer.how))
        .bind(code(&answer.verdict))
        .bind(answer.http_status.and_then(|status| i16::try_from(status).ok()))
        .bind(took_ms(answer))
        .bind(&answer.note)
        .bind(detail(answer))
        .bind(evidence == Evidence::AnswersOne)
        .bind(evidence == Evidence::Charged)
        .bind(shard(payment.id))
        .execute(transaction)
        .await?;
    Ok(())
}

async fn park(pool: &PgPool, (answered, _): &Outcome, error: &Error) -> Result<(), ScheduleError> {
    let claimed = answered.claimed();
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let fence = Some(claimed.payment().fence.0);
    poison(&mut transaction, claimed.payment().id, fence, "keeper", error).await.map_err(before_commit)?;
    commit(transaction).await
}

fn took_ms(answer: &Answer) -> Option<i32> {
    answer.took.map(|took| i32::try_from(took.as_millis()).unwrap_or(i32::MAX))
}

/// What history tells of the answer; no secrets, no payee.
fn detail(answer: &Answer) -> String {
    let mut detail = serde_json::json!({"verdict": name(&answer.verdict), "how": how(answer.how)});
    if let Some(code) = code(&answer.verdict) {
        detail["code"] = code.into();
    }
    if let Verdict::ContractViolation { what } = &answer.verdict {
        detail["what"] = what.as_str().into();
    }
    detail.to_string()
}

/// The stored text of a verdict.
fn name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Charged { .. } => "charged",
        Verdict::Declined(_) => "declined",
        Verdict::NotSent { .. } => "not_sent",
        Verdict::InProgress { .. } => "in_progress",
        Verdict::PendingAtGateway { .. } => "pending_at_gateway",
        Verdict::Unknown(_) => "unknown",
        Verdict::ContractViolation { .. } => "contract_violation",
        Verdict::Voided => "voided",
    }
}

fn how(how: How) -> &'static str {
    match how {
        How::Sent => "sent",
        How::LookedUp => "looked_up",
        How::NotStarted => "not_started",
    }
}

/// The gateway's code, or our own name of what stood in the way.
fn code(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Declined(decline) => Some(decline.code.clone()),
        Verdict::NotSent { why, .. } => Some(why.as_str().to_owned()),
        Verdict::Unknown(doubt) => Some(doubt_name(*doubt).to_owned()),
        Verdict::Charged { .. }
        | Verdict::InProgress { .. }
        | Verdict::PendingAtGateway { .. }
        | Verdict::ContractViolation { .. }
        | Verdict::Voided => None,
    }
}

fn doubt_name(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::TimedOut => "timed_out",
        Doubt::ConnectionLost => "connection_lost",
        Doubt::ServerError => "server_error",
        Doubt::Unreadable => "unreadable",
        Doubt::NotTheGateway => "not_the_gateway",
        Doubt::KeyMismatch => "key_mismatch",
        Doubt::LeaseExpired => "lease_expired",
    }
}
