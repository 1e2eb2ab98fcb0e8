-- Called by bulk and switch_bulk.
-- Index: the primary key. Zero rows: no such bulk re-drive.
--   $1 id
SELECT b.id, b.asked_by, b.reason, b.filter, b.rate_per_s, b.status, b.preview, b.created_at, b.started_at, b.finished_at,
       b.passed, b.outcomes
FROM bulk_redrives b
WHERE b.id = $1
