-- Called at start by every role that claims: the account behind a gateway's name is written down once, and
-- whether it voids by key as its newest worker is configured, for the cancels that ask (wish.sql).
-- Index: the primary key. One row, always: the account on record (R4: it is not edited by configuration).
--   $1 name   $2 account   $3 voids by key
WITH new AS (
    INSERT INTO gateways (name, account, voids_by_key) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE SET voids_by_key = excluded.voids_by_key, updated_at = clock_timestamp()
        -- A worker of another account stops at once, and has nothing to say about this one.
        WHERE gateways.account = excluded.account AND gateways.voids_by_key <> excluded.voids_by_key
    RETURNING account
)
SELECT account FROM new UNION ALL SELECT account FROM gateways WHERE name = $1
LIMIT 1
