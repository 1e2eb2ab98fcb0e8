-- Called at the end of a comparison: what of the day's differences is open, and what waits.
-- Index: reconciliation_items_of_day. One row, always.
--   $1 gateway   $2 day
SELECT count(*) FILTER (WHERE i.status = 'open') AS open, count(*) FILTER (WHERE i.status = 'waiting') AS waiting
FROM reconciliation_items i
WHERE i.gateway = $1 AND i.day = $2 AND i.status IN ('open', 'waiting')
