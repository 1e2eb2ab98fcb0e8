-- Called by settle for claims that are not current, in the same transaction: our own earlier COMMIT
-- that got through, or a fence.
-- Index: the partition's primary key (attempts of a payment are few). A missing row: a claim that
-- this database never saw.
--   $1 due day   $2 payment ids   $3 claim ids
SELECT t.payment_id AS id, t.claim_id, t.settled_at, t.settled_to, t.verdict, t.fenced
FROM attempts t
WHERE t.due_day = $1 AND t.payment_id = ANY ($2) AND t.claim_id = ANY ($3)
