-- Called by limit_gateway_rate: from each worker's next beat on the account is held to so many calls a second, or
-- to what is configured again; the act is written down.
-- Index: the primary key. Zero rows: no such gateway.
--   $1 gateway   $2 calls a second, or null   $3 operator   $4 reason
WITH limited AS (
    UPDATE gateways g SET rate_limit = $2, updated_at = clock_timestamp()
    WHERE g.name = $1
    RETURNING g.name, g.updated_at
), act AS (
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    SELECT l.updated_at, $3, 'limit_gateway_rate', 'gateway:' || l.name, $4,
           jsonb_build_object('callsPerSecond', $2::integer)
    FROM limited l
)
SELECT l.name FROM limited l
