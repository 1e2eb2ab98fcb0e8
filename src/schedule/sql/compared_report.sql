-- Called at the end of a comparison: the reports of the day were compared, with these counts.
-- Index: the primary key; those withdrawn are looked for among all reports, which are a few for each day. Zero rows: it
-- was withdrawn meanwhile, or another one of the gateway was, which may have explained what was found: what was read is to
-- be compared again.
--   $1 reports   $2 counts   $3 when the comparison began
UPDATE reconciliation_runs r SET status = 'compared', finished_at = clock_timestamp(), counts = $2
WHERE r.id = ANY ($1) AND r.status IN ('loaded', 'compared')
  AND NOT EXISTS (SELECT FROM reconciliation_runs w WHERE w.gateway = r.gateway AND w.withdrawn_at >= $3)
RETURNING r.id
