-- Called by claim for the notices that won nothing, in the claim's own transaction but with a newer
-- snapshot: the claim's could name the wrong state.
-- Index: the partition's primary key. A missing row: no such payment.
--   $1 due day   $2 payment ids
SELECT p.*, lineage_is_released() AS released, clock_timestamp() AS at
FROM payments p
WHERE p.due_day = $1 AND p.id = ANY ($2)
