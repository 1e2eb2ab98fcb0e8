-- Called by claim_late: what Kafka did not bring in time, oldest first. Rows locked by others are
-- theirs. Followed by claim.sql in the same transaction.
-- Index: payments_claimable of each open day, merged in order. Zero rows: nothing is late.
-- statement_timestamp() and not clock_timestamp(): the latter is volatile and defeats the index.
--   $1 oldest open day   $2 today   $3 gateway   $4 late by   $5 how many
SELECT p.due_day, p.id, p.attempt
FROM payments p
WHERE p.due_day BETWEEN $1 AND $2
  AND p.gateway = $3
  AND p.status IN ('PENDING', 'UNKNOWN')
  AND p.next_attempt_at <= statement_timestamp() - $4::interval
ORDER BY p.next_attempt_at
LIMIT $5
FOR UPDATE SKIP LOCKED
