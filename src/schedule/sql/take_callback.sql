-- Called by take_callback for one callback whose signature was checked.
-- Index: the partition's primary key. One row, always: what was found.
--   $1 gateway   $2 webhook id   $3 due day   $4 payment id   $5 shard
SELECT take_gateway_callback($1, $2, $3, $4, $5) AS taken
