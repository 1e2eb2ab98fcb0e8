//! An actor's payments, a page at a time, and the few found by a name of their own.
//!
//! **Promises.** A page holds only this actor's payments; walking the places from page to page meets
//! each payment once at most, whatever is created meanwhile, since a payment's place never changes.
//! One request examines at most [`MOST_EXAMINED`] rows: a filter that few payments pass answers a
//! short page *with* the place where it stopped.
//!
//! **Why two steps.** The idempotency keys are the list: one index gives the next places in order,
//! where `payments` would merge hundreds of day partitions. The payments of those places are then
//! read day by day, each day a plain parameter. The two steps have no common snapshot, and need none:
//! key and payment commit together, and a payment shows itself as it stands when it is read.
//!
//! A create that commits a moment after its timestamp can appear behind a walk that has passed it.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::records::PaymentView;
use super::{days, row, statements};
use crate::domain::filter::{Among, Between, Conditions};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::state::Status;
use chrono::{DateTime, Utc};
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Most rows examined for one page.
pub const MOST_EXAMINED: usize = 1_000;
/// Rows examined at once where a filter may drop some.
const CHUNK: usize = 250;
/// No further chunk is examined once so many days have been read: each day is a statement.
const MOST_DAYS: usize = 200;

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first microsecond in it.
    pub from: DateTime<Utc>,
    /// The first microsecond after it.
    pub to: DateTime<Utc>,
}

impl Span {
    /// All the time that a payment can have: none is older than 1970.
    pub const EVER: Self = Self { from: DateTime::UNIX_EPOCH, to: DateTime::<Utc>::MAX_UTC };

    /// Is this instant in it?
    #[must_use]
    pub fn holds(&self, at: DateTime<Utc>) -> bool {
        self.from <= at && at < self.to
    }
}

/// The order of a list; equal times are ordered by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListOrder {
    /// By creation, the newest first.
    NewestFirst,
    /// By due time, the earliest first.
    DueFirst,
}

/// Which payments; all conditions hold at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFilter {
    /// Created in this span.
    pub created: Span,
    /// Due in this span.
    pub due: Span,
    /// In one of these states; empty: in any.
    pub statuses: Vec<Status>,
    /// And all of these. Of the due time only what must not be: what must be is `due`. Of the actor's name
    /// nothing: a list has one actor.
    pub conditions: Conditions,
}

/// Where a list stands: the key of the last row passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Creation or due time, by the list's order.
    pub at: DateTime<Utc>,
    /// The payment there.
    pub payment: PaymentId,
}

/// One page.
#[derive(Debug, Clone)]
pub struct ListPage {
    /// In the list's order, without their attempts; may be fewer than asked for.
    pub payments: Vec<PaymentView>,
    /// Where to go on; `None`: nothing is left.
    pub next: Option<Place>,
}

/// A name that at most one payment of an actor has (a gateway's reference: one of each gateway).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUp {
    /// The live payment that holds this external id: one that is neither cancelled nor failed.
    ExternalId(String),
    /// The payment that this key created.
    IdempotencyKey(String),
    /// The payment whose charge has this reference at its gateway.
    GatewayReference(String),
    /// These payments themselves, at most [`MOST_EXAMINED`].
    Ids(Vec<PaymentId>),
}

/// One row of the idempotency keys.
struct Candidate {
    payment: PaymentId,
    created_at: DateTime<Utc>,
    due_at: DateTime<Utc>,
}

impl Candidate {
    fn place(&self, order: ListOrder) -> Place {
        let at = match order {
            ListOrder::NewestFirst => self.created_at,
            ListOrder::DueFirst => self.due_at,
        };
        Place { at, payment: self.payment }
    }
}

impl Default for ListFilter {
    fn default() -> Self {
        let (created, due) = (Span::EVER, Span::EVER);
        Self { created, due, statuses: Vec::new(), conditions: Conditions::default() }
    }
}

impl ListFilter {
    /// Can a candidate be dropped once the span of the order's own time is in the statement?
    fn drops(&self, order: ListOrder) -> bool {
        let other = match order {
            ListOrder::NewestFirst => self.due,
            ListOrder::DueFirst => self.created,
        };
        !self.statuses.is_empty() || other != Span::EVER || self.conditions != Conditions::default()
    }

    fn fits(&self, id: PaymentId, created_at: DateTime<Utc>, due_at: DateTime<Utc>) -> bool {
        self.created.holds(created_at) && self.due.holds(due_at) && self.conditions.ids.holds(Some(&id))
    }
}

pub(super) async fn list(
    pool: PgPool,
    actor: ActorId,
    filter: ListFilter,
    order: ListOrder,
    after: Option<Place>,
    limit: usize,
) -> Result<ListPage, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    page(&mut connection, actor, &filter, order, after, limit).await.map_err(before_commit)
}

async fn page(
    connection: &mut PgConnection,
    actor: ActorId,
    filter: &ListFilter,
    order: ListOrder,
    mut after: Option<Place>,
    limit: usize,
) -> Result<ListPage, Error> {
    let mut payments = Vec::new();
    let (mut examined, mut days_read) = (0, 0);
    // One more than the page, to know whether anything is left.
    let chunk = if filter.drops(order) { CHUNK.max(limit + 1) } else { limit + 1 };
    loop {
        let wanted = chunk.min(MOST_EXAMINED - examined);
        let candidates = candidates(connection, actor, filter, order, after, wanted).await?;
        let is_last = candidates.len() < wanted;
        examined += candidates.len();
        let fitting = candidates.iter().filter(|it| filter.fits(it.payment, it.created_at, it.due_at));
        let ids: Vec<PaymentId> = fitting.map(|candidate| candidate.payment).collect();
        let (mut found, days) = read(connection, actor, &ids, filter).await?;
        days_read += days;
        for candidate in &candidates {
            if payments.len() == limit {
                return Ok(ListPage { payments, next: after });
            }
            after = Some(candidate.place(order));
            payments.extend(found.remove(&candidate.payment));
        }
        if is_last {
            return Ok(ListPage { payments, next: None });
        }
        if payments.len() == limit || examined >= MOST_EXAMINED || days_read >= MOST_DAYS {
            return Ok(ListPage { payments, next: after });
        }
    }
}

async fn candidates(
    connection: &mut PgConnection,
    actor: ActorId,
    filter: &ListFilter,
    order: ListOrder,
    after: Option<Place>,
    limit: usize,
) -> Result<Vec<Candidate>, Error> {
    // No payment has the nil id, so a span's own end makes a place just outside of it.
    let outside = |at| (at, Uuid::nil());
    let given = after.map(|place| (place.at, place.payment.as_uuid()));
    let (statement, place, bound) = match order {
        ListOrder::NewestFirst => {
            let start = outside(filter.created.to);
            (statements::LIST_BY_CREATION, given.map_or(start, |it| it.min(start)), filter.created.from)
        }
        ListOrder::DueFirst => {
            let start = outside(filter.due.from);
            (statements::LIST_BY_DUE, given.map_or(start, |it| it.max(start)), filter.due.to)
        }
    };
    let rows = sqlx::query(statement)
        .bind(actor.0)
        .bind(place.0)
        .bind(place.1)
        .bind(bound)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    let candidate = |row| {
        Ok(Candidate {
            payment: row::payment_id(row, "payment_id")?,
            created_at: row.try_get("created_at")?,
            due_at: row.try_get("due_at")?,
        })
    };
    rows.iter().map(candidate).collect()
}

/// Those of these payments that are the actor's and pass the filter; and how many days they
/// lie on. One that is missing belongs to another, or its day was detached.
pub(super) async fn read(
    connection: &mut PgConnection,
    actor: ActorId,
    ids: &[PaymentId],
    filter: &ListFilter,
) -> Result<(BTreeMap<PaymentId, PaymentView>, usize), Error> {
    let states: Option<Vec<&str>> =
        (!filter.statuses.is_empty()).then(|| filter.statuses.iter().map(|status| status.as_str()).collect());
    let all = &filter.conditions;
    let (statuses, not_statuses) = sides(&all.statuses, |status| status.as_str().to_owned());
    let (reasons, not_reasons) = sides(&all.reasons, |reason| reason.as_str().to_owned());
    let (gateways, not_gateways) = sides(&all.gateways, String::clone);
    let (references, not_references) = sides(&all.references, String::clone);
    let (least, most) = whole_range(all.amount.between);
    let (not_from, not_to): (Vec<i64>, Vec<i64>) = all.amount.never.iter().copied().map(whole_range).unzip();
    let (not_due_from, not_due_to): (Vec<_>, Vec<_>) = all.due.never.iter().map(ever_range).unzip();
    let days = days::by_day(ids, |id| *id);
    let mut found = BTreeMap::new();
    for (day, places) in &days {
        let on_this_day: Vec<Uuid> =
            places.iter().filter_map(|place| ids.get(*place)).map(|id| id.as_uuid()).collect();
        let rows = sqlx::query(statements::LIST_PAYMENTS)
            .bind(day)
            .bind(on_this_day)
            .bind(actor.0)
            .bind(&states)
            .bind(&statuses)
            .bind(&not_statuses)
            .bind(&reasons)
            .bind(&not_reasons)
            .bind(&gateways)
            .bind(&not_gateways)
            .bind(&references)
            .bind(&not_references)
            .bind(least)
            .bind(most)
            .bind(&not_from)
            .bind(&not_to)
            .bind(&not_due_from)
            .bind(&not_due_to)
            .fetch_all(&mut *connection)
            .await?;
        for row in &rows {
            let view = row::view(row)?;
            found.insert(view.payment.id, view);
        }
    }
    Ok((found, days.len()))
}

/// What may be (`None`: anything) and what may not.
fn sides<T: Ord>(among: &Among<T>, text: impl Fn(&T) -> String) -> (Option<Vec<String>>, Vec<String>) {
    let only = among.only.as_ref().map(|only| only.iter().map(&text).collect());
    (only, among.never.iter().map(&text).collect())
}

fn whole_range(range: Between<i64>) -> (i64, i64) {
    (range.from.unwrap_or(i64::MIN), range.to.unwrap_or(i64::MAX))
}

/// Within the time that a payment can have.
fn ever_range(range: &Between<DateTime<Utc>>) -> (DateTime<Utc>, DateTime<Utc>) {
    (range.from.unwrap_or(Span::EVER.from), range.to.unwrap_or(Span::EVER.to))
}

pub(super) async fn look_up(
    pool: PgPool,
    actor: ActorId,
    by: LookUp,
    filter: ListFilter,
) -> Result<Vec<PaymentView>, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    let found = named(&mut connection, actor, &by, &filter).await.map_err(before_commit)?;
    let fits = |view: &PaymentView| {
        let payment = &view.payment;
        filter.fits(payment.id, payment.created_at, payment.due_at)
    };
    Ok(found.into_values().filter(fits).collect())
}

async fn named(
    connection: &mut PgConnection,
    actor: ActorId,
    by: &LookUp,
    filter: &ListFilter,
) -> Result<BTreeMap<PaymentId, PaymentView>, Error> {
    let query = match by {
        LookUp::ExternalId(id) => sqlx::query(statements::FOUND_EXTERNAL_ID).bind(actor.0).bind(id),
        LookUp::IdempotencyKey(key) => sqlx::query(statements::FOUND_KEY).bind(actor.0).bind(key),
        LookUp::GatewayReference(reference) => sqlx::query(statements::LIST_BY_GATEWAY_REF).bind(reference),
        LookUp::Ids(ids) => return Ok(read(connection, actor, ids, filter).await?.0),
    };
    let rows = query.fetch_all(&mut *connection).await?;
    let ids = rows.iter().map(|row| row::payment_id(row, "payment_id")).collect::<Result<Vec<_>, _>>()?;
    Ok(read(connection, actor, &ids, filter).await?.0)
}
