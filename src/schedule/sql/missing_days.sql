-- Called by migrate and by the keeper: the days from $1 back to $2 ahead that lack a partition.
-- Index: none (the catalogue). Zero rows: all are made.
--   $1 days back   $2 days ahead
SELECT d AS day
FROM missing_days((now() AT TIME ZONE 'UTC')::date - $1::integer, (now() AT TIME ZONE 'UTC')::date + $2::integer) AS d
