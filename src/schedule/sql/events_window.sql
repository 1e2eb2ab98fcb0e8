-- Called by events and events_end, before events.sql: which database this is, and what may be read of it.
-- Index: none. One row, always.
SELECT current_lineage() AS lineage,
       -- Every transaction below it is over, and what it committed is visible to the next statement.
       pg_snapshot_xmin(pg_current_snapshot())::text AS below_xid,
       statement_timestamp() AS database_now
