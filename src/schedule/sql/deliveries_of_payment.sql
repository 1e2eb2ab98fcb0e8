-- Called by deliveries_of: what endpoints were and are owed of one payment, in the order of its events.
-- Index: webhook_endpoints_of_actor or all of the few endpoints, and the primary key of each day that an event lies in.
-- Zero rows: nobody is owed any.
--   $1 actor   $2 payment id   $3 instants of its events   $4 limit
SELECT e.id AS endpoint_id, e.url, d.event_at, d.payment_id, d.seq, d.event_type, d.made_at, d.status, d.next_try_at,
    d.tries, d.last_status, d.last_error, d.delivered_at, d.lease_until > clock_timestamp() AS is_under_way
FROM webhook_endpoints e
JOIN webhook_deliveries d ON d.endpoint_id = e.id AND d.event_at = ANY ($3) AND d.payment_id = $2
WHERE e.actor_id = $1
ORDER BY d.seq, e.id
LIMIT $4
