-- Called by sum_minutes (the keeper): the newest of these minutes whose due payments nobody has counted.
-- Index: the key. No row: all are counted.
--   $1 first minute   $2 last minute
SELECT s.minute
FROM generate_series($1::timestamptz, $2::timestamptz, interval '1 min') AS s (minute)
LEFT JOIN minutes m ON m.minute = s.minute
WHERE m.due IS NULL
ORDER BY s.minute DESC
LIMIT 1
