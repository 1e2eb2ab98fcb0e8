-- Called by search: the next entries of the parked list, last due first.
-- Index: the table's primary key backwards. Zero rows: the end.
--   $1 the payment before   $2 last payment not wanted   $3 limit
SELECT h.payment_id
FROM parked h
WHERE h.payment_id < $1 AND h.payment_id > $2
ORDER BY h.payment_id DESC
LIMIT $3
