-- Called at the end of a comparison: the reports of the day were compared, with these counts.
-- Index: the primary key. Zero rows: it was withdrawn meanwhile.
--   $1 reports   $2 counts
UPDATE reconciliation_runs r SET status = 'compared', finished_at = clock_timestamp(), counts = $2
WHERE r.id = ANY ($1) AND r.status IN ('loaded', 'compared')
RETURNING r.id
