//! What people are shown of a quarantine, and their word on it (rules R16 and R17).
//!
//! **Promises.** A release is refused with the list of what is missing, each with the instant from which it can be had,
//! and happens by the word of a second person only; with `anyway` it happens in spite of that list, which is kept for
//! ever, and refunds wait then until the lost time is compared. Since when commits may be missing is computed, and may
//! be said otherwise by a person, but for what is proven.
//!
//! **Relies on** the functions of the migration `prove_lost_commits`, which lock the row of the installation first. If
//! this dies here, the database is quarantined or not, released or not, whole; whoever repeats is told.

use super::failure::{at_commit, before_commit, whole};
use super::lineage::LossKind;
use super::port::ScheduleError;
use super::{Postgres, row, statements};
use crate::domain::ids::{GatewayName, Operator};
use crate::domain::texts::texts;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Error, PgPool, Row};
use std::collections::BTreeSet;
use uuid::Uuid;

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
    /// Server, timeline, database and table that were released.
    pub released_lineage: String,
    /// Server, timeline, database and table that were found, or released in the end.
    pub found_lineage: String,
    /// Commits since then may be missing.
    pub lost_from: DateTime<Utc>,
    /// Whose word that is; `None`: it was computed.
    pub lost_from_by: Option<Operator>,
    /// The oldest thing that is proven to be missing, where its instant is known.
    pub proven_from: Option<DateTime<Utc>>,
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

texts! { LackKind, "What is missing before a release.":
    DayNotOver = "day_not_over": "Commits of the day may be missing, and it is not over.",
    DayNotCompared = "day_not_compared": "Commits of the day may be missing, and no whole report of it is compared that was seen after claims stopped.",
    LaterDayNotOver = "later_day_not_over": "A charge of the lost time may still be booked on the day, which is not over.",
    LaterDayNotCompared = "later_day_not_compared": "A charge of the lost time may be booked on the day, and no whole report of it is compared.",
    OpenRepairs = "open_repairs": "What comparisons found is neither repaired nor dismissed.",
    NoGatewayKnown = "no_gateway_known": "No gateway is known whose reports could be asked for.",
}

/// Something that is missing before a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What.
    pub kind: LackKind,
    /// Of which gateway.
    pub gateway: GatewayName,
    /// Of which day.
    pub day: NaiveDate,
    /// How many repairs.
    pub items: Option<i64>,
    /// When a whole report of the day can be had.
    pub askable_from: Option<DateTime<Utc>>,
    /// When a report of the day that had not ended was seen last, since claims stopped; what it had is compared.
    pub partly_seen_at: Option<DateTime<Utc>>,
}

/// What a release asks for beside what the database knows: the settings of whoever lets it happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseTerms {
    /// Days behind the one on which it was charged in whose reports a charge may still stand.
    pub grace_days: u32,
    /// Gateways that are configured; a restored database may have forgotten them.
    pub gateways: Vec<GatewayName>,
}

impl ReleaseTerms {
    fn days_and_names(&self) -> (i32, Vec<String>) {
        let days = i32::try_from(self.grace_days).unwrap_or(i32::MAX);
        (days, self.gateways.iter().map(|gateway| gateway.0.clone()).collect())
    }
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
    /// Gateways whose refunds wait, since one was released before the lost time was compared.
    pub refunds_held: BTreeSet<GatewayName>,
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
    /// Nothing was claimed before, and commits may be missing since another instant now.
    Altered,
    /// Nothing was lost since an instant that is to come.
    NotYet,
    /// Something older is proven to be missing.
    ProvenBefore,
}

impl Postgres {
    /// Quarantines, the newest first, with what is known of the newest.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn quarantines(
        &self,
        most: u32,
        terms: &ReleaseTerms,
    ) -> Result<QuarantineView, ScheduleError> {
        whole(show(self.pool().clone(), most, terms.clone())).await
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
        terms: &ReleaseTerms,
    ) -> Result<ReleaseAnswer, ScheduleError> {
        let (pool, by, reason) = (self.pool().clone(), by.0.clone(), reason.to_owned());
        let (days, names) = terms.days_and_names();
        whole(async move {
            let asked = sqlx::query(statements::RELEASE_QUARANTINE).bind(by).bind(reason);
            let asked = asked.bind(insists == Insists::Anyway).bind(days).bind(names);
            let told = asked.fetch_one(&pool).await.map_err(at_commit)?;
            row::parsed(&told, "answer", release_answer).map_err(at_commit)
        })
        .await
    }

    /// One person's word that commits since `lost_from` may be missing; of a database that is quarantined already it takes
    /// the place of what was computed.
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
}

async fn show(pool: PgPool, most: u32, terms: ReleaseTerms) -> Result<QuarantineView, ScheduleError> {
    // What nobody has noticed yet is a quarantine too.
    sqlx::query(statements::OBSERVE_LINEAGE).execute(&pool).await.map_err(at_commit)?;
    let rows = sqlx::query(statements::LIST_QUARANTINES).bind(i64::from(most)).fetch_all(&pool).await;
    let rows = rows.map_err(before_commit)?;
    let quarantines: Vec<Quarantine> =
        rows.iter().map(quarantine).collect::<Result<_, _>>().map_err(before_commit)?;
    let newest = quarantines.first().map(|newest| newest.id);
    let found = sqlx::query(statements::QUARANTINE_EVIDENCE).bind(newest).fetch_all(&pool).await;
    let evidence = found.map_err(before_commit)?.iter().map(on_record).collect::<Result<_, _>>();
    let (days, names) = terms.days_and_names();
    let lacks = sqlx::query(statements::QUARANTINE_LACKS).bind(days).bind(names).fetch_all(&pool).await;
    let lacks = lacks.map_err(before_commit)?.iter().map(lack).collect::<Result<_, _>>();
    let mut refunds_held = BTreeSet::new();
    for found in &rows {
        let held: Vec<String> = found.try_get("refunds_held").map_err(before_commit)?;
        refunds_held.extend(held.into_iter().map(GatewayName));
    }
    Ok(QuarantineView {
        quarantines,
        evidence: evidence.map_err(before_commit)?,
        lacks: lacks.map_err(before_commit)?,
        refunds_held,
    })
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
        lost_from_by: found.try_get::<Option<_>, _>("lost_from_by")?.map(Operator),
        proven_from: found.try_get("proven_from")?,
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
        kind: row::parsed(found, "lack", LackKind::from_text)?,
        gateway: GatewayName(found.try_get("of_gateway")?),
        day: found.try_get("of_day")?,
        items: found.try_get("items")?,
        askable_from: found.try_get("askable_from")?,
        partly_seen_at: found.try_get("partly_seen_at")?,
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
        "altered" => EnterAnswer::Altered,
        "proven_before" => EnterAnswer::ProvenBefore,
        "not_yet" => EnterAnswer::NotYet,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_read_back_and_nothing_else_does() {
        assert_eq!(release_answer("released"), Some(ReleaseAnswer::Released));
        assert_eq!(release_answer("done"), None);
        assert_eq!(enter_answer("already_quarantined"), Some(EnterAnswer::AlreadyQuarantined));
        assert_eq!(enter_answer(""), None);
        for kind in LackKind::ALL {
            assert_eq!(LackKind::from_text(kind.as_str()), Some(*kind));
        }
    }
}
