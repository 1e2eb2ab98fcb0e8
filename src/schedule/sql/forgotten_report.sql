-- Called before a day is compared: the last day between $2 and $3 that has a report which counts and whose lines are
-- not kept any more.
-- Index: reconciliation_runs_live; of each report's lines the first is asked for. Zero rows: all are there.
--   $1 gateway   $2 first day   $3 last day
SELECT r.day
FROM reconciliation_runs r
WHERE r.gateway = $1 AND r.day BETWEEN $2 AND $3 AND r.status IN ('loaded', 'compared') AND r.lines > 0
  -- By itself for each report, until its first line: lines of one report lie together.
  AND (SELECT l.run_id FROM settlement_lines l WHERE l.report_day = r.day AND l.run_id = r.id LIMIT 1) IS NULL
ORDER BY r.day DESC
LIMIT 1
