//! A day of payments made in bulk: what our tables hold of it, what the gateway's ledger and its report hold.
//!
//! Everything follows from the seed and a number, so that a million payments take no memory and whoever checks
//! can compute what was right. Rows go in by statements that leave every check and trigger in force; the chains of
//! history are those that the product would have written.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use punctual::domain::ids::PaymentId;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::io::Write;
use std::path::Path;
use uuid::Uuid;

/// Whoever owns them all.
const ACTOR: Uuid = Uuid::from_u128(0xB0);
/// Rows written by one statement.
const BATCH: u64 = 10_000;
/// So many of the day's last charges are written down here after midnight.
pub const ACROSS_MIDNIGHT: u64 = 100;

const CURRENCIES: [&str; 10] = ["EUR", "EUR", "EUR", "EUR", "EUR", "EUR", "USD", "USD", "JPY", "KWD"];

/// Which day, and how much of it.
#[derive(Debug, Clone, Copy)]
pub struct Day {
    pub date: NaiveDate,
    pub charges: u64,
    pub seed: u64,
}

/// One charge of it.
#[derive(Debug, Clone)]
pub struct Charge {
    /// From 0; the ledger's line is one more.
    pub number: u64,
    pub id: PaymentId,
    pub due_at: DateTime<Utc>,
    /// By the gateway's clock.
    pub at: DateTime<Utc>,
    /// When its outcome was written down here.
    pub settled_at: DateTime<Utc>,
    pub amount: i64,
    pub currency: &'static str,
    pub epoch: i32,
    /// Given back, by so much.
    pub refund: Option<i64>,
    /// Taken back by the payer's bank a minute later.
    pub is_charged_back: bool,
}

impl Charge {
    /// The idempotency key under which it was asked for.
    pub fn key(&self) -> String {
        if self.epoch == 0 { self.id.to_string() } else { format!("{}:{}", self.id, self.epoch) }
    }

    /// The gateway's name of it.
    pub fn reference(&self) -> String {
        format!("ch_{}", self.number + 1)
    }

    /// The key of what is given back of it.
    pub fn refund_id(&self) -> Uuid {
        let drawn = u128::from(mixed(0x5EED, self.number)) | u128::from(self.number) << 64;
        Uuid::new_v8(drawn.to_be_bytes())
    }
}

/// A number that looks drawn, the same for the same two.
fn mixed(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Day {
    fn start(&self) -> DateTime<Utc> {
        self.date.and_hms_opt(0, 0, 0).expect("midnight").and_utc()
    }

    /// The gateway's name of what is given back of a charge: one charge in a hundred, in their order, after all
    /// charges.
    fn refund_reference(&self, charge: &Charge) -> String {
        format!("re_{}", self.charges + 1 + charge.number / 100)
    }

    /// The charge of this number. Spread over the day; the last ones come right before midnight. One in fifty was
    /// declined once and paid under the next key; one in ten is of the same amount as many others; one in a
    /// hundred is given back, in part or whole, and one in two thousand charged back.
    pub fn charge(&self, number: u64) -> Charge {
        let us = |n: u64| i64::try_from(n).expect("a day");
        let end = self.start() + TimeDelta::days(1);
        let left = self.charges - number;
        let at = if left <= ACROSS_MIDNIGHT {
            end - TimeDelta::microseconds(us(left) * 100)
        } else {
            self.start() + TimeDelta::microseconds(us(number * (86_000_000_000 / self.charges)))
        };
        let due_at = DateTime::from_timestamp_millis((at - TimeDelta::seconds(1)).timestamp_millis())
            .expect("in range");
        let drawn = mixed(self.seed, number);
        let mut intent = [0; 10];
        intent[..8].copy_from_slice(&drawn.to_be_bytes());
        intent[8..].copy_from_slice(&drawn.rotate_left(17).to_be_bytes()[..2]);
        let amount = if number.is_multiple_of(10) {
            1_999
        } else {
            100 + i64::try_from(drawn % 100_000).expect("small")
        };
        let currency = *CURRENCIES.get(usize::try_from(drawn % 10).expect("small")).expect("ten");
        let has_time_left = end - at > TimeDelta::hours(2);
        let refund = match number % 200 {
            50 if has_time_left => Some((amount / 3).max(1)),
            150 if has_time_left => Some(amount),
            _ => None,
        };
        Charge {
            number,
            id: PaymentId::new(due_at, intent).expect("in range"),
            due_at,
            at,
            settled_at: at + TimeDelta::milliseconds(30),
            amount,
            currency,
            epoch: i32::from(number % 50 == 7),
            refund,
            is_charged_back: number % 2_000 == 777 && has_time_left,
        }
    }

    /// Whether the charge is written down here on this day too, and not after its midnight.
    pub fn is_ours(&self, charge: &Charge) -> bool {
        charge.settled_at.date_naive() == self.date
    }

    /// Every charge, in order.
    pub fn all(&self) -> impl Iterator<Item = Charge> + '_ {
        (0..self.charges).map(|number| self.charge(number))
    }

    /// Writes all of it into this database, by two sessions at once.
    pub async fn write(&self, url: &str) {
        let mut session = PgConnection::connect(url).await.expect("a connection");
        let made = format!("SELECT ensure_partitions('{0}'::date - 2, '{0}'::date + 2)", self.date);
        run(&mut session, &made).await;
        let halves = [0, 1].map(|half| {
            let (day, url) = (*self, url.to_owned());
            tokio::spawn(async move {
                let mut session = PgConnection::connect(&url).await.expect("a connection");
                let batches = day.charges.div_ceil(BATCH);
                for batch in (0..batches).filter(|batch| batch % 2 == half) {
                    let numbers = batch * BATCH..((batch + 1) * BATCH).min(day.charges);
                    let charges: Vec<Charge> = numbers.map(|number| day.charge(number)).collect();
                    insert(&mut session, &charges).await;
                    give_back(&mut session, &day, &charges).await;
                }
            })
        });
        for half in halves {
            half.await.expect("written");
        }
        run(&mut session, CANCELLED.replace("{day}", &self.date.to_string()).as_str()).await;
        for table in ["payments", "payment_history", "attempts", "payment_details", "gateway_refs", "refunds"]
        {
            run(&mut session, &format!("VACUUM ANALYZE {table}")).await;
        }
    }

    /// The gateway's ledger of it, as the sandbox keeps one: charges first, then what was given back.
    pub fn ledger(&self, path: &Path) {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("a file"));
        let mut line = |line: Value| writeln!(file, "{line}").expect("written");
        for charge in self.all() {
            let payee = if charge.is_charged_back { "sim_chargeback_60" } else { "sim_ok" };
            line(json!({
                "seq": charge.number + 1, "at": instant(charge.at), "key": charge.key(),
                "paymentId": charge.id, "epoch": charge.epoch, "claimId": charge.id, "fence": charge.epoch + 1,
                "dueAt": instant(charge.due_at), "amount": charge.amount, "currency": charge.currency,
                "payee": payee, "verdict": "charged", "charged": true,
            }));
        }
        let given_back = self.all().filter_map(|charge| charge.refund.map(|amount| (charge, amount)));
        for (seq, (charge, amount)) in (self.charges + 1..).zip(given_back) {
            line(json!({
                "seq": seq, "at": instant(charge.at + TimeDelta::hours(1)), "key": charge.refund_id(),
                "paymentId": charge.id, "epoch": null, "claimId": charge.id, "fence": 1, "dueAt": null,
                "amount": amount, "currency": charge.currency, "payee": null, "verdict": "refunded",
                "charged": false, "request": "refund", "charge": charge.reference(),
            }));
        }
        file.flush().expect("written");
    }

    /// A report of it by nobody's code but this one's: the line of each charge, changed as `wrong` says, then what
    /// was given back. Nothing in it was charged back. How many lines.
    pub fn report(&self, path: &Path, mut wrong: impl FnMut(&Charge, Value) -> Vec<Value>) -> u64 {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("a file"));
        let mut lines = 0;
        let mut write = |line: &Value| {
            writeln!(file, "{line}").expect("written");
            lines += 1;
        };
        for charge in self.all() {
            let right = self.line(&charge, "charge", charge.key(), charge.reference(), charge.amount);
            wrong(&charge, right).iter().for_each(&mut write);
        }
        for charge in self.all() {
            let Some(amount) = charge.refund else { continue };
            let (key, reference) = (charge.refund_id().to_string(), self.refund_reference(&charge));
            let mut line = self.line(&charge, "refund", key, reference, -amount);
            line["chargeRef"] = charge.reference().into();
            write(&line);
        }
        writeln!(file, "{}", json!({"end": {"day": self.date, "lines": lines, "complete": true}}))
            .expect("written");
        file.flush().expect("written");
        lines
    }

    fn line(&self, charge: &Charge, kind: &str, key: String, reference: String, gross: i64) -> Value {
        let fee = if kind == "charge" { 25 } else { 0 };
        json!({
            "key": key, "gatewayRef": reference, "kind": kind, "gross": gross, "fee": fee, "net": gross - fee,
            "currency": charge.currency, "executedOn": self.date, "bookedOn": self.date,
        })
    }
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

async fn run(session: &mut PgConnection, statement: &str) {
    let done = session.execute(AssertSqlSafe(statement.to_owned())).await;
    done.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// Payments as they lie there once they are charged: row, details, attempts, history and the charge's name. One
/// that is paid under a later key has the attempt that was declined before it.
const INSERT: &str = "
WITH given AS MATERIALIZED (
    SELECT g.*, (g.due_at AT TIME ZONE 'UTC')::date AS due_day, g.due_at - interval '1 hour' AS created_at,
           g.settled_at - interval '60 ms' AS claimed_at
    FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::text[], $6::integer[], $7::text[])
        AS g (id, due_at, settled_at, amount, currency, epoch, reference)
), first AS MATERIALIZED (
    SELECT g.*, history_hash(decode(repeat('00', 32), 'hex'), g.id, 1, '-', 'PENDING', 'created', 'api', 0, 0, 0,
                             g.created_at, '{}') AS hash1 FROM given g
), second AS MATERIALIZED (
    SELECT f.*, history_hash(f.hash1, f.id, 2, 'PENDING', 'PROCESSING', 'claimed', 'w/1', f.epoch + 1, f.epoch + 1,
                             f.epoch, f.claimed_at, '{}') AS hash2 FROM first f
), third AS MATERIALIZED (
    SELECT s.*, history_hash(s.hash2, s.id, 3, 'PROCESSING', 'COMPLETED', 'settled', 'w/1', s.epoch + 1, s.epoch + 1,
                             s.epoch, s.settled_at, '{}') AS hash3 FROM second s
), payment AS (
    INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
        attempt, sends, epoch, epoch_first_sent_at, gateway_account, renderer, gateway_ref, fence, max_sends,
        on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
    SELECT t.due_day, t.id, '{actor}', 'COMPLETED', t.due_at, t.due_at, 'sandbox', t.amount, t.currency, t.epoch + 1,
           t.epoch + 1, t.epoch, t.claimed_at, 'sandbox-1', 1, t.reference, t.epoch + 1, 6, 'retry', 'park', 7,
           t.created_at, t.settled_at, 3, t.hash3, pg_current_xact_id()
    FROM third t
), details AS (
    INSERT INTO payment_details (due_day, id, payee_sealed, field_digests)
    SELECT t.due_day, t.id, 'sim_ok', '{}' FROM third t
), attempt AS (
    INSERT INTO attempts (due_day, payment_id, attempt, epoch, claim_id, fence, worker, was, claimed_at, settled_at,
                          settled_to, verdict, how, http_status, took_ms)
    SELECT t.due_day, t.id, n, n - 1, gen_random_uuid(), n, 'w/1', 'PENDING', t.claimed_at, t.settled_at,
           CASE WHEN n = t.epoch + 1 THEN 'COMPLETED' ELSE 'PENDING' END,
           CASE WHEN n = t.epoch + 1 THEN 'charged' ELSE 'declined' END, 'sent',
           CASE WHEN n = t.epoch + 1 THEN 200 ELSE 402 END, 30
    FROM third t CROSS JOIN generate_series(1, t.epoch + 1) n
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail, hash,
                                 xid, actor_id)
    SELECT t.id, m.seq, m.was, m.became, m.cause, m.done_by, m.fence, m.fence, m.epoch, m.at, '{}', m.hash,
           pg_current_xact_id(), '{actor}'
    FROM third t
    CROSS JOIN LATERAL (VALUES
        (1, '-', 'PENDING', 'created', 'api', 0, 0, t.created_at, t.hash1),
        (2, 'PENDING', 'PROCESSING', 'claimed', 'w/1', t.epoch + 1, t.epoch, t.claimed_at, t.hash2),
        (3, 'PROCESSING', 'COMPLETED', 'settled', 'w/1', t.epoch + 1, t.epoch, t.settled_at, t.hash3))
        AS m (seq, was, became, cause, done_by, fence, epoch, at, hash)
)
INSERT INTO gateway_refs (gateway, reference, payment_id) SELECT 'sandbox', t.reference, t.id FROM third t";

async fn insert(session: &mut PgConnection, charges: &[Charge]) {
    let statement = INSERT.replace("{actor}", &ACTOR.to_string());
    let column = |of: fn(&Charge) -> DateTime<Utc>| charges.iter().map(of).collect::<Vec<_>>();
    let done = sqlx::query(AssertSqlSafe(statement))
        .bind(charges.iter().map(|it| it.id.as_uuid()).collect::<Vec<_>>())
        .bind(column(|it| it.due_at))
        .bind(column(|it| it.settled_at))
        .bind(charges.iter().map(|it| it.amount).collect::<Vec<_>>())
        .bind(charges.iter().map(|it| it.currency).collect::<Vec<_>>())
        .bind(charges.iter().map(|it| it.epoch).collect::<Vec<_>>())
        .bind(charges.iter().map(Charge::reference).collect::<Vec<_>>())
        .execute(session)
        .await;
    assert_eq!(done.expect("written").rows_affected(), charges.len() as u64);
}

/// Refunds that are done, the sums of their charges, and what they leave of the payment and in its history.
const GIVE_BACK: &str = "
WITH given AS MATERIALIZED (
    SELECT g.*, g.amount = g.charged AS is_whole, p.due_day, p.currency, p.fence, p.attempt, p.epoch,
           CASE WHEN g.amount = g.charged THEN 'REFUNDED' ELSE 'COMPLETED' END AS became,
           CASE WHEN g.amount = g.charged THEN 'refunded' ELSE 'noted' END AS cause,
           history_hash(p.history_hash, p.id, 4, 'COMPLETED',
               CASE WHEN g.amount = g.charged THEN 'REFUNDED' ELSE 'COMPLETED' END,
               CASE WHEN g.amount = g.charged THEN 'refunded' ELSE 'noted' END, 'w/1', p.fence, p.attempt, p.epoch,
               g.at, '{}') AS hash4
    FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[], $5::bigint[], $6::text[], $7::date[],
                $8::text[])
        AS g (id, refund_id, at, amount, charged, reference, day, name)
    JOIN payments p ON p.due_day = g.day AND p.id = g.id
), refund AS (
    INSERT INTO refunds (id, payment_id, payment_day, payer, gateway, account, reference, amount_minor, currency, status,
        actor_id, idempotency_key, request_hash, asked_by, reason, approval_id, approved_by, asked_at, expires_at,
        approved_at, finished_at, attempt, fence, first_sent_at, gateway_ref)
    SELECT g.refund_id, g.id, g.due_day, '{actor}', 'sandbox', 'sandbox-1', g.reference, g.amount, g.currency, 'refunded',
           '{actor}', g.refund_id::text, '', 'key:asks', 'a return', gen_random_uuid(), 'key:allows',
           g.at - interval '2 min', g.at + interval '1 day', g.at - interval '1 min', g.at, 1, 1, g.at, g.name
    FROM given g
), sums AS (
    INSERT INTO refunded_charges (gateway, reference, payment_id, charge_minor, currency, reserved_minor, refunded_minor)
    SELECT 'sandbox', g.reference, g.id, g.charged, g.currency, g.amount, g.amount FROM given g
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail, hash,
                                 xid, actor_id)
    SELECT g.id, 4, 'COMPLETED', g.became, g.cause, 'w/1', g.fence, g.attempt, g.epoch, g.at, '{}', g.hash4,
           pg_current_xact_id(), '{actor}'
    FROM given g
)
UPDATE payments p SET status = g.became, last_moved_at = g.at, history_seq = 4, history_hash = g.hash4,
    last_xid = pg_current_xact_id()
FROM given g WHERE p.due_day = g.due_day AND p.id = g.id";

async fn give_back(session: &mut PgConnection, day: &Day, charges: &[Charge]) {
    let given: Vec<(&Charge, i64)> =
        charges.iter().filter_map(|charge| charge.refund.map(|amount| (charge, amount))).collect();
    let statement = GIVE_BACK.replace("{actor}", &ACTOR.to_string());
    let done = sqlx::query(AssertSqlSafe(statement))
        .bind(given.iter().map(|(it, _)| it.id.as_uuid()).collect::<Vec<_>>())
        .bind(given.iter().map(|(it, _)| it.refund_id()).collect::<Vec<_>>())
        .bind(given.iter().map(|(it, _)| it.at + TimeDelta::hours(1)).collect::<Vec<_>>())
        .bind(given.iter().map(|(_, amount)| *amount).collect::<Vec<_>>())
        .bind(given.iter().map(|(it, _)| it.amount).collect::<Vec<_>>())
        .bind(given.iter().map(|(it, _)| it.reference()).collect::<Vec<_>>())
        .bind(given.iter().map(|(it, _)| it.id.due_day()).collect::<Vec<_>>())
        .bind(given.iter().map(|(it, _)| day.refund_reference(it)).collect::<Vec<_>>())
        .execute(session)
        .await;
    assert_eq!(done.expect("written").rows_affected(), given.len() as u64);
}

/// A thousand payments of the day that were never charged, as a report that knows its business leaves them out.
const CANCELLED: &str = "
WITH made AS MATERIALIZED (
    SELECT (lpad(to_hex((extract(epoch FROM d.due_at) * 1000)::bigint), 12, '0') || '8' || substr(d.hex, 1, 3)
            || '8' || substr(d.hex, 4, 15))::uuid AS id, d.due_at
    FROM (SELECT '{day} 12:00:00Z'::timestamptz + n * interval '1 s' AS due_at, md5(n::text) AS hex
          FROM generate_series(1, 1000) n) d
), chained AS MATERIALIZED (
    SELECT m.*, history_hash(decode(repeat('00', 32), 'hex'), m.id, 1, '-', 'PENDING', 'created', 'api', 0, 0, 0,
                             m.due_at - interval '1 hour', '{}') AS hash1
    FROM made m
), twice AS MATERIALIZED (
    SELECT c.*, history_hash(c.hash1, c.id, 2, 'PENDING', 'CANCELLED', 'cancelled', 'api', 0, 0, 0,
                             c.due_at - interval '1 min', '{}') AS hash2
    FROM chained c
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail, hash,
                                 xid, actor_id)
    SELECT t.id, m.seq, m.was, m.became, m.cause, 'api', 0, 0, 0, m.at, '{}', m.hash, pg_current_xact_id(),
           gen_random_uuid()
    FROM twice t
    CROSS JOIN LATERAL (VALUES (1, '-', 'PENDING', 'created', t.due_at - interval '1 hour', t.hash1),
                               (2, 'PENDING', 'CANCELLED', 'cancelled', t.due_at - interval '1 min', t.hash2))
        AS m (seq, was, became, cause, at, hash)
)
INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency, max_sends,
    on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
SELECT '{day}', t.id, gen_random_uuid(), 'CANCELLED', t.due_at, t.due_at, 'sandbox', 1999, 'EUR', 6, 'retry', 'park', 7,
       t.due_at - interval '1 hour', t.due_at - interval '1 min', 2, t.hash2, pg_current_xact_id()
FROM twice t";
