-- Called by reap: clean payments past executeBefore whose next attempt is due; a retry that is not due
-- yet finds its deadline when it is claimed.
-- Index: payments_claimable of each open day. Zero rows: no deadline has passed.
--   $1 oldest open day   $2 today   $3 how many
SELECT p.due_day, p.id
FROM payments p
WHERE p.due_day BETWEEN $1 AND $2
  AND p.gateway = ANY (ARRAY(SELECT g.name FROM gateways g))
  AND p.next_attempt_at <= statement_timestamp()
  AND p.status IN ('PENDING', 'UNKNOWN') AND p.status = 'PENDING' AND p.unanswered = 0
  AND p.execute_before <= statement_timestamp()
LIMIT $3
FOR UPDATE SKIP LOCKED
