-- Called by notice_again, once per due day: writes the notices of open payments into the outbox again. One that
-- moved meanwhile wrote its own; a notice too many is refused by the claim.
-- Index: the partition's primary key, or payments_claimable where few are claimable. Zero rows written: none of them is open any more.
--   $1 due day   $2 payment ids   $3 their shards
INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt, traceparent)
SELECT s.shard, p.id, p.due_day, p.gateway, p.lane, p.due_at, p.next_attempt_at, p.attempt, d.traceparent
FROM unnest($2::uuid[], $3::smallint[]) AS s (id, shard)
JOIN payments p ON p.due_day = $1 AND p.id = s.id
LEFT JOIN payment_details d ON d.due_day = $1 AND d.id = s.id
WHERE p.status IN ('PENDING', 'UNKNOWN') AND p.next_attempt_at >= statement_timestamp() - interval '1 minute'
