-- Called by find: a payment's attempts, oldest first.
-- Index: the partition's primary key. Zero rows: never claimed.
--   $1 due day   $2 payment id
SELECT t.attempt, t.epoch, t.claim_id, t.fence, t.worker, t.claimed_at, t.settled_at, t.verdict, t.code,
       t.http_status, t.took_ms, t.note, t.fenced
FROM attempts t
WHERE t.due_day = $1 AND t.payment_id = $2
ORDER BY t.attempt
