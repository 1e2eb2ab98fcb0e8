-- Called by sum_minutes (the keeper): writes a minute's due payments down, and drops minutes more than a day old.
-- Index: the key. No row is answered.
--   $1 minute   $2 due
WITH passed AS (
    DELETE FROM minutes WHERE minute < $1::timestamptz - interval '1 day'
)
INSERT INTO minutes (minute, due) VALUES ($1, $2)
ON CONFLICT (minute) DO UPDATE SET due = excluded.due
