-- Called by unpublished, before publish_rows: what this pass may read.
-- Index: the primary key. Zero rows: the lane is not ours any more, or the database is another one.
--   $1 lane   $2 holder   $3 epoch
SELECT c.xid::text AS xid, c.seq, c.payment_id,
       -- Every transaction below it is over, and what it committed is visible to the next statement.
       pg_snapshot_xmin(pg_current_snapshot())::text AS below_xid,
       statement_timestamp() AS database_now,
       -- A clock that once ran far ahead must not hide what is written since.
       least(c.floor_at, statement_timestamp() - interval '1 day') AS from_at,
       -- A clock that was set back must not hide what was written before.
       greatest(c.mark_at, statement_timestamp()) + interval '1 day' AS to_at,
       c.mark_at < statement_timestamp() - interval '1 hour'
           AND c.mark_xid < pg_snapshot_xmin(pg_current_snapshot()) AS floor_is_old
FROM publisher_cursor c
WHERE c.lane = $1 AND c.holder = $2 AND c.epoch = $3
  AND c.system_identifier = split_part(current_lineage(), '/', 1)
