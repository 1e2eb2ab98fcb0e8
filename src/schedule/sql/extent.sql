-- Called by backlog (the keeper): the days that scans by time cover and that partitions reach, and how
-- many due notices no relay has published; no more than $2 of a shard are counted.
-- Index: due_notices_in_order, once per shard; no partition of a later day. One row, always.
--   $1 shards   $2 count at most
SELECT statement_timestamp() AS database_now,
       (statement_timestamp() AT TIME ZONE 'UTC')::date AS today,
       i.oldest_open_day,
       (SELECT to_date(max(right(c.relname, 8)), 'YYYYMMDD')
        FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
        WHERE h.inhparent = 'payments'::regclass) AS last_day,
       (SELECT count(*)
        FROM unnest($1::smallint[]) AS s (shard)
        CROSS JOIN LATERAL (SELECT FROM due_notices d
                            WHERE d.shard = s.shard AND d.not_before <= statement_timestamp()
                            LIMIT $2) AS n) AS unpublished
FROM installation AS i
