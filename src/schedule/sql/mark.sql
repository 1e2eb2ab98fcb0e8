-- Called by mark after Kafka has acknowledged every record of a batch, and by stage for what it drops.
-- Index: due_notices_in_order of the days between $1 and $2.
-- One row: whether the shard was still ours; if not, nothing was deleted.
--   $1 first instant   $2 last instant   $3 notice ids   $4 shards   $5 instants
--   $6 partitions      $7 residue        $8 holder       $9 epoch
WITH ours AS MATERIALIZED (
    -- Locked, so that the shard cannot change hands between this look and the delete.
    SELECT 1 FROM relay_shards r
    WHERE r.partitions = $6 AND r.residue = $7 AND r.holder = $8 AND r.epoch = $9
    FOR SHARE
), gone AS (
    DELETE FROM due_notices d
    USING unnest($3::bigint[], $4::smallint[], $5::timestamptz[]) AS a (notice_id, shard, not_before)
    WHERE d.shard = ANY ($4) AND d.not_before >= $1 AND d.not_before <= $2
      AND d.shard = a.shard AND d.not_before = a.not_before AND d.notice_id = a.notice_id
      AND EXISTS (SELECT 1 FROM ours)
)
SELECT EXISTS (SELECT 1 FROM ours) AS held
