-- Called by migrate, again and again: what gives the next partition an index that its parent has and that was not built
-- with it. The commands, in order; each is outside of a transaction.
-- Index: the catalogue's. Zero rows: every partition has every index.
WITH parents AS (
    SELECT x.oid AS index_oid, x.relname AS index_name, t.oid AS table_oid, t.relname AS table_name,
           pg_get_indexdef(x.oid) AS definition
    FROM pg_index i
    JOIN pg_class x ON x.oid = i.indexrelid AND x.relkind = 'I'
    JOIN pg_class t ON t.oid = i.indrelid AND t.relnamespace = 'public'::regnamespace
    -- Valid: each partition has it.
    WHERE NOT i.indisvalid
), missing AS (
    SELECT p.index_name, p.definition, c.relname AS child,
           left(c.relname || '_' || regexp_replace(p.index_name, '^' || p.table_name || '_', ''), 63) AS wanted
    FROM parents p
    JOIN pg_inherits h ON h.inhparent = p.table_oid
    JOIN pg_class c ON c.oid = h.inhrelid
    WHERE NOT EXISTS (SELECT FROM pg_inherits a JOIN pg_index o ON o.indexrelid = a.inhrelid
                      WHERE a.inhparent = p.index_oid AND o.indrelid = c.oid)
)
SELECT array_remove(ARRAY[
    -- It waits for the transactions that are open, however long, and nobody waits for it.
    'SET lock_timeout = 0',
    -- Of a build that was interrupted.
    CASE WHEN EXISTS (SELECT FROM pg_class x JOIN pg_index i ON i.indexrelid = x.oid
                      WHERE x.relname = m.wanted AND x.relnamespace = 'public'::regnamespace AND NOT i.indisvalid)
         THEN format('DROP INDEX CONCURRENTLY public.%I', m.wanted) END,
    CASE WHEN NOT EXISTS (SELECT FROM pg_class x JOIN pg_index i ON i.indexrelid = x.oid
                          WHERE x.relname = m.wanted AND x.relnamespace = 'public'::regnamespace AND i.indisvalid)
         THEN regexp_replace(m.definition, '^CREATE (UNIQUE )?INDEX \S+ ON ONLY \S+',
                             format('CREATE \1INDEX CONCURRENTLY %I ON public.%I', m.wanted, m.child)) END,
    -- Whoever plans a statement on this partition waits for it.
    'SET lock_timeout = ''2s''',
    format('ALTER INDEX public.%I ATTACH PARTITION public.%I', m.index_name, m.wanted)], NULL) AS commands
FROM missing m
ORDER BY m.index_name, m.child
LIMIT 1
