-- Called by create: key, payment, details, first history row, external id and due notice in one
-- transaction and one statement.
-- Index: the idempotency key's. Zero rows: the key is taken (found_key.sql tells by what). Error PU001:
-- another live payment has the external id; PU002, PU003: a daily cap of the actor is reached (amount, number of
-- payments); PU004: what the key means was charged under another due time before a restore (R18). Nothing of the statement stays then.
--   $1 actor      $2 key           $3 request hash   $4 id           $5 due day     $6 due at
--   $7 execute before              $8 gateway        $9 amount       $10 currency   $11 max sends
--   $12 on soft decline            $13 on exhausted  $14 lane        $15 payee      $16 description
--   $17 metadata  $18 external id  $19 traceparent   $20 digests     $21 shard
--   $22 first attempt at           $23 execute within, seconds
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), key AS (
    -- A concurrent duplicate waits here for the first one's COMMIT, and then makes nothing.
    INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
    SELECT $1, $2, $3, $4, $6, m.at FROM moment m
    ON CONFLICT DO NOTHING
    RETURNING payment_id, created_at
), payment AS (
    INSERT INTO payments (due_day, id, actor_id, status, due_at, execute_before, execute_within_s, next_attempt_at, gateway,
        amount_minor, currency, max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at,
        history_seq, history_hash, last_xid)
    SELECT $5, $4, $1, 'PENDING', $6, $7, $23, $22, $8, $9, $10, $11, $12, $13, $14, k.created_at, k.created_at, 1,
        history_hash(decode(repeat('00', 32), 'hex'), $4, 1, '-', 'PENDING', 'created', 'actor:' || $1::text, 0, 0, 0,
            k.created_at, '{}'),
        pg_current_xact_id()
    FROM key k
    RETURNING *
), detail AS (
    INSERT INTO payment_details (due_day, id, payee_sealed, description, metadata, external_id, traceparent, field_digests)
    SELECT $5, $4, $15, $16, $17, $18, $19, $20 FROM key
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT p.id, 1, '-', 'PENDING', 'created', 'actor:' || $1::text, 0, 0, 0, p.created_at, '{}', p.history_hash,
           p.last_xid, $1
    FROM payment p
), external AS (
    INSERT INTO external_ids (actor_id, external_id, payment_id)
    SELECT $1, $18, $4 FROM key WHERE $18::text IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING 1
), notice AS (
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt, traceparent)
    SELECT $21, $4, $5, $8, $14, $6, $22, 0, $19 FROM key
), spent AS (
    -- Only of an actor with a cap. A concurrent create of the same actor waits here for the other's COMMIT, and
    -- adds to what that left.
    INSERT INTO actor_days AS d (actor_id, day, currency, amount_minor, payments)
    SELECT $1, (k.created_at AT TIME ZONE 'UTC')::date, $10, $9, 1
    FROM key k JOIN actor_caps c ON c.actor_id = $1 AND c.currency = $10
    ON CONFLICT (actor_id, day, currency) DO UPDATE SET
        amount_minor = d.amount_minor + excluded.amount_minor, payments = d.payments + 1
    RETURNING d.amount_minor, d.payments
), older AS (
    -- A day long past may lie before the bound of the scans; advance_oldest_open_day() takes the
    -- same row lock and then sees this payment, or is followed by this.
    UPDATE installation i SET oldest_open_day = least(i.oldest_open_day, $5) FROM key
    WHERE $5 < (now() AT TIME ZONE 'UTC')::date - 1
)
SELECT p.*,
       CASE WHEN $18::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM external) THEN refuse_external_id() END
           AS external_id_refused,
       (SELECT refuse_daily_cap(CASE WHEN s.amount_minor > c.amount_minor THEN 'amount' ELSE 'payments' END)
        FROM spent s JOIN actor_caps c ON c.actor_id = $1 AND c.currency = $10
        WHERE s.amount_minor > c.amount_minor OR s.payments > c.payments) AS cap_refused,
       -- One look into an index that is almost always empty.
       CASE WHEN EXISTS (SELECT 1 FROM lost_charges x WHERE x.intent = payment_intent($4) AND x.payment_id <> $4)
            THEN refuse_charged_before() END AS charged_before_refused
FROM payment p
