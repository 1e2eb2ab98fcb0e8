-- Called by create_bulk, in its transaction: what a bulk re-drive would look at, counted whole.
-- Index: the primary key of the parked list; all entries of the span are read, once for each bulk re-drive. Zero
-- rows: nothing fits.
--   $1, $2 between these payments   $3 reason   $4 gateway   $5 actor, null each for any   $6 parked until
--   $7 largest amount that one person may release
SELECT h.reason, h.currency, count(*) AS count, sum(h.amount_minor)::bigint AS amount_minor,
       count(*) FILTER (WHERE h.amount_minor IS NULL OR h.amount_minor > $7) AS needs_approval
FROM parked h
WHERE h.payment_id > $1 AND h.payment_id < $2
  AND ($3::text IS NULL OR h.reason = $3) AND ($4::text IS NULL OR h.gateway = $4)
  AND ($5::uuid IS NULL OR h.actor_id = $5) AND h.parked_at <= $6
GROUP BY h.reason, h.currency
ORDER BY h.reason, h.currency
