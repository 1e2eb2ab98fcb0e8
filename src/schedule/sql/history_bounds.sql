-- Called by history: where the rows of one payment's history lie in time, and how many there are.
-- Index: the partition's primary key. Zero rows: no such payment of this actor.
--   $1 due day   $2 payment id   $3 actor
SELECT p.created_at, p.due_at, p.last_moved_at, p.history_seq, p.history_hash, clock_timestamp() AS now
FROM payments p
WHERE p.due_day = $1 AND p.id = $2 AND p.actor_id = $3
