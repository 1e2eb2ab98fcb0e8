-- Called by defer, once per due day: rows that are durable, claimable and overdue, which the late scan
-- therefore owns (R11).
-- Index: the partition's primary key. A missing row: it is not so; the record stays open.
--   $1 due day   $2 payment ids   $3 attempts
SELECT p.id, p.attempt
FROM unnest($2::uuid[], $3::integer[]) AS a (id, attempt)
JOIN payments p ON p.due_day = $1 AND p.id = a.id AND p.attempt = a.attempt
WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.status IN ('PENDING', 'UNKNOWN')
  AND p.next_attempt_at <= clock_timestamp()
