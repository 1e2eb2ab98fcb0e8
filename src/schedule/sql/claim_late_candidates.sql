-- Called by claim_late: what Kafka did not bring in time, oldest first. Rows locked by others are
-- theirs. Followed by claim.sql in the same transaction.
-- Index: payments_claimable of each open day, merged in order. Zero rows: nothing is late.
-- statement_timestamp() and not clock_timestamp(): the latter is volatile and defeats the index.
-- Passing over lanes is a filter: it reads what it passes over (measured: 75 ms and 14,400 buffers for
-- 100,000 rows of one lane, where the same without lanes to pass over takes 0.4 ms), so who asks so seldom
-- asks. With lane as the third column of the index it would be 1 ms for one lane and no help for many, and
-- every claim would carry the wider entry. What is switched off by actor or currency is passed over in the
-- same way and at the same price, so who meets it waits longer until the next scan (worker/late_scan.rs).
--   $1 oldest open day   $2 today   $3 gateway   $4 late by   $5 how many   $6 lanes to pass over
--   $7 actors and $8 currencies that are switched off
SELECT p.due_day, p.id, p.attempt
FROM payments p
WHERE p.due_day BETWEEN $1 AND $2
  AND p.gateway = $3
  AND p.status IN ('PENDING', 'UNKNOWN')
  AND p.next_attempt_at <= statement_timestamp() - $4::interval
  AND p.lane <> ALL ($6::smallint[])
  AND p.actor_id::text <> ALL ($7::text[])
  AND p.currency <> ALL ($8::text[])
ORDER BY p.next_attempt_at
LIMIT $5
FOR UPDATE SKIP LOCKED
