//! The rules' guards and effects of people's acts against the functions of the database: every combination of what
//! a parked payment can look like gets the same answer, and the same row after it.

use super::retryable;
use crate::schedule::world::World;
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::guard::Lineage;
use punctual::domain::guard_cases::payment;
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::parked::{
    KeyWanted, Resolution, Said, WhyNot, apply_redrive, apply_resolve, redrive, resolve,
};
use punctual::domain::payment::Payment;
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};
use uuid::Uuid;

/// What the second of a payment's two attempts says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Nothing,
    DeclinedHere,
    DeclinedEarlier,
    ForGood,
    Voided,
    Charged,
    /// Of another amount than asked.
    ChargedOtherwise,
    /// Nothing; a bank's report has a line of it.
    Reported,
}

const ANSWERS: [Answered; 8] = [
    Answered::Nothing,
    Answered::DeclinedHere,
    Answered::DeclinedEarlier,
    Answered::ForGood,
    Answered::Voided,
    Answered::Charged,
    Answered::ChargedOtherwise,
    Answered::Reported,
];

impl Answered {
    fn said(self) -> Said {
        Said {
            charged: matches!(self, Self::Charged | Self::ChargedOtherwise),
            declined_for_good: self == Self::ForGood,
            declined_here: matches!(self, Self::DeclinedHere | Self::ForGood),
            voided_here: self == Self::Voided,
            charged_otherwise: self == Self::ChargedOtherwise,
            reported: self == Self::Reported,
        }
    }

    /// Verdict, code and epoch of the attempt, in a row of epoch 1.
    fn stored(self) -> (Option<&'static str>, Option<&'static str>, i32) {
        match self {
            Self::Nothing | Self::Reported => (None, None, 1),
            Self::DeclinedHere => (Some("declined"), Some("insufficient_funds"), 1),
            Self::DeclinedEarlier => (Some("declined"), Some("insufficient_funds"), 0),
            Self::ForGood => (Some("declined"), Some("stolen_card"), 1),
            Self::Voided => (Some("voided"), None, 1),
            Self::Charged | Self::ChargedOtherwise => (Some("charged"), None, 0),
        }
    }
}

/// Every way in which a row can stand, as far as the guards look.
fn rows(now: DateTime<Utc>) -> Vec<Payment> {
    let mut rows = Vec::new();
    for (unanswered, used) in [(0, false), (0, true), (1, true)] {
        for reference in [None, Some("ch_known")] {
            for wished in [false, true] {
                for deadline in [None, Some(TimeDelta::minutes(-1)), Some(TimeDelta::minutes(10))] {
                    let mut row = payment(now, rows.len() as u64 + 1, Status::Parked);
                    row.epoch.0 = 1;
                    row.unanswered = unanswered;
                    row.epoch_first_sent_at = used.then(|| now - TimeDelta::minutes(30));
                    row.gateway_ref = reference.map(str::to_owned);
                    row.cancel_wish_at = wished.then_some(now);
                    row.execute_before = deadline.map(|from_now| now + from_now);
                    row.attempt = 9;
                    row.sends = if rows.len() % 2 == 0 { 6 } else { 2 };
                    row.held_back = i16::from(rows.len() % 3 == 0);
                    row.held_back_since = (row.held_back > 0).then_some(now);
                    rows.push(row);
                }
            }
        }
    }
    rows
}

async fn put(sql: &mut PgConnection, row: &Payment, said: Answered) {
    sqlx::query(
        "INSERT INTO payments (due_day, id, actor_id, status, due_at, execute_before, next_attempt_at, gateway,
            amount_minor, currency, attempt, sends, held_back, held_back_since, epoch, epoch_first_sent_at, unanswered,
            gateway_account, renderer, gateway_ref, fence, cancel_wish_at, max_sends, on_soft_decline, on_exhausted,
            lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'sandbox', $8, 'EUR', $9, $10, $11, $12, $13, $14, $15, 'sandbox-1', 1,
            $16, 2, $17, 6, 'retry', 'park', 7, $18, $19, $20, decode(repeat('00', 32), 'hex'), '1')",
    )
    .bind(row.id.due_day())
    .bind(row.id.as_uuid())
    .bind(row.actor.0)
    .bind(row.status.as_str())
    .bind(row.due_at)
    .bind(row.execute_before)
    .bind(row.next_attempt_at)
    .bind(row.amount.minor.get())
    .bind(row.attempt)
    .bind(row.sends)
    .bind(row.held_back)
    .bind(row.held_back_since)
    .bind(row.epoch.0)
    .bind(row.epoch_first_sent_at)
    .bind(row.unanswered)
    .bind(&row.gateway_ref)
    .bind(row.cancel_wish_at)
    .bind(row.created_at)
    .bind(row.last_moved_at)
    .bind(row.history_seq)
    .execute(&mut *sql)
    .await
    .unwrap_or_else(|error| panic!("{row:?}: {error}"));
    sqlx::query("INSERT INTO parked VALUES ($1, 'outcome_unknown', now(), '{}')")
        .bind(row.id.as_uuid())
        .execute(&mut *sql)
        .await
        .expect("listed");
    if let (Some(reference), Answered::ChargedOtherwise) = (&row.gateway_ref, said) {
        sqlx::query("INSERT INTO gateway_refs VALUES ('sandbox', $1, $2, 12344, 'EUR')")
            .bind(reference)
            .bind(row.id.as_uuid())
            .execute(&mut *sql)
            .await
            .expect("what it took");
    }
    if said == Answered::Reported {
        report(sql, row).await;
    }
    let (verdict, code, epoch) = said.stored();
    sqlx::query(
        "INSERT INTO attempts (due_day, payment_id, attempt, epoch, claim_id, fence, worker, was, claimed_at, verdict, code)
         VALUES ($1, $2, 2, $3, $4, 2, 'w', 'PENDING', now(), $5, $6)",
    )
    .bind(row.id.due_day())
    .bind(row.id.as_uuid())
    .bind(epoch)
    .bind(Uuid::from_u128(7))
    .bind(verdict)
    .bind(code)
    .execute(sql)
    .await
    .expect("an attempt");
}

/// The line of a report that had it parked.
async fn report(sql: &mut PgConnection, row: &Payment) {
    sqlx::query(
        "WITH run AS (
             INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines,
                 is_complete, seen_at)
             VALUES (gen_random_uuid(), 'sandbox', current_date, 'camt.053', '', sha256(''), 'key:alice', 'loaded', 1,
                 false, now())
             RETURNING id)
         INSERT INTO reconciliation_items (fingerprint, run_id, gateway, day, class, status, payment_id, field, ours,
            decided_by, decided_at, decided_reason)
         SELECT gen_random_uuid(), r.id, 'sandbox', current_date, 'missing_here', 'repaired', $1, 'status', 'PARKED',
            'reconciliation', now(), 'shown' FROM run r",
    )
    .bind(row.id.as_uuid())
    .execute(sql)
    .await
    .expect("a line");
}

/// What an act can change of a row.
#[derive(Debug, PartialEq)]
struct Stands {
    status: String,
    reason: Option<String>,
    counts: [i32; 7],
    first_sent_at: Option<DateTime<Utc>>,
    held_back_since: Option<DateTime<Utc>>,
    account: Option<String>,
    renderer: Option<i16>,
    reference: Option<String>,
    /// The next attempt, counted from the move.
    next_us: i64,
}

fn of_rules(row: &Payment) -> Stands {
    Stands {
        status: row.status.as_str().into(),
        reason: row.reason.map(|reason| reason.as_str().into()),
        counts: [
            row.attempt,
            row.sends.into(),
            row.held_back.into(),
            row.asks.into(),
            row.epoch.0,
            row.unanswered,
            row.history_seq,
        ],
        first_sent_at: row.epoch_first_sent_at,
        held_back_since: row.held_back_since,
        account: row.gateway_account.clone(),
        renderer: row.renderer,
        reference: row.gateway_ref.clone(),
        next_us: (row.next_attempt_at - row.last_moved_at).num_microseconds().expect("fits"),
    }
}

fn of_database(row: &PgRow) -> Stands {
    let count = |name: &str| row.get::<i32, _>(name);
    let small = |name: &str| i32::from(row.get::<i16, _>(name));
    let (next, moved): (DateTime<Utc>, DateTime<Utc>) =
        (row.get("next_attempt_at"), row.get("last_moved_at"));
    Stands {
        status: row.get("status"),
        reason: row.get("status_reason"),
        counts: [
            count("attempt"),
            small("sends"),
            small("held_back"),
            small("asks"),
            count("epoch"),
            count("unanswered"),
            count("history_seq"),
        ],
        first_sent_at: row.get("epoch_first_sent_at"),
        held_back_since: row.get("held_back_since"),
        account: row.get("gateway_account"),
        renderer: row.get("renderer"),
        reference: row.get("gateway_ref"),
        next_us: (next - moved).num_microseconds().expect("fits"),
    }
}

/// The row, with what must hold of every row that was moved: its newest history row has its hash, the parked list
/// has lost it, and the act is on record.
async fn stands(sql: &mut PgConnection, row: &Payment, moved: bool) -> Stands {
    let found = sqlx::query(
        "SELECT p.*, EXISTS (SELECT 1 FROM payment_history h WHERE h.payment_id = p.id AND h.seq = p.history_seq
                             AND h.hash = p.history_hash AND h.became = p.status) AS told,
                EXISTS (SELECT 1 FROM parked k WHERE k.payment_id = p.id) AS listed,
                (SELECT count(*) FROM operator_acts a WHERE a.subject = p.id::text) AS acts,
                (SELECT count(*) FROM due_notices n WHERE n.payment_id = p.id AND n.not_before = p.next_attempt_at
                    AND n.attempt = p.attempt) AS notices
         FROM payments p WHERE p.due_day = $1 AND p.id = $2",
    )
    .bind(row.id.due_day())
    .bind(row.id.as_uuid())
    .fetch_one(sql)
    .await
    .expect("the row");
    let claimable = ["PENDING", "UNKNOWN"].contains(&found.get::<&str, _>("status"));
    let seen = (
        found.get::<bool, _>("told"),
        found.get::<bool, _>("listed"),
        found.get::<i64, _>("acts"),
        found.get::<i64, _>("notices"),
    );
    assert_eq!(seen, (moved, !moved, i64::from(moved), i64::from(moved && claimable)), "{row:?}");
    of_database(&found)
}

/// The row that the rules make of a parked one.
fn expected<E: std::fmt::Debug>(
    row: &Payment,
    to: Result<Status, WhyNot>,
    apply: impl FnOnce(&mut Payment, Status) -> Result<(), E>,
) -> Stands {
    let mut row = row.clone();
    match to {
        Ok(to) => apply(&mut row, to).expect("legal"),
        // As put, without a reason.
        Err(_) => row.reason = None::<Reason>,
    }
    of_rules(&row)
}

#[tokio::test]
async fn every_redrive_gets_the_rules_answer_from_the_database_and_has_the_same_effect() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let mut released = 0;
    for row in rows(now) {
        for said in ANSWERS {
            for key in [KeyWanted::Same, KeyWanted::New] {
                let mut case = sql.begin().await.expect("begun");
                put(&mut case, &row, said).await;
                let approval = (key == KeyWanted::New).then(|| Uuid::from_u128(0xA));
                sqlx::query(
                    "INSERT INTO approvals VALUES ('00000000-0000-0000-0000-00000000000a', 'new_epoch', $1, 'key:alice',
                     'why', '{}', 'approved', 'key:bob', 'yes', now(), now(), now() + interval '1 day')",
                )
                .bind(row.id.as_uuid())
                .execute(&mut *case)
                .await
                .expect("approved");
                let answer: String = sqlx::query_scalar(
                    "SELECT redrive_parked($1, $2, 1::smallint, $3, $4, 'key:alice', 'why', NULL, $5)",
                )
                .bind(row.id.due_day())
                .bind(row.id.as_uuid())
                .bind(key == KeyWanted::New)
                .bind(retryable())
                .bind(approval)
                .fetch_one(&mut *case)
                .await
                .expect("an answer");
                let rules = redrive(&row, &said.said(), key, None, Lineage::Released, now);
                let word = rules.map_or_else(WhyNot::as_str, |_| "done");
                assert_eq!(answer, word, "{row:?} {said:?} {key:?}");
                let wanted = expected(&row, rules, |row, to| apply_redrive(row, key, to, now));
                assert_eq!(stands(&mut case, &row, rules.is_ok()).await, wanted, "{said:?} {key:?}");
                released += usize::from(rules.is_ok());
                case.rollback().await.expect("undone");
            }
        }
    }
    assert!(released > 50, "{released} cases were released");
}

#[tokio::test]
async fn every_resolution_gets_the_rules_answer_from_the_database_and_has_the_same_effect() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let eur = |minor: i64| Some(Money { minor: Minor::new(minor)?, currency: Currency::from_code("EUR")? });
    let resolutions = [
        Resolution::Charged { reference: "ch_known", amount: eur(12_345) },
        Resolution::Charged { reference: "ch_other", amount: eur(12_345) },
        Resolution::Charged { reference: "ch_known", amount: eur(12_344) },
        Resolution::Charged { reference: "", amount: eur(12_345) },
        Resolution::NotCharged,
    ];
    let mut resolved = 0;
    for row in rows(now) {
        for said in ANSWERS {
            for resolution in resolutions {
                let mut case = sql.begin().await.expect("begun");
                put(&mut case, &row, said).await;
                let (reference, amount) = match resolution {
                    Resolution::Charged { reference, amount } => (Some(reference), amount),
                    Resolution::NotCharged => (None, None),
                };
                let answer: String = sqlx::query_scalar(
                    "SELECT resolve_parked($1, $2, $3, $4, $5, $6, 'key:alice', 'why', '{}', NULL)",
                )
                .bind(row.id.due_day())
                .bind(row.id.as_uuid())
                .bind(reference.is_some())
                .bind(reference)
                .bind(amount.map(|amount| amount.minor.get()))
                .bind(amount.map(|amount| amount.currency.as_str()))
                .fetch_one(&mut *case)
                .await
                .expect("an answer");
                let rules = resolve(&row, &said.said(), resolution, None, Lineage::Released);
                let word = rules.map_or_else(WhyNot::as_str, |_| "done");
                assert_eq!(answer, word, "{row:?} {said:?} {resolution:?}");
                let wanted = expected(&row, rules, |row, to| apply_resolve(row, resolution, to, now));
                let mut got = stands(&mut case, &row, rules.is_ok()).await;
                if rules.is_ok() {
                    // Nothing comes after an end, so its instant is not moved.
                    got.next_us = wanted.next_us;
                }
                assert_eq!(got, wanted, "{said:?} {resolution:?}");
                resolved += usize::from(rules.is_ok());
                case.rollback().await.expect("undone");
            }
        }
    }
    assert!(resolved > 50, "{resolved} cases were resolved");
}
