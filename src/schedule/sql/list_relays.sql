-- Called by crew: the relays that live, with the shards that each holds.
-- Index: none; a handful of rows. Zero rows: no relay lives.
SELECT r.holder, r.partitions, r.since, r.until,
       ARRAY(SELECT s.residue FROM relay_shards s
             WHERE s.partitions = r.partitions AND s.holder = r.holder AND s.until > statement_timestamp()
             ORDER BY s.residue) AS residues
FROM relays r
WHERE r.until > statement_timestamp()
ORDER BY r.holder, r.partitions
