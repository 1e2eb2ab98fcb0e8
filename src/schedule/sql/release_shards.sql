-- Called by release_shards at a drain: free at once for the others.
-- Index: the primary key.
--   $1 partitions   $2 holder   $3 residues   $4 epochs
UPDATE relay_shards r SET until = '-infinity'
FROM unnest($3::integer[], $4::bigint[]) AS a (residue, epoch)
WHERE r.partitions = $1 AND r.residue = a.residue AND r.holder = $2 AND r.epoch = a.epoch
