-- Called by take_webhooks after webhooks_lock, as a statement of its own: what is under way is counted in a
-- snapshot from after the lock. What is due to these endpoints, the one with the least under way first.
-- Index: webhook_deliveries_leased and webhook_deliveries_due of each day that is kept, two looks an endpoint.
-- Zero rows: nothing is due, or there is no room.
--   $1 endpoints that are locked   $2 how many
SELECT d.endpoint_id, d.event_at, d.payment_id, d.seq
FROM webhook_endpoints e
CROSS JOIN LATERAL (
    SELECT count(*) AS busy FROM webhook_deliveries w
    WHERE w.endpoint_id = e.id AND w.lease_until > statement_timestamp()
) AS u
CROSS JOIN LATERAL (
    SELECT w.endpoint_id, w.event_at, w.payment_id, w.seq, w.next_try_at,
           u.busy + row_number() OVER (ORDER BY w.next_try_at) AS place
    FROM (
        SELECT p.endpoint_id, p.event_at, p.payment_id, p.seq, p.next_try_at
        FROM webhook_deliveries p
        WHERE p.endpoint_id = e.id AND p.status = 'pending' AND p.next_try_at <= statement_timestamp()
        ORDER BY p.next_try_at
        -- One at a time finds out whether an endpoint that fails is back.
        LIMIT greatest(least($2, CASE WHEN e.failing_since < statement_timestamp() - interval '5 seconds' THEN 1
                                      ELSE e.max_concurrency END - u.busy), 0)
    ) AS w
) AS d
WHERE e.id = ANY ($1)
ORDER BY d.place, d.next_try_at
LIMIT $2
