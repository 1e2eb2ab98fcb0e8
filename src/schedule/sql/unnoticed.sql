-- Called by unnoticed, after open_soon.sql: which of its payments have no notice in the outbox, since a relay
-- has published it.
-- Index: due_notices_in_order, one look a payment; only the partitions of the days between $4 and $5.
-- Zero rows: all of them have one.
--   $1 payment ids   $2 their shards   $3 their instants   $4 first, $5 last of these instants
SELECT s.id
FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[]) AS s (id, shard, at)
LEFT JOIN LATERAL (
    SELECT true AS is_there
    FROM due_notices d
    WHERE d.shard = s.shard AND d.not_before = s.at AND d.payment_id = s.id
      AND d.not_before >= $4 AND d.not_before <= $5
    LIMIT 1
) AS n ON true
WHERE n.is_there IS NULL
