-- Called by turn_switch: what a switch named goes on from here, and the act is written down with it.
-- Index: the primary key. One row, always: whether it was thrown. One that was not is on already, and nobody did
-- anything.
--   $1 kind   $2 value   $3 operator   $4 reason
WITH released AS (
    DELETE FROM kill_switches k
    WHERE k.kind = $1 AND (k.value = $2
        OR $1 = 'actor' AND k.value = (SELECT a.id::text FROM actors a WHERE a.name = $2))
    RETURNING k.kind, k.value
), act AS (
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    SELECT clock_timestamp(), $3, 'release_switch', r.kind || ':' || r.value, $4, '{}'::jsonb
    FROM released r
)
SELECT EXISTS (SELECT 1 FROM released) AS was_thrown
