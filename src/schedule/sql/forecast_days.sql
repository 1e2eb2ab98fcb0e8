-- Called by forecast: what the keeper last counted of a gateway's next days.
-- Index: the key. A row a day that was counted; none where no keeper ever ran.
--   $1 gateway   $2 first day   $3 last day
SELECT day, from_at, due, is_exact, first_at, counted_at
FROM forecast_days
WHERE gateway = $1 AND day BETWEEN $2 AND $3
ORDER BY day
