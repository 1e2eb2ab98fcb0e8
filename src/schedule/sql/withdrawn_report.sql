-- Called by begin_report: the last report of these bytes that was loaded for the day, if people took it out.
-- Index: reconciliation_runs_by_day. Zero rows: there was none, or it was not taken out.
--   $1 gateway   $2 day   $3 sha256
SELECT last.*
FROM (
    SELECT r.* FROM reconciliation_runs r
    WHERE r.day = $2 AND r.gateway = $1 AND r.sha256 = $3 AND r.status IN ('loaded', 'compared', 'superseded')
    ORDER BY r.started_at DESC
    LIMIT 1
) AS last
WHERE last.withdrawn_at IS NOT NULL
