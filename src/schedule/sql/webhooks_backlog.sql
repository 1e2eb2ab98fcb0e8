-- Called by webhook_backlog: what is owed to endpoints that can be called, up to $1, and since when the first of
-- it waits although it is due and its endpoint does not rest.
-- Index: webhook_deliveries_due of each day that is kept. One row, always.
--   $1 most counted
SELECT count(*) AS owed,
       coalesce(extract(epoch FROM max(statement_timestamp() - o.next_try_at)
           FILTER (WHERE o.next_try_at < statement_timestamp() AND NOT o.rests)), 0)::float8 AS oldest_s
FROM (
    SELECT d.next_try_at, coalesce(e.hold_until > statement_timestamp(), false) AS rests
    FROM webhook_endpoints e
    CROSS JOIN LATERAL (SELECT p.next_try_at FROM webhook_deliveries p
                        WHERE p.endpoint_id = e.id AND p.status = 'pending'
                        ORDER BY p.next_try_at LIMIT $1) AS d
    WHERE e.deleted_at IS NULL AND e.disabled_at IS NULL
    LIMIT $1
) AS o
