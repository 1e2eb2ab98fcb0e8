-- Called by audit: the claims of a window's payments, by payment and number.
-- Index: the partitions' primary keys. Zero rows: none was claimed.
--   $1 first due day   $2 last due day
SELECT t.payment_id, t.attempt, t.epoch, t.claim_id, t.fence, t.worker, t.was, t.claimed_at, t.settled_at, t.settled_to,
       t.verdict, t.how, t.code, t.fenced
FROM attempts t
WHERE t.due_day BETWEEN $1 AND $2
ORDER BY t.payment_id, t.attempt
