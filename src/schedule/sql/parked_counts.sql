-- Called by parked_counts: what is parked, by reason and gateway, of the first $1 entries.
-- Index: the parked list's primary key, no further than $1. Zero rows: nothing is parked.
--   $1 entries at most
SELECT f.reason, f.gateway, count(*) AS count, min(f.parked_at) AS oldest
FROM (SELECT h.reason, h.gateway, h.parked_at FROM parked h ORDER BY h.payment_id LIMIT $1) AS f
GROUP BY f.reason, f.gateway
ORDER BY count(*) DESC, f.reason, f.gateway
