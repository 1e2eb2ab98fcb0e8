-- Called by acquire_shards: the rows of this partition count, once.
--   $1 partitions
INSERT INTO relay_shards (partitions, residue) SELECT $1, r FROM generate_series(0, $1 - 1) AS r
ON CONFLICT DO NOTHING
