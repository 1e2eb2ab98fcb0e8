-- Called by sum_minutes (the keeper): how far the history has been added up, below which transaction id nobody writes
-- any more, and the days in which the rest of it was written. On another server (a dump was restored) the ids of the
-- old one mean nothing, and it goes on from now.
-- Index: none; one row, always.
SELECT c.xid::text AS was_xid, c.seq AS was_seq, c.payment_id AS was_id,
       CASE WHEN s.same THEN c.xid ELSE s.below END::text AS xid,
       CASE WHEN s.same THEN c.seq ELSE 0 END AS seq,
       CASE WHEN s.same THEN c.payment_id ELSE '00000000-0000-0000-0000-000000000000' END AS payment_id,
       s.below::text AS below, clock_timestamp() AS database_now
FROM minutes_cursor c
CROSS JOIN LATERAL (
    SELECT c.server = split_part(current_lineage(), '/', 1) AS same,
           pg_snapshot_xmin(pg_current_snapshot()) AS below) AS s
