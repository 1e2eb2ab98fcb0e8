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
use crate::domain::filter::{Conditions, Filter};
use crate::domain::guard::Lineage;
use crate::domain::ids::{ActorId, GatewayName, PaymentId};
use crate::domain::money::Money;
use crate::domain::parked::Said;
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use chrono::{DateTime, TimeDelta, Utc};
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
    /// And all of this. References are the payments' own, not this list's: `ref:` passes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<Filter>,
}

impl ParkedFilter {
    /// Itself in the form in which it is asked of entries.
    pub(super) fn sieve(&self) -> Sieve<'_> {
        Sieve { filter: self, asked: self.q.as_ref().map(Filter::conditions).unwrap_or_default() }
    }

    fn drops(&self) -> bool {
        self.reason.is_some() || self.gateway.is_some() || self.actor.is_some() || self.q.is_some()
    }
}

/// A filter at work; the list, a preview and a bulk re-drive ask by it alike.
pub(super) struct Sieve<'a> {
    filter: &'a ParkedFilter,
    asked: Conditions,
}

impl Sieve<'_> {
    /// Between which ids its payments lie, both ends excluded.
    pub(super) fn ids(&self) -> (Uuid, Uuid) {
        let due = self.asked.due.between;
        // Ids carry whole milliseconds of what is due to the microsecond: what else is in them is looked at again.
        let behind = |at: DateTime<Utc>| at.checked_add_signed(TimeDelta::milliseconds(1)).unwrap_or(at);
        let (first, end) = (
            self.filter.due_from.map_or(Uuid::nil(), first_id),
            self.filter.due_to.map_or(Uuid::max(), first_id),
        );
        (
            first.max(due.from.map_or(Uuid::nil(), first_id)),
            end.min(due.to.map_or(Uuid::max(), |to| first_id(behind(whole_ms(to))))),
        )
    }

    /// Does this entry pass? Of the due time it is asked to the millisecond, which is what ids carry.
    pub(super) fn passes(&self, entry: &ParkedEntry) -> bool {
        let filter = self.filter;
        filter.reason.is_none_or(|reason| entry.reason == reason.as_str())
            && (filter.gateway.is_none() || filter.gateway == entry.gateway)
            && (filter.actor.is_none() || filter.actor == entry.actor)
            && self.passes_all(entry)
    }

    fn passes_all(&self, entry: &ParkedEntry) -> bool {
        let asked = &self.asked;
        let due_at = DateTime::from_timestamp_millis(entry.payment.due_ms()).unwrap_or_default();
        asked.statuses.holds(Some(&Status::Parked))
            && asked.reasons.holds(Reason::from_text(&entry.reason).as_ref())
            && asked.gateways.holds(entry.gateway.as_ref().map(|gateway| gateway.0.as_str()))
            && asked.references.holds(None::<&str>)
            && asked.ids.holds(Some(&entry.payment))
            && asked.actors.holds(entry.actor_name.as_deref())
            && asked.due.holds(due_at)
            && match entry.amount {
                Some(amount) => asked.amount.holds(amount.minor.get()),
                // Parked by a build that did not write it down.
                None => asked.amount.is_any(),
            }
    }
}

/// Less than every id that is due at this instant or after it, and more than every other: 48 bits of
/// milliseconds, rounded up, then the least of the rest, which no id has, since ids name a version.
pub(super) fn first_id(at: DateTime<Utc>) -> Uuid {
    let ms = at.timestamp_millis() + i64::from(!at.timestamp_subsec_nanos().is_multiple_of(1_000_000));
    u128::try_from(ms).map_or(Uuid::nil(), |ms| Uuid::from_u128((ms & ((1 << 48) - 1)) << 80))
}

/// Without what is finer than milliseconds.
pub(super) fn whole_ms(at: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at)
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
    /// A line of a settlement report that counts shows a charge of it.
    pub reported: bool,
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
            reported: self.reported,
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
    let sieve = filter.sieve();
    let (first, end) = sieve.ids();
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
            entries.extend(sieve.passes(&entry).then_some(entry));
        }
        if rows.len() < wanted {
            return Ok(ParkedPage { entries, next: None });
        }
        if entries.len() == limit || examined >= MOST_EXAMINED {
            return Ok(ParkedPage { entries, next: after });
        }
    }
}

/// A row of `list_parked.sql`.
pub(super) fn entry(found: &PgRow) -> Result<ParkedEntry, Error> {
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
        reported: first.try_get("reported")?,
        attempts,
        approval: approvals::waiting(connection, Some(id)).await?,
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
        let (from, to) =
            ParkedFilter { due_from: Some(at), due_to: Some(next), ..Default::default() }.sieve().ids();
        assert_eq!(from, to, "rounded up to what ids carry");
        assert!(id(at) < from && from < id(next));
        assert_eq!(ParkedFilter::default().sieve().ids(), (Uuid::nil(), Uuid::max()));
        // Both ends of a filter's range belong to it.
        let q = format!("due:{}..{}", at.to_rfc3339(), at.to_rfc3339()).parse().expect("a filter");
        let (from, to) = ParkedFilter { q: Some(q), ..Default::default() }.sieve().ids();
        assert!(from <= to && id(at) < to && to < id(next), "{from} {to}");
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
        let q = "reason:poisoned -gateway:other amount:..9".parse().expect("a filter");
        let filter = ParkedFilter { q: Some(q), ..Default::default() };
        let text = serde_json::to_string(&filter).expect("plain");
        assert_eq!(text, r#"{"q":"reason:poisoned -gateway:other amount:..9"}"#);
        assert_eq!(serde_json::from_str::<ParkedFilter>(&text).expect("read back"), filter);
    }

    #[test]
    fn an_entry_is_asked_for_all_that_a_filter_can_say_of_it() {
        let at = DateTime::from_timestamp_millis(1_795_960_020_123).expect("in range");
        let money = Money {
            minor: crate::domain::money::Minor::new(1_050).expect("positive"),
            currency: crate::domain::money::Currency::from_code("EUR").expect("EUR"),
        };
        let entry = ParkedEntry {
            payment: PaymentId::new(at, [7; 10]).expect("in range"),
            reason: "poisoned".into(),
            parked_at: at,
            actor: Some(ActorId(Uuid::from_u128(7))),
            actor_name: Some("shop".into()),
            gateway: Some(GatewayName("sandbox".into())),
            amount: Some(money),
        };
        let old = ParkedEntry { actor: None, actor_name: None, gateway: None, amount: None, ..entry.clone() };
        for (q, passes, passes_old) in [
            ("", true, true),
            ("status:PARKED", true, true),
            ("status:FAILED", false, false),
            ("-status:PARKED", false, false),
            ("reason:poisoned,declined_soft", true, true),
            ("-reason:poisoned", false, false),
            ("gateway:sandbox", true, false),
            ("-gateway:sandbox", false, true),
            ("actor:shop", true, false),
            ("-actor:shop", false, true),
            ("actor:other", false, false),
            ("amount:1050", true, false),
            ("amount:..1049", false, false),
            ("ref:ch_1", false, false),
            ("-ref:ch_1", true, true),
            (&format!("id:{}", entry.payment), true, true),
            (&format!("-id:{}", entry.payment), false, false),
            (&format!("due:{}", at.to_rfc3339()), true, true),
            ("due:..2020-01-01", false, false),
            ("-due:..2020-01-01", true, true),
        ] {
            let filter = ParkedFilter { q: Some(q.parse().expect("a filter")), ..Default::default() };
            let sieve = filter.sieve();
            let (first, end) = sieve.ids();
            let id = entry.payment.as_uuid();
            let within = |passed: bool| passed && first < id && id < end;
            let found = (within(sieve.passes(&entry)), within(sieve.passes(&old)));
            assert_eq!(found, (passes, passes_old), "{q}");
        }
    }
}
