-- Called by pause_gateway: nothing of it is claimed from each worker's next beat on, and the act is written down.
-- Index: the primary key. Zero rows: no such gateway. Paused again it keeps its instant, and says the newest reason.
--   $1 gateway   $2 operator   $3 reason
WITH paused AS (
    UPDATE gateways g SET
        paused_at = coalesce(g.paused_at, clock_timestamp()), paused_by = $2, pause_reason = $3,
        updated_at = clock_timestamp()
    WHERE g.name = $1
    RETURNING g.name, g.updated_at
), act AS (
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    SELECT p.updated_at, $2, 'pause_gateway', 'gateway:' || p.name, $3, '{}'::jsonb FROM paused p
)
SELECT p.name FROM paused p
