-- Called by reconciliation_runs, for people: the newest day first.
-- Index: reconciliation_runs_by_day, backwards. Zero rows: none of these.
--   $1 gateway, or null   $2 first day   $3 last day   $4 status, or null
--   $5 $6 $7 day, begin and id of the last one that was seen, or null   $8 at most
SELECT r.*
FROM reconciliation_runs r
WHERE r.day BETWEEN $2 AND $3 AND ($1::text IS NULL OR r.gateway = $1) AND ($4::text IS NULL OR r.status = $4)
  AND ($5::date IS NULL OR (r.day, r.started_at, r.id) < ($5::date, $6::timestamptz, $7::uuid))
ORDER BY r.day DESC, r.started_at DESC, r.id DESC
LIMIT $8
