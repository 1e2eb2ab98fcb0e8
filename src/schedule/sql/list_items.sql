-- Called by reconciliation_items, for people: in the order in which they were found.
-- Index: the primary key; of one day reconciliation_items_of_day, of one payment reconciliation_items_of_payment. Zero
-- rows: none of these.
--   $1 gateway   $2 day   $3 class   $4 status   $5 payment, each or null   $6 behind this number   $7 at most
SELECT i.*
FROM reconciliation_items i
WHERE ($1::text IS NULL OR i.gateway = $1) AND ($2::date IS NULL OR i.day = $2) AND ($3::text IS NULL OR i.class = $3)
  AND ($4::text IS NULL OR i.status = $4) AND ($5::uuid IS NULL OR i.payment_id = $5) AND i.number > $6
ORDER BY i.number
LIMIT $7
