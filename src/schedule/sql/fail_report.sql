-- Called by fail_report: nothing of it counts. Its lines are deleted next.
-- Index: the primary key. Zero rows: it counts, or ended before.
--   $1 report   $2 why
UPDATE reconciliation_runs r SET status = 'failed', finished_at = clock_timestamp(), note = left($2, 1000)
WHERE r.id = $1 AND r.status IN ('loading', 'trial')
RETURNING r.id
