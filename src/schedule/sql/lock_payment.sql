-- Called by settle_refund, in its transaction, before settle_refund.sql: so that this one sees what whoever held
-- the payment before has written.
-- Index: the partition's primary key. Zero rows: its day was archived.
--   $1 due day   $2 payment id
SELECT p.status FROM payments p WHERE p.due_day = $1 AND p.id = $2 FOR UPDATE
