-- Called when a second person is asked for a repair: the version of the payment as it stands.
-- Index: the partition's primary key. Zero rows: there is no such payment.
--   $1 due day   $2 payment
SELECT p.history_seq FROM payments p WHERE p.due_day = $1 AND p.id = $2
