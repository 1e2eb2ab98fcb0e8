-- Called by show_secrets, in its transaction: what is shown of a payment by an act of its own.
-- Index: the partition's primary key. Zero rows: no such payment.
--   $1 due day   $2 payment id
SELECT d.payee_sealed, d.description, d.metadata
FROM payment_details d
WHERE d.due_day = $1 AND d.id = $2
