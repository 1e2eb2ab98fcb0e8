-- Called by recount_forecast (the keeper): writes a count down, and drops those of days that have passed. The later
-- of two keepers' counts stays.
-- Index: the key. No row is answered.
--   $1 gateway   $2 day   $3 start of what was counted   $4 how many   $5 all of them   $6 the first   $7 counted at
WITH passed AS (
    DELETE FROM forecast_days WHERE day < (statement_timestamp() AT TIME ZONE 'UTC')::date AND day <> $2
)
INSERT INTO forecast_days AS f (gateway, day, from_at, due, is_exact, first_at, counted_at, took)
VALUES ($1, $2, $3, $4, $5, $6, $7, greatest(clock_timestamp() - $7, interval '0'))
ON CONFLICT (gateway, day) DO UPDATE SET
    from_at = excluded.from_at, due = excluded.due, is_exact = excluded.is_exact, first_at = excluded.first_at,
    counted_at = excluded.counted_at, took = excluded.took
WHERE f.counted_at <= excluded.counted_at
