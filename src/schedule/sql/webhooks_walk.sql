-- Called by take_webhooks: the next endpoints behind $1 to which anything is owed, due or not.
-- Index: webhook_deliveries_due of each day that is kept, one look an endpoint: what one endpoint is owed is
-- stepped over and not read. Zero rows: nothing is owed behind $1; begin again from the first.
--   $1 after this endpoint   $2 how many
WITH RECURSIVE owed (endpoint_id, n) AS (
    (SELECT d.endpoint_id, 1 FROM webhook_deliveries d
     WHERE d.status = 'pending' AND d.endpoint_id > $1 AND $2 > 0
     ORDER BY d.endpoint_id LIMIT 1)
    UNION ALL
    SELECT n.endpoint_id, o.n + 1
    FROM owed o
    CROSS JOIN LATERAL (SELECT d.endpoint_id FROM webhook_deliveries d
                        WHERE d.status = 'pending' AND d.endpoint_id > o.endpoint_id
                        ORDER BY d.endpoint_id LIMIT 1) AS n
    WHERE o.n < $2
)
SELECT o.endpoint_id FROM owed o ORDER BY o.endpoint_id
