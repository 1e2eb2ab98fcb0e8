-- Called by acquire_shards: shards that nobody holds, at most $3; the epoch grows with each change of hands.
-- Index: the primary key. Zero rows: all are held.
--   $1 partitions   $2 holder   $3 how many   $4 for how long
UPDATE relay_shards r SET holder = $2, epoch = r.epoch + 1, until = clock_timestamp() + $4::interval
FROM (SELECT f.residue FROM relay_shards f
      WHERE f.partitions = $1 AND f.until < clock_timestamp()
      ORDER BY f.residue LIMIT $3 FOR UPDATE SKIP LOCKED) AS free
WHERE r.partitions = $1 AND r.residue = free.residue
RETURNING r.residue, r.partitions, r.holder, r.epoch
