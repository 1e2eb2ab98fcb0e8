-- Called by create_batch: what create.sql does, for many payments of one actor at once. Keys are taken in
-- order, so that two batches wait for each other's in the same one.
-- Index: the idempotency key's. A row that is missing in the answer: its key is taken (found_keys.sql tells by
-- what). Error PU001: a live payment has one of the external ids; PU002, PU003: together they are more than a daily
-- cap of the actor leaves (amount, number of payments); PU004: what one of the keys means was charged under another due
-- time before a restore (R18). Nothing of this statement stays then.
--   $1 actor              $2 lane             $3 traceparent        $4 keys        $5 request hashes
--   $6 ids                $7 due days         $8 due at             $9 execute before
--   $10 execute within, seconds               $11 first attempts at $12 gateways   $13 amounts
--   $14 currencies        $15 max sends       $16 on soft decline   $17 on exhausted
--   $18 payees            $19 descriptions    $20 metadata          $21 external ids
--   $22 digests           $23 shards
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), wanted AS MATERIALIZED (
    SELECT w.*
    FROM unnest($4::text[], $5::bytea[], $6::uuid[], $7::date[], $8::timestamptz[], $9::timestamptz[], $10::integer[],
                $11::timestamptz[], $12::text[], $13::bigint[], $14::text[], $15::smallint[], $16::text[], $17::text[],
                $18::bytea[], $19::text[], $20::jsonb[], $21::text[], $22::jsonb[], $23::smallint[])
        AS w (key, request_hash, id, due_day, due_at, execute_before, execute_within_s, first_at, gateway, amount_minor,
              currency, max_sends, on_soft_decline, on_exhausted, payee, description, metadata, external_id, digests,
              shard)
), key AS (
    -- A concurrent duplicate waits here for the first one's COMMIT, and then makes nothing.
    INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
    SELECT $1, w.key, w.request_hash, w.id, w.due_at, m.at FROM wanted w, moment m ORDER BY w.key
    ON CONFLICT DO NOTHING
    RETURNING payment_id, created_at
), made AS MATERIALIZED (
    SELECT w.*, k.created_at,
           history_hash(decode(repeat('00', 32), 'hex'), w.id, 1, '-', 'PENDING', 'created', 'actor:' || $1::text,
               0, 0, 0, k.created_at, '{}') AS history_hash
    FROM key k JOIN wanted w ON w.id = k.payment_id
), payment AS (
    INSERT INTO payments (due_day, id, actor_id, status, due_at, execute_before, execute_within_s, next_attempt_at, gateway,
        amount_minor, currency, max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at,
        history_seq, history_hash, last_xid)
    SELECT m.due_day, m.id, $1, 'PENDING', m.due_at, m.execute_before, m.execute_within_s, m.first_at, m.gateway,
        m.amount_minor, m.currency, m.max_sends, m.on_soft_decline, m.on_exhausted, $2, m.created_at, m.created_at,
        1, m.history_hash, pg_current_xact_id()
    FROM made m
    RETURNING *
), detail AS (
    INSERT INTO payment_details (due_day, id, payee_sealed, description, metadata, external_id, traceparent, field_digests)
    SELECT m.due_day, m.id, m.payee, m.description, m.metadata, m.external_id, $3, m.digests FROM made m
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT m.id, 1, '-', 'PENDING', 'created', 'actor:' || $1::text, 0, 0, 0, m.created_at, '{}', m.history_hash,
           pg_current_xact_id(), $1
    FROM made m
), external AS (
    INSERT INTO external_ids (actor_id, external_id, payment_id)
    -- In order, so that two batches wait for each other's ids in the same one.
    SELECT $1, m.external_id, m.id FROM made m WHERE m.external_id IS NOT NULL ORDER BY m.external_id
    ON CONFLICT DO NOTHING
    RETURNING 1
), notice AS (
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt, traceparent)
    SELECT m.shard, m.id, m.due_day, m.gateway, $2, m.due_at, m.first_at, 0, $3 FROM made m
), spent AS (
    -- See create.sql. Currencies in order, so that two batches wait for each other's days in the same one.
    INSERT INTO actor_days AS d (actor_id, day, currency, amount_minor, payments)
    SELECT $1, (min(m.created_at) AT TIME ZONE 'UTC')::date, m.currency, sum(m.amount_minor)::bigint, count(*)
    FROM made m JOIN actor_caps c ON c.actor_id = $1 AND c.currency = m.currency
    GROUP BY m.currency ORDER BY m.currency
    ON CONFLICT (actor_id, day, currency) DO UPDATE SET
        amount_minor = d.amount_minor + excluded.amount_minor, payments = d.payments + excluded.payments
    RETURNING d.currency, d.amount_minor, d.payments
), older AS (
    -- See create.sql.
    UPDATE installation i SET oldest_open_day = least(i.oldest_open_day, o.day)
    FROM (SELECT min(m.due_day) AS day FROM made m) AS o
    WHERE o.day < (now() AT TIME ZONE 'UTC')::date - 1
)
SELECT p.*,
       CASE WHEN (SELECT count(*) FROM external) < (SELECT count(*) FROM made m WHERE m.external_id IS NOT NULL)
            THEN refuse_external_id() END AS external_id_refused,
       (SELECT refuse_daily_cap(CASE WHEN s.amount_minor > c.amount_minor THEN 'amount' ELSE 'payments' END)
        FROM spent s JOIN actor_caps c ON c.actor_id = $1 AND c.currency = s.currency
        WHERE s.amount_minor > c.amount_minor OR s.payments > c.payments LIMIT 1) AS cap_refused,
       CASE WHEN EXISTS (SELECT 1 FROM lost_charges x WHERE x.intent = payment_intent(p.id) AND x.payment_id <> p.id)
            THEN refuse_charged_before() END AS charged_before_refused
FROM payment p
