-- Called by finish_report, behind supersede_reports.sql: its lines count from the commit on, if they are all there.
-- Index: the primary key, and reconciliation_runs_by_day; the lines of one day are counted. Zero rows: it is not
-- loading, or lines are missing, or people took the same bytes out while it was loaded.
--   $1 report   $2 day
UPDATE reconciliation_runs r SET status = 'loaded'
WHERE r.id = $1 AND r.status = 'loading'
  AND r.lines = (SELECT count(*) FROM settlement_lines l WHERE l.report_day = $2 AND l.run_id = $1)
  AND NOT EXISTS (SELECT FROM reconciliation_runs w
                  WHERE w.day = $2 AND w.gateway = r.gateway AND w.sha256 = r.sha256 AND w.withdrawn_at > r.started_at)
RETURNING r.*
