-- Called by the keeper and for people: how each gateway's reconciliation stands.
-- Index: reconciliation_items_unsettled; reports are few. Zero rows: nothing was ever reconciled.
WITH done AS (
    SELECT r.gateway, max(r.finished_at) FILTER (WHERE r.status = 'compared' AND r.is_complete) AS last_success_at,
           max(r.day) FILTER (WHERE r.status = 'compared' AND r.is_complete) AS last_day
    FROM reconciliation_runs r
    GROUP BY r.gateway
), unsettled AS (
    SELECT i.gateway, i.class, i.status, count(*) AS count
    FROM reconciliation_items i
    WHERE i.status IN ('open', 'waiting')
    GROUP BY 1, 2, 3
), books AS (
    SELECT b.gateway, sum(b.apart) AS apart
    FROM reconciliation_books b
    WHERE b.due_day > (SELECT max(n.due_day) - 8 FROM reconciliation_books n WHERE n.gateway = b.gateway)
    GROUP BY 1
)
SELECT d.gateway, d.last_success_at, d.last_day, u.class, u.status, u.count, coalesce(b.apart, 0)::bigint AS sums_apart
FROM done d LEFT JOIN books b ON b.gateway = d.gateway LEFT JOIN unsettled u ON u.gateway = d.gateway
ORDER BY d.gateway, u.class, u.status
