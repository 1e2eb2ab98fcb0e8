-- Called before a report is loaded and before a day is compared: the reports that count for a gateway's days $2 to $3,
-- the newest day first, and whether one on trial joins them.
-- Index: reconciliation_runs_live. Zero rows: none counts.
--   $1 gateway   $2 first day   $3 last day   $4 report on trial, or null
SELECT r.*
FROM reconciliation_runs r
WHERE r.gateway = $1 AND r.day BETWEEN $2 AND $3 AND r.status IN ('loaded', 'compared')
UNION ALL
SELECT t.* FROM reconciliation_runs t
WHERE t.id = $4 AND t.status = 'trial' AND t.gateway = $1
ORDER BY day DESC, started_at
