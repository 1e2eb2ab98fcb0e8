-- Called by fan_out, before fan_out_rows: what this pass may read, and whether anybody is there to be told.
-- Index: the primary key; the endpoints are few. Zero rows: the lane is not ours any more, or the database is
-- another one.
--   $1 lane   $2 holder   $3 epoch
SELECT c.xid::text AS xid, c.seq, c.payment_id,
       -- Every transaction below it is over, and what it committed is visible to the next statement.
       pg_snapshot_xmin(pg_current_snapshot())::text AS below_xid,
       statement_timestamp() AS database_now,
       -- As in publish_window.sql: a clock that ran ahead or was set back hides nothing.
       least(c.floor_at, statement_timestamp() - interval '1 day') AS from_at,
       greatest(c.mark_at, statement_timestamp()) + interval '1 day' AS to_at,
       EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.deleted_at IS NULL) AS is_any,
       -- Without endpoints, or without events, the cursor need not follow every look.
       c.updated_at < statement_timestamp() - interval '1 minute' AS is_behind
FROM publisher_cursor c
WHERE c.lane = $1 AND c.holder = $2 AND c.epoch = $3
  AND c.system_identifier = split_part(current_lineage(), '/', 1)
