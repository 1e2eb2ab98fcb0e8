-- Called by webhook_delivery: what the tries of one delivery met, newest first.
-- Index: the primary key of the event's day. Zero rows: it was not tried yet.
--   $1 endpoint   $2 instant of the event   $3 payment   $4 number of the event   $5 at most so many
SELECT t.number, t.at, t.took_ms, t.status, t.error, t.excerpt
FROM webhook_tries t
WHERE t.endpoint_id = $1 AND t.event_at = $2 AND t.payment_id = $3 AND t.seq = $4
ORDER BY t.number DESC
LIMIT $5
