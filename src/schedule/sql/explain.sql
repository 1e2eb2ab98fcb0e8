-- Called by claim for the notices that won nothing, in the claim's own transaction but with a newer
-- snapshot: the claim's could name the wrong state.
-- Index: the partition's primary key. At least one row, for `released`, `at`, `switches` and the server's log (R17);
-- an id that is null or missing: no such payment.
--   $1 due day   $2 payment ids
SELECT m.released, m.releases, m.log_at, m.any_lost, m.at, m.switches, p.*
FROM (SELECT lineage_is_released() AS released, i.releases, durable_log() AS log_at,
             EXISTS (SELECT 1 FROM lost_charges) AS any_lost, clock_timestamp() AS at,
             (SELECT array_agg(k.kind || ':' || k.value) FROM kill_switches k) AS switches
      FROM installation i) AS m
LEFT JOIN payments p ON p.due_day = $1 AND p.id = ANY ($2)
