-- Called by crew: what each worker holds and when an account last heard of it.
-- Index: payments_leased of each open day, and the partitions' primary keys for the attempts. Zero rows: no
-- worker holds a claim and none shares an account.
--   $1 oldest open day   $2 today
WITH claims AS (
    SELECT t.worker, p.gateway, count(*) AS claims, min(t.claimed_at) AS oldest_at
    FROM payments p
    JOIN attempts t ON t.due_day = p.due_day AND t.payment_id = p.id AND t.attempt = p.attempt
    WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'PROCESSING'
    GROUP BY t.worker, p.gateway
), lanes AS (
    SELECT l.worker, g.gateway, l.heard_at, l.demand, l.slots
    FROM gateway_pace g
    CROSS JOIN LATERAL unnest(g.lanes, g.heard_at, g.demands, g.slots) AS l (worker, heard_at, demand, slots)
)
SELECT worker, gateway, coalesce(claims, 0) AS claims, oldest_at, heard_at, demand, slots
FROM claims FULL JOIN lanes USING (worker, gateway)
ORDER BY worker, gateway
