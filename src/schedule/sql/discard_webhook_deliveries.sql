-- Called by the keeper: what endpoints are still owed that were deleted, or have been disabled for too long; the latter
-- have it counted. What is being sent right now is left to its end; what a sender that died was sending is not.
-- Index: webhook_deliveries_due; the endpoints are few. One row, always: how many were discarded.
--   $1 at most so many
WITH given_up AS (
    -- Held, so that none is enabled meanwhile; one that is being enabled is left alone.
    SELECT e.id FROM webhook_endpoints e
    WHERE e.deleted_at IS NOT NULL OR e.owed_until <= statement_timestamp()
    ORDER BY e.id
    FOR NO KEY UPDATE SKIP LOCKED
),
owed AS (
    SELECT o.endpoint_id, o.event_at, o.payment_id, o.seq
    FROM given_up g
    CROSS JOIN LATERAL (
        SELECT w.endpoint_id, w.event_at, w.payment_id, w.seq
        FROM webhook_deliveries w
        WHERE w.endpoint_id = g.id AND w.status = 'pending'
          AND (w.lease_until IS NULL OR w.lease_until <= clock_timestamp())
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS o
    LIMIT $1
),
discarded AS (
    UPDATE webhook_deliveries d SET
        status = 'discarded', lease_holder = NULL, lease_until = NULL, fence = d.fence + 1
    FROM owed
    WHERE d.endpoint_id = owed.endpoint_id AND d.event_at = owed.event_at AND d.payment_id = owed.payment_id
      AND d.seq = owed.seq AND d.status = 'pending'
    RETURNING d.endpoint_id, d.seq
),
counted AS (
    UPDATE webhook_endpoints e SET skipped = e.skipped + c.count
    FROM (SELECT d.endpoint_id, count(*) AS count FROM discarded d WHERE d.seq > 0 GROUP BY d.endpoint_id) AS c
    WHERE e.id = c.endpoint_id AND e.deleted_at IS NULL
)
SELECT count(*) AS discarded FROM discarded
