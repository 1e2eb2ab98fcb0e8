-- Called by reap: claims whose lease ended $3 ago, oldest first. Locked by others: being settled just now.
-- Index: payments_leased of each open day. Zero rows: no lease has run out.
--   $1 oldest open day   $2 today   $3 margin   $4 how many
SELECT p.due_day, p.id
FROM payments p
WHERE p.due_day BETWEEN $1 AND $2
  AND p.status = 'PROCESSING'
  AND p.lease_until <= statement_timestamp() - $3::interval
ORDER BY p.lease_until
LIMIT $4
FOR UPDATE SKIP LOCKED
