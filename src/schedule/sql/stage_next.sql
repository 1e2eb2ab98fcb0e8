-- Called by stage when it found less than it may read: when the next notice comes within the lead.
-- Index: due_notices_in_order, one look a shard. Null: nothing until $3.
--   $1 shards   $2 after   $3 at most
SELECT min(n.not_before) AS next_due
FROM unnest($1::smallint[]) AS s (shard)
CROSS JOIN LATERAL (
    SELECT d.not_before FROM due_notices d
    WHERE d.shard = s.shard AND d.not_before > $2 AND d.not_before <= $3
    ORDER BY d.not_before LIMIT 1
) AS n
