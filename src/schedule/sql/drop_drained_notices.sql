-- Called by the keeper. One row: how many partitions of the outbox were dropped.
SELECT drop_drained_notices() AS dropped
