-- Called by bulks: bulk re-drives, the newest first.
-- Index: bulk_redrives_by_age, backwards. Zero rows: the end.
--   $1, $2 creation and id of the one before   $3 limit
SELECT b.id, b.asked_by, b.reason, b.filter, b.rate_per_s, b.status, b.preview, b.created_at, b.started_at, b.finished_at,
       b.passed, b.outcomes
FROM bulk_redrives b
WHERE (b.created_at, b.id) < ($1, $2)
ORDER BY b.created_at DESC, b.id DESC
LIMIT $3
