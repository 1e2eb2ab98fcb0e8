-- Called by kill_switches, for people: every switch that is thrown, the widest first.
-- A table with a handful of rows, read whole. Zero rows: nothing is switched off.
SELECT k.kind, k.value, k.thrown_by, k.reason, k.thrown_at, a.name AS actor
FROM kill_switches k
LEFT JOIN actors a ON k.kind = 'actor' AND a.id::text = k.value
ORDER BY array_position(ARRAY['global', 'gateway', 'actor', 'currency'], k.kind), k.value
