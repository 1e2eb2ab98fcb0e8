-- Called by begin_report: reports of whoever died while loading them, or trying them, an hour ago or more. Their
-- lines are deleted next.
-- Index: reconciliation_runs_by_day. Zero rows: none.
--   $1 gateway   $2 day
UPDATE reconciliation_runs r SET status = 'failed', finished_at = clock_timestamp(), note = 'given up half-way'
WHERE r.gateway = $1 AND r.day = $2 AND r.status IN ('loading', 'trial')
  AND r.started_at < clock_timestamp() - interval '1 hour'
RETURNING r.id
