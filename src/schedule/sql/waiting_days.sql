-- Called by settle: days of which a charge or refund of ours is in no report yet, or was not when its grace ended.
-- With each the first due day of its charges: one that was unknown for days may stand in a report of long before.
-- Index: reconciliation_items_unsettled. Zero rows: none is.
--   $1 gateway
SELECT i.day, least(i.day, min(payment_day(i.payment_id)) FILTER (WHERE i.class <> 'refund_mismatch')) AS first_day
FROM reconciliation_items i
WHERE i.gateway = $1 AND i.status IN ('open', 'waiting') AND i.field = 'line'
  AND i.class IN ('late', 'missing_there', 'refund_mismatch')
GROUP BY i.day
ORDER BY i.day
