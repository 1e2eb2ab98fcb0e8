-- Called by resume_gateway: its payments are claimed again, oldest first, and the act is written down, if it was
-- paused.
-- Index: the primary key. Zero rows: no such gateway.
--   $1 gateway   $2 operator   $3 reason
WITH seen AS MATERIALIZED (
    SELECT g.name, g.paused_at FROM gateways g WHERE g.name = $1 FOR UPDATE
), resumed AS (
    UPDATE gateways g SET
        paused_at = NULL, paused_by = NULL, pause_reason = NULL, updated_at = clock_timestamp()
    FROM seen s
    WHERE g.name = s.name AND s.paused_at IS NOT NULL
    RETURNING g.name, g.updated_at, s.paused_at
), act AS (
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    SELECT r.updated_at, $2, 'resume_gateway', 'gateway:' || r.name, $3,
           jsonb_build_object('pausedAt', r.paused_at)
    FROM resumed r
)
SELECT s.name FROM seen s
