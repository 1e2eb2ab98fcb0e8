-- Called by resend_webhook_delivery: owed again, from now, with the whole ladder before it.
-- Index: the primary key of the event's day. Zero rows: there is none, or it is being sent at this moment.
--   $1 endpoint   $2 instant of the event   $3 payment   $4 number   $5 actor
UPDATE webhook_deliveries d SET
    status = 'pending',
    next_try_at = clock_timestamp(),
    rung = 0,
    -- Of a sender that died: what it may still note is behind the fence.
    lease_holder = NULL,
    lease_until = NULL,
    fence = d.fence + 1,
    delivered_at = NULL
WHERE d.endpoint_id = $1 AND d.event_at = $2 AND d.payment_id = $3 AND d.seq = $4
  AND (d.lease_until IS NULL OR d.lease_until <= clock_timestamp())
  AND EXISTS (SELECT 1 FROM webhook_endpoints e
              WHERE e.id = $1 AND e.actor_id = $5 AND e.deleted_at IS NULL)
RETURNING d.event_at
