-- Called by migration_plan: indexes that a parent has and not each of its partitions, and how many of those lack one. The
-- next migrate builds them beside the writes (next_index.sql).
-- Index: the catalogue's. Zero rows: every partition has every index.
SELECT x.relname::text AS name, count(*) AS partitions
FROM pg_index i
JOIN pg_class x ON x.oid = i.indexrelid AND x.relkind = 'I'
JOIN pg_class t ON t.oid = i.indrelid AND t.relnamespace = 'public'::regnamespace
JOIN pg_inherits h ON h.inhparent = t.oid
-- Valid: each partition has it.
WHERE NOT i.indisvalid
  AND NOT EXISTS (SELECT FROM pg_inherits a JOIN pg_index o ON o.indexrelid = a.inhrelid
                  WHERE a.inhparent = x.oid AND o.indrelid = h.inhrelid)
GROUP BY x.relname
ORDER BY x.relname
