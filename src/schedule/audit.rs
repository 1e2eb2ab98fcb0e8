//! Everything that was written down of a window of due days, in one read-only snapshot, for whoever
//! checks the promises ([`crate::audit`]).
//!
//! **Promises.** Rows as they stand: nothing is repaired, skipped or judged, and a row that cannot be
//! read is an error. Writes nothing. Rows are read as a stream and kept in their short form, so memory
//! goes with the window's payments. **Relies on** an id carrying its due time: a window of due days is
//! one range of ids, and so the history needs no join.
//!
//! The transaction lasts as long as its window takes to read, and holds back the removal of dead rows
//! that long: prefer several small windows on a busy installation.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::publish::{HistoryPlace, LANE};
use super::{row, statements};
use crate::domain::history::HistoryRow;
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::matching::{Class, ItemStatus};
use crate::domain::refund::{RefundId, RefundStatus};
use crate::domain::state::Status;
use crate::domain::window;
use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use futures_util::TryStreamExt;
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use uuid::Uuid;

/// One row of `payments` with its payee and its place on the parked list.
#[derive(Debug, Clone)]
pub struct PaymentRow {
    /// The partition that it lies in.
    pub due_day: NaiveDate,
    /// Its id.
    pub id: PaymentId,
    /// Where it is charged.
    pub gateway: GatewayName,
    /// Where it stands.
    pub status: Status,
    /// Why, where there is a reason.
    pub reason: Option<String>,
    /// Nothing may be charged before.
    pub due_at: DateTime<Utc>,
    /// How long after that the first try may come.
    pub execute_within: Option<window::Window>,
    /// When it is tried next.
    pub next_attempt_at: DateTime<Utc>,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// The destination reference.
    pub payee: String,
    /// Claims so far.
    pub attempt: i32,
    /// Sends that its retry policy allows.
    pub max_sends: i16,
    /// Of the last claim.
    pub fence: i64,
    /// End of the lease while PROCESSING.
    pub lease_until: Option<DateTime<Utc>>,
    /// Its last move.
    pub last_moved_at: DateTime<Utc>,
    /// Rows of history it should have.
    pub history_seq: i32,
    /// The hash that its last history row should have.
    pub history_hash: [u8; 32],
    /// The reason on the parked list, if it is there.
    pub parked: Option<String>,
}

impl PaymentRow {
    /// The instant that its first try was planned for; from it on the payment is late.
    #[must_use]
    pub fn first_attempt_at(&self) -> DateTime<Utc> {
        window::first_attempt_at(self.id, self.due_at, self.execute_within)
    }
}

/// One claim and what came of it.
#[derive(Debug, Clone)]
pub struct AttemptRow {
    /// Whose.
    pub payment: PaymentId,
    /// From 1.
    pub attempt: i32,
    /// The key's epoch.
    pub epoch: i32,
    /// Random, one per claim.
    pub claim_id: Uuid,
    /// Of this claim.
    pub fence: i64,
    /// Slot and incarnation.
    pub worker: String,
    /// The state it was claimed from.
    pub was: Status,
    /// When it was granted, by the database's clock.
    pub claimed_at: DateTime<Utc>,
    /// When its outcome was written.
    pub settled_at: Option<DateTime<Utc>>,
    /// The state that it moved the payment to; nothing if it moved none.
    pub settled_to: Option<String>,
    /// What the gateway said.
    pub verdict: Option<String>,
    /// `sent`, `looked_up` or `not_started`.
    pub how: Option<String>,
    /// The gateway's code, or our own name of what stood in the way.
    pub code: Option<String>,
    /// The answer came too late and was kept off the status.
    pub fenced: bool,
}

/// One row of history with its stored hash.
#[derive(Debug, Clone)]
pub struct Told {
    /// What happened.
    pub row: HistoryRow,
    /// As stored.
    pub hash: [u8; 32],
    /// The publisher had passed it at [`Extent::published_to`].
    pub is_published: bool,
}

/// One idempotency key.
#[derive(Debug, Clone)]
pub struct KeyRow {
    /// The actor's name.
    pub actor: String,
    /// As the client chose it.
    pub key: String,
    /// What it made.
    pub payment: PaymentId,
}

/// One refund with its claims.
#[derive(Debug, Clone)]
pub struct RefundRow {
    /// Its id, and the gateway's key of it.
    pub id: RefundId,
    /// Of which payment.
    pub payment: PaymentId,
    /// Of which charge.
    pub reference: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// Where it stands.
    pub status: RefundStatus,
    /// When it ended, by the database's clock.
    pub finished_at: Option<DateTime<Utc>>,
    /// A line of the gateway's own report ended it, or put it on record: who sent it may have been lost.
    pub is_shown: bool,
    /// In their order.
    pub claims: Vec<RefundClaim>,
}

/// One claim of a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundClaim {
    /// Random, one per claim.
    pub claim_id: Uuid,
    /// Of this claim.
    pub fence: i64,
    /// When it was granted, by the database's clock.
    pub claimed_at: DateTime<Utc>,
}

/// What the database holds.
#[derive(Debug, Clone)]
pub struct Extent {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// First and last day with payments; `None` for an empty schedule.
    pub days: Option<(NaiveDate, NaiveDate)>,
    /// How far history was published; `None`: nobody ever published.
    pub published_to: Option<HistoryPlace>,
}

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Window {
    /// First due day.
    pub from: NaiveDate,
    /// Last due day.
    pub to: NaiveDate,
    /// From an [`Extent`] that is older than the topics' dump.
    pub published_to: Option<HistoryPlace>,
}

impl Window {
    /// Is a payment of this id due in it?
    #[must_use]
    pub fn has(&self, id: PaymentId) -> bool {
        (self.from..=self.to).contains(&id.due_day())
    }

    fn start(&self) -> DateTime<Utc> {
        self.from.and_time(NaiveTime::MIN).and_utc()
    }

    fn end(&self) -> DateTime<Utc> {
        let after = self.to.checked_add_days(Days::new(1)).unwrap_or(NaiveDate::MAX);
        after.and_time(NaiveTime::MIN).and_utc()
    }
}

/// What a comparison with a gateway's report found of one payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceRow {
    /// Whose.
    pub payment: PaymentId,
    /// In whose report: not the payment's own gateway where that is the difference.
    pub gateway: GatewayName,
    /// Of which kind.
    pub class: Class,
    /// Where it shows.
    pub field: String,
    /// Where it stands.
    pub status: ItemStatus,
}

/// Everything of one window.
#[derive(Debug, Clone)]
pub struct Written {
    /// The snapshot's instant.
    pub taken_at: DateTime<Utc>,
    /// By id.
    pub payments: Vec<PaymentRow>,
    /// By payment and number.
    pub attempts: Vec<AttemptRow>,
    /// By payment and number.
    pub history: Vec<Told>,
    /// In no order.
    pub keys: Vec<KeyRow>,
    /// By payment.
    pub refunds: Vec<RefundRow>,
    /// By payment.
    pub differences: Vec<DifferenceRow>,
    /// Days that were compared with a whole report, of each gateway, in order.
    pub compared: Vec<(GatewayName, NaiveDate)>,
    /// Topic, partition and offset of records that were kept unread.
    pub kept: Vec<(String, i32, i64)>,
}

pub(super) async fn extent(pool: PgPool) -> Result<Extent, ScheduleError> {
    let found =
        sqlx::query(statements::AUDIT_EXTENT).bind(LANE).fetch_one(&pool).await.map_err(before_commit)?;
    read_extent(&found).map_err(before_commit)
}

fn read_extent(found: &PgRow) -> Result<Extent, Error> {
    let first: Option<NaiveDate> = found.try_get("first_day")?;
    let last: Option<NaiveDate> = found.try_get("last_day")?;
    let cursor: Option<String> = found.try_get("xid")?;
    let xid = cursor.map(|text| text.parse::<u64>()).transpose();
    let xid = xid.map_err(|error| Error::ColumnDecode { index: "xid".into(), source: Box::new(error) })?;
    let published_to = match xid {
        Some(xid) => {
            Some(HistoryPlace { xid, seq: found.try_get("seq")?, payment: found.try_get("payment_id")? })
        }
        None => None,
    };
    Ok(Extent { now: found.try_get("now")?, days: first.zip(last), published_to })
}

pub(super) async fn audit(pool: PgPool, window: Window) -> Result<Written, ScheduleError> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = pool.begin_with(begin).await.map_err(before_commit)?;
    let written = read(&mut transaction, &window).await.map_err(before_commit)?;
    transaction.rollback().await.map_err(before_commit)?;
    Ok(written)
}

async fn read(snapshot: &mut PgConnection, window: &Window) -> Result<Written, Error> {
    let begun = sqlx::query(statements::AUDIT_BEGIN).fetch_one(&mut *snapshot).await?;
    let payments = sqlx::query(statements::AUDIT_PAYMENTS).bind(window.from).bind(window.to);
    let attempts = sqlx::query(statements::AUDIT_ATTEMPTS).bind(window.from).bind(window.to);
    let place = window.published_to.as_ref();
    let history = sqlx::query(statements::AUDIT_HISTORY)
        .bind(first_id(window.start()))
        .bind(first_id(window.end()))
        .bind(place.map(|place| place.xid.to_string()))
        .bind(place.map(|place| place.seq))
        .bind(place.map(|place| place.payment));
    let keys = sqlx::query(statements::AUDIT_KEYS).bind(window.start()).bind(window.end());
    let refunds =
        sqlx::query(statements::AUDIT_REFUNDS).bind(first_id(window.start())).bind(first_id(window.end()));
    let differences = sqlx::query(statements::AUDIT_DIFFERENCES)
        .bind(first_id(window.start()))
        .bind(first_id(window.end()));
    let compared = sqlx::query(statements::AUDIT_COMPARED).bind(window.from);
    let kept = sqlx::query(statements::AUDIT_BAD_NOTICES);
    Ok(Written {
        taken_at: begun.try_get("taken_at")?,
        payments: payments.try_map(|row| payment(&row)).fetch(&mut *snapshot).try_collect().await?,
        attempts: attempts.try_map(|row| attempt(&row)).fetch(&mut *snapshot).try_collect().await?,
        history: history.try_map(|row| told(&row)).fetch(&mut *snapshot).try_collect().await?,
        keys: keys.try_map(|row| key(&row)).fetch(&mut *snapshot).try_collect().await?,
        refunds: refunds.try_map(|row| refund(&row)).fetch(&mut *snapshot).try_collect().await?,
        differences: differences.try_map(|row| difference(&row)).fetch(&mut *snapshot).try_collect().await?,
        compared: compared.try_map(|row| compared_day(&row)).fetch(&mut *snapshot).try_collect().await?,
        kept: kept.try_map(|row| kept_place(&row)).fetch(&mut *snapshot).try_collect().await?,
    })
}

fn compared_day(found: &PgRow) -> Result<(GatewayName, NaiveDate), Error> {
    Ok((GatewayName(found.try_get("gateway")?), found.try_get("day")?))
}

fn difference(found: &PgRow) -> Result<DifferenceRow, Error> {
    Ok(DifferenceRow {
        payment: row::payment_id(found, "payment_id")?,
        gateway: GatewayName(found.try_get("gateway")?),
        class: row::parsed(found, "class", Class::from_text)?,
        field: found.try_get("field")?,
        status: row::parsed(found, "status", ItemStatus::from_text)?,
    })
}

/// The least id of any payment due from this instant on: its due time in milliseconds, then zeros.
fn first_id(from: DateTime<Utc>) -> Uuid {
    let ms = u128::try_from(from.timestamp_millis()).unwrap_or(0);
    Uuid::from_u128(ms << 80)
}

fn payment(found: &PgRow) -> Result<PaymentRow, Error> {
    let version: i16 = found.try_get("key_version")?;
    if version != 0 {
        return Err(row::unfit("key_version", &version));
    }
    Ok(PaymentRow {
        due_day: found.try_get("due_day")?,
        id: row::payment_id(found, "id")?,
        gateway: GatewayName(found.try_get("gateway")?),
        status: row::status(found, "status")?,
        reason: found.try_get("status_reason")?,
        due_at: found.try_get("due_at")?,
        execute_within: row::window(found)?,
        next_attempt_at: found.try_get("next_attempt_at")?,
        amount: found.try_get("amount_minor")?,
        currency: found.try_get("currency")?,
        payee: row::payee_text(found)?,
        attempt: found.try_get("attempt")?,
        max_sends: found.try_get("max_sends")?,
        fence: found.try_get("fence")?,
        lease_until: found.try_get("lease_until")?,
        last_moved_at: found.try_get("last_moved_at")?,
        history_seq: found.try_get("history_seq")?,
        history_hash: row::required_hash(found, "history_hash")?,
        parked: found.try_get("parked_reason")?,
    })
}

fn attempt(found: &PgRow) -> Result<AttemptRow, Error> {
    Ok(AttemptRow {
        payment: row::payment_id(found, "payment_id")?,
        attempt: found.try_get("attempt")?,
        epoch: found.try_get("epoch")?,
        claim_id: found.try_get("claim_id")?,
        fence: found.try_get("fence")?,
        worker: found.try_get("worker")?,
        was: row::status(found, "was")?,
        claimed_at: found.try_get("claimed_at")?,
        settled_at: found.try_get("settled_at")?,
        settled_to: found.try_get("settled_to")?,
        verdict: found.try_get("verdict")?,
        how: found.try_get("how")?,
        code: found.try_get("code")?,
        fenced: found.try_get("fenced")?,
    })
}

fn told(found: &PgRow) -> Result<Told, Error> {
    Ok(Told {
        row: row::history(found, row::payment_id(found, "payment_id")?)?,
        hash: row::history_hash(found)?,
        is_published: found.try_get("is_published")?,
    })
}

fn key(found: &PgRow) -> Result<KeyRow, Error> {
    let payment = row::payment_id(found, "payment_id")?;
    Ok(KeyRow { actor: found.try_get("actor")?, key: found.try_get("key")?, payment })
}

fn refund(found: &PgRow) -> Result<RefundRow, Error> {
    let claims: Vec<Uuid> = found.try_get("claims")?;
    let fences: Vec<i64> = found.try_get("fences")?;
    let claimed_at: Vec<DateTime<Utc>> = found.try_get("claimed_at")?;
    let claims = claims.into_iter().zip(fences).zip(claimed_at);
    let claims = claims.map(|((claim_id, fence), claimed_at)| RefundClaim { claim_id, fence, claimed_at });
    Ok(RefundRow {
        id: RefundId(found.try_get("id")?),
        payment: row::payment_id(found, "payment_id")?,
        reference: found.try_get("reference")?,
        amount: found.try_get("amount_minor")?,
        currency: found.try_get("currency")?,
        status: row::parsed(found, "status", RefundStatus::from_text)?,
        finished_at: found.try_get("finished_at")?,
        is_shown: found.try_get("is_shown")?,
        claims: claims.collect(),
    })
}

fn kept_place(found: &PgRow) -> Result<(String, i32, i64), Error> {
    Ok((found.try_get("topic")?, found.try_get("kafka_partition")?, found.try_get("kafka_offset")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_a_window_are_one_range() {
        let day = NaiveDate::from_ymd_opt(2026, 11, 29).expect("a day");
        let window = Window { from: day, to: day, published_to: None };
        let at = |ms: i64| window.start() + chrono::TimeDelta::milliseconds(ms);
        for (due_at, inside) in
            [(at(-1), false), (at(0), true), (at(86_399_999), true), (at(86_400_000), false)]
        {
            for bits in [[0; 10], [0xff; 10]] {
                let id = PaymentId::new(due_at, bits).expect("in range");
                let range = first_id(window.start())..first_id(window.end());
                assert_eq!(range.contains(&id.as_uuid()), inside, "{due_at}");
                assert_eq!(window.has(id), inside, "{due_at}");
            }
        }
    }
}
