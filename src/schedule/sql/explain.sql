-- Called by claim for the notices that won nothing, in the claim's own transaction but with a newer
-- snapshot: the claim's could name the wrong state.
-- Index: the partition's primary key. At least one row, for `released` and `at`; an id that is null or
-- missing: no such payment.
--   $1 due day   $2 payment ids
SELECT m.released, m.at, p.*
FROM (SELECT lineage_is_released() AS released, clock_timestamp() AS at) AS m
LEFT JOIN payments p ON p.due_day = $1 AND p.id = ANY ($2)
