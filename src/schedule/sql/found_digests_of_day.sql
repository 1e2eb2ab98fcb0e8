-- Called by create_batch, once per due day, to name the fields that differ under reused keys.
-- Index: the partitions' primary keys. A missing row: the payment's day is detached.
--   $1 due day   $2 payment ids
SELECT p.id, p.status, d.field_digests
FROM payments p JOIN payment_details d ON d.due_day = $1 AND d.id = p.id
WHERE p.due_day = $1 AND p.id = ANY ($2)
