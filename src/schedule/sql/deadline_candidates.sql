-- Called by reap: clean payments past executeBefore, oldest deadline first.
-- Index: payments_with_deadline of each open day. Zero rows: no deadline has passed. A deadline lies
-- after its due time, so no day after today can have one that passed.
--   $1 oldest open day   $2 today   $3 how many
SELECT p.due_day, p.id
FROM payments p
WHERE p.due_day BETWEEN $1 AND $2
  AND p.status = 'PENDING' AND p.unanswered = 0
  AND p.execute_before IS NOT NULL AND p.execute_before <= statement_timestamp()
ORDER BY p.execute_before
LIMIT $3
FOR UPDATE SKIP LOCKED
