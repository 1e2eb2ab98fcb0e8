-- Called by turn_switch: what a switch names is stopped from here on, and the act is written down with it.
-- Index: the primary keys of tables with a handful of rows. Zero rows: nothing of that name is known; a switch
-- that stops nothing would be believed in. Thrown again it keeps its instant, and says the newest reason.
--   $1 kind   $2 value   $3 operator   $4 reason   $5 gateways that are configured where the request came in
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), named AS MATERIALIZED (
    SELECT f.value FROM (
        SELECT $2 AS value WHERE $1 IN ('global', 'currency')
        UNION ALL
        SELECT $2 WHERE $1 = 'gateway' AND ($2 = ANY ($5::text[]) OR EXISTS (SELECT 1 FROM gateways g WHERE g.name = $2))
        UNION ALL
        SELECT a.id::text FROM actors a WHERE $1 = 'actor' AND (a.id::text = $2 OR a.name = $2)
    ) AS f
    LIMIT 1
), thrown AS (
    INSERT INTO kill_switches AS k (kind, value, thrown_by, reason, thrown_at)
    SELECT $1, n.value, $3, $4, m.at FROM named n, moment m
    ON CONFLICT (kind, value) DO UPDATE SET thrown_by = excluded.thrown_by, reason = excluded.reason
    RETURNING k.kind, k.value, k.thrown_by, k.reason, k.thrown_at
), act AS (
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    SELECT m.at, $3, 'throw_switch', t.kind || ':' || t.value, $4, '{}'::jsonb
    FROM thrown t, moment m
)
SELECT t.kind, t.value, t.thrown_by, t.reason, t.thrown_at FROM thrown t
