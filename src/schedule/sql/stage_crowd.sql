-- Called by stage for a look far ahead: the earliest minute in which at least so many notices wait, of the
-- shards of one residue. Reads no more than that many entries a minute.
-- Index: due_notices_in_order, alone; only the partitions of the days between $2 and $3. Zero rows: no
-- minute is so crowded.
--   $1 shards   $2 start of the first minute   $3 end of the last one   $4 how many make a crowd
SELECT m.minute
FROM generate_series($2::timestamptz, $3::timestamptz - interval '1 minute', interval '1 minute') AS m (minute)
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting
    FROM (SELECT 1
          FROM unnest($1::smallint[]) AS s (shard)
          JOIN due_notices d ON d.shard = s.shard
          WHERE d.not_before >= $2 AND d.not_before < $3
            AND d.not_before >= m.minute AND d.not_before < m.minute + interval '1 minute'
          LIMIT $4) AS found
) AS n
WHERE n.waiting >= $4
ORDER BY m.minute
LIMIT 1
