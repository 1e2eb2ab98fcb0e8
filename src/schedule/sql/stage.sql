-- Called by stage: what is due within the lead, for the shards of one residue, in due order.
-- Index: due_notices_in_order, once per shard; only the partitions of the days between $2 and $3.
-- Zero rows: nothing is due within the lead.
--   $1 shards   $2 oldest instant   $3 read up to this instant   $4 how many
SELECT n.*
FROM unnest($1::smallint[]) AS s (shard)
CROSS JOIN LATERAL (
    SELECT d.notice_id, d.written_at, d.shard, d.payment_id, d.payment_day, d.gateway, d.lane, d.due_at,
           d.not_before, d.attempt, d.traceparent
    FROM due_notices d
    WHERE d.shard = s.shard AND d.not_before >= $2 AND d.not_before <= $3
    ORDER BY d.not_before, d.notice_id
    LIMIT $4
) AS n
ORDER BY n.not_before, n.notice_id
LIMIT $4
