-- Called by cancel before it repeats a 200 that it only read: a write whose COMMIT, once answered,
-- proves that the state read is durable (R3).
-- Index: the partition's primary key.
--   $1 due day   $2 payment id
UPDATE payments p SET last_xid = greatest(pg_current_xact_id(), p.last_xid) WHERE p.due_day = $1 AND p.id = $2
