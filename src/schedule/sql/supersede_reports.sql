-- Called by finish_report, before finish_report.sql: the reports whose place this one takes: that of its source, and
-- that of the same bytes under another name, which would count twice.
-- Index: reconciliation_runs_live. Zero rows: there was none. Answered: whose lines can go.
--   $1 report
UPDATE reconciliation_runs r SET status = 'superseded', finished_at = clock_timestamp(), superseded_by = n.id
FROM reconciliation_runs n
WHERE n.id = $1 AND n.status = 'loading'
  AND r.gateway = n.gateway AND r.day = n.day AND r.format = n.format AND r.id <> n.id
  AND (r.source = n.source OR r.sha256 = n.sha256)
  AND r.status IN ('loaded', 'compared')
RETURNING r.id
