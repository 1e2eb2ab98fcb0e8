-- Called by release_shards and retire_relay: free at once for the others. Without a holder, so that a
-- renewal that was on its way cannot bring the lease back.
-- Index: the primary key.
--   $1 partitions   $2 holder   $3 residues   $4 epochs
UPDATE relay_shards r SET until = '-infinity', holder = ''
FROM unnest($3::integer[], $4::bigint[]) AS a (residue, epoch)
WHERE r.partitions = $1 AND r.residue = a.residue AND r.holder = $2 AND r.epoch = a.epoch
