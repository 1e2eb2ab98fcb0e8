-- Called by migrate and by the keeper: every partition from $1 days back to $2 days ahead.
-- One row: how many were missing.
SELECT ensure_partitions((now() AT TIME ZONE 'UTC')::date - $1::integer, (now() AT TIME ZONE 'UTC')::date + $2::integer) AS made
