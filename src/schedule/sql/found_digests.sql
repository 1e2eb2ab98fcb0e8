-- Called by create to name the fields that differ under a reused key.
-- Index: the partition's primary key.
--   $1 due day   $2 payment id
SELECT p.status, d.field_digests
FROM payments p JOIN payment_details d ON d.due_day = $1 AND d.id = p.id
WHERE p.due_day = $1 AND p.id = $2
