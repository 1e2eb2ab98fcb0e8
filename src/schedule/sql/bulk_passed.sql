-- Called by step_bulk on the row that bulk_take.sql locked: how far it is, what came of it, and when it goes on.
-- Index: the primary key. One row, always.
--   $1 id   $2 last payment passed   $3 outcomes   $4 done   $5 milliseconds until the next batch
UPDATE bulk_redrives b SET passed = $2, outcomes = $3,
    status = CASE WHEN $4 THEN 'done' ELSE b.status END,
    finished_at = CASE WHEN $4 THEN clock_timestamp() END,
    next_at = clock_timestamp() + $5::bigint * interval '1 millisecond'
WHERE b.id = $1
