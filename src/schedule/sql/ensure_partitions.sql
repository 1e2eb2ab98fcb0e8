-- Called by migrate and by the keeper for a few days at a time: each call is one transaction and locks
-- what it makes.
-- Index: none (the catalogue). One row: how many partitions were made.
--   $1 first day   $2 last day
SELECT ensure_partitions($1, $2) AS made
