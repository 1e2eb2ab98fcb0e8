//! A day, rows of ours put behind the rules' back, and reports made of lines.

use crate::schedule::world::{World, gateway};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::{Operator, PaymentId};
use punctual::domain::matching::Class;
use punctual::domain::money::Currency;
use punctual::domain::payment::Payment;
use punctual::domain::settlement::{Kind, Line};
use punctual::domain::state::Status;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{
    CompareOrder, Compared, Finished, LineSum, NewReport, Purpose, ReconciliationItem,
    ReconciliationItemFilter, ReconciliationRun, ReportBegun, Shorter, WithdrawAnswer, WithdrawOrder,
    Withdrawn,
};
use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnection;
use uuid::Uuid;

pub const GRACE: u32 = 1;

pub fn eur() -> Currency {
    Currency::from_code("EUR").expect("in the table")
}

/// Midnight of a day so many days ago, by the database's clock.
pub async fn days_ago(world: &World, days: i64) -> NaiveDate {
    (world.now().await - TimeDelta::days(days)).date_naive()
}

/// Partitions of days that are further back than those that a migration makes.
pub async fn with_past(world: &World) {
    world.one::<i32>("SELECT ensure_partitions(current_date - 8, current_date - 2)").await;
}

/// A charge of 123.45 under a payment's key.
pub fn charge(number: u64, payment: PaymentId, reference: &str, day: NaiveDate) -> Line {
    Line {
        number,
        at_line: number,
        key: Some(payment.to_string()),
        gateway_ref: Some(reference.to_owned()),
        charge_ref: None,
        kind: Kind::Charge,
        gross_minor: 12_345,
        currency: eur(),
        fee_minor: 45,
        net_minor: 12_300,
        net_currency: eur(),
        booked_on: day,
        executed_on: Some(day),
        raw_hash: Sha256::digest(format!("{number} {payment} {reference} {day}")).into(),
    }
}

pub fn report(day: NaiveDate, lines: &[Line]) -> NewReport {
    let mut all = Sha256::new();
    lines.iter().for_each(|line| all.update(format!("{line:?}")));
    let charges = lines.iter().filter(|line| line.kind == Kind::Charge).count();
    NewReport {
        id: Os.claim_id().0,
        gateway: gateway(),
        day,
        format: "sandbox".into(),
        options: String::new(),
        source: String::new(),
        sha256: all.finalize().into(),
        asked_by: Operator("key:alice".into()),
        lines: lines.len().try_into().expect("few"),
        is_complete: true,
        // After the day, whichever of the last days it is.
        seen_at: end_of(day) + TimeDelta::hours(30),
        sums: vec![LineSum {
            lines: charges.try_into().expect("few"),
            ..LineSum::of(Kind::Charge, eur(), eur())
        }],
        purpose: Purpose::Count,
        if_withdrawn: Withdrawn::Refuse,
    }
}

fn end_of(day: NaiveDate) -> DateTime<Utc> {
    (day + TimeDelta::days(1)).and_hms_opt(0, 0, 0).expect("midnight").and_utc()
}

/// Loads a report that is begun without a word against it.
pub async fn load(world: &World, new: &NewReport, lines: &[Line]) -> ReconciliationRun {
    let begun = world.worker.begin_report(new, Shorter::Refuse).await.expect("begun");
    assert_eq!(begun, ReportBegun::Begun);
    world.worker.load_lines(new, lines.to_vec()).await.expect("loaded");
    match world.worker.finish_report(new).await.expect("finished") {
        Finished::Counts(run) => run,
        other => panic!("all lines are there: {other:?}"),
    }
}

pub async fn compare(world: &World, day: NaiveDate) -> Compared {
    let order = CompareOrder { gateway: gateway(), day, trial: None, grace_days: GRACE };
    world.worker.compare_day(&order).await.expect("compared")
}

/// Alice's word that a report is wrong.
pub async fn withdraw(world: &World, run: Uuid) -> WithdrawAnswer {
    let (by, reason) = (Operator("key:alice".into()), "of another account".into());
    let order = WithdrawOrder { run, by, reason, approval: Os.claim_id().0 };
    world.api.withdraw_report(&order).await.expect("an answer")
}

/// Loads and compares.
pub async fn reconcile(world: &World, day: NaiveDate, lines: &[Line]) -> Compared {
    load(world, &report(day, lines), lines).await;
    compare(world, day).await
}

pub async fn items(world: &World, filter: ReconciliationItemFilter) -> Vec<ReconciliationItem> {
    world.worker.reconciliation_items(&filter, None, 1_000).await.expect("listed")
}

pub async fn items_of(world: &World, payment: PaymentId) -> Vec<ReconciliationItem> {
    items(world, ReconciliationItemFilter { payment: Some(payment), ..Default::default() }).await
}

/// The classes and states of a payment's differences.
pub async fn told(world: &World, payment: PaymentId) -> Vec<(Class, String)> {
    let of = |item: ReconciliationItem| (item.what.class, item.what.status.as_str().to_owned());
    items_of(world, payment).await.into_iter().map(of).collect()
}

/// Puts a row into the database as it is.
pub async fn put(sql: &mut PgConnection, row: &Payment) {
    let is_held = row.status == Status::Processing;
    sqlx::query(
        "INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
            attempt, sends, asks, epoch, epoch_first_sent_at, unanswered, gateway_account, renderer, gateway_ref, fence,
            claim_id, lease_until, max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at,
            history_seq, history_hash, last_xid)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
            CASE WHEN $20 THEN gen_random_uuid() END, CASE WHEN $20 THEN now() + interval '1 hour' END, 6, 'retry',
            'park', $21, $22, $23, $24, decode(repeat('00', 32), 'hex'), '1')",
    )
    .bind(row.id.due_day())
    .bind(row.id.as_uuid())
    .bind(row.actor.0)
    .bind(row.status.as_str())
    .bind(row.due_at)
    .bind(row.next_attempt_at)
    .bind(&row.gateway.0)
    .bind(row.amount.minor.get())
    .bind(row.amount.currency.as_str())
    .bind(row.attempt)
    .bind(row.sends)
    .bind(row.asks)
    .bind(row.epoch.0)
    .bind(row.epoch_first_sent_at)
    .bind(row.unanswered)
    .bind(&row.gateway_account)
    .bind(row.renderer)
    .bind(&row.gateway_ref)
    .bind(row.fence.0)
    .bind(is_held)
    .bind(row.lane)
    .bind(row.created_at)
    .bind(row.last_moved_at)
    .bind(row.history_seq)
    .execute(&mut *sql)
    .await
    .expect("put");
    sqlx::query("INSERT INTO payment_details (due_day, id, payee_sealed, field_digests) VALUES ($1, $2, 'payee', '{}')")
        .bind(row.id.due_day())
        .bind(row.id.as_uuid())
        .execute(sql)
        .await
        .expect("details");
}

/// What the history says of a payment that was charged at noon of the day.
pub async fn charged_at_noon(sql: &mut PgConnection, row: &Payment, day: NaiveDate) {
    sqlx::query(
        "INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                      hash, xid)
         VALUES ($1, $2, 'PROCESSING', 'COMPLETED', 'settled', 'w1/1', 2, 2, 0,
                 $3::date::timestamp AT TIME ZONE 'UTC' + interval '12 hours', '{}', decode(repeat('00', 32), 'hex'), '1')",
    )
    .bind(row.id.as_uuid())
    .bind(row.history_seq)
    .bind(day)
    .execute(sql)
    .await
    .expect("a history");
}

/// A payment that was due and charged at noon of the day.
pub async fn paid(sql: &mut PgConnection, n: u64, day: NaiveDate) -> Payment {
    let noon = day.and_hms_opt(12, 0, 0).expect("noon").and_utc();
    let row = payment(noon + TimeDelta::hours(1), n, Status::Completed);
    put(sql, &row).await;
    charged_at_noon(sql, &row, day).await;
    row
}
