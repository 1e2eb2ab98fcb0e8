-- Called by the keeper: what deleted endpoints are still owed. What is being sent right now is left to its end; what a
-- sender that died was sending is not.
-- Index: webhook_deliveries_due. No rows are answered, only how many were discarded.
--   $1 at most so many
UPDATE webhook_deliveries d SET
    status = 'discarded', lease_holder = NULL, lease_until = NULL, fence = d.fence + 1
FROM (
    SELECT o.endpoint_id, o.event_at, o.payment_id, o.seq
    FROM webhook_endpoints e
    CROSS JOIN LATERAL (
        SELECT w.endpoint_id, w.event_at, w.payment_id, w.seq
        FROM webhook_deliveries w
        WHERE w.endpoint_id = e.id AND w.status = 'pending'
          AND (w.lease_until IS NULL OR w.lease_until <= clock_timestamp())
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS o
    WHERE e.deleted_at IS NOT NULL
    LIMIT $1
) AS owed
WHERE d.endpoint_id = owed.endpoint_id AND d.event_at = owed.event_at AND d.payment_id = owed.payment_id
  AND d.seq = owed.seq AND d.status = 'pending'
