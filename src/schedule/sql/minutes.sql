-- Called by pulse: what the keeper added up of the minutes from $1 on.
-- Index: the key. A row a minute in which something happened or which was counted.
SELECT minute, due, claimed, completed, failed, cancelled, parked, unknown, retried, late
FROM minutes
WHERE minute >= $1
ORDER BY minute
