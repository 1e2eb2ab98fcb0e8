-- Called by settle, once for each due day: charges that were missing here and are completed here by now, as asked.
-- Index: reconciliation_items_unsettled, and one partition of payments. Zero rows: none is.
--   $1 gateway   $2 due day   $3 first id   $4 behind the last id
UPDATE reconciliation_items i SET status = 'explained', ours = p.status
FROM payments p
WHERE i.gateway = $1 AND i.status IN ('open', 'waiting') AND i.class = 'missing_here'
  AND i.payment_id >= $3 AND i.payment_id < $4
  AND p.due_day = $2 AND p.id = i.payment_id AND p.gateway = i.gateway AND p.status IN ('COMPLETED', 'REFUNDED')
  AND p.amount_minor = i.amount_minor AND p.currency = i.currency
RETURNING i.class
