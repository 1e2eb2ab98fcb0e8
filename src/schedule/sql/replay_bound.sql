-- Called by replay_bound: how far the publisher is, in this database's life.
-- Index: the primary key. Zero rows: nothing was published from this server yet, and the leading publisher
-- will publish all of it by itself.
--   $1 lane
SELECT c.system_identifier, c.xid::text AS xid, c.seq, c.payment_id, statement_timestamp() AS database_now
FROM publisher_cursor c
WHERE c.lane = $1 AND c.system_identifier = split_part(current_lineage(), '/', 1)
