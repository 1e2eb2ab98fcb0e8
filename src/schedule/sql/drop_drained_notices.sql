-- Called by the keeper. One row: how many partitions of the outbox, older than $1 days, were dropped.
SELECT drop_drained_notices($1) AS dropped
