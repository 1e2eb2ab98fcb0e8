-- Called by webhook_standings: every client's endpoints, those that need somebody first, with what each is owed and
-- what failed, counted up to $2. The address is its host alone: a path may hold a client's secret.
-- Index: none for the endpoints, which are few; webhook_deliveries_due and webhook_deliveries_failed of each day that
-- is kept. Zero rows: nobody has one.
--   $1 endpoints at most   $2 counted at most
SELECT e.id, a.name AS actor, coalesce(substring(e.url FROM '^https?://([^/?#]+)'), '') AS host, e.description,
       e.disabled_at, e.disabled_reason, e.failing_since, e.last_success_at, e.hold_until, o.owed, o.oldest, f.failed
FROM (
    SELECT w.* FROM (
        SELECT x.id, x.actor_id, x.url, x.description, x.disabled_at, x.disabled_reason, x.failing_since,
               x.last_success_at, x.hold_until, x.created_at
        FROM webhook_endpoints x
        WHERE x.deleted_at IS NULL
    ) AS w
    ORDER BY w.failing_since NULLS LAST, w.disabled_at DESC NULLS LAST, w.created_at, w.id
    LIMIT $1
) AS e
JOIN actors a ON a.id = e.actor_id
CROSS JOIN LATERAL (
    SELECT count(*) AS owed, min(n.next_try_at) AS oldest
    FROM (SELECT d.next_try_at FROM webhook_deliveries d
          WHERE d.endpoint_id = e.id AND d.status = 'pending'
          ORDER BY d.next_try_at LIMIT $2) AS n
) AS o
CROSS JOIN LATERAL (
    SELECT count(*) AS failed
    FROM (SELECT FROM webhook_deliveries d
          WHERE d.endpoint_id = e.id AND d.status = 'failed' AND d.event_at > '-infinity'
          LIMIT $2) AS n
) AS f
ORDER BY e.failing_since NULLS LAST, e.disabled_at DESC NULLS LAST, e.created_at, e.id
