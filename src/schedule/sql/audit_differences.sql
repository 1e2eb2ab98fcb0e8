-- Called by audit: what comparisons with the gateways' reports found of a window's payments, and is still so.
-- Index: reconciliation_items_of_payment. Zero rows: both books say the same, or nothing was compared.
--   $1 least id of the window   $2 least id after it
SELECT i.payment_id, i.gateway, i.class, i.field, i.status
FROM reconciliation_items i
WHERE i.payment_id >= $1 AND i.payment_id < $2 AND i.status <> 'superseded'
ORDER BY i.payment_id, i.number
