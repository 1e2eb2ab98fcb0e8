-- Called by switch_bulk: behind a batch that is at work it waits, so that after a stop nothing follows.
-- Index: the primary key. Zero rows: it was so already, or it is done (bulk_find.sql tells).
--   $1 id   $2 'running' or 'stopped'
UPDATE bulk_redrives b
SET status = $2,
    started_at = CASE WHEN $2 = 'running' THEN coalesce(b.started_at, clock_timestamp()) ELSE b.started_at END
WHERE b.id = $1 AND b.status = CASE $2 WHEN 'running' THEN 'stopped' ELSE 'running' END
RETURNING b.id
