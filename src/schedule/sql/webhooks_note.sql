-- Called by note_webhooks, once per day of events: what the tries met, with a line in the log for each.
-- Index: the day's primary key. A missing row: its lease was taken over or it was sent again by its owner; what
-- this try met changes nothing. What failed for good at an address that its owner has changed since is owed to the new
-- one.
--   $1 from instant   $2 to instant   $3 holder   $4 endpoints   $5 instants   $6 payment ids   $7 seqs   $8 fences
--   $9 becomes   $10 waits in microseconds   $11 begun at   $12 took ms   $13 statuses   $14 errors   $15 excerpts
--   $16 urls that were called
WITH met AS (
    SELECT * FROM unnest($4::uuid[], $5::timestamptz[], $6::uuid[], $7::int[], $8::bigint[], $9::text[], $10::bigint[],
                         $11::timestamptz[], $12::int[], $13::smallint[], $14::text[], $15::text[], $16::text[])
        AS m (endpoint_id, event_at, payment_id, seq, fence, becomes, wait_us, at, took_ms, status, error, excerpt, url)
),
judged AS (
    SELECT m.*, m.becomes = 'failed' AND EXISTS (
        SELECT FROM webhook_endpoints e
        WHERE e.id = m.endpoint_id AND e.url <> m.url AND e.deleted_at IS NULL) AS has_moved
    FROM met m
),
noted AS (
    UPDATE webhook_deliveries d SET
        status = CASE WHEN m.has_moved THEN 'pending' ELSE m.becomes END,
        next_try_at = clock_timestamp() + m.wait_us * interval '1 microsecond',
        rung = CASE WHEN m.has_moved THEN 0 WHEN m.becomes = 'delivered' THEN d.rung ELSE d.rung + 1 END,
        lease_holder = NULL, lease_until = NULL,
        last_status = m.status, last_error = m.error,
        delivered_at = CASE WHEN m.becomes = 'delivered' THEN clock_timestamp() END
    FROM judged m
    WHERE d.event_at >= $1 AND d.event_at < $2
      AND d.endpoint_id = m.endpoint_id AND d.event_at = m.event_at AND d.payment_id = m.payment_id AND d.seq = m.seq
      AND d.status = 'pending' AND d.lease_holder = $3 AND d.fence = m.fence
    RETURNING d.endpoint_id, d.event_at, d.payment_id, d.seq, d.tries,
              m.at, m.took_ms, m.status, m.error, m.excerpt
)
INSERT INTO webhook_tries (endpoint_id, event_at, payment_id, seq, number, at, took_ms, status, error, excerpt)
SELECT n.endpoint_id, n.event_at, n.payment_id, n.seq, n.tries, n.at, n.took_ms, n.status, n.error, n.excerpt
FROM noted n
RETURNING endpoint_id, payment_id, seq
