-- Called by the keeper.
-- Index: none (the catalogue). One row: how many partitions of the outbox were dropped.
--   $1 days before today that are kept, drained or not
SELECT drop_drained_notices($1) AS dropped
