-- Called after comparisons and repairs: differences that are open and that nobody was told of; each is told of once.
-- Index: reconciliation_items_unsettled. Answered: the class of each.
--   $1 gateway
UPDATE reconciliation_items i SET told_at = clock_timestamp()
WHERE i.gateway = $1 AND i.status = 'open' AND i.told_at IS NULL
RETURNING i.class
