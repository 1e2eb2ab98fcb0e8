-- Called by retire_relay at a drain: the others share what was its part.
-- Index: the primary key. Zero rows: it was never enlisted.
--   $1 partitions   $2 holder
DELETE FROM relays r WHERE r.partitions = $1 AND r.holder = $2
