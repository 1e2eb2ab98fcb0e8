-- Called by states: where some payments of one day stand, whoever's they are.
-- Index: the partition's primary key. A missing row: no such payment, or its day was archived.
--   $1 due day   $2 payment ids
SELECT p.id, p.status, p.attempt, p.next_attempt_at
FROM payments p
WHERE p.due_day = $1 AND p.id = ANY ($2)
