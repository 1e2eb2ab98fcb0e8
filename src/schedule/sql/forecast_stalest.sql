-- Called by recount_forecast (the keeper): the gateway and day of the next month whose count is to be made anew: one
-- that was never made, or else the oldest. A count rests for a minute, and for so long that all days of a gateway
-- together take a twentieth of the time (31 days, 620 times what the last one took).
-- Index: none; both tables hold a row a gateway and a row a gateway and day. No row: all are fresh.
--   $1 gateways that may not be on record yet
SELECT g.name AS gateway, d.day, i.oldest_open_day, clock_timestamp() AS database_now
FROM installation i
CROSS JOIN (SELECT name FROM gateways UNION SELECT unnest($1::text[])) AS g
CROSS JOIN LATERAL (
    SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date + n AS day FROM generate_series(0, 30) AS n) AS d
LEFT JOIN forecast_days f ON f.gateway = g.name AND f.day = d.day
WHERE f.day IS NULL OR f.counted_at + greatest(interval '1 min', f.took * 620) <= statement_timestamp()
ORDER BY f.counted_at NULLS FIRST, d.day, g.name
LIMIT 1
