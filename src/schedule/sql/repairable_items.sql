-- Called by repair_day: differences that a repair may settle, in the order in which they were found.
-- Index: the primary key. Zero rows: none is left.
--   $1 gateway   $2 day, or null   $3 behind this number   $4 at most
SELECT i.number
FROM reconciliation_items i
WHERE i.gateway = $1 AND ($2::date IS NULL OR i.day = $2) AND i.status = 'open' AND i.payment_id IS NOT NULL
  AND i.class IN ('missing_here', 'amount_mismatch', 'currency_mismatch', 'duplicate_charge') AND i.field <> 'payment'
  AND i.number > $3
ORDER BY i.number
LIMIT $4
