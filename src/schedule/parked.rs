//! What is parked, over all actors: a page at a time, and one with everything that is known of it.
//!
//! **Promises.** A page is in the order of due times, which the ids carry; walking it meets each payment once at
//! most, whatever is parked or released meanwhile. One page examines at most [`MOST_EXAMINED`] entries, of one
//! table, by its primary key: however many partitions there are, and however old the oldest open day is. A filter
//! that few entries pass answers a short page *with* the place where it stopped.
//!
//! Bounds of due times are taken to the millisecond, since that is what ids carry.

use super::approvals::Approval;
use super::failure::{before_commit, whole};
use super::port::ScheduleError;
use super::records::AttemptView;
use super::{Postgres, approvals, row, statements};
use crate::domain::guard::Lineage;
use crate::domain::ids::{ActorId, GatewayName, PaymentId};
use crate::domain::money::Money;
use crate::domain::parked::Said;
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use uuid::Uuid;

/// Most entries examined for one page.
const MOST_EXAMINED: usize = 1_000;
/// Entries examined at once where a filter may drop some.
const CHUNK: usize = 250;

/// Which parked payments; all conditions hold at once. Its JSON is kept with bulk re-drives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParkedFilter {
    /// Parked for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Of this gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayName>,
    /// Of this actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// Due at this instant or after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_from: Option<DateTime<Utc>>,
    /// Due before this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_to: Option<DateTime<Utc>>,
}

impl ParkedFilter {
    /// Between which ids its payments lie, both ends excluded.
    pub(super) fn ids(&self) -> (Uuid, Uuid) {
        let first = |at: DateTime<Utc>| {
            let ms =
                at.timestamp_millis() + i64::from(!at.timestamp_subsec_nanos().is_multiple_of(1_000_000));
            // 48 bits of milliseconds, then the least of the rest: less than every id, since those name a version.
            u128::try_from(ms).map_or(Uuid::nil(), |ms| Uuid::from_u128((ms & ((1 << 48) - 1)) << 80))
        };
        (self.due_from.map_or(Uuid::nil(), first), self.due_to.map_or(Uuid::max(), first))
    }

    fn passes(&self, entry: &ParkedEntry) -> bool {
        let reason = self.reason.is_none_or(|reason| entry.reason == reason.as_str());
        let gateway = self.gateway.is_none() || self.gateway == entry.gateway;
        reason && gateway && (self.actor.is_none() || self.actor == entry.actor)
    }

    fn drops(&self) -> bool {
        self.reason.is_some() || self.gateway.is_some() || self.actor.is_some()
    }
}

/// One parked payment, as the list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedEntry {
    /// Which.
    pub payment: PaymentId,
    /// Why it was parked.
    pub reason: String,
    /// Since when, by the database's clock.
    pub parked_at: DateTime<Utc>,
    /// Whose; `None`: parked by a build that did not write it down.
    pub actor: Option<ActorId>,
    /// The actor's name.
    pub actor_name: Option<String>,
    /// Where it is to be charged.
    pub gateway: Option<GatewayName>,
    /// What is to be charged.
    pub amount: Option<Money>,
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedPage {
    /// First due first; may be fewer than asked for.
    pub entries: Vec<ParkedEntry>,
    /// Go on behind this one; `None`: nothing is left.
    pub next: Option<PaymentId>,
}

/// One payment with everything that its people need to know, parked or not.
#[derive(Debug, Clone)]
pub struct ParkedView {
    /// The hot row.
    pub payment: Payment,
    /// The actor's name.
    pub actor_name: Option<String>,
    /// The actor's own id for it.
    pub external_id: Option<String>,
    /// Since when it is parked; `None`: it is not.
    pub parked_at: Option<DateTime<Utc>>,
    /// What was written when it was parked: JSON, as text.
    pub evidence: Option<String>,
    /// The charge whose reference it carries took another amount than asked.
    pub charged_otherwise: bool,
    /// Oldest first.
    pub attempts: Vec<AttemptView>,
    /// A release that waits for a second person.
    pub approval: Option<Approval>,
    /// Whether this database may be acted in.
    pub lineage: Lineage,
    /// The database's clock.
    pub now: DateTime<Utc>,
}

impl ParkedView {
    /// What the answers on record say; codes not in `retryable` are refusals for good.
    #[must_use]
    pub fn said(&self, retryable: &[String]) -> Said {
        let said = |word: &'static str| {
            self.attempts.iter().filter(move |attempt| attempt.verdict.as_deref() == Some(word))
        };
        let here = |attempt: &AttemptView| attempt.epoch == self.payment.epoch;
        let may_retry = |attempt: &AttemptView| {
            attempt.code.as_ref().is_some_and(|code| retryable.iter().any(|known| known == code))
        };
        Said {
            charged: said("charged").next().is_some(),
            declined_for_good: said("declined").any(|attempt| !may_retry(attempt)),
            declined_here: said("declined").any(here),
            voided_here: said("voided").any(here),
            charged_otherwise: self.charged_otherwise,
        }
    }
}

impl Postgres {
    /// A page of what is parked: at most `limit`, from behind `after`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn parked(
        &self,
        filter: &ParkedFilter,
        after: Option<PaymentId>,
        limit: usize,
    ) -> Result<ParkedPage, ScheduleError> {
        whole(list(self.pool().clone(), filter.clone(), after, limit)).await
    }

    /// One payment of whichever actor, with its attempts; `None`: there is none of this id.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn parked_one(&self, id: PaymentId) -> Result<Option<ParkedView>, ScheduleError> {
        whole(find(self.pool().clone(), id)).await
    }

    /// The actor of this name.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn actor_named(&self, name: &str) -> Result<Option<ActorId>, ScheduleError> {
        let found: Option<Uuid> = sqlx::query_scalar(statements::ACTOR_NAMED)
            .bind(name)
            .fetch_optional(self.pool())
            .await
            .map_err(before_commit)?;
        Ok(found.map(ActorId))
    }
}

async fn list(
    pool: PgPool,
    filter: ParkedFilter,
    after: Option<PaymentId>,
    limit: usize,
) -> Result<ParkedPage, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    page(&mut connection, &filter, after, limit).await.map_err(before_commit)
}

async fn page(
    connection: &mut PgConnection,
    filter: &ParkedFilter,
    mut after: Option<PaymentId>,
    limit: usize,
) -> Result<ParkedPage, Error> {
    let (first, end) = filter.ids();
    let mut entries = Vec::new();
    let mut examined = 0;
    // One more than the page, to know whether anything is left.
    let chunk = if filter.drops() { CHUNK.max(limit + 1) } else { limit + 1 };
    loop {
        let wanted = chunk.min(MOST_EXAMINED - examined);
        let rows = sqlx::query(statements::LIST_PARKED)
            .bind(after.map_or(first, PaymentId::as_uuid).max(first))
            .bind(end)
            .bind(i64::try_from(wanted).unwrap_or(i64::MAX))
            .fetch_all(&mut *connection)
            .await?;
        examined += rows.len();
        for row in &rows {
            if entries.len() == limit {
                return Ok(ParkedPage { entries, next: after });
            }
            let entry = entry(row)?;
            after = Some(entry.payment);
            entries.extend(filter.passes(&entry).then_some(entry));
        }
        if rows.len() < wanted {
            return Ok(ParkedPage { entries, next: None });
        }
        if entries.len() == limit || examined >= MOST_EXAMINED {
            return Ok(ParkedPage { entries, next: after });
        }
    }
}

fn entry(found: &PgRow) -> Result<ParkedEntry, Error> {
    let amount: Option<i64> = found.try_get("amount_minor")?;
    let gateway: Option<String> = found.try_get("gateway")?;
    Ok(ParkedEntry {
        payment: row::payment_id(found, "payment_id")?,
        reason: found.try_get("reason")?,
        parked_at: found.try_get("parked_at")?,
        actor: found.try_get::<Option<Uuid>, _>("actor_id")?.map(ActorId),
        actor_name: found.try_get("actor_name")?,
        gateway: gateway.map(GatewayName),
        amount: if amount.is_some() { Some(row::money(found)?) } else { None },
    })
}

async fn find(pool: PgPool, id: PaymentId) -> Result<Option<ParkedView>, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    view(&mut connection, id).await.map_err(before_commit)
}

async fn view(connection: &mut PgConnection, id: PaymentId) -> Result<Option<ParkedView>, Error> {
    let rows = sqlx::query(statements::FIND_PARKED)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .fetch_all(&mut *connection)
        .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let mut attempts = Vec::new();
    for attempt in &rows {
        attempts.extend(row::attempt(attempt)?);
    }
    let released: bool = first.try_get("released")?;
    Ok(Some(ParkedView {
        payment: row::payment(first)?,
        actor_name: first.try_get("actor_name")?,
        external_id: first.try_get("external_id")?,
        parked_at: first.try_get("parked_at")?,
        evidence: first.try_get("evidence")?,
        charged_otherwise: first.try_get("charged_otherwise")?,
        attempts,
        approval: approvals::waiting(connection, id).await?,
        lineage: if released { Lineage::Released } else { Lineage::Quarantined },
        now: first.try_get("now")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_due_times_is_a_span_of_ids_to_the_millisecond() {
        let at = DateTime::from_timestamp_micros(1_795_960_020_123_400).expect("in range");
        let id = |at: DateTime<Utc>| PaymentId::new(at, [0; 10]).expect("in range").as_uuid();
        let next = DateTime::from_timestamp_millis(1_795_960_020_124).expect("in range");
        let (from, to) = ParkedFilter { due_from: Some(at), due_to: Some(next), ..Default::default() }.ids();
        assert_eq!(from, to, "rounded up to what ids carry");
        assert!(id(at) < from && from < id(next));
        assert_eq!(ParkedFilter::default().ids(), (Uuid::nil(), Uuid::max()));
    }

    #[test]
    fn a_filter_is_kept_as_json_and_read_back_and_unknown_names_are_refused() {
        let filter = ParkedFilter {
            reason: Some(Reason::OutcomeUnknown),
            actor: Some(ActorId(Uuid::from_u128(7))),
            ..Default::default()
        };
        let text = serde_json::to_string(&filter).expect("plain");
        assert_eq!(text, r#"{"reason":"outcome_unknown","actor":"00000000-0000-0000-0000-000000000007"}"#);
        assert_eq!(serde_json::from_str::<ParkedFilter>(&text).expect("read back"), filter);
        assert!(serde_json::from_str::<ParkedFilter>(r#"{"raeson":"poisoned"}"#).is_err());
    }
}
