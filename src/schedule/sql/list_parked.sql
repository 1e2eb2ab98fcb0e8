-- Called by parked and search, and by create_bulk and step_bulk in their transactions: the next entries of the parked
-- list, first due first, whoever's they are.
-- Index: the table's primary key; actors by theirs. Zero rows: the end.
--   $1 the payment before   $2 first payment not wanted   $3 limit
SELECT h.payment_id, h.reason, h.parked_at, h.actor_id, a.name AS actor_name, h.gateway, h.amount_minor, h.currency
FROM parked h
LEFT JOIN actors a ON a.id = h.actor_id
WHERE h.payment_id > $1 AND h.payment_id < $2
ORDER BY h.payment_id
LIMIT $3
