-- Called by worker_leaves at the start of a drain: its partitions may wait for its name for so long.
-- Index: the primary key. One row, always.
--   $1 slot name   $2 for how long
INSERT INTO workers AS w (name, away_until) VALUES ($1, clock_timestamp() + $2::interval)
ON CONFLICT (name) DO UPDATE SET last_seen_at = clock_timestamp(), away_until = excluded.away_until
