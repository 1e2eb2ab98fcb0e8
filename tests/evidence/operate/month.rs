//! A month of payments each way, made in bulk: what lies in the database of an installation that has been at work for
//! long and has much before it. Nothing waits that should not, so that nobody has a problem to show.
//!
//! Rows go in by statements that leave every check and trigger in force; the chains of history are those that the
//! product would have written. Of what was due most is completed, some failed, cancelled, parked or unknown, some
//! waits for its next try; what will be due waits, and some of it is cancelled.

use chrono::{DateTime, Days, NaiveDate, Utc};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// Days each way.
pub(super) const DAYS: u64 = 30;

/// Writes so many of each day into this database, by two sessions at once.
pub(super) async fn write(url: &str, each_day: u64) {
    let mut session = connect(url).await;
    for statement in BEFORE {
        run(&mut session, statement).await;
    }
    let now = Utc::now();
    let first = now.date_naive() - Days::new(DAYS);
    let halves = [0, 1].map(|half| {
        let url = url.to_owned();
        tokio::spawn(async move {
            let mut session = connect(&url).await;
            for number in (half..=2 * DAYS).step_by(2) {
                run(&mut session, &of_day(first + Days::new(number), now, each_day)).await;
            }
        })
    });
    for half in halves {
        half.await.expect("written");
    }
    for statement in AFTER {
        run(&mut session, statement).await;
    }
}

fn of_day(day: NaiveDate, now: DateTime<Utc>, each_day: u64) -> String {
    let (day, now, many) = (day.to_string(), now.to_rfc3339(), each_day.to_string());
    DAY.replace("{day}", &day).replace("{now}", &now).replace("{many}", &many)
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("a connection")
}

async fn run(session: &mut PgConnection, statement: &str) {
    let done = session.execute(AssertSqlSafe(statement.to_owned())).await;
    done.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

const BEFORE: [&str; 3] = [
    // A payment was created thirty days before it fell due at most.
    "SELECT ensure_partitions(current_date - 62, current_date + 40)",
    "INSERT INTO gateways (name, account) VALUES ('sandbox', 'sandbox-1'), ('second', 'second-1')
     ON CONFLICT DO NOTHING",
    "INSERT INTO actors (id, name)
     SELECT lpad(to_hex(n), 32, '0')::uuid, 'shop-' || n FROM generate_series(1, 40) AS n",
];

const AFTER: [&str; 2] = [
    "VACUUM ANALYZE",
    // It was added up when it was written; what comes from now on is the keeper's.
    "UPDATE minutes_cursor SET xid = pg_snapshot_xmin(pg_current_snapshot())",
];

/// The payments that are due on `{day}`, spread over it, as they lie there at `{now}`.
const DAY: &str = "
WITH drawn AS MATERIALIZED (
    SELECT d.n, d.due_at, d.hex, d.due_at < d.now AS is_past, d.now,
           least(d.due_at, d.now) - (1 + d.n * 7919 % 259200) * interval '10 s' AS created_at,
           (lpad(to_hex((extract(epoch FROM d.due_at) * 1000)::bigint), 12, '0') || '8' || substr(d.hex, 1, 3)
               || '8' || substr(d.hex, 4, 15))::uuid AS id,
           lpad(to_hex(d.n * 31 % 40 + 1), 32, '0')::uuid AS actor,
           100 + d.n * 48611 % 250000 AS amount,
           (ARRAY['EUR', 'EUR', 'EUR', 'EUR', 'USD', 'GBP', 'JPY', 'KWD'])[d.n * 13 % 8 + 1] AS currency,
           CASE WHEN d.n / 3 % 5 = 4 THEN 'second' ELSE 'sandbox' END AS gateway
    FROM (SELECT n, '{day} 00:00:00Z'::timestamptz + floor((n - 0.5) * 86400000 / {many}) * interval '1 ms' AS due_at,
                 md5('{day}' || n) AS hex, '{now}'::timestamptz AS now
          FROM generate_series(1, {many}) AS n) AS d
), given AS MATERIALIZED (
    SELECT d.*, (d.due_at AT TIME ZONE 'UTC')::date AS due_day, s.status, r.reason, a.sent,
           CASE WHEN a.sent THEN 'ch_' || d.hex END AS reference,
           d.due_at + interval '40 ms' AS claimed_at, d.due_at + interval '75 ms' AS settled_at
    FROM drawn d
    CROSS JOIN LATERAL (SELECT CASE
        WHEN NOT d.is_past THEN CASE WHEN d.n % 33 = 5 THEN 'CANCELLED' ELSE 'PENDING' END
        WHEN d.due_at > d.now - interval '2 days' AND d.n % 100 = 3 THEN 'UNKNOWN'
        WHEN d.due_at > d.now - interval '1 day' AND d.n % 100 = 13 THEN 'PENDING'
        WHEN d.n % 125 = 7 THEN 'PARKED' WHEN d.n % 50 = 21 THEN 'FAILED' WHEN d.n % 50 = 33 THEN 'CANCELLED'
        ELSE 'COMPLETED' END) AS s (status)
    CROSS JOIN LATERAL (SELECT d.is_past AND s.status <> 'CANCELLED') AS a (sent)
    CROSS JOIN LATERAL (SELECT CASE s.status
        WHEN 'PARKED' THEN (ARRAY['outcome_unknown', 'budget_exhausted', 'contract_violation', 'unproven_decline',
                                  'held_back_too_long', 'outcome_unknown'])[d.n % 6 + 1]
        WHEN 'FAILED' THEN (ARRAY['declined_hard', 'declined_too_often', 'budget_exhausted'])[d.n % 3 + 1]
        WHEN 'UNKNOWN' THEN 'outcome_unknown' WHEN 'CANCELLED' THEN 'cancelled_by_client'
        WHEN 'PENDING' THEN CASE WHEN d.is_past THEN 'declined_soft' END END) AS r (reason)
), first AS MATERIALIZED (
    SELECT g.*, history_hash(decode(repeat('00', 32), 'hex'), g.id, 1, '-', 'PENDING', 'created', 'api', 0, 0, 0,
                             g.created_at, '{}') AS hash1
    FROM given g
), second AS MATERIALIZED (
    SELECT f.*, CASE
        WHEN f.sent THEN history_hash(f.hash1, f.id, 2, 'PENDING', 'PROCESSING', 'claimed', 'w/1', 1, 1, 0,
                                      f.claimed_at, '{}')
        WHEN f.status = 'CANCELLED' THEN history_hash(f.hash1, f.id, 2, 'PENDING', 'CANCELLED', 'cancelled', 'api',
                                                      0, 0, 0, f.created_at + interval '5 s', '{}') END AS hash2
    FROM first f
), third AS MATERIALIZED (
    SELECT s.*, CASE WHEN s.sent THEN history_hash(s.hash2, s.id, 3, 'PROCESSING', s.status, 'settled', 'w/1', 1, 1, 0,
                                                   s.settled_at, '{}') END AS hash3
    FROM second s
), payment AS (
    INSERT INTO payments (due_day, id, actor_id, status, status_reason, due_at, next_attempt_at, gateway, amount_minor,
        currency, attempt, sends, epoch, epoch_first_sent_at, unanswered, gateway_account, renderer, gateway_ref, fence,
        max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
    SELECT t.due_day, t.id, t.actor, t.status, t.reason, t.due_at,
           CASE WHEN t.is_past AND t.status IN ('PENDING', 'UNKNOWN')
                THEN t.now + interval '1 hour' + t.n % 7200 * interval '1 s' ELSE t.due_at END,
           t.gateway, t.amount, t.currency, t.sent::int, t.sent::int, 0, CASE WHEN t.sent THEN t.claimed_at END,
           (t.status = 'UNKNOWN' OR t.status = 'PARKED' AND t.reason = 'outcome_unknown')::int,
           CASE WHEN t.sent THEN t.gateway || '-1' END, CASE WHEN t.sent THEN 1 END,
           CASE WHEN t.status = 'COMPLETED' THEN t.reference END, t.sent::int, 6, 'retry', 'park', t.n % 8,
           t.created_at, CASE WHEN t.sent THEN t.settled_at WHEN t.hash2 IS NULL THEN t.created_at
                              ELSE t.created_at + interval '5 s' END,
           CASE WHEN t.sent THEN 3 WHEN t.hash2 IS NULL THEN 1 ELSE 2 END,
           coalesce(t.hash3, t.hash2, t.hash1), pg_current_xact_id()
    FROM third t
), details AS (
    INSERT INTO payment_details (due_day, id, payee_sealed, description, metadata, external_id, field_digests)
    SELECT t.due_day, t.id, 'sim_ok', 'Invoice ' || t.n, jsonb_build_object('order', t.hex), NULL, '{}' FROM third t
), keys AS (
    INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
    SELECT t.actor, t.id::text, decode(repeat('00', 32), 'hex'), t.id, t.due_at, t.created_at FROM third t
), attempt AS (
    INSERT INTO attempts (due_day, payment_id, attempt, epoch, claim_id, fence, worker, was, claimed_at, settled_at,
                          settled_to, verdict, how, code, http_status, took_ms)
    SELECT t.due_day, t.id, 1, 0, gen_random_uuid(), 1, 'w/1', 'PENDING', t.claimed_at, t.settled_at, t.status,
           CASE WHEN t.status = 'COMPLETED' THEN 'charged' WHEN t.status = 'UNKNOWN' OR t.reason = 'outcome_unknown'
                THEN 'unknown' ELSE 'declined' END, 'sent', NULL,
           CASE WHEN t.status = 'COMPLETED' THEN 200 WHEN t.status = 'UNKNOWN' THEN NULL ELSE 402 END, 35
    FROM third t WHERE t.sent
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail, hash,
                                 xid, actor_id)
    SELECT t.id, m.seq, m.was, m.became, m.cause, m.done_by, m.fence, m.fence, 0, m.at, '{}', m.hash,
           pg_current_xact_id(), t.actor
    FROM third t
    CROSS JOIN LATERAL (VALUES
        (1, '-', 'PENDING', 'created', 'api', 0, t.created_at, t.hash1),
        (2, 'PENDING', CASE WHEN t.sent THEN 'PROCESSING' ELSE 'CANCELLED' END,
            CASE WHEN t.sent THEN 'claimed' ELSE 'cancelled' END, CASE WHEN t.sent THEN 'w/1' ELSE 'api' END,
            t.sent::int, CASE WHEN t.sent THEN t.claimed_at ELSE t.created_at + interval '5 s' END, t.hash2),
        (3, 'PROCESSING', t.status, 'settled', 'w/1', 1, t.settled_at, t.hash3))
        AS m (seq, was, became, cause, done_by, fence, at, hash)
    WHERE m.hash IS NOT NULL
), parked AS (
    INSERT INTO parked (payment_id, reason, parked_at, evidence, actor_id, gateway, amount_minor, currency)
    SELECT t.id, t.reason, t.settled_at, '{}', t.actor, t.gateway, t.amount, t.currency
    FROM third t WHERE t.status = 'PARKED'
), notices AS (
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    SELECT t.n % 48, t.id, t.due_day, t.gateway, t.n % 8, t.due_at, t.due_at, 0
    FROM third t WHERE t.status = 'PENDING' AND NOT t.is_past
)
INSERT INTO gateway_refs (gateway, reference, payment_id)
SELECT t.gateway, t.reference, t.id FROM third t WHERE t.status = 'COMPLETED'";
