-- Called by audit: the days of each gateway that were compared with a whole report, from the window's first on.
-- Index: reconciliation_runs_by_day. Zero rows: none was.
--   $1 first day of the window
SELECT DISTINCT r.gateway, r.day
FROM reconciliation_runs r
WHERE r.day >= $1::date AND r.status = 'compared' AND r.is_complete
ORDER BY r.gateway, r.day
