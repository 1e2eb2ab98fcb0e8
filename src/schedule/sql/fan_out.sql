-- Called by fan_out: what these events owe to whom. In the transaction that moves the cursor, so that nothing is
-- passed and not owed; and once, however often a cursor starts over.
-- Index: webhook_endpoints_of_actor; the primary key of the events' days. One row, always: how many are owed since, and
-- how many are not because their endpoint has been disabled for too long.
--   $1 payment ids   $2 seqs   $3 instants   $4 actors   $5 types
WITH wanted AS MATERIALIZED (
    SELECT e.id, h.at, h.payment_id, h.seq, h.type, coalesce(e.owed_until <= h.at, false) AS is_given_up
    FROM unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::uuid[], $5::text[]) AS h (payment_id, seq, at, actor_id, type)
    JOIN webhook_endpoints e ON e.actor_id = h.actor_id AND e.deleted_at IS NULL
        -- Also of one that is disabled, for a while: it is sent what it missed once it is enabled.
        -- What happened before it was made is not told to it.
        AND e.created_at <= h.at
        AND (cardinality(e.event_types) = 0 OR h.type = ANY (e.event_types))
),
skipped AS (
    UPDATE webhook_endpoints e SET skipped = e.skipped + w.count
    FROM (SELECT g.id, count(*) AS count FROM wanted g WHERE g.is_given_up GROUP BY g.id) AS w
    -- Asked again of the row as it stands: one that was enabled a moment ago is owed.
    WHERE e.id = w.id AND e.owed_until IS NOT NULL
    RETURNING e.id, w.count
),
owed AS (
    INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status, next_try_at)
    SELECT w.id, w.at, w.payment_id, w.seq, w.type, clock_timestamp(), 'pending', statement_timestamp()
    FROM wanted w
    WHERE NOT w.is_given_up OR w.id NOT IN (SELECT s.id FROM skipped s)
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT (SELECT count(*) FROM owed) AS owed, (SELECT coalesce(sum(s.count), 0)::bigint FROM skipped s) AS skipped
