-- Called by fan_out: what these events owe to whom. In the transaction that moves the cursor, so that nothing is
-- passed and not owed; and once, however often a cursor starts over.
-- Index: webhook_endpoints_of_actor; the primary key of the events' days. Zero rows: nobody wants them.
--   $1 payment ids   $2 seqs   $3 instants   $4 actors   $5 types
INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status, next_try_at)
SELECT e.id, h.at, h.payment_id, h.seq, h.type, clock_timestamp(), 'pending', statement_timestamp()
FROM unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::uuid[], $5::text[]) AS h (payment_id, seq, at, actor_id, type)
JOIN webhook_endpoints e ON e.actor_id = h.actor_id AND e.deleted_at IS NULL
    -- Also of one that is disabled: it is sent what it missed once it is enabled.
    -- What happened before it was made is not told to it.
    AND e.created_at <= h.at
    AND (cardinality(e.event_types) = 0 OR h.type = ANY (e.event_types))
ON CONFLICT DO NOTHING
