-- Called by begin_report, behind between_comparisons.sql: the very bytes of a report that counts came once more, later.
-- Nothing is loaded, but what was seen later may explain what happened before (a quarantine asks for that), once the day
-- was compared again.
-- Index: the primary key. Zero rows: it was seen as late before, or it counts no more.
--   $1 report   $2 when it was seen again
UPDATE reconciliation_runs r SET status = 'loaded', seen_at = $2
WHERE r.id = $1 AND r.status IN ('loaded', 'compared') AND r.seen_at < $2
RETURNING r.*
