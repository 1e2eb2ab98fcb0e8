//! Rules R17 and R18: a database that was restored, promoted, or proven to have lost commits claims nothing until two
//! people release it; and what was charged before is not charged again.
//!
//! **Promises.** Whoever proves a loss stops every claim before this answers. A release is refused with the list of
//! what is missing, and happens by the word of a second person only; with `anyway` it happens in spite of that list,
//! which is kept for ever. What a restore lost of a payment is known by its intent bits, under whichever due time.
//!
//! **Relies on** the functions of the migration `prove_lost_commits`: the row of the installation is locked first by
//! all of them, so that two who find the same open one quarantine. If this dies here, the database is quarantined or
//! not, released or not, whole; whoever repeats is told.

use super::failure::{at_commit, before_commit, transaction, whole};
use super::port::ScheduleError;
use super::{Postgres, row, statements};
use crate::domain::ids::{GatewayName, Operator, PaymentId};
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// What proved, or who said, that commits were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossKind {
    /// Another server or timeline than the released one.
    Lineage,
    /// An authentic notice that the database cannot explain.
    Notice,
    /// An event in the topic whose history row is not there.
    Event,
    /// The server has less of a log than it said before.
    Log,
    /// A person said so.
    Person,
}

impl LossKind {
    const ALL: [Self; 5] = [Self::Lineage, Self::Notice, Self::Event, Self::Log, Self::Person];

    /// As stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lineage => "lineage",
            Self::Notice => "notice",
            Self::Event => "event",
            Self::Log => "log",
            Self::Person => "person",
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One proof.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Of which kind.
    pub kind: LossKind,
    /// In words, for people.
    pub why: String,
    /// About this payment.
    pub payment: Option<PaymentId>,
    /// The instant of something that is missing, by the database's clock of then.
    pub seen_at: Option<DateTime<Utc>>,
}

/// One quarantine; the open one has no release.
#[derive(Debug, Clone, PartialEq)]
pub struct Quarantine {
    /// Its number; grows.
    pub id: i64,
    /// No claim since.
    pub since: DateTime<Utc>,
    /// The first proof.
    pub kind: LossKind,
    /// In words.
    pub reason: String,
    /// Server and timeline that were released.
    pub released_lineage: String,
    /// Server and timeline that were found, or released in the end.
    pub found_lineage: String,
    /// Commits since then may be missing.
    pub lost_from: DateTime<Utc>,
    /// Proofs, with those that the list has no room for.
    pub evidence_count: i32,
    /// The first person's word, while it stands.
    pub asked: Option<ReleaseAsk>,
    /// How it ended.
    pub released: Option<QuarantineRelease>,
}

/// The first person's word.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseAsk {
    /// Whose.
    pub by: Operator,
    /// Why.
    pub reason: String,
    /// When.
    pub at: DateTime<Utc>,
    /// What may be missing.
    pub insists: Insists,
}

/// How a quarantine ended.
#[derive(Debug, Clone, PartialEq)]
pub struct QuarantineRelease {
    /// When.
    pub at: DateTime<Utc>,
    /// The second person.
    pub by: Operator,
    /// Why.
    pub reason: String,
    /// What was missing all the same; null if nothing was.
    pub overridden: serde_json::Value,
}

/// One proof on record.
#[derive(Debug, Clone, PartialEq)]
pub struct LossOnRecord {
    /// When it was found.
    pub at: DateTime<Utc>,
    /// What it is.
    pub kind: LossKind,
    /// About which payment.
    pub payment: Option<Uuid>,
    /// In words.
    pub what: String,
}

/// Something that is missing before a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// `day_not_over`, `day_not_compared` or `open_repairs`.
    pub lack: String,
    /// Of which gateway.
    pub gateway: GatewayName,
    /// Of which day.
    pub day: NaiveDate,
    /// How many repairs.
    pub items: Option<i64>,
}

/// What people are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct QuarantineView {
    /// The newest first; an open one is the first.
    pub quarantines: Vec<Quarantine>,
    /// Of the newest.
    pub evidence: Vec<LossOnRecord>,
    /// What is missing before the open one may be released.
    pub lacks: Vec<Lack>,
}

impl QuarantineView {
    /// The one that holds the claims.
    #[must_use]
    pub fn open(&self) -> Option<&Quarantine> {
        self.quarantines.first().filter(|newest| newest.released.is_none())
    }
}

/// Whether a release is wanted although something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insists {
    /// Only when nothing is.
    OnNothing,
    /// In any case.
    Anyway,
}

/// What became of a person's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// A second person has to agree.
    Asked,
    /// Claims go on.
    Released,
    /// Whoever asked is not the second person.
    SamePerson,
    /// Something is missing.
    Lacking,
    /// There is no quarantine.
    NotQuarantined,
}

/// What became of a person's word that commits may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnterAnswer {
    /// Nothing is claimed any more.
    Quarantined,
    /// Nothing was claimed before.
    AlreadyQuarantined,
    /// Nothing was lost since an instant that is to come.
    NotYet,
}

/// A charge that the gateway shows of what a payment means, and that has no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostCharge {
    /// Under this id: the asked one, or the same intent at another due time.
    pub charged_as: PaymentId,
    /// A due time that has passed is still taken for that very payment.
    pub is_open: bool,
}

impl Postgres {
    /// Stops every claim of every worker at once; answers whether nobody had before.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn commits_lost(&self, loss: &Loss) -> Result<bool, ScheduleError> {
        let loss = loss.clone();
        transaction(self.pool(), |one| Box::pin(async move { enter(one, &loss).await })).await
    }

    /// Gives the database's sign of life, or opens the quarantine of one that was restored or promoted; answers
    /// whether it may claim.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn observe_lineage(&self) -> Result<bool, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move {
            sqlx::query_scalar(statements::OBSERVE_LINEAGE).fetch_one(&pool).await.map_err(at_commit)
        })
        .await
    }

    /// Whether this database may claim.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn lineage_is_released(&self) -> Result<bool, ScheduleError> {
        sqlx::query_scalar(statements::LINEAGE_IS_RELEASED)
            .fetch_one(self.pool())
            .await
            .map_err(before_commit)
    }

    /// Quarantines, the newest first, with what is known of the newest.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn quarantines(&self, most: u32) -> Result<QuarantineView, ScheduleError> {
        whole(show(self.pool().clone(), most)).await
    }

    /// One person's word that claims may go on.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn release_quarantine(
        &self,
        by: &Operator,
        reason: &str,
        insists: Insists,
    ) -> Result<ReleaseAnswer, ScheduleError> {
        let (pool, by, reason) = (self.pool().clone(), by.0.clone(), reason.to_owned());
        whole(async move {
            let asked = sqlx::query(statements::RELEASE_QUARANTINE).bind(by).bind(reason);
            let told = asked.bind(insists == Insists::Anyway).fetch_one(&pool).await.map_err(at_commit)?;
            row::parsed(&told, "answer", release_answer).map_err(at_commit)
        })
        .await
    }

    /// One person's word that commits since `lost_from` may be missing.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn enter_quarantine(
        &self,
        by: &Operator,
        reason: &str,
        lost_from: Option<DateTime<Utc>>,
    ) -> Result<EnterAnswer, ScheduleError> {
        let (pool, by, reason) = (self.pool().clone(), by.0.clone(), reason.to_owned());
        whole(async move {
            let said = sqlx::query(statements::QUARANTINE_BY_PERSON).bind(by).bind(reason).bind(lost_from);
            let told = said.fetch_one(&pool).await.map_err(at_commit)?;
            row::parsed(&told, "answer", enter_answer).map_err(at_commit)
        })
        .await
    }

    /// What a restore lost of these payments, by place; what was lost of none is missing.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn lost_charges(
        &self,
        payments: &[PaymentId],
    ) -> Result<BTreeMap<PaymentId, LostCharge>, ScheduleError> {
        if payments.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (pool, payments) = (self.pool().clone(), payments.to_vec());
        whole(async move {
            let mut connection = pool.acquire().await.map_err(before_commit)?;
            lost_charges(&mut connection, &payments).await.map_err(before_commit)
        })
        .await
    }

    /// Those of these history rows, each with the instant at which it was written, that the database does not have,
    /// and that it did not lose in a time whose losses people have judged.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn missing_history(
        &self,
        rows: &[(DateTime<Utc>, PaymentId, i32)],
    ) -> Result<BTreeSet<(PaymentId, i32)>, ScheduleError> {
        let rows = rows.to_vec();
        let pool = self.pool().clone();
        whole(async move {
            let mut days: BTreeMap<NaiveDate, Written> = BTreeMap::new();
            for (at, payment, seq) in &rows {
                let (ids, numbers, instants) = days.entry(at.date_naive()).or_default();
                instants.push(*at);
                ids.push(payment.as_uuid());
                numbers.push(*seq);
            }
            let mut missing: BTreeSet<(PaymentId, i32)> =
                rows.iter().map(|(_, id, seq)| (*id, *seq)).collect();
            for (day, (ids, numbers, instants)) in days {
                let asked =
                    sqlx::query(statements::HAS_HISTORY).bind(day).bind(ids).bind(numbers).bind(instants);
                for found in &asked.fetch_all(&pool).await.map_err(before_commit)? {
                    let payment = row::payment_id(found, "payment_id").map_err(before_commit)?;
                    missing.remove(&(payment, found.try_get("seq").map_err(before_commit)?));
                }
            }
            Ok(missing)
        })
        .await
    }
}

/// History rows of one day: of which payments, their numbers and instants.
type Written = (Vec<Uuid>, Vec<i32>, Vec<DateTime<Utc>>);

/// In the caller's transaction.
pub(super) async fn enter(transaction: &mut PgConnection, loss: &Loss) -> Result<bool, Error> {
    let entered = sqlx::query_scalar(statements::ENTER_QUARANTINE)
        .bind(loss.kind.as_str())
        .bind(&loss.why)
        .bind(loss.payment.map(PaymentId::as_uuid))
        .bind(loss.seen_at)
        .fetch_one(transaction)
        .await;
    let (kind, payment, why) = (loss.kind.as_str(), loss.payment, &loss.why);
    if let Ok(false) = entered {
        tracing::warn!(kind, ?payment, why, "a trace of lost commits that a quarantine knows of already");
    } else {
        let told = "commits were lost: no worker claims until two people release the database";
        tracing::error!(kind, ?payment, why, "{told}");
    }
    entered
}

pub(super) async fn release(pool: PgPool) -> Result<(), ScheduleError> {
    sqlx::query(statements::RELEASE_LINEAGE).execute(&pool).await.map_err(at_commit)?;
    Ok(())
}

pub(super) async fn lost_charges(
    connection: &mut PgConnection,
    payments: &[PaymentId],
) -> Result<BTreeMap<PaymentId, LostCharge>, Error> {
    let ids: Vec<Uuid> = payments.iter().map(|payment| payment.as_uuid()).collect();
    let rows = sqlx::query(statements::LOST_CHARGES_OF).bind(ids).fetch_all(connection).await?;
    let read = |found: &PgRow| {
        let lost = LostCharge {
            charged_as: row::payment_id(found, "charged_as")?,
            is_open: found.try_get("is_open")?,
        };
        Ok((row::payment_id(found, "id")?, lost))
    };
    rows.iter().map(read).collect()
}

async fn show(pool: PgPool, most: u32) -> Result<QuarantineView, ScheduleError> {
    // What nobody has noticed yet is a quarantine too.
    sqlx::query(statements::OBSERVE_LINEAGE).execute(&pool).await.map_err(at_commit)?;
    let rows = sqlx::query(statements::LIST_QUARANTINES).bind(i64::from(most)).fetch_all(&pool).await;
    let rows = rows.map_err(before_commit)?;
    let quarantines: Vec<Quarantine> =
        rows.iter().map(quarantine).collect::<Result<_, _>>().map_err(before_commit)?;
    let newest = quarantines.first().map(|newest| newest.id);
    let found = sqlx::query(statements::QUARANTINE_EVIDENCE).bind(newest).fetch_all(&pool).await;
    let evidence = found.map_err(before_commit)?.iter().map(on_record).collect::<Result<_, _>>();
    let lacks = sqlx::query(statements::QUARANTINE_LACKS).fetch_all(&pool).await.map_err(before_commit)?;
    let lacks = lacks.iter().map(lack).collect::<Result<_, _>>().map_err(before_commit)?;
    Ok(QuarantineView { quarantines, evidence: evidence.map_err(before_commit)?, lacks })
}

fn quarantine(found: &PgRow) -> Result<Quarantine, Error> {
    let asked_at: Option<DateTime<Utc>> = found.try_get("asked_at")?;
    let asked = match asked_at {
        Some(at) => Some(ReleaseAsk {
            by: Operator(found.try_get("asked_by")?),
            reason: found.try_get("asked_reason")?,
            at,
            insists: if found.try_get("asked_to_override")? { Insists::Anyway } else { Insists::OnNothing },
        }),
        None => None,
    };
    let released_at: Option<DateTime<Utc>> = found.try_get("released_at")?;
    let released = match released_at {
        Some(at) => Some(QuarantineRelease {
            at,
            by: Operator(found.try_get("released_by")?),
            reason: found.try_get("released_reason")?,
            overridden: found
                .try_get::<Option<Json<serde_json::Value>>, _>("overridden")?
                .map_or(serde_json::Value::Null, |lacks| lacks.0),
        }),
        None => None,
    };
    Ok(Quarantine {
        id: found.try_get("id")?,
        since: found.try_get("since")?,
        kind: row::parsed(found, "kind", LossKind::from_text)?,
        reason: found.try_get("reason")?,
        released_lineage: found.try_get("released_lineage")?,
        found_lineage: found.try_get("found_lineage")?,
        lost_from: found.try_get("lost_from")?,
        evidence_count: found.try_get("evidence_count")?,
        asked,
        released,
    })
}

fn on_record(found: &PgRow) -> Result<LossOnRecord, Error> {
    Ok(LossOnRecord {
        at: found.try_get("at")?,
        kind: row::parsed(found, "kind", LossKind::from_text)?,
        payment: found.try_get("payment_id")?,
        what: found.try_get("what")?,
    })
}

fn lack(found: &PgRow) -> Result<Lack, Error> {
    Ok(Lack {
        lack: found.try_get("lack")?,
        gateway: GatewayName(found.try_get("of_gateway")?),
        day: found.try_get("of_day")?,
        items: found.try_get("items")?,
    })
}

fn release_answer(text: &str) -> Option<ReleaseAnswer> {
    Some(match text {
        "asked" => ReleaseAnswer::Asked,
        "released" => ReleaseAnswer::Released,
        "same_person" => ReleaseAnswer::SamePerson,
        "lacking" => ReleaseAnswer::Lacking,
        "not_quarantined" => ReleaseAnswer::NotQuarantined,
        _ => return None,
    })
}

fn enter_answer(text: &str) -> Option<EnterAnswer> {
    Some(match text {
        "quarantined" => EnterAnswer::Quarantined,
        "already_quarantined" => EnterAnswer::AlreadyQuarantined,
        "not_yet" => EnterAnswer::NotYet,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_kinds_read_back_and_nothing_else_does() {
        for kind in LossKind::ALL {
            assert_eq!(LossKind::from_text(kind.as_str()), Some(kind));
        }
        assert_eq!(LossKind::from_text("wal"), None);
        assert_eq!(release_answer("released"), Some(ReleaseAnswer::Released));
        assert_eq!(release_answer("done"), None);
        assert_eq!(enter_answer("already_quarantined"), Some(EnterAnswer::AlreadyQuarantined));
        assert_eq!(enter_answer(""), None);
    }
}
