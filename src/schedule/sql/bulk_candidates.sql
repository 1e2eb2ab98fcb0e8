-- Called by step_bulk, in its transaction: the next payments of a bulk re-drive, first due first.
-- Index: the primary key of the parked list, from where the last batch left off. Zero rows: the end.
--   $1, $2 between these payments   $3 reason   $4 gateway   $5 actor, null each for any   $6 parked until
--   $7 limit
SELECT h.payment_id, h.amount_minor
FROM parked h
WHERE h.payment_id > $1 AND h.payment_id < $2
  AND ($3::text IS NULL OR h.reason = $3) AND ($4::text IS NULL OR h.gateway = $4)
  AND ($5::uuid IS NULL OR h.actor_id = $5) AND h.parked_at <= $6
ORDER BY h.payment_id
LIMIT $7
