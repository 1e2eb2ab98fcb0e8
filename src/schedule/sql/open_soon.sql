-- Called by unnoticed: what falls due soon, page by page in due order. What is late already is the late scan's.
-- Index: payments_claimable of each open day, merged; rows of one instant are sorted by id.
-- Zero rows: nothing more falls due.
--   $1 oldest open day   $2 last due day   $3 gateway   $4 instant, $5 payment id: behind this place
--   $6 up to this instant   $7 how many
SELECT p.id, p.next_attempt_at
FROM payments p
WHERE p.due_day BETWEEN $1 AND $2
  AND p.gateway = $3
  AND p.status IN ('PENDING', 'UNKNOWN')
  AND p.next_attempt_at >= $4 AND p.next_attempt_at <= $6
  AND (p.next_attempt_at, p.id) > ($4, $5)
ORDER BY p.next_attempt_at, p.id
LIMIT $7
