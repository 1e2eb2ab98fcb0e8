-- Called after comparisons and repairs, and by the keeper: differences that are open and that nobody was told of since, or
-- not for a day. Of two that ask at once the second waits, and finds them told.
-- Index: reconciliation_items_unsettled. Answered: the class of each, and whether it is the first time since it is open.
--   $1 gateway
WITH untold AS (
    SELECT i.number, i.told_at IS NULL AS is_first
    FROM reconciliation_items i
    WHERE i.gateway = $1 AND i.status = 'open'
      AND (i.told_at IS NULL OR i.told_at < statement_timestamp() - interval '1 day')
    FOR UPDATE
)
UPDATE reconciliation_items i SET told_at = clock_timestamp()
FROM untold u
WHERE i.number = u.number
RETURNING i.class, u.is_first
