-- Called by webhook_deliveries: those of them that failed, newest event first.
-- Index: webhook_deliveries_failed of each day, newest day first. Zero rows: the end.
--   $1 endpoint   $2, $3, $4 instant, payment and number of the event before   $5 limit
SELECT d.event_at, d.payment_id, d.seq, d.event_type, d.made_at, d.status, d.next_try_at, d.tries, d.last_status,
    d.last_error, d.delivered_at, d.lease_until > clock_timestamp() AS is_under_way
FROM webhook_deliveries d
WHERE d.endpoint_id = $1 AND d.event_at <= $2 AND (d.event_at, d.payment_id, d.seq) < ($2, $3, $4)
  AND d.status = 'failed'
ORDER BY d.event_at DESC, d.payment_id DESC, d.seq DESC
LIMIT $5
