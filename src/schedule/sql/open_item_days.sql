-- Called by settle, again and again: the next due day of a payment with an unsettled difference.
-- Index: reconciliation_items_unsettled. Zero rows: none is left.
--   $1 gateway   $2 from this id
SELECT i.payment_id AS id
FROM reconciliation_items i
WHERE i.gateway = $1 AND i.status IN ('open', 'waiting') AND i.class = 'missing_here' AND i.payment_id >= $2
ORDER BY i.payment_id
LIMIT 1
