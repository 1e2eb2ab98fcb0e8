-- Called by migrate and by the keeper for a few days at a time: each call is one transaction and locks
-- what it makes.
-- Index: none (the catalogue). One row: how many partitions were made.
--   $1 days
SELECT coalesce(sum(ensure_partitions(d, d)), 0)::integer AS made FROM unnest($1::date[]) AS d
