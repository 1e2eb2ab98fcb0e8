-- Called by webhook_delivery: one event that an endpoint was or is owed.
-- Index: the primary key of the event's day. Zero rows: it never was, or its day is dropped.
--   $1 endpoint   $2 instant of the event   $3 payment   $4 number
SELECT d.event_at, d.payment_id, d.seq, d.event_type, d.made_at, d.status, d.next_try_at, d.tries, d.last_status,
    d.last_error, d.delivered_at, d.lease_until > clock_timestamp() AS is_under_way
FROM webhook_deliveries d
WHERE d.endpoint_id = $1 AND d.event_at = $2 AND d.payment_id = $3 AND d.seq = $4
