-- Called by settle and compare_day: what waited for a line in a later report, and had its time.
-- Index: reconciliation_items_unsettled. Answered: the class of each that is open now.
--   $1 gateway   $2 day
UPDATE reconciliation_items i SET
    class = CASE i.class WHEN 'late' THEN 'missing_there' ELSE i.class END,
    status = 'open', told_at = NULL
WHERE i.gateway = $1 AND i.day = $2 AND i.status = 'waiting' AND i.field = 'line'
RETURNING i.class
