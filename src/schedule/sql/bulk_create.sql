-- Called by create_bulk: stopped, until somebody starts it.
-- Index: none. One row, always.
--   $1 id   $2 asked by   $3 reason   $4 filter   $5 rate a second   $6 preview   $7 created at
INSERT INTO bulk_redrives (id, asked_by, reason, filter, rate_per_s, preview, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING id, asked_by, reason, filter, rate_per_s, status, preview, created_at, started_at, finished_at,
    passed, outcomes
