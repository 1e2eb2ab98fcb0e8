-- Called by renew_shards: those that are still ours.
-- Index: the primary key. A missing row: that shard was taken.
--   $1 partitions   $2 holder   $3 residues   $4 epochs   $5 for how long
UPDATE relay_shards r SET until = clock_timestamp() + $5::interval
FROM unnest($3::integer[], $4::bigint[]) AS a (residue, epoch)
WHERE r.partitions = $1 AND r.residue = a.residue AND r.holder = $2 AND r.epoch = a.epoch
RETURNING r.residue, r.partitions, r.holder, r.epoch
