-- Called by resend_failed_webhooks: some of what failed on one day is owed again, oldest event first.
-- Index: webhook_deliveries_failed of that day, then its primary key. No rows are answered, only how many; fewer than
-- the limit: no more are left on that day, but for those that another statement holds.
--   $1 endpoint   $2 first instant of events   $3 first instant not wanted, on the same day   $4 limit   $5 actor
UPDATE webhook_deliveries d SET
    status = 'pending', next_try_at = clock_timestamp(), rung = 0, fence = d.fence + 1
FROM (
    SELECT w.endpoint_id, w.event_at, w.payment_id, w.seq
    FROM webhook_deliveries w
    WHERE w.endpoint_id = $1 AND w.event_at >= $2 AND w.event_at < $3 AND w.status = 'failed'
      AND EXISTS (SELECT 1 FROM webhook_endpoints e
                  WHERE e.id = $1 AND e.actor_id = $5 AND e.deleted_at IS NULL)
    ORDER BY w.event_at
    LIMIT $4
    FOR UPDATE OF w SKIP LOCKED
) AS f
WHERE d.endpoint_id = $1 AND d.event_at >= $2 AND d.event_at < $3 AND d.event_at = f.event_at
  AND d.payment_id = f.payment_id AND d.seq = f.seq AND d.status = 'failed'
