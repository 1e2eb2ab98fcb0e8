-- Called by claim for the notices that won nothing, in the claim's own transaction but with a newer
-- snapshot: the claim's could name the wrong state.
-- Index: the partition's primary key. At least one row, for `released`, `at` and `switches`; an id that is null
-- or missing: no such payment.
--   $1 due day   $2 payment ids
SELECT m.released, m.at, m.switches, p.*
FROM (SELECT lineage_is_released() AS released, clock_timestamp() AS at,
             (SELECT array_agg(k.kind || ':' || k.value) FROM kill_switches k) AS switches) AS m
LEFT JOIN payments p ON p.due_day = $1 AND p.id = ANY ($2)
