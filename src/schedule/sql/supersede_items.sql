-- Called at the end of a comparison: differences of the day that it did not find again.
-- Index: reconciliation_items_of_day. Zero rows: it found all of them.
--   $1 gateway   $2 day   $3 when the comparison began
UPDATE reconciliation_items i SET status = 'superseded'
WHERE i.gateway = $1 AND i.day = $2 AND i.status IN ('open', 'waiting') AND i.last_seen_at < $3
RETURNING i.number
