-- Called after a report was given up, superseded or tried: deletes some of its lines, until none is left.
-- Index: none; the lines of one report lie together, and the scan ends at $3 of them. How many, always.
--   $1 report   $2 day   $3 at most
DELETE FROM settlement_lines d
WHERE d.report_day = $2 AND d.run_id = $1
  AND d.ctid = ANY (ARRAY(SELECT l.ctid FROM settlement_lines l WHERE l.report_day = $2 AND l.run_id = $1 LIMIT $3))
