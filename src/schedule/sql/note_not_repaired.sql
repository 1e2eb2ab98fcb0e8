-- Called by repair_day: why a difference was not repaired, for people.
-- Index: the primary key. Zero rows: it says so already.
--   $1 item   $2 why
UPDATE reconciliation_items i SET not_repaired = $2
WHERE i.number = $1 AND i.not_repaired IS DISTINCT FROM $2 AND i.status IN ('open', 'waiting')
